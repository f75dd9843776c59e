"""Canaries in a training run: inserted by `train --canaries`, read by `audit`."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sottovoce.corpora.splits import Parts
from sottovoce.errors import InvalidInput
from sottovoce.io.run import Run
from sottovoce.nlu.runs.in_progress import CANARIES

if TYPE_CHECKING:
    from sottovoce.audit.canaries import CanaryPairs, TextCanaries
    from sottovoce.privacy.guarantee import Relation

FILE = CANARIES
"""Contains the coin flips: anyone who reads it can pass the audit without a private model."""
_WORD_SOURCE_SIZE = 300


def check_canaries(count: int, relation: "Relation", *, alone: bool) -> None:
    """Reject arguments that `plant` cannot handle, before the run starts."""
    from sottovoce.privacy.guarantee import Relation

    if not alone:
        raise InvalidInput("Expected one process to insert canaries, got several.")
    if relation == Relation.REPLACE_ONE and count % 2:
        raise InvalidInput(f"Expected an even number of canaries to form pairs, got {count}.")


def plant(
    parts: Parts,
    count: int,
    intents: Sequence[str],
    relation: "Relation",
    folder: Path,
    *,
    again: bool = False,
) -> Parts:
    """Add `count` canaries to the train part, each with probability 1/2.

    They are stored in the private part of the folder; `again` reuses the stored ones (resume).
    Under replace-one they form pairs, and a fair coin picks one of each pair.
    """
    from sottovoce.audit.canaries import read_canaries, text_canaries, write_canaries
    from sottovoce.corpora.synthetic import DOMAINS, generate
    from sottovoce.privacy.noise import NoiseSource

    path = Run(folder).private(FILE)
    if again and path.exists():
        return _with(parts, read_canaries(path), relation)
    # Words come from the built-in corpora, so the canaries reveal nothing private.
    words = {
        token
        for domain in DOMAINS
        for utterance in generate(domain, size=_WORD_SOURCE_SIZE, seed=0)
        for token in utterance.tokens
    }
    canaries = text_canaries(
        count,
        vocabulary=sorted(words),
        intents=intents,
        source=NoiseSource(),
        known={utterance.text for utterance in parts.train},
    )
    write_canaries(path, canaries)
    return _with(parts, canaries, relation)


def planted(folder: Path, relation: "Relation") -> "TextCanaries | CanaryPairs | None":
    """The canaries of a run, paired if its relation is replace-one; None if it has none."""
    from sottovoce.audit.canaries import read_canaries

    path = Run(folder).find_private(FILE)
    return _arranged(read_canaries(path), relation) if path.exists() else None


def _with(parts: Parts, canaries: "TextCanaries", relation: "Relation") -> Parts:
    return replace(parts, train=(*parts.train, *_arranged(canaries, relation).chosen()))


def _arranged(canaries: "TextCanaries", relation: "Relation") -> "TextCanaries | CanaryPairs":
    from sottovoce.audit.canaries import CanaryPairs
    from sottovoce.privacy.guarantee import Relation

    return CanaryPairs.of(canaries) if relation is Relation.REPLACE_ONE else canaries
