"""`sottovoce deid verify`: check a release against its manifest."""

import click

from sottovoce.cli.shared.console import json_option, print_json
from sottovoce.deid.files.manifest import verify as verify_release
from sottovoce.privacy.guarantee import Guarantee


@click.command()
@click.argument("released", metavar="OUT")
@click.option("--input", "source", help="Also check the original corpus.")
@json_option
def verify(released: str, source: str | None, as_json: bool) -> None:
    """Check OUT against its manifest, OUT.run.json: hashes, ledgers and guarantees.

    \b
    Example:
      sottovoce deid verify released.jsonl --input calls.jsonl
    """
    content = verify_release(released, source=source)
    if as_json:
        print_json({"verified": released, "guarantee": content["guarantee"]})
        return
    click.echo(f"{released} matches its manifest.")
    click.echo(str(Guarantee.from_json(content["guarantee"])))
