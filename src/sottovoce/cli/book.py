"""`sottovoce book`: one ledger over everything released about the same people."""

import sys
from typing import Any

import click

from sottovoce.cli.shared.book import open_book
from sottovoce.cli.shared.console import json_option, print_json, printable


@click.group()
def book() -> None:
    """Keep one signed book over everything released about the same people.

    BOOK is a file (SQLite) or a URL such as postgresql://server/books. Pass it to train, deid,
    federate, tune and audit with --book, or set SOTTOVOCE_BOOK.

    \b
    Examples:
      sottovoce book init people.book --policy moderate
      sottovoce deid calls.jsonl -o out.jsonl --book people.book
      sottovoce book show people.book
    """


key_option = click.option(
    "--key",
    envvar="SOTTOVOCE_BOOK_KEY",
    show_envvar=True,
    help="Ed25519 private key of the book [default: BOOK.key, for a file].",
)


@book.command()
@click.argument("place", metavar="BOOK")
@click.option(
    "--policy", "policy_name", default="moderate", show_default=True,
    help="strict, moderate, research, safe-harbor, or a TOML file; it stays in the book.",
)  # fmt: skip
@key_option
def init(place: str, policy_name: str, key: str | None) -> None:
    """Start a new BOOK under a policy, and make its key unless there is one.

    \b
    Example: sottovoce book init people.book --policy strict
    """
    from sottovoce.book import Book
    from sottovoce.privacy.policy import policy_of

    made = Book.create(place, policy_of(policy_name), key)
    click.echo(
        f"Started a book under the policy {made.policy.name}. Whoever has its key can write."
    )
    click.echo(f"Anchor, to store elsewhere: {made.anchor}")


@book.command()
@click.argument("place", metavar="BOOK", envvar="SOTTOVOCE_BOOK")
@click.option("--people", help="Show only this population.")
@json_option
def show(place: str, people: str | None, as_json: bool) -> None:
    """Print what was released about whom, the totals for one person, and what is left.

    \b
    Example: sottovoce book show people.book
    """
    opened = open_book(place)
    entries = [each for each in opened.entries() if people in (None, each.people)]
    totals = {name: each for name, each in opened.totals().items() if people in (None, name)}
    policy = opened.policy
    if as_json:
        print_json(
            {
                "policy": policy.name,
                "anchor": opened.anchor,
                "entries": [each.to_json() for each in entries],
                "totals": [each.to_json(policy) for each in totals.values()],
            }
        )
        return
    for each in entries:
        state = "" if each.settled else " (open: counted as spent)"
        click.echo(printable(f"{each.at}  {each.verb}  {each.people}{state}"))
        alone = each.to_json()["person"]
        click.echo(printable(f"  {_words(alone) if alone else each.note or 'nothing was spent'}"))
    for name, found in totals.items():
        click.echo(printable(f"Total for one person of {name}: {_words(found.person.to_json())}"))
        left = found.left(policy)
        if left is not None:
            click.echo(f"  left under the policy {policy.name}: epsilon {left:.3g}")
        for unit, total in found.by_unit.items():
            click.echo(printable(f"  to one {unit}: {_words(total.to_json())}"))
        if len(found.by_year) > 1:
            for year, total in found.by_year.items():
                click.echo(printable(f"  in {year}: {_words(total.to_json())}"))
    if not entries:
        click.echo("Nothing was released.")
    click.echo(f"Anchor, to store elsewhere: {opened.anchor}")


@book.command()
@click.argument("place", metavar="BOOK", envvar="SOTTOVOCE_BOOK")
@click.option("--anchor", help="Head of the book as it was printed earlier, N:HASH.")
@click.option("--key", "public", help="Public key that must have signed the book.")
@json_option
def check(place: str, anchor: str | None, public: str | None, as_json: bool) -> None:
    """Check the chain, the signatures and the anchor of BOOK. Exit code 1: it was altered.

    \b
    Example: sottovoce book check people.book --anchor 12:4f0c...
    """
    from sottovoce.errors import LedgerDamaged
    from sottovoce.io.signatures import fingerprint, read_public_key

    try:
        opened = open_book(place)
        if anchor is not None:
            opened.check_anchor(anchor)
        if public is not None and read_public_key(public) != opened.public_key:
            raise LedgerDamaged(f"Expected a book signed with {public}, got another key.")
    except LedgerDamaged as problem:
        if as_json:
            print_json({"intact": False, "problem": str(problem)})
        click.echo(printable(f"Problem: {problem}"), err=True)
        sys.exit(1)
    still_open = [each.id for each in opened.entries() if not each.settled]
    result = {
        "intact": True,
        "records": len(opened.records),
        "open": still_open,
        "anchor": opened.anchor,
        "key": fingerprint(opened.public_key),
    }
    if as_json:
        print_json(result)
        return
    click.echo(
        f"{len(opened.records)} records, hashes and signatures match (key {result['key']}); "
        f"{len(still_open)} releases are open and count as spent."
    )
    click.echo(f"Anchor, to store elsewhere: {opened.anchor}")


def _words(total: dict[str, Any]) -> str:
    given = total["guarantee"]
    if given is None or given["verdict"] != "holds":
        reasons = total["reasons"] or (given or {}).get("reasons") or ["no guarantee"]
        return f"no total for a user: {reasons[0]}"
    return f"epsilon {given['epsilon']:.4g}, delta {given['delta']:g} ({total['way']})"
