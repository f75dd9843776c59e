"""Scores with their intervals, printed for people."""

from collections.abc import Mapping
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sottovoce.nlu.metrics.score_names import SCORE_NAMES


def print_scores(title: str, scores: Mapping[str, Any], console: Console | None = None) -> None:
    """Scores as a run keeps them: name -> value, low, high; all in percent."""
    # A title has the name of a file in it, which is text and not markup.
    table = Table(title=Text(title), title_justify="left", box=SIMPLE_HEAD, header_style="bold")
    table.add_column("score")
    table.add_column("%", justify="right")
    table.add_column("95 % interval", justify="right")
    for name, found in scores.items():
        low, high = (f"{100 * found[end]:.1f}" for end in ("low", "high"))
        table.add_row(SCORE_NAMES.get(name, name), f"{100 * found['value']:.1f}", f"{low} - {high}")
    (console or Console()).print(table)
