"""Ledgers wherever they are kept: in files of their own, in run.json, in checkpoints."""

import json
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sottovoce.errors import InvalidInput, LedgerDamaged, UnchainedLedger
from sottovoce.privacy.ledger import Ledger

# Facts of de-identification are known only when its module is loaded, which takes a while.
_OF_A_PILLAR = b"replaced-values"


@dataclass(frozen=True)
class Found:
    """A ledger, where it was found, and what is to be said of how it was kept."""

    name: str
    ledger: Ledger
    is_file: bool
    """A ledger file, and not a copy in something else."""
    notes: tuple[str, ...] = ()


def places(path: Path) -> list[Path]:
    """The files that may hold ledgers: the path itself, or those of a run folder."""
    if not path.is_dir():
        return [path]
    found = [
        each
        for folder in (path, path / "private")
        for pattern in ("ledger*.jsonl", "*run.json", "checkpoint*.pt")
        for each in sorted(folder.glob(pattern))
        if each.suffix != ".json" or _holds_ledgers(each)
    ]
    if not found:
        raise InvalidInput(
            f"Expected a run folder with a ledger, a run.json or a checkpoint, got {path}."
        )
    return found


def read_ledgers(path: Path) -> list[Found]:
    """All ledgers in one file."""
    if not path.is_file():
        raise InvalidInput(f"Expected a file with a ledger, found none at {path}.")
    if _OF_A_PILLAR in path.read_bytes():
        import sottovoce.deid.statement.facts  # noqa: F401
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UnchainedLedger)
        found = list(_read(path))
    notes = tuple(str(each.message) for each in caught)
    return [
        Found(name, ledger, path.suffix not in (".json", ".pt"), notes) for name, ledger in found
    ]


def _read(path: Path) -> Iterator[tuple[str, Ledger]]:
    if path.suffix == ".pt":
        from sottovoce.training.checkpoint import load_checkpoint

        saved = load_checkpoint(path).get("ledger")
        if not isinstance(saved, str):
            raise InvalidInput(f"Expected a checkpoint with a ledger, got {path}.")
        yield str(path), _copy(json.loads(saved), path)
    elif path.suffix == ".json":
        copies = _copies(_object(path))
        if not copies:
            raise InvalidInput(f"Expected a ledger in {path}, found none.")
        for unit, data in copies.items():
            yield f"{path} ({unit})" if len(copies) > 1 else str(path), _copy(data, path)
    else:
        yield str(path), Ledger.read(path)


def _copy(data: Any, path: Path) -> Ledger:
    try:
        return Ledger.from_json(data)
    except LedgerDamaged as problem:
        raise LedgerDamaged(f"{path}: {problem}") from problem


def _holds_ledgers(path: Path) -> bool:
    return bool(_copies(_object(path)))


def _object(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as problem:
        raise InvalidInput(f"Expected JSON in {path}, but: {problem}.") from problem
    if not isinstance(data, dict):
        raise InvalidInput(f"Expected a JSON object in {path}, got something else.")
    return data


def _copies(data: dict[str, Any]) -> dict[str, Any]:
    """The ledgers in a run.json, by their unit; or a ledger in JSON itself."""
    if "records" in data:
        return {"": data}
    release = data.get("release")
    by_unit = release.get("ledgers") if isinstance(release, dict) else None
    if isinstance(by_unit, dict) and by_unit:
        return by_unit
    return {"": data["ledger"]} if data.get("ledger") else {}
