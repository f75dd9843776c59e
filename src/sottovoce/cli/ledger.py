"""`sottovoce ledger`: what a ledger says, whether it is whole, and several of them as one."""

import sys
from pathlib import Path
from typing import Any

import click

from sottovoce.cli.shared.console import json_option, print_json, printable
from sottovoce.cli.shared.ledger_files import Found, places, read_ledgers
from sottovoce.errors import InvalidInput, LedgerDamaged
from sottovoce.privacy.guarantee import Guarantee, Unit
from sottovoce.privacy.ledger import Ledger

_NO_DELTA = "No delta was given and the ledger has no budget: add --delta for the guarantee."
_OPEN = "open: it was not closed, so there may have been more"

files_argument = click.argument("files", metavar="FILES...", nargs=-1, required=True)
delta_option = click.option(
    "--delta", type=float, help="Of the guarantee. [default: that of the budget]"
)
population_option = click.option(
    "--population", type=int, help="The public number of units, which delta is judged against."
)


@click.group()
def ledger() -> None:
    """What was spent, whether the ledger is whole, and several ledgers as one."""


@ledger.command()
@files_argument
@delta_option
@population_option
@json_option
def show(
    files: tuple[str, ...], delta: float | None, population: int | None, as_json: bool
) -> None:
    """Tell what is in ledgers, in plain words, and what it guarantees.

    FILES are ledger files, a run.json, checkpoints, or run folders.

    \b
    Example:
      sottovoce ledger show run/ledger.jsonl --delta 1e-5
    """
    found = [each for path in files for place in places(Path(path)) for each in read_ledgers(place)]
    told = [(each, _guarantee(each.ledger, delta, population)) for each in found]
    if as_json:
        print_json([_as_json(each) | {"guarantee": _json(said)} for each, said in told])
        return
    for each, said in told:
        _print_ledger(each, said)


@ledger.command()
@files_argument
@json_option
def verify(files: tuple[str, ...], as_json: bool) -> None:
    """Check that ledgers are whole, and that copies of one ledger agree.

    FILES are ledger files and their copies: a run.json, checkpoints, or whole run folders. Exit
    code 1: a ledger is damaged, or a file has lost what a copy still has.

    \b
    Example:
      sottovoce ledger verify run/
    """
    found: list[Found] = []
    problems: list[str] = []
    for path in files:
        for place in places(Path(path)):
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
@click.option("-o", "--output", help="Write the sum as a new ledger file.")
@click.option(
    "--unit",
    type=click.Choice([unit.value for unit in Unit]),
    help="Which ledger of a release to take, where a file has one for each unit.",
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
    """Add up ledgers about the same people: what all the releases together cost.

    Copies of one ledger count once; if they went different ways, every way counts. Ledgers of the
    workers of one training are shares of the same steps.

    \b
    Example:
      sottovoce ledger merge spring/ledger.jsonl autumn/ledger.jsonl --delta 1e-5
    """
    from sottovoce.privacy.ledgers.merging import compose

    chosen = [each for path in files for each in _of_unit(Path(path), unit)]
    whole = compose((each.name, each.ledger) for each in chosen)
    said = _guarantee(whole.ledger, delta, population)
    if output is not None:
        whole.ledger.save(output)
    merged = Found(output or "merged", whole.ledger, is_file=False)
    notes = [note for each in chosen for note in each.notes]
    if as_json:
        print_json(
            _as_json(merged) | {"how": [*whole.how], "notes": notes, "guarantee": _json(said)}
        )
        return
    for sentence in (*whole.how, *notes):
        click.echo(printable(sentence))
    _print_ledger(merged, said)


def _of_unit(path: Path, unit: str | None) -> list[Found]:
    if path.is_dir():
        raise InvalidInput(f"Expected ledger files to add up, got the folder {path}.")
    found = read_ledgers(path)
    if unit is not None:
        found = [each for each in found if each.ledger.unit == unit]
    if len(found) != 1:
        raise InvalidInput(
            f"Expected one ledger{f' of one {unit}' if unit else ''} in {path}, got {len(found)}"
            f"{'' if unit else ': choose with --unit'}."
        )
    return found


def _compare(found: list[Found]) -> tuple[list[str], list[str]]:
    """What every two copies of one ledger say of each other: agreements and problems."""
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
                    f"{one.name} and {other.name} are copies of one ledger that went different "
                    "ways; add up both with sottovoce ledger merge"
                )
            elif older.is_file and not newer.is_file and not older.ledger.includes(newer.ledger):
                problems.append(
                    f"{older.name} lacks what its copy in {newer.name} has: it was cut or put back"
                )
            else:
                agreements.append(f"{newer.name} includes {older.name}.")
    return agreements, problems


def _state(ledger: Ledger) -> str:
    whole = "hashes match" if ledger.id is not None else "no hashes at the beginning"
    interrupted = (
        f"; opened again {ledger.interruptions} times without having been closed"
        if ledger.interruptions
        else ""
    )
    closed = "closed" if ledger.sealed else _OPEN
    return f"{ledger.head.records} records, {whole}; {closed}{interrupted}."


def _guarantee(ledger: Ledger, delta: float | None, population: int | None) -> Guarantee | None:
    if delta is None and ledger.budget is None:
        return None
    return ledger.guarantee(delta, population=population)


def _json(said: Guarantee | None) -> dict[str, Any] | None:
    return None if said is None else said.to_json()


def _as_json(found: Found) -> dict[str, Any]:
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


def _print_ledger(found: Found, said: Guarantee | None) -> None:
    from sottovoce.report.entries import rows

    ledger = found.ledger
    click.echo(printable(f"{found.name}: one {ledger.unit}, {ledger.relation}; {_state(ledger)}"))
    for note in found.notes:
        click.echo(printable(f"  {note}"))
    for row in rows(ledger):
        details = f" ({'; '.join(row.details)})" if row.details else ""
        click.echo(printable(f"  {row.times:,} x {row.what}{details}"))
    if not ledger.entries:
        click.echo("  nothing was spent")
    click.echo(printable(str(said)) if said is not None else _NO_DELTA)
