"""The page of results: every JSON file of benchmarks/results as tables, with its command.

`VIEWS` says which columns of a file are worth reading; a file without a view is laid out as it
stands, so that a new benchmark is on the page from its first run. Numbers are never typed by hand.
"""

import ast
import json
from pathlib import Path
from typing import Any, NamedTuple

from docs.generators.tables import Rows, laid_out, rows_at, table, told

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"

INTRODUCTION = """\
# Results

<!-- Made by `make docs` from benchmarks/results; do not edit. -->

Every number of this page was written by the command above its table, into the file named beside it.
What the numbers mean, and where they disappoint, is said on the pages of the parts:
[training](training.md), [audit](audit.md), [de-identification](deid.md),
[personalisation](personalize.md), [scale](scale.md).

The machine has two cores that other work shares. Ratios come from contestants that took turns in
the same run; absolute times say little about another machine.
"""


class View(NamedTuple):
    """One table of a file: which values are rows (`*` is any key), and which of their parts.

    `names` heads the columns of the keys that the stars matched.
    """

    title: str
    rows: str
    names: tuple[str, ...]
    columns: dict[str, str]


_WER = {"WER %": "wer", "lambda": "power", "change %": "change", "95 % interval": "interval"}
_CHOSEN = {"set-up": "setup", **_WER}
_NOISY = {
    "claimed": "claimed", "true": "true", "WER %": "told/wer",
    "deviation of draws": "told/standard_deviation",
    "noise only, WER %": "noise only/wer",
}  # fmt: skip
_BASELINES = {
    "speakers": "clients", "utterances": "utterances", "first pass": "first_pass",
    "background": "background", "oracle": "oracle",
}  # fmt: skip
_UNTOUCHED = {"untouched speakers, WER %": "untouched"}
_METHODS = ("dp-sgd", "dp-sgd in one piece", "edp-sgd", "textbook", "opacus", "opacus-ghost")
_ATTACKS = ("loss threshold", "shadow", "LiRA, online", "RMIA")

TITLES = {
    "corpus": "Corpora", "deid": "De-identification", "fmp_tables": "Personalisation",
    "training_workers": "Training on two workers", "deid_tables": "Utility of released text",
    "edpsgd_tables": "The eDP-SGD tables", "crf": "CRF",
}  # fmt: skip

# Where a file does not say how it was made, and the script alone would not make all of it.
COMMANDS = {
    "deid": "python benchmarks/deid.py --data FOLDER",
    "deid_tables": "python benchmarks/deid_tables.py --data FOLDER",
    "edpsgd_tables": "python benchmarks/edpsgd_tables.py --data FOLDER --vectors FILE",
    "fmp_tables": "python benchmarks/fmp_tables.py --data FOLDER",
}

VIEWS: dict[str, list[View]] = {
    "training": [
        View("CPU time of a step, plain SGD = 1", "results.*", (), {
            "model": "model", "batch": "batch", "optimizer": "optimizer",
            **{name: f"{name}/time_ratio" for name in _METHODS}}),
        View("Peak memory of a step, plain SGD = 1", "results.*", (), {
            "model": "model", "batch": "batch", "optimizer": "optimizer",
            **{name: f"{name}/memory_ratio" for name in _METHODS}}),
    ],
    "audit": [
        View("What attacks find and canaries prove", "corpora.*.*", ("corpus", "method"), {
            "accuracy": "accuracy", "guarantee": "guarantee_epsilon",
            **{f"AUC {name}": f"attacks/{name}/auc" for name in _ATTACKS},
            "strongest": "strongest", "proved epsilon": "canaries/epsilon_lower",
            "exposure, bits": "mean_exposure_bits"}),
        View("Members found at 1 % false positives", "corpora.*.*", ("corpus", "method"), {
            name: f"attacks/{name}/tpr/0.01" for name in _ATTACKS}),
    ],
    "deid": [
        View("Speed", "speed.*", ("detector",), {
            "tokens a second": "tokens_per_second", "target": "target"}),
        View("Presidio in the same run", "presidio", (), {
            "utterances": "utterances", "tokens a second": "tokens_per_second"}),
        View("A tagger of spaCy, finding alone", "spacy", (), {
            "utterances": "utterances", "tokens a second": "tokens_per_second"}),
        View("A large file", "gigabyte.runs.*", (), {
            "bytes": "bytes", "seconds of the processor": "processor_seconds",
            "peak MiB": "peak_mebibytes"}),
        View("Memory", "memory.*", (), {
            "utterances": "utterances", "bytes": "bytes", "peak MiB": "peak_mebibytes"}),
        View("Words found", "recall.*", ("corpus",), {
            "recall": "recall", "precision": "precision"}),
        View("Words found, by type", "recall.*.types.*", ("corpus", "type"), {
            "recall": "recall", "at least (95 %)": "at_least"}),
    ],
    "fmp_tables": [
        View("ATIS: baselines", "atis.*.baselines", ("background",), _BASELINES),
        View("ATIS: chosen on other speakers", "atis.*.*", ("background", "setting"), _CHOSEN),
        View("ATIS: rounds", "atis.*.table 2.*", ("background", "setting"), _WER),
        View("ATIS: mixture and kernel", "atis.*.table 3.*", ("background", "setting"), _WER),
        View("ATIS: trust", "atis.*.trust.*", ("background", "setting"), _WER),
        View("ATIS: phrases", "atis.*.beyond unigrams.*", ("background", "setting"), _WER),
        View("ATIS: with noise", "atis.*.table 4.*", ("background", "release"), _NOISY),
        View("AMI: baselines", "ami-tts.*.baselines", ("background",), _BASELINES | _UNTOUCHED),
        View("AMI: chosen on other speakers", "ami-tts.*.*", ("background", "setting"),
             _CHOSEN | _UNTOUCHED),
        View("AMI: rounds", "ami-tts.*.table 2.*", ("background", "setting"), _WER),
        View("AMI: mixture and kernel", "ami-tts.*.table 3.*", ("background", "setting"), _WER),
        View("AMI: trust", "ami-tts.*.trust.*", ("background", "setting"), _WER),
        View("AMI: phrases", "ami-tts.*.beyond unigrams.*", ("background", "setting"), _WER),
        View("SNIPS: baselines", "snips-tts.*.baselines", ("background",), _BASELINES),
        View("SNIPS: chosen on other sentences", "snips-tts.*.*", ("background", "setting"),
             _CHOSEN),
        View("SNIPS: rounds", "snips-tts.*.table 2.*", ("background", "setting"), _WER),
        View("SNIPS: mixture and kernel", "snips-tts.*.table 3.*", ("background", "setting"), _WER),
        View("SNIPS: trust", "snips-tts.*.trust.*", ("background", "setting"), _WER),
        View("SNIPS: phrases", "snips-tts.*.beyond unigrams.*", ("background", "setting"), _WER),
    ],
}  # fmt: skip


def page() -> str:
    """The whole page, a section for every file."""
    return "\n".join([INTRODUCTION, *(section(path) for path in sorted(RESULTS.glob("*.json")))])


def section(path: Path) -> str:
    data = json.loads(path.read_text())
    parts = [f"## {TITLES.get(path.stem, path.stem.replace('_', ' ').capitalize())}"]
    parts.append(purpose(path.stem))
    name = path.relative_to(ROOT).as_posix()
    parts.append(f"```\n{command(path.stem, data)}\n```\n\nwrote `{name}`.")
    views = VIEWS.get(path.stem)
    if views is None:
        parts += laid_out(data, without=("command",))
    else:
        parts += [viewed(view, data) for view in views]
        parts.append(_facts(data))
    return "\n\n".join(part for part in parts if part) + "\n"


def viewed(view: View, data: Any) -> str:
    """One table by its view; a view that matches nothing is out of date, and says so."""
    rows: Rows = []
    for keys, value in rows_at(data, view.rows.split(".")):
        if isinstance(value, dict):
            cells = {label: _part(value, path) for label, path in view.columns.items()}
            named = dict(zip(view.names, keys, strict=False))
            if any(cell is not _ABSENT for cell in cells.values()):
                rows.append({**named, **{k: v for k, v in cells.items() if v is not _ABSENT}})
    if not rows:
        raise ValueError(f"Expected rows at {view.rows!r} for {view.title!r}, got none.")
    return f"### {view.title}\n\n{table(rows)}"


_ABSENT = object()


def _part(value: Any, path: str) -> Any:
    for key in path.split("/"):
        if not isinstance(value, dict) or key not in value:
            return _ABSENT
        value = value[key]
    return value


def _facts(data: dict[str, Any]) -> str:
    single = {k: v for k, v in data.items() if k != "command" and not isinstance(v, dict | list)}
    return "; ".join(f"{key.replace('_', ' ')}: {told(value)}" for key, value in single.items())


def benchmark(stem: str) -> Path:
    """The script that writes a file of results: of its name, or of the beginning of its name."""
    scripts = sorted((ROOT / "benchmarks").glob("*.py"), key=lambda path: -len(path.stem))
    for path in scripts:
        if stem == path.stem or stem.startswith((f"{path.stem}_", f"{path.stem}-")):
            return path
    raise ValueError(f"Expected a script in benchmarks for results/{stem}.json, got none.")


def command(stem: str, data: Any) -> str:
    """What to run: as the file says, or the script without options."""
    if isinstance(data, dict) and isinstance(data.get("command"), str):
        return str(data["command"])
    return COMMANDS.get(stem, f"python {benchmark(stem).relative_to(ROOT).as_posix()}")


def purpose(stem: str) -> str:
    """The first paragraph of the script's own description."""
    described = ast.get_docstring(ast.parse(benchmark(stem).read_text())) or ""
    return " ".join(described.split("\n\n")[0].split())
