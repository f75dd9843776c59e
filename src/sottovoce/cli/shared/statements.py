"""Print claims next to guarantees, and scores.

Apart from `console`, because verbs import this file when they print and not for `--help`.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sottovoce.nlu.metrics.scores import DISPLAY_NAMES
from sottovoce.privacy.guarantee import Guarantee, Statement, claimed_epsilon, true_epsilon


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
