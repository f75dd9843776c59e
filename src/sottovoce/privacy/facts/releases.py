"""Facts of releases: replaced tokens, mechanisms known by their epsilon, and unprotected ones."""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.privacy.accountants.losses import ApproximateLoss, Loss, PureLoss, TokenLoss
from sottovoce.privacy.facts.fact import Fact
from sottovoce.privacy.guarantee import Notion, Relation


@dataclass(frozen=True, kw_only=True)
class BoundedRelease(Fact):
    """A mechanism known only by its epsilon and delta: m-ary randomised response, the exponential
    mechanism, a thresholded histogram. `mechanism` is its name, for display."""

    mechanism: str
    epsilon: float
    delta: float = 0.0

    kind: ClassVar[str] = "bounded-release"

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.not_negative("epsilon", self.epsilon)
        _validate.delta(self.delta)

    def losses(self, relation: Relation) -> list[tuple[Loss, int]]:
        if self.delta:
            return [(ApproximateLoss(self.epsilon, self.delta), 1)]
        return [(PureLoss(self.epsilon), 1)]


@dataclass(frozen=True, kw_only=True)
class MetricRelease(Fact):
    """Metric differential privacy: epsilon per unit of distance, never added to plain epsilon."""

    mechanism: str
    epsilon: float

    kind: ClassVar[str] = "metric-release"
    notion: ClassVar[Notion] = Notion.METRIC_DP

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.not_negative("epsilon", self.epsilon)

    def losses(self, relation: Relation) -> list[tuple[Loss, int]]:
        return [(PureLoss(self.epsilon), 1)]


@dataclass(frozen=True, kw_only=True)
class Unprotected(Fact):
    """A release without protection; the ledger records the reason and gives no epsilon."""

    reason: str

    kind: ClassVar[str] = "unprotected"

    def losses(self, relation: Relation) -> list[tuple[Loss, int]]:
        return []

    def objections(self, relation: Relation) -> list[str]:
        return [self.reason]


class SurrogateSource(StrEnum):
    """Where the surrogate distribution comes from."""

    PUBLIC = "public"
    DP_HISTOGRAM = "dp-histogram"
    SAME_CORPUS = "same-corpus"


@dataclass(frozen=True, kw_only=True)
class ReplacedTokens(Fact):
    """Private tokens of one unit, each replaced with probability p by a surrogate drawn from pi.

    `smallest_probability` is the smallest pi of any possible input of the type (0 for placeholders,
    which equal no input). `recall` is the fraction of private tokens that the detector finds.
    """

    replace_probability: float
    smallest_probability: float
    tokens: int = 1
    surrogates: SurrogateSource = SurrogateSource.PUBLIC
    recall: float = 1.0

    kind: ClassVar[str] = "replaced-tokens"

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.probability("replace_probability", self.replace_probability)
        _validate.probability("recall", self.recall)
        _validate.between("tokens", _validate.at_least_one("tokens", self.tokens), 1, 2**53)
        if not 0 <= self.smallest_probability <= 0.5:
            raise InvalidInput(
                "Expected smallest_probability in [0, 0.5] (two possible inputs share the mass), "
                f"got {self.smallest_probability:g}."
            )

    def losses(self, relation: Relation) -> list[tuple[Loss, int]]:
        effective = self.replace_probability * self.recall
        return [(TokenLoss(effective, self.smallest_probability), self.tokens)]

    def objections(self, relation: Relation) -> list[str]:
        if _validate.choice("relation", relation, Relation) is Relation.ADD_OR_REMOVE:
            return [
                "the number and the types of private tokens are released unchanged; only the "
                "relation replace-one can be accounted"
            ]
        if self.surrogates is SurrogateSource.SAME_CORPUS:
            p = self.replace_probability
            leak = 1 - p * math.exp(-p)
            return [
                "the surrogates were counted in the same corpus that they protect: a value that "
                f"occurs once appears in the output with probability {leak:.3g}"
            ]
        return []

    def why_infinite(self) -> str:
        kept = 1 - (self.replace_probability * self.recall) ** self.tokens
        return (
            f"a private token is kept with probability {kept:.4g}, and no replacement ever equals "
            "it, so a reader who sees it knows that it is genuine (precisely: every epsilon holds "
            f"with delta = {kept:.4g}, none with a smaller delta)"
        )

    def assumptions(self, relation: Relation) -> list[str]:
        stated = super().assumptions(relation)
        stated.append("the type and the position of a private token may be known")
        stated.append("every possible value of a type is in its surrogate list or always replaced")
        if self.recall < 1:
            stated.append(
                f"the detector finds a fraction {self.recall:g} of the private tokens, and its "
                "misses do not depend on their values"
            )
        else:
            stated.append("every private token was found")
        return stated
