"""Canaries in a training run: planted by `train --canaries`, read back by `audit`."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sottovoce.corpora.splits import Parts
from sottovoce.errors import InvalidInput
from sottovoce.io.run_folder import RunFolder
from sottovoce.nlu.runs.in_progress import CANARIES

if TYPE_CHECKING:
    from sottovoce.audit.canaries import CanaryPairs, TextCanaries
    from sottovoce.privacy.guarantee import Relation

FILE = CANARIES
"""Holds the coins: whoever reads it can pass the audit without a private model."""
_MADE_UP = 300


def check_canaries(count: int, relation: "Relation", *, alone: bool) -> None:
    """Refuse what `plant` could not do, before a run is begun."""
    from sottovoce.privacy.guarantee import Relation

    if not alone:
        raise InvalidInput("Expected one process to plant canaries, got several.")
    if relation is Relation.REPLACE_ONE and count % 2:
        raise InvalidInput(f"Expected an even number of canaries to pair up, got {count}.")


def plant(
    parts: Parts,
    count: int,
    intents: Sequence[str],
    relation: "Relation",
    folder: Path,
    *,
    again: bool = False,
) -> Parts:
    """Add `count` canaries to the train part, each by a fair coin.

    They are kept in the private part of the folder; a run that goes on `again` takes those it has.
    Under replace-one they come in pairs, of which the coin chooses one.
    """
    from sottovoce.audit.canaries import read_canaries, text_canaries, write_canaries
    from sottovoce.corpora.synthetic import DOMAINS, generate
    from sottovoce.privacy.noise import NoiseSource

    path = RunFolder(folder).private(FILE)
    if again and path.exists():
        return _with(parts, read_canaries(path), relation)
    # Words come from the built-in corpora, so the canaries themselves tell nothing private.
    words = {
        token
        for domain in DOMAINS
        for utterance in generate(domain, size=_MADE_UP, seed=0)
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
    """The canaries of a run, as its guarantee can be held against them; None if it has none."""
    from sottovoce.audit.canaries import read_canaries

    path = RunFolder(folder).find_private(FILE)
    return _arranged(read_canaries(path), relation) if path.exists() else None


def _with(parts: Parts, canaries: "TextCanaries", relation: "Relation") -> Parts:
    return replace(parts, train=(*parts.train, *_arranged(canaries, relation).chosen()))


def _arranged(canaries: "TextCanaries", relation: "Relation") -> "TextCanaries | CanaryPairs":
    from sottovoce.audit.canaries import CanaryPairs
    from sottovoce.privacy.guarantee import Relation

    return CanaryPairs.of(canaries) if relation is Relation.REPLACE_ONE else canaries
