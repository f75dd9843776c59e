"""What a guarantee lets an attacker conclude: in words, and as bounds on the success of attacks.

One epsilon at one delta is one point of a curve. The whole curve delta(epsilon) gives the trade-off
between the two errors of any test whether somebody took part: with a false alarm rate of at most
alpha, the test misses at least f(alpha). Everything else follows from f.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sottovoce import _validate
from sottovoce.privacy.accountants import gaussian
from sottovoce.privacy.accountants.losses import GaussianLoss
from sottovoce.privacy.accounting import Entry, delta_curve
from sottovoce.privacy.guarantee import Guarantee, Relation

_EPSILONS = tuple(0.05 * step for step in range(20)) + tuple(
    math.exp(math.log(20) * step / 60) for step in range(61)
)


def certainty(epsilon: float, prior: float = 0.5) -> float:
    """How certain a guess with this prior can become, at most, from a release with this epsilon.

    >>> round(certainty(0), 4), round(certainty(3), 4), round(certainty(8), 4), certainty(1e9)
    (0.5, 0.9526, 0.9997, 1.0)
    """
    if not 0 < prior < 1:
        return prior
    # Written with e^-epsilon, which cannot overflow.
    return prior / (prior + (1 - prior) * math.exp(-epsilon))


def percent_up(share: float) -> str:
    """A share in percent, rounded up, and never 100 % unless it is.

    >>> percent_up(0.5), percent_up(0.9526), percent_up(0.99966), percent_up(1 - 1e-9)
    ('50 %', '95.3 %', '99.97 %', 'more than 99.99 %')
    """
    if share > 0.9999:
        return "more than 99.99 %"
    digits = 2 if share > 0.99 else 1
    return f"{math.ceil(share * 10 ** (2 + digits) - 1e-6) / 10**digits:g} %"


def in_words(guarantee: Guarantee) -> str:
    """One sentence on what somebody can conclude about one unit."""
    if not guarantee.holds:
        return f"Nothing limits what somebody can conclude about one {guarantee.unit}."
    exception = f", except with probability {guarantee.delta:g}" if guarantee.delta else ""
    return (
        f"Somebody who gives 50 % to a guess about one {guarantee.unit} can become "
        f"{percent_up(certainty(guarantee.epsilon))} certain{exception}."
    )


@dataclass(frozen=True)
class Tradeoff:
    """The curve delta(epsilon) of a release, and what follows from it.

    `mu` is that of Gaussian differential privacy, where every loss is a Gaussian one.
    """

    epsilons: tuple[float, ...]
    deltas: tuple[float, ...]
    mu: float | None = None

    def miss(self, alpha: float) -> float:
        """The least rate of misses of a test with this rate of false alarms, f(alpha).

        >>> Tradeoff((0.0,), (0.2,)).miss(0.1)
        0.7000000000000001
        """
        _validate.between("alpha", alpha, 0, 1)
        return max(
            0.0,
            *(
                max(1 - delta - math.exp(e) * alpha, math.exp(-e) * (1 - delta - alpha))
                for e, delta in zip(self.epsilons, self.deltas, strict=True)
            ),
        )

    @property
    def membership(self) -> float:
        """The largest accuracy of a test whether somebody took part, if half of the people did."""
        return (1 + self.advantage) / 2

    def success(self, prior: float) -> float:
        """The largest success of an attack whose blind guess is right with this probability.

        It holds for guessing an attribute, for reconstructing a record (`prior` is then the chance
        of drawing one that is close enough) and for singling out by a rule that fits a share
        `prior` of people (Hayes, Mahloujifar and Balle, 2023).
        """
        return min(1.0, 1 - self.miss(prior))

    @property
    def advantage(self) -> float:
        """The largest difference of the rates of hits and false alarms of any test."""
        return min(
            delta + (1 - delta) * math.tanh(e / 2)
            for e, delta in zip(self.epsilons, self.deltas, strict=True)
        )


def tradeoff(
    entries: Sequence[Entry], *, relation: Relation, group_size: int | Sequence[int] = 1
) -> Tradeoff:
    """The trade-off curve of everything that was executed; `CannotAccount` if there is none."""
    deltas = delta_curve(entries, _EPSILONS, relation=relation, group_size=group_size)
    return Tradeoff(_EPSILONS, tuple(deltas), _mu(entries, relation, group_size))


def _mu(
    entries: Sequence[Entry], relation: Relation, group_size: int | Sequence[int]
) -> float | None:
    if group_size != 1 or any(entry.fact.pool is not None for entry in entries):
        return None
    losses = [(loss, n * e.count) for e in entries for loss, n in e.fact.losses(relation)]
    if not losses or not all(isinstance(loss, GaussianLoss) for loss, _ in losses):
        return None
    return gaussian.compose(
        loss.mu * math.sqrt(n) for loss, n in losses if isinstance(loss, GaussianLoss)
    )
