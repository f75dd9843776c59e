"""The tables of `sottovoce corpus show`, 80 columns wide."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sottovoce.cli.shared.console import printable
from sottovoce.corpora import CorpusStatistics

ROWS = 10
SIDE_BY_SIDE = 4
BAR_WIDTH = 16
NAME_WIDTH = 28
LENGTH_STARTS = (1, 2, 3, 4, 5, 6, 8, 11, 16, 21, 31, 51, 101)
FIRST_POINT = 100

Parts = Mapping[str, CorpusStatistics]
Counts = Mapping[str, Mapping[str, int]]


def print_corpus(parts: Parts, duplicates: Counts) -> None:
    """Print all statistics."""
    console = Console(highlight=False)
    for group in _groups(parts):
        _print(console, "Size", _sizes(group))
    for title, counts in (
        ("Intents", {name: part.intents for name, part in parts.items()}),
        ("Slots", {name: part.slots for name, part in parts.items()}),
    ):
        total = _total(counts)
        if total:
            names = [name for name, _ in total.most_common(ROWS)]
            more = f"and {len(total) - ROWS:,} more" if len(total) > ROWS else ""
            _print(console, title, _bars(counts, names, console), more)
    lengths = {name: _binned(part.lengths) for name, part in parts.items()}
    _print(console, "Tokens in an utterance", _bars(lengths, _bin_names(parts), console))
    for group in _groups(parts):
        _print(console, "Distinct words by number of tokens", _growth(group))
    if len(parts) > 1:
        for group in _groups(parts):
            title = "Utterances that also occur in another part"
            _print(console, title, _duplicates(parts, duplicates, list(group)))


def _sizes(parts: Parts) -> Table:
    table = _table(parts)
    rows = {
        "utterances": [f"{part.utterances:,}" for part in parts.values()],
        "repeated utterances": [f"{part.repeated:,}" for part in parts.values()],
        "tokens": [f"{part.tokens:,}" for part in parts.values()],
        "distinct words": [f"{part.words:,}" for part in parts.values()],
        "mean length": [f"{part.tokens / part.utterances:.1f}" for part in parts.values()],
        "longest": [f"{max(part.lengths):,}" for part in parts.values()],
        "users": [f"{part.users:,}" for part in parts.values()],
        "intents": [f"{len(part.intents):,}" for part in parts.values()],
        "slot types": [f"{len(part.slots):,}" for part in parts.values()],
        "annotated spans": [f"{sum(part.slots.values()):,}" for part in parts.values()],
    }
    for name, cells in rows.items():
        table.add_row(name, *cells)
    return table


def _bars(counts: Counts, names: Sequence[str], console: Console) -> Table:
    """One row per name: its count in each part (or in total), and its overall share as a bar."""
    if len(counts) > SIDE_BY_SIDE:
        counts = {"all": _total(counts)}
    total = _total(counts)
    longest = max(total.values())
    block = "█" if console.encoding.lower().startswith("utf") else "#"
    table = _table(counts)
    table.add_column("share", justify="right")
    table.add_column("", width=BAR_WIDTH)
    for name in names:
        cells = [f"{found.get(name, 0):,}" for found in counts.values()]
        bar = block * round(BAR_WIDTH * total[name] / longest)
        table.add_row(_text(name), *cells, f"{total[name] / total.total():.1%}", bar)
    return table


def _growth(parts: Parts) -> Table:
    table = _table(parts)
    curves = [dict(part.growth) for part in parts.values()]
    for tokens in sorted({*curves[0]}.union(*curves)):
        if tokens >= FIRST_POINT and str(tokens).rstrip("0") in ("1", "2", "5"):
            cells = [f"{curve[tokens]:,}" if tokens in curve else "" for curve in curves]
            table.add_row(f"{tokens:,}", *cells)
    table.add_row("all", *(f"{part.words:,}" for part in parts.values()))
    return table


def _duplicates(parts: Parts, duplicates: Counts, others: Sequence[str]) -> Table:
    table = _table(f"in {other}" for other in others)
    for name, part in parts.items():
        found = duplicates[name]
        cells = [
            f"{found[other]:,} ({found[other] / part.utterances:.1%})" if other in found else ""
            for other in others
        ]
        table.add_row(_text(f"of {name}"), *cells)
    return table


def _table(headings: Iterable[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("", overflow="ellipsis", no_wrap=True, max_width=NAME_WIDTH)
    for heading in headings:
        table.add_column(_text(heading), justify="right", overflow="fold")
    return table


def _print(console: Console, title: str, table: Table, note: str = "") -> None:
    console.print(title, style="bold")
    console.print(table)
    if note:
        console.print(note)
    console.print()


def _groups(parts: Parts) -> Iterator[dict[str, CorpusStatistics]]:
    """Groups of as many parts as fit side by side."""
    names = list(parts)
    for start in range(0, len(names), SIDE_BY_SIDE):
        yield {name: parts[name] for name in names[start : start + SIDE_BY_SIDE]}


def _total(counts: Counts) -> Counter[str]:
    total: Counter[str] = Counter()
    for found in counts.values():
        total.update(found)
    return total


def _binned(lengths: Mapping[int, int]) -> Counter[str]:
    binned: Counter[str] = Counter()
    for length, count in lengths.items():
        binned[_bin_name(length)] += count
    return binned


def _bin_names(parts: Parts) -> list[str]:
    """All bins from the shortest utterance to the longest."""
    lengths = {length for part in parts.values() for length in part.lengths}
    names = [_bin_name(start) for start in LENGTH_STARTS]
    return names[names.index(_bin_name(min(lengths))) : names.index(_bin_name(max(lengths))) + 1]


def _bin_name(length: int) -> str:
    start = max(start for start in LENGTH_STARTS if start <= length)
    if start == LENGTH_STARTS[-1]:
        return f"over {start - 1}"
    last = LENGTH_STARTS[LENGTH_STARTS.index(start) + 1] - 1
    return str(start) if start == last else f"{start} to {last}"


def _text(value: str) -> Text:
    return Text(printable(value))
