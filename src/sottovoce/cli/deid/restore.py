"""`sottovoce deid restore`: bring back the original of a release, with its vault and key."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import click

from sottovoce.cli.deid.options import read_key
from sottovoce.cli.shared.console import json_option, print_json, track
from sottovoce.cli.shared.reading import open_corpus, reading_options
from sottovoce.corpora import Utterance, write
from sottovoce.corpora.formats import TABLES
from sottovoce.deid import Vault
from sottovoce.deid.detect.detector import utterance_of
from sottovoce.deid.replace.operators import decrypted
from sottovoce.errors import InvalidInput


@click.command()
@click.argument("released", metavar="RELEASED")
@click.option("--key", "key_file", required=True, help="The key file of the release.")
@click.option("--vault", "vault_file", help="The vault of the release; encrypted values need none.")
@click.option(
    "-o", "--output", default="-", show_default=True, help="File to write; - is standard output."
)
@reading_options
@json_option
def restore(
    released: str,
    key_file: str,
    vault_file: str | None,
    output: str,
    as_json: bool,
    **reading: Any,
) -> None:
    """Bring back the original of RELEASED. The result is as private as the original.

    Texts that were released with the vault come back exactly. In other text, such as an edited
    copy, the surrogates of the vault are looked for.

    \b
    Example:
      sottovoce deid restore released.jsonl --vault calls.vault --key calls.key -o calls.jsonl
    """
    key = read_key(key_file)
    vault = Vault(key) if vault_file is None else Vault.load(vault_file, key)
    reader = open_corpus(released, by_content=True, **reading)
    counts: Counter[str] = Counter()
    utterances = track(reader, "Restoring", unit="utterances")
    columns = reader.columns if reader.format in TABLES else None
    write(output, _restored(vault, utterances, counts), reader.format, columns=columns)
    if as_json:
        print_json({"exact": counts["exact"], "searched": counts["searched"]}, err=output == "-")
        return
    click.echo(
        f"Restored {counts['exact']:,} texts exactly; looked for surrogates in "
        f"{counts['searched']:,}.",
        err=True,
    )


def _restored(
    vault: Vault, utterances: Iterator[Utterance], counts: Counter[str]
) -> Iterator[Utterance]:
    for utterance in utterances:
        found = vault.restored(utterance)
        if found is not None:
            counts["exact"] += 1
            yield found
            continue
        counts["searched"] += 1
        text = vault.restored_text(decrypted(utterance.text, vault))
        if text == utterance.text:
            yield utterance
            continue
        plain = utterance_of(text, utterance.user)
        if {*utterance.slots} - {"O"}:
            raise InvalidInput(
                "Expected labelled text as it was released, got an edited one: its labels cannot "
                "be restored."
            )
        yield replace(utterance, tokens=plain.tokens, slots=plain.slots, text=text)
