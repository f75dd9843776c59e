"""Reading a corpus: options, opening it, and reporting rejected records.

Read ledgers from ledger files, run.json and checkpoints.
"""

import json
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from sottovoce.cli.shared.options import Named
from sottovoce.corpora import FORMATS, Columns, Reader, read
from sottovoce.corpora.formats import recognise
from sottovoce.corpora.lines import LINE_LIMIT
from sottovoce.corpora.tables import FIELDS
from sottovoce.errors import InvalidInput, LedgerDamaged, UnchainedLedger
from sottovoce.io.run import RUN
from sottovoce.privacy.ledger import Ledger

BY_NAME = "Format of the {} [default: by file extension; jsonl for -]."

Command = TypeVar("Command", bound=Callable[..., Any])


def reading_options(command: Command) -> Command:
    """Add the options of `open_corpus`."""
    options = [
        click.option("--from", "source_format", type=Named(FORMATS), help=BY_NAME.format("input")),
        click.option("--lenient", is_flag=True, help="Skip and count invalid records."),
        click.option(
            "--line-limit",
            type=click.IntRange(min=1),
            default=LINE_LIMIT,
            show_default=True,
            help="Maximum line length in bytes.",
        ),
        *(
            click.option(
                f"--{field}-column",
                f"{field}_column",
                metavar="NAME",
                help=f"Column of a table [default: {field}].",
            )
            for field in FIELDS
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def open_corpus(
    path: str,
    *,
    source_format: str | None,
    lenient: bool,
    line_limit: int,
    by_content: bool = False,
    **columns: str | None,
) -> Reader:
    """Open the corpus as the options specify.

    With `by_content`, a format that the name does not tell is recognised from the first line.
    """
    named = Columns(**{name.removesuffix("_column"): each for name, each in columns.items()})
    live = None
    if by_content and source_format is None:
        source_format, live = recognise(path, named)
    return read(
        path,
        source_format,
        on_error="lenient" if lenient else "strict",
        columns=named,
        line_limit=line_limit,
        live=live,
    )


def losses_of(reader: Reader) -> dict[str, Any]:
    """Records that the last pass rejected or repaired, for `--json`."""
    return {
        "rejected": reader.rejected,
        "repaired": reader.repaired,
        "blank": reader.blank,
        "problems": [problem._asdict() for problem in reader.problems],
    }


def print_losses(losses: dict[str, Any], name: str = "") -> None:
    """Print rejected and repaired records on stderr."""
    prefix = f"{name}: " if name else ""
    if losses.get("repaired"):
        click.echo(f"{prefix}Repaired the labels of {losses['repaired']:,} records.", err=True)
    if losses.get("rejected"):
        click.echo(f"{prefix}Rejected {losses['rejected']:,} records, such as:", err=True)
        for problem in losses["problems"]:
            click.echo(f"  {problem['place']}: {problem['reason']}", err=True)


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
