"""The fact of a whole utterance or user: values of several types, replaced by several mechanisms.

`privacy.facts.ReplacedTokens` knows one kernel. A unit with values of several types is one member
of the pool of disjoint units, so all of its losses have to be in one fact.
"""

from dataclasses import dataclass
from typing import ClassVar

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.privacy.accountants.losses import Loss, PureLoss, TokenLoss
from sottovoce.privacy.facts import Fact
from sottovoce.privacy.guarantee import Relation


@dataclass(frozen=True, kw_only=True)
class ReplacedValues(Fact):
    """The private values of one unit, by type.

    `counts[k]` values of `types[k]` went through the kernel (1-p)[y=x] + p pi(y) of
    `replace_probabilities[k]` and `smallest_probabilities[k]`, or, where `epsilons[k]` is not
    negative, through a mechanism of that pure epsilon. `recalls[k]` is the share that was found.
    """

    types: tuple[str, ...]
    counts: tuple[int, ...]
    replace_probabilities: tuple[float, ...]
    smallest_probabilities: tuple[float, ...]
    epsilons: tuple[float, ...]
    recalls: tuple[float, ...]

    kind: ClassVar[str] = "replaced-values"

    def __post_init__(self) -> None:
        super().__post_init__()
        lists = (
            self.counts, self.replace_probabilities, self.smallest_probabilities,
            self.epsilons, self.recalls,
        )  # fmt: skip
        if any(len(each) != len(self.types) for each in lists):
            raise InvalidInput(
                f"Expected one entry for each of {len(self.types)} types in every list."
            )
        for p, pi, recall in zip(
            self.replace_probabilities, self.smallest_probabilities, self.recalls, strict=True
        ):
            _validate.probability("every replace probability", p)
            _validate.between("every smallest probability", pi, 0.0, 0.5)
            _validate.probability("every recall", recall)

    def losses(self, relation: Relation) -> list[tuple[Loss, int]]:
        found: list[tuple[Loss, int]] = []
        for place, count in enumerate(self.counts):
            if self.epsilons[place] >= 0:
                found.append((PureLoss(self.epsilons[place]), count))
            else:
                p = self.replace_probabilities[place] * self.recalls[place]
                found.append((TokenLoss(p, self.smallest_probabilities[place]), count))
        return [(loss, count) for loss, count in found if count]

    def objections(self, relation: Relation) -> list[str]:
        if relation is Relation.ADD_OR_REMOVE:
            return [
                "the number and the types of private values are released as they are; only the "
                "relation replace-one can be vouched for"
            ]
        return []

    def why_infinite(self) -> str:
        return (
            "a private value may be released as it is, and no replacement ever equals it, so a "
            "reader who sees it knows it is true"
        )

    def assumptions(self, relation: Relation) -> list[str]:
        stated = super().assumptions(relation)
        stated.append("the types, the places and the number of private values may be known")
        if min(self.recalls, default=1.0) < 1:
            stated.append(
                "what the detector misses does not depend on the value, and every private value "
                "is in the surrogate list of its type"
            )
        else:
            stated.append("every private value was found")
        return stated
