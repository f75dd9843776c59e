"""What every verb says in the same way: progress on stderr, results as JSON or as tables."""

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

PATIENCE = 2.0
"""Seconds of work before a progress bar appears."""
REFRESH = 0.1
"""Seconds between two updates of it."""

Item = TypeVar("Item")
Command = TypeVar("Command", bound=Callable[..., Any])


def json_option(command: Command) -> Command:
    """The option `--json`, passed to the verb as `as_json`."""
    option = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
    return option(command)


def print_json(result: object, *, err: bool = False) -> None:
    """Print a result as JSON."""
    click.echo(json.dumps(result, ensure_ascii=False, indent=2, allow_nan=False), err=err)


@contextmanager
def progress(
    description: str, *, unit: str = "", total: int | None = None
) -> Iterator[Callable[[int], None]]:
    """A function to be told how many are done; the bar shows on a terminal, after two seconds."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} " + unit),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task(description, total=total)
    next_look = time.monotonic() + PATIENCE

    def tell(count: int) -> None:
        nonlocal next_look
        if time.monotonic() > next_look:
            bar.start()
            bar.update(task, completed=count)
            next_look = time.monotonic() + REFRESH

    try:
        yield tell
    finally:
        bar.stop()


def track(
    items: Iterable[Item], description: str, *, unit: str = "", total: int | None = None
) -> Iterator[Item]:
    """Pass the items on, and show how many went by."""
    with progress(description, unit=unit, total=total) as tell:
        for count, item in enumerate(items, 1):
            tell(count)
            yield item


def printable(text: str) -> str:
    """Text from a file, safe on a terminal: control characters are shown, not obeyed.

    >>> printable("a\\x1b[2Jb")
    'a\\ufffd[2Jb'
    """
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
