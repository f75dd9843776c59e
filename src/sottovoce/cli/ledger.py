"""`sottovoce ledger`: show, verify and merge privacy ledgers."""

import sys
from pathlib import Path
from typing import Any

import click

from sottovoce.cli.shared.console import json_option, print_json, printable
from sottovoce.cli.shared.ledger_files import StoredLedger, ledger_paths, read_ledgers
from sottovoce.errors import InvalidInput, LedgerDamaged
from sottovoce.privacy.guarantee import Guarantee, Unit
from sottovoce.privacy.ledger import Ledger

_NO_DELTA = "The ledger has no budget: add --delta for the guarantee."
_OPEN = "not closed, so there may have been more"

files_argument = click.argument("files", metavar="FILES...", nargs=-1, required=True)
delta_option = click.option(
    "--delta", type=float, help="Delta of the guarantee [default: that of the budget]."
)
population_option = click.option(
    "--population", type=int, help="Public number of units, to check delta against."
)


@click.group()
def ledger() -> None:
    """Show, verify and merge privacy ledgers."""


@ledger.command()
@files_argument
@delta_option
@population_option
@json_option
def show(
    files: tuple[str, ...], delta: float | None, population: int | None, as_json: bool
) -> None:
    """Print the entries of ledgers in words, and their guarantees.

    FILES are ledger files, a run.json, checkpoints, or run folders.

    \b
    Example:
      sottovoce ledger show run/ledger.jsonl --delta 1e-5
    """
    found = [
        each for path in files for place in ledger_paths(Path(path)) for each in read_ledgers(place)
    ]
    rows = [(each, _guarantee(each.ledger, delta, population)) for each in found]
    if as_json:
        print_json([_as_json(each) | {"guarantee": _json(given)} for each, given in rows])
        return
    for each, given in rows:
        _print_ledger(each, given)


@ledger.command()
@files_argument
@json_option
def verify(files: tuple[str, ...], as_json: bool) -> None:
    """Check that ledgers are complete, and that copies of a ledger agree.

    FILES are ledger files and their copies: a run.json, checkpoints, or run folders. Exit code 1:
    a ledger is damaged, or a file lacks entries that a copy has.

    \b
    Example:
      sottovoce ledger verify run/
    """
    found: list[StoredLedger] = []
    problems: list[str] = []
    for path in files:
        for place in ledger_paths(Path(path)):
            try:
                found += read_ledgers(place)
            except LedgerDamaged as problem:
                problems.append(str(problem))
    agreements, disagreements = _compare(found)
    problems += disagreements
    if as_json:
        print_json(
            {
                "ledgers": [_as_json(each) for each in found],
                "agreements": agreements,
                "problems": problems,
            }
        )
    else:
        for each in found:
            click.echo(printable(f"{each.name}: {_state(each.ledger)}"))
            for note in each.notes:
                click.echo(printable(f"  {note}"))
        for sentence in agreements:
            click.echo(printable(sentence))
        for sentence in problems:
            click.echo(printable(f"Problem: {sentence}"), err=True)
    if problems:
        sys.exit(1)


@ledger.command()
@files_argument
@click.option("-o", "--output", help="Write the merged ledger to a new file.")
@click.option(
    "--unit",
    type=click.Choice([unit.value for unit in Unit]),
    help="Ledger to read from a release that has one for each unit.",
)
@delta_option
@population_option
@json_option
def merge(
    files: tuple[str, ...],
    output: str | None,
    unit: str | None,
    delta: float | None,
    population: int | None,
    as_json: bool,
) -> None:
    """Merge ledgers about the same people: the total cost of all releases.

    Copies of a ledger count once; if copies diverge, every branch counts. Ledgers of the workers of
    one training describe shares of the same steps.

    \b
    Example:
      sottovoce ledger merge spring/ledger.jsonl autumn/ledger.jsonl --delta 1e-5
    """
    from sottovoce.privacy.ledgers.merging import compose

    chosen = [each for path in files for each in _of_unit(Path(path), unit)]
    merged_ledger = compose((each.name, each.ledger) for each in chosen)
    guarantee = _guarantee(merged_ledger.ledger, delta, population)
    if output is not None:
        merged_ledger.ledger.save(output)
    merged = StoredLedger(output or "merged", merged_ledger.ledger, is_file=False)
    notes = [note for each in chosen for note in each.notes]
    if as_json:
        print_json(
            _as_json(merged)
            | {"how": [*merged_ledger.how], "notes": notes, "guarantee": _json(guarantee)}
        )
        return
    for sentence in (*merged_ledger.how, *notes):
        click.echo(printable(sentence))
    _print_ledger(merged, guarantee)


def _of_unit(path: Path, unit: str | None) -> list[StoredLedger]:
    if path.is_dir():
        raise InvalidInput(
            f"Expected ledger files to merge, got the folder {path}: name its files."
        )
    found = read_ledgers(path)
    if unit is not None:
        found = [each for each in found if each.ledger.unit == unit]
    if len(found) != 1:
        raise InvalidInput(
            f"Expected one ledger{f' of one {unit}' if unit else ''} in {path}, got {len(found)}"
            f"{'' if unit else ': choose with --unit'}."
        )
    return found


def _compare(found: list[StoredLedger]) -> tuple[list[str], list[str]]:
    """Compare all pairs of copies of a ledger; return agreements and problems."""
    agreements, problems = [], []
    for place, one in enumerate(found):
        for other in found[place + 1 :]:
            if one.ledger.id != other.ledger.id or not one.ledger.has_own_id:
                continue
            older, newer = one, other
            if one.ledger.includes(other.ledger):
                older, newer = other, one
            if not newer.ledger.includes(older.ledger):
                problems.append(
                    f"{one.name} and {other.name} are copies of one ledger that diverged; merge "
                    "both with sottovoce ledger merge"
                )
            elif older.is_file and not newer.is_file and not older.ledger.includes(newer.ledger):
                problems.append(
                    f"{older.name} lacks entries of its copy in {newer.name}: it was truncated or "
                    "rolled back"
                )
            else:
                agreements.append(f"{newer.name} includes {older.name}.")
    return agreements, problems


def _state(ledger: Ledger) -> str:
    whole = "hashes match" if ledger.id is not None else "first records have no hashes"
    interrupted = (
        f"; reopened {ledger.interruptions} times without being closed"
        if ledger.interruptions
        else ""
    )
    closed = "closed" if ledger.sealed else _OPEN
    return f"{ledger.head.records} records, {whole}; {closed}{interrupted}."


def _guarantee(ledger: Ledger, delta: float | None, population: int | None) -> Guarantee | None:
    if delta is None and ledger.budget is None:
        return None
    return ledger.guarantee(delta, population=population)


def _json(guarantee: Guarantee | None) -> dict[str, Any] | None:
    return None if guarantee is None else guarantee.to_json()


def _as_json(found: StoredLedger) -> dict[str, Any]:
    from sottovoce.report.entries import rows

    ledger = found.ledger
    return {
        "name": found.name,
        "id": ledger.id,
        "unit": str(ledger.unit),
        "relation": str(ledger.relation),
        "head": ledger.head.to_json(),
        "sealed": ledger.sealed,
        "interruptions": ledger.interruptions,
        "runs": list(ledger.runs),
        "entries": [
            {"times": row.times, "what": row.what, "details": list(row.details)}
            for row in rows(ledger)
        ],
        "assumptions": list(ledger.assumptions),
        "not_covered": list(ledger.not_covered),
        "notes": list(found.notes),
    }


def _print_ledger(found: StoredLedger, guarantee: Guarantee | None) -> None:
    from sottovoce.report.entries import rows

    ledger = found.ledger
    click.echo(printable(f"{found.name}: one {ledger.unit}, {ledger.relation}; {_state(ledger)}"))
    for note in found.notes:
        click.echo(printable(f"  {note}"))
    for row in rows(ledger):
        details = f" ({'; '.join(row.details)})" if row.details else ""
        click.echo(printable(f"  {row.times:,} x {row.what}{details}"))
    if not ledger.entries:
        click.echo("  no entries")
    click.echo(printable(str(guarantee)) if guarantee is not None else _NO_DELTA)
