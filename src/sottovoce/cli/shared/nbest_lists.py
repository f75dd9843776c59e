"""Reading N-best lists: format, clients and references, which many formats keep in other files."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from sottovoce.cli.shared.options import Named
from sottovoce.errors import InvalidInput
from sottovoce.personalize.nbest.formats import FORMATS, read_nbest, read_table
from sottovoce.personalize.nbest.lists import NBest, attach

Command = TypeVar("Command", bound=Callable[..., Any])
_OPTIONS = ("source_format", "beam_size", "clients", "utt2spk", "references", "text")


def nbest_options(command: Command) -> Command:
    """Add the options of `read_lists`."""
    options = [
        click.option("--from", "source_format", type=Named(FORMATS), default="jsonl",
                     show_default=True, help="Format of the N-best lists."),
        click.option("--beam-size", type=click.IntRange(min=1),
                     help="Hypotheses per utterance, with --from nemo."),
        click.option("--clients", metavar="FILE|COLUMN",
                     help="Clients: a file with lines `utterance client`, or a column of the "
                     "jsonl records."),
        click.option("--utt2spk", metavar="FILE", help="The same file, as Kaldi calls it."),
        click.option("--references", metavar="FILE",
                     help="References: a file with lines `utterance words`, or NeMo's manifest."),
        click.option("--text", metavar="FILE", help="The same file, as Kaldi calls it."),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def read_lists(path: str, options: dict[str, Any]) -> list[NBest]:
    """Read the lists with their clients and references; removes its options from `options`."""
    given = {name: options.pop(name) for name in _OPTIONS}
    format = given["source_format"]
    clients = _one_of(given, "clients", "utt2spk")
    references = _one_of(given, "references", "text")
    column = clients if clients is not None and not Path(clients).is_file() else None
    if column is not None and (given["utt2spk"] or format != "jsonl"):
        raise InvalidInput(f"Expected a file of clients, got {column}: there is no such file.")
    manifest = references if format == "nemo" and _is_manifest(references) else None
    lists: list[NBest] = list(
        read_nbest(
            path,
            format,
            beam_size=given["beam_size"],
            manifest=manifest,
            client_column=column or "client",
        )
    )
    if clients is not None and column is None:
        named = read_table(clients)
        if missing := [each.id for each in lists if not named.get(each.id)]:
            raise InvalidInput(
                f"Expected a client for every utterance in {clients}, got none for {missing[0]!r} "
                f"and {len(missing) - 1} others."
            )
        lists = list(attach(lists, clients=named))
    if references is not None and manifest is None:
        spoken = read_table(references)
        if not any(each.id in spoken for each in lists):
            raise InvalidInput(
                f"Expected references of these utterances in {references}, got none: the first "
                f"utterance is {lists[0].id!r}."
            )
        lists = list(attach(lists, references=spoken))
    return lists


def with_clients(lists: list[NBest]) -> list[NBest]:
    """Lists in which every utterance has a client; warns about those that had none."""
    missing = sum(each.client is None for each in lists)
    if missing:
        click.echo(
            f"Warning: {missing:,} of {len(lists):,} lists have no client. Each counts as a person "
            "without a history, so nothing personal is learnt: name the clients with --clients.",
            err=True,
        )
    return [each if each.client is not None else replace(each, client=each.id) for each in lists]


def _one_of(given: dict[str, Any], name: str, other: str) -> str | None:
    if given[name] is not None and given[other] is not None:
        raise InvalidInput(f"Expected --{name} or --{other}, got both: drop one.")
    value: str | None = given[name] if given[name] is not None else given[other]
    return value


def _is_manifest(path: str | None) -> bool:
    if path is None:
        return False
    with Path(path).open("rb") as stream:
        return stream.read(1) == b"{"
