"""The page of results: one short table a topic, from benchmarks/results, with its command.

Numbers are never typed by hand. A file without a topic (see `topics.py`) is still on the page, as
the first list of records in it, so that a new benchmark shows up from its first run.
"""

import json
import re
from pathlib import Path
from typing import Any

from docs.generators.tables import Rows, records, table
from docs.generators.topics import TOPICS, Topic, training_cost

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
TRAINING = ROOT / "docs" / "reproductions" / "training-cost.md"

INTRODUCTION = """\
# Results

<!-- Made by `make docs` from benchmarks/results; do not edit. -->

One table per topic. The command above each table writes the file that the table is made from; the
file has the details: every run, all settings, versions. The linked page explains the figures.

All runs are from a shared machine with two cores. Ratios compare systems that took turns in the
same run. Absolute times say little about other machines.
"""

# Where a file does not say how it was made, and the script alone would not make all of it.
COMMANDS = {
    "deid": "python benchmarks/deid.py --data FOLDER",
    "deid_tables": "python benchmarks/deid_tables.py --data FOLDER",
    "edpsgd_tables": "python benchmarks/edpsgd_tables.py --data FOLDER --vectors FILE",
    "fmp_tables": "python benchmarks/fmp_tables.py --data FOLDER",
}

_BLOCK = re.compile(r"(<!-- table: .*? -->\n).*?(<!-- /table -->)", re.DOTALL)


def page() -> str:
    """The whole page, a section for every topic."""
    known = {topic.file for topic in TOPICS}
    others = [path.stem for path in sorted(RESULTS.glob("*.json")) if path.stem not in known]
    topics = (*TOPICS, *map(unlisted, others))
    return "\n".join([INTRODUCTION, *(section(topic) for topic in topics)])


def unlisted(stem: str) -> Topic:
    """A topic for a file that has none yet."""
    return Topic(stem.replace("_", " ").capitalize(), stem, "", records)


def section(topic: Topic) -> str:
    data = json.loads((RESULTS / f"{topic.file}.json").read_text())
    more = f" [More]({topic.page})." if topic.page else ""
    parts = [
        f"## {topic.title}",
        f"{topic.about}{more}".strip(),
        f"```\n{command(topic.file, data)}\n```",
        table(filled(topic.title, topic.rows(data))),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def filled(title: str, rows: Rows) -> Rows:
    """The rows; a topic without any is out of date, and says so."""
    if not rows:
        raise ValueError(f"Expected rows for {title!r}, got none: bring its topic up to date.")
    return rows


def training_page() -> str:
    """The page on the cost of training as it is, with its table made anew."""
    data = json.loads((RESULTS / "training.json").read_text())
    text = TRAINING.read_text()
    if len(_BLOCK.findall(text)) != 1:
        raise ValueError(f"Expected one block of a table in {TRAINING.name}, got another number.")
    return _BLOCK.sub(lambda found: f"{found[1]}\n{table(training_cost(data))}\n\n{found[2]}", text)


def training_plot() -> str:
    """The plot of the benchmark, copied to where pages can show it."""
    return (RESULTS / "training.svg").read_text()


def command(stem: str, data: Any) -> str:
    """What to run: as the file says, or the script of the same name without options."""
    if isinstance(data, dict) and isinstance(data.get("command"), str):
        return str(data["command"])
    if stem in COMMANDS:
        return COMMANDS[stem]
    script = ROOT / "benchmarks" / f"{stem}.py"
    if not script.exists():
        raise ValueError(f"Expected a script benchmarks/{stem}.py for results/{stem}.json.")
    return f"python benchmarks/{stem}.py"
