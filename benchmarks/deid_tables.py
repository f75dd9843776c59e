"""Table 2 and Figure 1 of Adelani et al.: what does de-identified training text cost a model?

    python benchmarks/deid_tables.py --data PATH [--full] [--only snips]

PATH holds the public sets (`nlu/`, `ner/`, and for --full `vectors/`). The train part is released
by each strategy, with the annotations as detector; the test part stays as it is. A linear layer on
a frozen MiniLM tells the intent or dialogue act, or the entities (AMI-NE in place of VERBMOBIL).
SNIPS is also learnt with every slot private, as in the paper, with the encoder tuned, and by the
CLC. Runs differ in what they learn from and in what was drawn. Every finished cell is saved; a
second call goes on.
"""

import json
import math
import statistics
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from helpers.deid_cells import (
    ENTITIES,
    EVERY_SLOT,
    FOLDERS,
    NORMAL,
    Kept,
    Row,
    Sizes,
    corpus,
    frozen,
    sample,
    trained,
    transformed,
    vectors_of,
)
from helpers.machine import versions
from helpers.options import options_of, parser_of, tell, without_data, write
from sottovoce.deid import Setting
from sottovoce.errors import InvalidInput
from sottovoce.nlu.fit.recipes import ModelKind
from sottovoce.nlu.fit.settings import Settings

MEANS = "Every cell is the mean of"
NONE = Row(name="none")
REDACT, TYPED, NAMED = PLACEHOLDERS = tuple(
    Row(name=each, setting=Setting(strategy=each)) for each in ("redact", "typed", "named")
)
WORD = Row(name="word", setting=Setting(strategy="word"))
ENTITY = Row(name="entity", setting=Setting(strategy="entity"))
OWN_WORD = Row(name="word, same corpus", setting=WORD.setting, corpus=True)
OWN_ENTITY = Row(name="entity, same corpus", setting=ENTITY.setting, corpus=True)
RESPONSE = Row(name="response, epsilon 3", setting=Setting(strategy="response", epsilon=3))
SEMANTIC = Row(name="semantic, epsilon 3", setting=Setting(strategy="semantic", epsilon=3))
PAPER = (NONE, *PLACEHOLDERS, OWN_WORD, OWN_ENTITY)
"""The strategies as the paper ran them: surrogates by their frequency in the corpus."""
TABLE = (NONE, *PLACEHOLDERS, WORD, ENTITY, OWN_ENTITY, RESPONSE)
CURVE = (
    *(
        Row(name=f"{strategy}, p {p:g}", setting=Setting(strategy=strategy, p=p))
        for strategy in ("redact", "word", "entity")
        for p in (0.9, 0.5)
    ),
    OWN_WORD,
    *(
        Row(name=f"word, same corpus, p {p:g}", setting=Setting(strategy="word", p=p), corpus=True)
        for p in (0.9, 0.5)
    ),
    *(
        Row(name=f"response, epsilon {e:g}", setting=Setting(strategy="response", epsilon=e))
        for e in (1.0, 6.0)
    ),
)

FROZEN, TUNED, CLC = "frozen", "tuned", "clc"
MODELS = {
    TUNED: Settings(tuning="full", learning_rate=3e-3, encoder_rate=0.1, batch_size=16, epochs=3),
    CLC: Settings(model=ModelKind.CLC, batch_size=16),
}

Results = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Scope:
    """How much is run. What is saved with one scope is not mixed with another."""

    runs: int
    sizes: Sizes
    tuned: Sizes
    every: bool = False

    def columns(self) -> Iterator[tuple[str, str, tuple[Row, ...]]]:
        """Set, model and rows, the quickest first."""
        rows = (*TABLE, SEMANTIC) if self.every else TABLE
        for name in FOLDERS:
            if name == ENTITIES and not self.every:
                for model in (TUNED, CLC):
                    yield EVERY_SLOT, model, (NONE, TYPED, OWN_ENTITY)
            if name == EVERY_SLOT:
                yield name, FROZEN, PAPER
            else:
                yield name, FROZEN, (*rows, *CURVE) if name == ENTITIES else rows
        if not self.every:
            return
        for model in (TUNED, CLC):
            for name in FOLDERS:
                yield name, model, PAPER if name == EVERY_SLOT else rows

    def to_json(self) -> Results:
        return asdict(self)


REDUCED = Scope(runs=3, sizes=Sizes(train=300, test=400), tuned=Sizes(train=300, test=400))
QUICK = Scope(runs=1, sizes=Sizes(train=30, test=30), tuned=Sizes(train=30, test=30))
FULL = Scope(
    runs=10,
    sizes=Sizes(train=None, test=None),
    tuned=Sizes(train=None, test=None),
    every=True,
)


def run(
    data: Path,
    scope: Scope,
    path: Path,
    only: Sequence[str] = (),
    say: Callable[[str], None] = lambda _: None,
    kept: Kept | None = None,
) -> Results:
    """Fill every cell that is not in the file yet, all of one run before the next."""
    results = _resumed(path, scope)
    kept = kept or Kept()
    vectors = vectors_of(data) if scope.every else None
    for number in range(scope.runs):
        for name, model, rows in scope.columns():
            left = [row for row in rows if _runs_of(results, name, model, row) <= number]
            if not left or (only and name not in only):
                continue
            sizes = scope.sizes if model == FROZEN else scope.tuned
            drawn = sample(corpus(data, name), sizes, number)
            for row in left:
                learnt, cost = transformed(row, drawn, vectors)
                if model == FROZEN:
                    found = frozen(kept, learnt, drawn)
                else:
                    found = trained(MODELS[model], learnt, drawn)
                found = {key: round(value, 5) for key, value in found.items()}
                cell = results["cells"].setdefault(_key(name, model, row), cost | {"runs": []})
                cell["runs"].append(found)
                write(path, results, indent=1)
                say(f"run {number + 1}, {name}, {model}, {row.name}: {found['value']:.3f}")
        kept.forget()
    return results


def summary(cell: Results) -> tuple[float, float]:
    """The mean over runs, and half of its 95 % interval (chance of the test part and the runs)."""
    values = [each["value"] for each in cell["runs"]]
    tested = statistics.fmean(each["error"] ** 2 for each in cell["runs"])
    between = statistics.variance(values) / len(values) if len(values) > 1 else 0.0
    return statistics.fmean(values), NORMAL * math.sqrt(tested + between)


def pages(results: Results) -> list[list[list[str]]]:
    """Table 2, SNIPS with every slot private, and Figure 1."""
    return [table(results, every_slot=False), table(results, every_slot=True), curve(results)]


def table(results: Results, *, every_slot: bool) -> list[list[str]]:
    """A line a strategy, a column a set and model; scores in per cent."""
    left_out = {row.name for row in CURVE} - {OWN_WORD.name}
    keys = [key.split("/") for key in results["cells"]]
    keys = [key for key in keys if (key[0] == EVERY_SLOT) is every_slot and key[2] not in left_out]
    columns = list(dict.fromkeys((name, model) for name, model, _ in keys))
    lines = [["strategy", *(f"{name}, {model}" for name, model in columns)]]
    for row in dict.fromkeys(row for _, _, row in keys):
        cells = [results["cells"].get(f"{name}/{model}/{row}") for name, model in columns]
        lines.append([row, *("" if cell is None else _percent(*summary(cell)) for cell in cells)])
    return lines


def curve(results: Results) -> list[list[str]]:
    """Figure 1: p and epsilon of one token, true beside claimed, against the F1 of entities."""
    lines = [["strategy", "epsilon", "the paper's", "F1"]]
    for row in sorted((*TABLE, *CURVE), key=lambda row: row.name):
        cell = results["cells"].get(_key(ENTITIES, FROZEN, row))
        if cell is not None:
            true = "none" if cell["epsilon"] is None else f"{cell['epsilon']:.2f}"
            claimed = "" if cell["claimed"] is None else f"{cell['claimed']:.2f}"
            lines.append([row.name, true, claimed, _percent(*summary(cell))])
    return lines


def markdown(lines: Sequence[Sequence[str]]) -> str:
    """The lines as a table for the documentation."""
    head, *rest = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([head, "|" + "---|" * len(lines[0]), *rest])


def runs_told(results: Results) -> str:
    """How many runs the cells are means of, as a sentence or two for the documentation."""
    counts = {key: len(cell["runs"]) for key, cell in results["cells"].items()}
    most = max(counts.values())
    told = f"{MEANS} {most} run{'s' * (most > 1)}"
    fewer = [f"{key} ({count})" for key, count in counts.items() if count < most]
    if fewer:
        told += f"; of fewer, so far: {', '.join(fewer)}"
    if 1 in counts.values():
        told += ". Where there is one run, the interval is for the chance of the test part alone"
    return "\n".join(textwrap.wrap(f"{told}.", width=100, break_on_hyphens=False))


def on_page(page: str, results: Results) -> str:
    """The page with every table of it replaced, in their order, and the number of runs."""
    blocks = page.split("\n\n")
    left = iter(pages(results))
    told = [markdown(next(left)) if block.startswith("| strategy") else block for block in blocks]
    told = [runs_told(results) if block.startswith(MEANS) else block for block in told]
    if next(left, None) is not None:
        raise InvalidInput("Expected a page with three tables of strategies, got fewer.")
    return "\n\n".join(told)


def _percent(value: float, half: float) -> str:
    return f"{100 * value:.1f} ± {100 * half:.1f}"


def _key(name: str, model: str, row: Row) -> str:
    return f"{name}/{model}/{row.name}"


def _runs_of(results: Results, name: str, model: str, row: Row) -> int:
    return len(results["cells"].get(_key(name, model, row), {"runs": []})["runs"])


def _resumed(path: Path, scope: Scope) -> Results:
    fresh = {
        "scope": scope.to_json(),
        "versions": versions("sottovoce", "torch", "transformers"),
        "cells": {},
    }
    if not path.exists():
        return fresh
    saved: Results = json.loads(path.read_text(encoding="utf-8"))
    # More runs of the same are welcome.
    if saved["scope"] | {"runs": scope.runs} != fresh["scope"]:
        raise InvalidInput(f"Expected results of the same sizes in {path}, got others; move them.")
    return saved | {"scope": fresh["scope"]}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = parser_of(__file__, __doc__, data="all of it")
    parser.add_argument("--full", action="store_true", help="all utterances, models and ten runs")
    parser.add_argument("--runs", type=int, help="how many runs")
    parser.add_argument("--only", nargs="*", default=[], choices=list(FOLDERS), help="these sets")
    parser.add_argument(
        "--page", type=Path, help="Markdown page whose tables are brought up to date"
    )
    options = options_of(parser, arguments, quick={"only": ["snips"]})
    if not (options.data / "nlu").is_dir():
        without_data(options, "nlu")
    torch.set_num_threads(1)
    scope = QUICK if options.quick else FULL if options.full else REDUCED
    scope = replace(scope, runs=options.runs or scope.runs)
    console = Console()
    results = run(options.data, scope, options.output, options.only, say=console.log)
    tell(options.output)
    titles = ("Table 2", "SNIPS, every slot private", "Figure 1: AMI-NE")
    for title, lines in zip(titles, pages(results), strict=True):
        if len(lines) == 1:
            continue
        shown = Table(*lines[0], title=title)
        for line in lines[1:]:
            shown.add_row(*line)
        console.print(shown)
    if options.page is not None:
        text = on_page(options.page.read_text(encoding="utf-8").rstrip("\n"), results)
        options.page.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
