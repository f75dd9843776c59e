"""What may be said of a release: to one token, one utterance and one user, claimed beside true.

How it is derived from what was done stands in `derivation`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sottovoce.deid.replace import Mechanism
from sottovoce.deid.replace.strategies import Setting
from sottovoce.privacy.guarantee import Claim, Guarantee, rounded_up
from sottovoce.privacy.ledger import Ledger


@dataclass(frozen=True, kw_only=True)
class TypeStatement:
    """One type: what replaced it, how often, and what one token of it costs."""

    setting: Setting
    mechanism: Mechanism
    tokens: int
    guarantee: Guarantee
    claimed: Claim | None

    def line(self, kind: str) -> str:
        """The type for people: true beside claimed."""
        true = rounded_up(self.guarantee.epsilon) if self.guarantee.holds else "none"
        beside = "" if self.claimed is None else f" (claimed: {rounded_up(self.claimed.epsilon)})"
        return f"  {kind}: {self.tokens:,} replaced, epsilon {true} a token{beside}"

    def to_json(self) -> dict[str, Any]:
        return {
            **self.setting.to_json(),
            "mechanism": self.mechanism.to_json(),
            "guarantee": self.guarantee.to_json(),
            "claimed": None if self.claimed is None else self.claimed.to_json(),
        }


@dataclass(frozen=True, kw_only=True)
class ReleaseStatement:
    """Everything that may be said of a release.

    `guarantees` hold for the values that were found; `adjusted` ones allow for misses and exist
    where the detector was evaluated; `renaming` is for consistent surrogates.
    """

    types: Mapping[str, TypeStatement]
    guarantees: Mapping[str, Guarantee]
    ledgers: Mapping[str, Ledger]
    adjusted: Mapping[str, Guarantee]
    renaming: Guarantee | None
    recall: str
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "types": {kind: found.to_json() for kind, found in sorted(self.types.items())},
            "guarantees": {unit: found.to_json() for unit, found in self.guarantees.items()},
            "adjusted": {unit: found.to_json() for unit, found in self.adjusted.items()},
            "renaming": None if self.renaming is None else self.renaming.to_json(),
            "recall": self.recall,
            "notes": list(self.notes),
            "ledgers": {unit: ledger.to_json() for unit, ledger in self.ledgers.items()},
        }

    def lines(self) -> list[str]:
        """The statement for people: a line a type, a sentence a unit, then what they rest on."""
        said = [found.line(kind) for kind, found in sorted(self.types.items())]
        said += [_bare(found) for found in self.guarantees.values()]
        if self.renaming is not None:
            said.append(f"For renaming a value everywhere: {self.renaming}")
        said += [f"Allowing for misses: {_bare(found)}" for found in self.adjusted.values()]
        stated = [*self.guarantees.values(), *self.adjusted.values()]
        if any(found.holds for found in stated):
            said += _listed("Provided that:", (each.assumptions for each in stated))
        said += _listed("Not covered:", (each.not_covered for each in stated))
        return [*said, self.recall, *self.notes]


def _bare(guarantee: Guarantee) -> str:
    return str(replace(guarantee, assumptions=(), not_covered=()))


def _listed(heading: str, sentences: Iterable[tuple[str, ...]]) -> list[str]:
    once = dict.fromkeys(sentence for each in sentences for sentence in each)
    return [heading, *(f"  - {sentence}" for sentence in once)] if once else []
