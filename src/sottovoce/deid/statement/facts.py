"""The ledger fact of an utterance or user with values of several types and mechanisms.

`privacy.facts.ReplacedTokens` holds one kernel. A unit with values of several types is one member
of the pool of disjoint units, so all of its losses must be in one fact.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.privacy.accountants.losses import ApproximateLoss, Loss, PureLoss, TokenLoss
from sottovoce.privacy.facts import Fact
from sottovoce.privacy.guarantee import Relation


@dataclass(frozen=True, kw_only=True)
class ReplacedValues(Fact):
    """The private values of one unit, by type.

    `counts[k]` values of `types[k]` went through the kernel (1-p)[y=x] + p pi(y) of
    `replace_probabilities[k]` and `smallest_probabilities[k]`, or, where `epsilons[k]` is not
    negative, through a mechanism of that pure epsilon. `recalls[k]` is the share that is found.
    `counts[k]` includes missed values: if any value is missed, the unit is exposed.
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
                f"Expected {len(self.types)} entries in every list, one for each type, got others."
            )
        for p, pi, recall in zip(
            self.replace_probabilities, self.smallest_probabilities, self.recalls, strict=True
        ):
            _validate.probability("every replace probability", p)
            _validate.between("every smallest probability", pi, 0.0, 0.5)
            _validate.probability("every recall", recall)
        for count, epsilon in zip(self.counts, self.epsilons, strict=True):
            if count < 0 or count != int(count):
                raise InvalidInput(f"Expected whole counts >= 0, got {count}.")
            if epsilon != -1 and not 0 <= epsilon < math.inf:
                raise InvalidInput(f"Expected every epsilon >= 0, or -1, got {epsilon:g}.")

    @property
    def missed(self) -> float:
        """The probability that any of the values is missed."""
        logs = [
            count * math.log(recall) if recall else -math.inf
            for count, recall in zip(self.counts, self.recalls, strict=True)
            if count
        ]
        return -math.expm1(sum(logs))

    def losses(self, relation: Relation) -> list[tuple[Loss, int]]:
        found: list[tuple[Loss, int]] = []
        for place, count in enumerate(self.counts):
            if self.epsilons[place] >= 0:
                found.append((PureLoss(self.epsilons[place]), count))
            else:
                p = self.replace_probabilities[place]
                found.append((TokenLoss(p, self.smallest_probabilities[place]), count))
        # A missed value identifies itself, unless it happens to be in a surrogate list.
        if self.missed >= 1:
            found.append((TokenLoss(0.0, 0.0), 1))
        elif self.missed:
            found.append((ApproximateLoss(0.0, self.missed), 1))
        return [(loss, count) for loss, count in found if count]

    def objections(self, relation: Relation) -> list[str]:
        if _validate.choice("relation", relation, Relation) is Relation.ADD_OR_REMOVE:
            return [
                "the number and the types of private values are released as they are; only the "
                "relation replace-one can be vouched for"
            ]
        return []

    def why_infinite(self) -> str:
        if self.missed:
            return "a private value that is missed is released as it is, and identifies itself"
        return (
            "a private value may be released as it is, and no replacement ever equals it, so a "
            "reader who sees it knows it is real"
        )

    def assumptions(self, relation: Relation) -> list[str]:
        stated = super().assumptions(relation)
        stated.append("the types, the places and the number of private values may be known")
        if min(self.recalls, default=1.0) < 1:
            stated.append(
                "every private value is missed with at most the same probability, whatever the "
                "value and whatever else is missed"
            )
        else:
            stated.append("every private value was found")
        return stated
