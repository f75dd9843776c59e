"""Reading a corpus: options, opening it, and reporting rejected records."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from sottovoce.cli.shared.options import Named
from sottovoce.corpora import FORMATS, Columns, Reader, read
from sottovoce.corpora.formats import recognise
from sottovoce.corpora.lines import LINE_LIMIT
from sottovoce.corpora.tables import FIELDS

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

    With `by_content`, a format that the name does not tell is recognised from the first line, and
    records without text are kept.
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
        keep_empty=by_content,
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
