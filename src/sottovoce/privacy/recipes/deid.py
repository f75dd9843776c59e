"""A de-identification recipe: the claim and the guarantee of a replacement strategy."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, get_args

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.privacy.accountants import papers
from sottovoce.privacy.accounting import Entry, account
from sottovoce.privacy.facts import BoundedRelease, ReplacedTokens, SurrogateSource
from sottovoce.privacy.guarantee import Claim, Guarantee, Relation, Statement, Unit

DEFAULT_HISTOGRAM_DELTA = 1e-6


class Strategy(StrEnum):
    """How the values of a type are replaced; `entity` counts a whole value as one token."""

    REDACT = "redact"
    TYPED = "typed"
    NAMED = "named"
    WORD = "word"
    ENTITY = "entity"
    RESPONSE = "response"
    SEMANTIC = "semantic"
    CONSISTENT = "consistent"
    SHIFT = "shift"
    MASK = "mask"
    HASH = "hash"
    ENCRYPT = "encrypt"
    KEEP = "keep"
    CUSTOM = "custom"

    @property
    def is_placeholder(self) -> bool:
        return self in (Strategy.REDACT, Strategy.TYPED, Strategy.NAMED)


# Those of Adelani et al., whose cost is known before any text is seen.
PaperStrategy = Literal[
    Strategy.REDACT, Strategy.TYPED, Strategy.NAMED, Strategy.WORD, Strategy.ENTITY
]
PAPER_STRATEGIES: tuple[Strategy, ...] = get_args(PaperStrategy)


@dataclass(frozen=True, kw_only=True)
class DeidRecipe:
    """Each private token is replaced with probability p; surrogates are drawn from pi.

    >>> DeidRecipe(strategy=Strategy.WORD, p=0.9, pi_min=0.1).guarantee().epsilon
    0.747...
    >>> print(DeidRecipe(strategy=Strategy.REDACT, p=0.9).guarantee())
    No guarantee can be given to any one token: a private token is kept with probability 0.1, ...
    """

    strategy: Strategy
    p: float
    pi_min: float | None = None
    tokens: int = 1
    delta: float | None = None
    recall: float = 1.0
    pi_source: SurrogateSource = SurrogateSource.PUBLIC
    histogram_epsilon: float = 1.0

    def __post_init__(self) -> None:
        _validate.parse_fields(self)
        if self.strategy not in PAPER_STRATEGIES:
            raise InvalidInput(
                f"Expected the strategy of a recipe to be one of {', '.join(PAPER_STRATEGIES)}, "
                f"got {self.strategy}, whose cost depends on the text: `sottovoce deid` states it."
            )
        _validate.probability("p", self.p)
        _validate.probability("recall", self.recall)
        _validate.at_least_one("tokens", self.tokens)
        _validate.positive("histogram epsilon", self.histogram_epsilon)
        if self.delta is not None:
            _validate.delta(self.delta)
        if self.pi_min is not None and not 0 <= self.pi_min <= 0.5:
            raise InvalidInput(
                "Expected pi-min from 0 to 0.5 (at least two values share the mass), "
                f"got {self.pi_min:g}."
            )
        if not self.strategy.is_placeholder and self.pi_min is None:
            raise InvalidInput(
                f"Expected pi-min (the smallest surrogate probability) with {self.strategy}, got "
                "none."
            )
        if self._counts_privately and self.delta == 0:
            raise InvalidInput("Expected delta > 0 with a DP histogram of surrogates, got 0.")

    @property
    def _counts_privately(self) -> bool:
        return self.pi_source is SurrogateSource.DP_HISTOGRAM and not self.strategy.is_placeholder

    @property
    def _histogram_delta(self) -> float:
        # Half of delta goes to the histogram's threshold, the rest to the tokens.
        return (self.delta or DEFAULT_HISTOGRAM_DELTA) / (2 if self.delta else 1)

    @property
    def unit(self) -> Unit:
        return Unit.TOKEN if self.tokens == 1 else Unit.UTTERANCE

    def replacement(self) -> ReplacedTokens:
        placeholder = self.strategy.is_placeholder
        return ReplacedTokens(
            unit=self.unit,
            replace_probability=self.p,
            smallest_probability=0.0 if placeholder else (self.pi_min or 0.0),
            tokens=self.tokens,
            surrogates=SurrogateSource.PUBLIC if placeholder else self.pi_source,
            recall=self.recall,
        )

    def entries(self) -> Iterator[Entry]:
        yield Entry(self.replacement())
        if self._counts_privately:
            yield Entry(
                BoundedRelease(
                    unit=self.unit,
                    mechanism="thresholded Laplace histogram of surrogates",
                    epsilon=self.histogram_epsilon,
                    delta=self._histogram_delta,
                )
            )

    def guarantee(self) -> Guarantee:
        delta = self.delta
        assumptions = []
        if self._counts_privately:
            delta = delta if delta is not None else DEFAULT_HISTOGRAM_DELTA
            # Replacing a token moves two counts by one each, so the L1 sensitivity is 2.
            assumptions.append(
                "the histogram of surrogates has one contribution per user and Laplace noise of "
                f"scale {2 / self.histogram_epsilon:g}, and its threshold fails with probability "
                f"at most {self._histogram_delta:g}"
            )
        if self.strategy is Strategy.ENTITY:
            assumptions.append(
                "a whole entity counts as one token, regardless of its number of words"
            )
        return account(
            self.entries(),
            unit=self.unit,
            relation=Relation.REPLACE_ONE,
            delta=delta or 0.0,
            assumptions=assumptions,
        )

    def claim(self) -> Claim:
        match self.strategy:
            case Strategy.REDACT | Strategy.TYPED:
                epsilon, how = 0.0, "the paper: a placeholder gives nothing to infer"
            case Strategy.NAMED:
                epsilon = math.inf if self.p == 0 else papers.replacement_lemma(self.p, 1.0)
                how = "the paper's lemma with all mass on the exemplar: ln(1/p)"
            case _:
                epsilon = papers.replacement_lemma(self.p, self.pi_min or 0.0)
                how = "the paper's lemma for one token: ln((1 - p + p pi) / (p pi))"
        return Claim.of(epsilon, delta=0.0, how=how)

    def statement(self) -> Statement:
        return Statement(claimed=self.claim(), guarantee=self.guarantee())


def replace_probability(epsilon: float, pi_min: float) -> float:
    """The p at which one token costs exactly epsilon: 1 / (1 + (e^epsilon - 1) pi_min).

    >>> round(replace_probability(1.0, 0.25), 6)
    0.699511
    """
    _validate.not_negative("epsilon", epsilon)
    if not 0 < pi_min <= 0.5:
        raise InvalidInput(f"Expected pi_min in (0, 0.5], got {pi_min:g}.")
    return 1 / (1 + math.expm1(epsilon) * pi_min) if epsilon < 700 else 0.0


def histogram_threshold(epsilon: float, delta: float) -> float:
    """The threshold of a DP histogram with Laplace noise of scale 1/epsilon: drop smaller counts.

    >>> round(histogram_threshold(1.0, 1e-6), 6)
    14.122363
    """
    _validate.positive("epsilon", epsilon)
    _validate.positive("delta", _validate.delta(delta))
    return 1 + math.log(1 / (2 * delta)) / epsilon
