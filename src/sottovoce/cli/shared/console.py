"""Console output of all verbs: progress bars on stderr, results as JSON.

Print claims next to guarantees, and scores.
"""

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sottovoce.nlu.metrics.scores import DISPLAY_NAMES
from sottovoce.privacy.guarantee import Guarantee, Statement, claimed_epsilon, true_epsilon

SHOW_AFTER = 2.0
"""Seconds of work before a progress bar appears."""
REFRESH_INTERVAL = 0.1
"""Seconds between updates of the bar."""

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

    The bar appears only on a terminal, and only after `SHOW_AFTER` seconds. Where the total is
    known, or `fraction` tells the share that is done, it shows the percentage and the time left.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
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


def print_statement(statement: Statement, console: Console | None = None) -> None:
    """Print one recipe: both epsilons, the guarantee in words, its assumptions and its gaps."""
    console = console or Console()
    claimed, guarantee = statement.claimed, statement.guarantee
    table = Table(show_header=True, header_style="bold", box=None, padding=(0, 2, 0, 0))
    for heading in ("", "epsilon", "delta", "how"):
        table.add_column(heading)
    table.add_row("claimed", claimed_epsilon(claimed), f"{claimed.delta:g}", claimed.how)
    how = guarantee.accountant if guarantee.holds else "no guarantee"
    style = "green" if guarantee.holds else "red"
    table.add_row(
        "guarantee", f"[{style}]{true_epsilon(guarantee)}[/]", f"{guarantee.delta:g}", how
    )
    console.print(table)
    console.print()
    if statement.effective_noise_multiplier is not None:
        noise = statement.effective_noise_multiplier
        console.print(f"Effective noise multiplier: {noise:.4g} (in the first release)")
    sentence = str(
        Guarantee.from_json(guarantee.to_json() | {"assumptions": [], "not_covered": []})
    )
    console.print(sentence, highlight=False)
    if guarantee.holds:
        _print_list(console, "Assuming:", guarantee.assumptions)
    _print_list(console, "Not covered:", guarantee.not_covered)


def print_comparison(rows: Iterable[tuple[str, Statement]], console: Console | None = None) -> None:
    """Print several recipes in one table; below, the reasons why some have no guarantee."""
    console = console or Console()
    table = Table(header_style="bold", box=SIMPLE_HEAD, padding=(0, 1))
    table.add_column("recipe", no_wrap=True)
    table.add_column("claimed", justify="right")
    table.add_column("true", justify="right")
    table.add_column("protects one")
    notes: list[str] = []
    for name, statement in rows:
        guarantee = statement.guarantee
        if guarantee.holds:
            true = f"[green]{true_epsilon(guarantee)}[/]"
        else:
            notes.append("; ".join(guarantee.reasons))
            true = f"[red]none ({len(notes)})[/]"
        table.add_row(name, claimed_epsilon(statement.claimed), true, str(guarantee.unit))
    console.print(table)
    for number, note in enumerate(notes, start=1):
        console.print(Padding(f"{number}. {note}.", (0, 0, 0, 2)), style="dim", highlight=False)


def _print_list(console: Console, heading: str, sentences: Iterable[str]) -> None:
    sentences = list(sentences)
    if sentences:
        console.print(heading, style="dim")
    for sentence in sentences:
        console.print(Padding(f"- {sentence}", (0, 0, 0, 2)), style="dim", highlight=False)


def print_scores(title: str, scores: Mapping[str, Any], console: Console | None = None) -> None:
    """Print the scores of a run (name -> value, low, high) in percent."""
    # The title contains a file name, which must not be parsed as markup.
    table = Table(title=Text(title), title_justify="left", box=SIMPLE_HEAD, header_style="bold")
    table.add_column("score")
    table.add_column("%", justify="right")
    table.add_column("95 % interval", justify="right")
    for name, found in scores.items():
        low, high = (f"{100 * found[end]:.1f}" for end in ("low", "high"))
        table.add_row(
            DISPLAY_NAMES.get(name, name), f"{100 * found['value']:.1f}", f"{low} - {high}"
        )
    (console or Console()).print(table)
