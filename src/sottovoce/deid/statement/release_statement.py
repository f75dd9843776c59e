"""The privacy statement of a release: per token, utterance and user, claimed next to true.

Its derivation is in `derivation`.
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
    """One type: its mechanism, how many values it replaced, and the cost of one token."""

    setting: Setting
    mechanism: Mechanism
    tokens: int
    guarantee: Guarantee
    claimed: Claim | None

    def line(self, kind: str) -> str:
        """A human-readable line: true next to claimed."""
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
    """The complete privacy statement of a release.

    `guarantees` hold for the values that were found; `adjusted` ones account for misses and exist
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
        """The human-readable statement: one line per type, one sentence per unit, then the
        conditions.
        """
        lines = [found.line(kind) for kind, found in sorted(self.types.items())]
        lines += [_bare(found) for found in self.guarantees.values()]
        if self.renaming is not None:
            lines.append(f"For renaming a value everywhere: {self.renaming}")
        lines += [f"Allowing for misses: {_bare(found)}" for found in self.adjusted.values()]
        stated = [*self.guarantees.values(), *self.adjusted.values()]
        if any(found.holds for found in stated):
            lines += _listed("Provided that:", (each.assumptions for each in stated))
        lines += _listed("Not covered:", (each.not_covered for each in stated))
        return [*lines, self.recall, *self.notes]


def _bare(guarantee: Guarantee) -> str:
    return str(replace(guarantee, assumptions=(), not_covered=()))


def _listed(heading: str, sentences: Iterable[tuple[str, ...]]) -> list[str]:
    once = dict.fromkeys(sentence for each in sentences for sentence in each)
    return [heading, *(f"  - {sentence}" for sentence in once)] if once else []
