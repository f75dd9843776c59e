"""Read ledgers from ledger files, run.json and checkpoints."""

import json
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sottovoce.errors import InvalidInput, LedgerDamaged, UnchainedLedger
from sottovoce.io.run import RUN
from sottovoce.privacy.ledger import Ledger

# Facts of this kind can be read only after importing their module, which is slow.
_DEID_FACT = b"replaced-values"


@dataclass(frozen=True)
class StoredLedger:
    """A ledger, where it is stored, and notes about its file."""

    name: str
    ledger: Ledger
    is_file: bool
    """True for a ledger file, false for a copy in another file."""
    notes: tuple[str, ...] = ()


def ledger_paths(path: Path) -> list[Path]:
    """Files that may hold ledgers: the path itself, or the files of a run folder."""
    if not path.is_dir():
        return [path]
    found = [
        each
        for folder in (path, path / "private")
        for pattern in ("ledger*.jsonl", f"*{RUN}", "checkpoint*.pt")
        for each in sorted(folder.glob(pattern))
        if each.suffix != ".json" or _holds_ledgers(each)
    ]
    if not found:
        raise InvalidInput(
            f"Expected a ledger, a run.json or a checkpoint in the run folder {path}, found none."
        )
    return found


def read_ledgers(path: Path) -> list[StoredLedger]:
    """All ledgers in one file."""
    if not path.is_file():
        raise InvalidInput(f"Expected a file with a ledger, found none at {path}.")
    if _DEID_FACT in path.read_bytes():
        import sottovoce.deid.statement.facts  # noqa: F401
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UnchainedLedger)
        found = list(_read(path))
    notes = tuple(str(each.message) for each in caught)
    is_file = path.suffix not in (".json", ".pt")
    return [StoredLedger(name, ledger, is_file, notes) for name, ledger in found]


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
        raise InvalidInput(f"Expected JSON in {path}, got: {problem}.") from problem
    if not isinstance(data, dict):
        raise InvalidInput(f"Expected a JSON object in {path}, got a {type(data).__name__}.")
    return data


def _copies(data: dict[str, Any]) -> dict[str, Any]:
    """The ledgers in a run.json by unit, or the ledger if the file is one."""
    if "records" in data:
        return {"": data}
    release = data.get("release")
    by_unit = release.get("ledgers") if isinstance(release, dict) else None
    if isinstance(by_unit, dict) and by_unit:
        return by_unit
    return {"": data["ledger"]} if data.get("ledger") else {}
