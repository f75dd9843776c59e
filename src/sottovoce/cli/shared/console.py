"""Console output of all verbs: progress bars on stderr, results as JSON."""

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import click

SHOW_AFTER = 2.0
"""Seconds of work before a progress bar appears."""
REFRESH_INTERVAL = 0.1
"""Seconds between updates of the bar."""
FIRST_LINE, LINE_INTERVAL = 5.0, 30.0
"""Without a terminal: seconds before the first line of progress, and between lines."""

Item = TypeVar("Item")
Command = TypeVar("Command", bound=Callable[..., Any])


def json_option(command: Command) -> Command:
    """Add the option `--json`, passed to the verb as `as_json`."""
    option = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
    return option(command)


def print_json(result: object, *, err: bool = False) -> None:
    """Print a result as JSON."""
    click.echo(json.dumps(result, ensure_ascii=False, indent=2, allow_nan=False), err=err)


@contextmanager
def progress(
    description: str,
    *,
    unit: str = "",
    total: int | None = None,
    fraction: Callable[[], float | None] = lambda: None,
) -> Iterator[Callable[[int], None]]:
    """Yield a function that takes the count done so far and updates a progress bar.

    The bar appears after `SHOW_AFTER` seconds. Where the total is known, or `fraction` tells the
    share that is done, it shows the percentage and the time left. Without a terminal, a line is
    printed now and then.
    """
    if not sys.stderr.isatty():
        say = lines()
        of_all = "" if total is None else f" of {total:,}"
        yield lambda count: say(lambda: f"{description}: {count:,}{of_all} {unit}".rstrip())
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[count]:,} " + unit),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task(description, total=None if total is None else 1.0, count=0)
    next_update = time.monotonic() + SHOW_AFTER

    def update(count: int) -> None:
        nonlocal next_update
        if time.monotonic() > next_update:
            bar.start()
            done = fraction() if total is None else count / max(1, total)
            if done is None:
                bar.update(task, count=count)
            else:
                bar.update(task, count=count, completed=done, total=1.0)
            next_update = time.monotonic() + REFRESH_INTERVAL

    try:
        yield update
    finally:
        bar.stop()


def lines() -> Callable[[Callable[[], str]], None]:
    """A function that prints a line on stderr now and then, and drops the lines in between."""
    due = time.monotonic() + FIRST_LINE

    def say(line: Callable[[], str]) -> None:
        nonlocal due
        if time.monotonic() >= due:
            click.echo(line(), err=True)
            due = time.monotonic() + LINE_INTERVAL

    return say


def track(
    items: Iterable[Item], description: str, *, unit: str = "", total: int | None = None
) -> Iterator[Item]:
    """Yield the items, and show a progress bar; a reader tells which part of its file is read."""
    read = partial(getattr, items, "fraction", None)
    with progress(description, unit=unit, total=total, fraction=read) as update:
        for count, item in enumerate(items, 1):
            update(count)
            yield item


def printable(text: str) -> str:
    """Text from a file, safe to print on a terminal: control characters are replaced.

    >>> printable("a\\x1b[2Jb")
    'a\\ufffd[2Jb'
    """
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
