"""The folder of a run while it is trained: begun once, gone on with as it was begun, cleared."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sottovoce.cli.canaries import FILE as CANARIES
from sottovoce.corpora.atomic import text_output
from sottovoce.errors import InvalidInput

if TYPE_CHECKING:
    from sottovoce.privacy.ledger import Ledger

BEGUN, RUN, LEDGER = "settings.json", "run.json", "ledger.jsonl"


def begin(
    folder: Path, settings: Mapping[str, Any], source: Mapping[str, Any], *, resume: bool
) -> None:
    """Note in the folder what is trained on what, or check that it is the run to continue."""
    asked = {"settings": dict(settings), "source": dict(source)}
    if resume:
        _check_the_same(folder, asked)
        return
    folder.mkdir(parents=True, exist_ok=True)
    # A training that was refused before its first step leaves these, and nothing was spent.
    others = sorted({path.name for path in folder.iterdir()} - {BEGUN, CANARIES})
    if others:
        if RUN in others:
            raise InvalidInput(
                f"Expected an empty folder, got a finished run in {folder}: name another folder."
            )
        if (folder / BEGUN).exists():
            raise InvalidInput(
                f"Expected an empty folder, got an interrupted run in {folder}: name another "
                "folder, or add --resume."
            )
        raise InvalidInput(f"Expected an empty folder, got {others[0]} in {folder}.")
    with text_output(folder / BEGUN) as stream:
        json.dump(asked, stream, indent=2, ensure_ascii=False)
        stream.write("\n")


def merged(ledger: "Ledger", folder: Path) -> Path | None:
    """The ledger of a run that several workers trained, as one file; None if one is there."""
    if (folder / LEDGER).exists():
        return None
    from sottovoce.privacy.ledger import Ledger

    with Ledger.open(folder / LEDGER, unit=ledger.unit, relation=ledger.relation) as whole:
        for sentence in ledger.assumptions:
            whole.assume(sentence)
        for sentence in ledger.not_covered:
            whole.leave_uncovered(sentence)
        for entry in ledger.entries:
            whole.spend(entry.fact, entry.count)
    return folder / LEDGER


def clear(folder: Path) -> None:
    """Remove what only an unfinished run needs."""
    for pattern in ("checkpoint*.pt", "vocabulary.json"):
        for path in folder.glob(pattern):
            path.unlink()


def _check_the_same(folder: Path, asked: Mapping[str, Any]) -> None:
    path = folder / BEGUN
    if (folder / RUN).exists():
        raise InvalidInput(f"Expected an interrupted run in {folder}, got a finished one.")
    if not path.is_file():
        raise InvalidInput(f"Expected an interrupted run in {folder}, found none.")
    try:
        begun = json.loads(path.read_text(encoding="utf-8"))
        kept = {**begun["settings"], **begun["source"]}
    except (ValueError, KeyError, TypeError) as problem:
        raise InvalidInput(
            f"Expected the settings of the interrupted run in {path}, but they cannot be read."
        ) from problem
    now = {**asked["settings"], **asked["source"]}
    for name in sorted(kept.keys() | now.keys()):
        if kept.get(name) != now.get(name):
            raise InvalidInput(
                f"Expected the settings of the interrupted run, which are in {path}, got another "
                f"{name.replace('_', ' ')}: {now.get(name)} instead of {kept.get(name)}."
            )
