"""Exposure of a secret (Carlini et al. 2019): its rank among all candidates, in bits.

    exposure = log2(number of candidates) - log2(rank of the secret among them)

A secret at rank 1 of 10^7 has all of its 23.3 bits exposed; one at a random rank has 1.44 bits on
average. If there are too many candidates to score, the fraction ranked ahead of the secret is
estimated from a random sample, with a Clopper-Pearson interval. No distribution is fitted to
extrapolate beyond the sample.

The candidates are all 10^digits numbers of a format, equally likely before training.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sottovoce import _validate
from sottovoce.audit import _checks
from sottovoce.audit.bounds.lower_bound import Interval, clopper_pearson
from sottovoce.corpora import Utterance
from sottovoce.corpora.records import OUTSIDE
from sottovoce.errors import InvalidInput
from sottovoce.privacy.noise import NoiseSource

HOLE = "#"
_MOST_DIGITS = 18  # candidates are numbered with 63 bits


@dataclass(frozen=True, kw_only=True)
class SecretFormat:
    """A carrier such as "call # # #", in which each # is one digit and one token.

    >>> calls = SecretFormat(carrier="call # # #", intent="call", slot="phone_number")
    >>> calls.size, calls.utterance(42).text, calls.utterance(42).slots
    (1000, 'call 0 4 2', ('O', 'B-phone_number', 'I-phone_number', 'I-phone_number'))
    """

    carrier: str
    intent: str
    slot: str

    def __post_init__(self) -> None:
        if not 1 <= self.digits <= _MOST_DIGITS:
            raise InvalidInput(
                f'Expected 1 to {_MOST_DIGITS} places "{HOLE}" among the words of the carrier, '
                f"got {self.digits} in {self.carrier!r}."
            )

    @property
    def digits(self) -> int:
        return self.carrier.split().count(HOLE)

    @property
    def size(self) -> int:
        """The number of possible secrets."""
        return int(10**self.digits)

    def utterance(self, secret: int) -> Utterance:
        """The utterance that contains this secret."""
        if not 0 <= secret < self.size:
            raise InvalidInput(f"Expected a secret from 0 to {self.size - 1}, got {secret}.")
        written = iter(f"{secret:0{self.digits}d}")
        tokens: list[str] = []
        slots: list[str] = []
        for word in self.carrier.split():
            begun = bool(slots) and slots[-1] != OUTSIDE
            slots.append(OUTSIDE if word != HOLE else f"{'I' if begun else 'B'}-{self.slot}")
            tokens.append(next(written) if word == HOLE else word)
        return Utterance(tokens=tuple(tokens), slots=tuple(slots), intent=self.intent)

    def draw(self, count: int, source: NoiseSource) -> list[int]:
        """Distinct random secrets to plant."""
        _validate.at_least_one("count", count)
        if count > self.size:
            raise InvalidInput(f"Expected at most {self.size} distinct secrets, got {count}.")
        drawn: dict[int, None] = {}
        while len(drawn) < count:
            drawn.update(dict.fromkeys(source.integers(self.size, count - len(drawn)).tolist()))
        return list(drawn)


# Candidates per scoring call: enough to fill a batch, few enough to need less memory than training.
BATCH = 4096

ScoreCandidates = Callable[[Sequence[int]], ArrayLike]


@dataclass(frozen=True, kw_only=True)
class Exposure:
    """Exposed bits of one secret: all of them if its rank is 1."""

    bits: float
    interval: Interval
    possible_bits: float
    rank: float | None
    """The rank among all candidates, ties at their mean; None if only a sample was scored."""
    tried: int
    confidence: float

    def to_json(self) -> dict[str, Any]:
        return {
            "bits": self.bits,
            "interval": list(self.interval),
            "possible_bits": self.possible_bits,
            "rank": self.rank,
            "tried": self.tried,
            "confidence": self.confidence,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        try:
            return cls(**dict(data) | {"interval": Interval(*data["interval"])})
        except (KeyError, TypeError, ValueError) as problem:
            raise InvalidInput(f"Expected an exposure in JSON, but {problem!r}.") from problem


def exact_exposure(
    score: ScoreCandidates,
    secret: int,
    *,
    candidates: int,
    progress: Callable[[int], None] | None = None,
) -> Exposure:
    """Score every candidate from 0 to candidates - 1; higher scores rank first.

    Candidates that tie with the secret share their mean rank.

    >>> found = exact_exposure(lambda tried: [-abs(c - 40) for c in tried], 42, candidates=1024)
    >>> found.rank, round(found.bits, 3)
    (4.5, 7.83)
    """
    _validate.at_least_one("candidates", candidates)
    own = _own_score(score, secret, candidates)
    ahead = tied = 0
    for start in range(0, candidates, BATCH):
        batch = range(start, min(start + BATCH, candidates))
        found = _compared(score, batch, own)
        ahead, tied = ahead + found[0], tied + found[1]
        if progress is not None:
            progress(batch.stop)
    rank = ahead + (tied + 1) / 2  # the secret ties with itself, so `tied` is at least 1
    bits = math.log2(candidates) - math.log2(rank)
    return Exposure(
        bits=bits,
        interval=Interval(bits, bits),
        possible_bits=math.log2(candidates),
        rank=rank,
        tried=candidates,
        confidence=1.0,
    )


def sampled_exposure(
    score: ScoreCandidates,
    secret: int,
    *,
    candidates: int,
    sample: int,
    source: NoiseSource,
    confidence: float = 0.95,
    progress: Callable[[int], None] | None = None,
) -> Exposure:
    """Score `sample` random candidates: exposure is -log2 of the fraction ranked ahead.

    The lower end of the interval cannot be much above log2(sample). If no candidate is ahead, the
    estimate assumes one in sample + 1.

    >>> found = sampled_exposure(lambda tried: [-abs(c - 40) for c in tried], 42,
    ...                          candidates=10**6, sample=1000, source=NoiseSource.seeded(1))
    >>> round(found.bits, 2), found.interval.low > 8, round(found.interval.high, 1)
    (9.97, True, 19.9)
    """
    _validate.at_least_one("sample", sample)
    _validate.at_least_one("candidates", candidates)
    own = _own_score(score, secret, candidates)
    ahead = tied = 0
    for start in range(0, sample, BATCH):
        size = min(BATCH, sample - start)
        found = _compared(score, source.integers(candidates, size).tolist(), own)
        ahead, tied = ahead + found[0], tied + found[1]
        if progress is not None:
            progress(start + size)
    # Ties widen the interval: they count as behind the secret for one end, ahead for the other.
    limits = Interval(
        clopper_pearson(ahead, sample, confidence).low,
        clopper_pearson(ahead + tied, sample, confidence).high,
    )
    most = math.log2(candidates)
    return Exposure(
        bits=min(most, -math.log2((ahead + tied / 2 + 1) / (sample + 1))),
        interval=Interval(_bits(limits.high, most), _bits(limits.low, most)),
        possible_bits=most,
        rank=None,
        tried=sample,
        confidence=_checks.confidence(confidence),
    )


def _own_score(score: ScoreCandidates, secret: int, candidates: int) -> float:
    if not 0 <= secret < candidates:
        raise InvalidInput(f"Expected a secret from 0 to {candidates - 1}, got {secret}.")
    return float(_checks.scores("the secret's score", score([secret]), size=1)[0])


def _compared(score: ScoreCandidates, batch: Sequence[int], own: float) -> tuple[int, int]:
    """Numbers of candidates ahead of the secret, and tied with it."""
    found = _checks.scores("the candidates' scores", score(batch), size=len(batch))
    return int((found > own).sum()), int((found == own).sum())


def _bits(share: float, most: float) -> float:
    return min(most, -math.log2(share)) if share > 0 else most


def mean_exposure(exposures: Sequence[Exposure]) -> float:
    """Mean exposed bits over several secrets, since a single one varies by chance.

    Without memorisation the mean is log2(e) = 1.44, with a standard deviation of 1.44 per secret.
    """
    if not exposures:
        raise InvalidInput("Expected the exposure of at least one secret, got none.")
    return float(np.mean([exposure.bits for exposure in exposures]))
