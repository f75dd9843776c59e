"""A training on the terminal: how far it is, and Ctrl-C."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from sottovoce.nlu.fit.loop import Progress


@contextmanager
def stopping(*, alone: bool = True) -> Iterator[Callable[[], bool]]:
    """The first Ctrl-C asks for a stop after the running step, the second stops at once.

    Several workers are stopped by torchrun, all at once; they go on from their last checkpoints.
    """
    if not alone or threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    asked = False

    def ask(*_: object) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        click.echo("Stopping after this step (again to stop at once).", err=True)

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def steps_bar(title: str, *, quiet: bool = False) -> "Iterator[Callable[[Progress], None]]":
    """Steps, loss, spent epsilon (of a private training) and time left, on a terminal."""
    if quiet or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar

    from sottovoce.privacy.guarantee import rounded_up

    bar = Bar(
        TextColumn(title),
        BarColumn(),
        TextColumn("{task.fields[state]}"),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task("", total=None, state="preparing")

    def tell(moment: "Progress") -> None:
        spent = "" if moment.epsilon is None else f"  epsilon {rounded_up(moment.epsilon)} spent"
        minutes, seconds = divmod(round(moment.seconds_left), 60)
        bar.update(
            task,
            completed=moment.step,
            total=moment.steps,
            state=f"{moment.step:,} of {moment.steps:,} steps  loss {moment.loss:.3f}{spent}  "
            f"{minutes}:{seconds:02} left",
        )

    with bar:
        yield tell
