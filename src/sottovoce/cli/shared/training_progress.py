"""Progress bar and Ctrl-C handling of training runs."""

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
    """Ctrl-C stops after the current step; a second Ctrl-C stops at once.

    Yields a function that returns whether to stop. torchrun stops several workers itself; they
    resume from their last checkpoints.
    """
    if not alone or threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    requested = False

    def request(*_: object) -> None:
        nonlocal requested
        if requested:
            raise KeyboardInterrupt
        requested = True
        click.echo("Stopping after this step (Ctrl-C again to stop at once).", err=True)

    previous = signal.signal(signal.SIGINT, request)
    try:
        yield lambda: requested
    finally:
        signal.signal(signal.SIGINT, previous)


@contextmanager
def steps_bar(title: str, *, quiet: bool = False) -> "Iterator[Callable[[Progress], None]]":
    """A progress bar with steps, loss, epsilon spent (private training only) and time left."""
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

    def update(now: "Progress") -> None:
        spent = "" if now.epsilon is None else f"  epsilon {rounded_up(now.epsilon)} spent"
        minutes, seconds = divmod(round(now.seconds_left), 60)
        bar.update(
            task,
            completed=now.step,
            total=now.steps,
            state=f"{now.step:,} of {now.steps:,} steps  loss {now.loss:.3f}{spent}  "
            f"{minutes}:{seconds:02} left",
        )

    with bar:
        yield update
