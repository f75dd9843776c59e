"""The two tables of the eDP-SGD paper, with what its epsilons are worth beside them.

    python benchmarks/edpsgd_tables.py --data PATH [--vectors FILE] [--full]
    python benchmarks/edpsgd_tables.py --page docs/reproductions/edpsgd-tables.md

Table 1: semantic error rate, AUC of the shadow attack, and epsilon, by model, corpus and method.
PATH holds `nlu/atis`, `nlu/snips` and `nlu/nlu-eval`; what is not there is left out. Every finished
cell is saved, and a run that was interrupted goes on. Table 2 is the race of benchmarks/training.py
by reference, so that times are measured in one place.
"""

import json
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from helpers.edpsgd_models import FULL, QUICK, REDUCED, Models, Scale
from helpers.edpsgd_study import METHODS, PUBLIC, Group, corpora
from helpers.options import RESULTS, options_of, parser_of, tell, without_data, write
from sottovoce.corpora.synthetic import DOMAINS
from sottovoce.nlu.fit.recipes import ModelKind

RACE = "training.json"
FACTORS = ("textbook", "opacus", "opacus-ghost", "dp-sgd", "edp-sgd")
BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"

Report = dict[str, Any]


def run(scale: Scale, data: Path, vectors: Path | None, path: Path, kinds: Sequence[str]) -> Report:
    """All cells that `path` does not have yet; it is written after each."""
    report = begun(path)
    report["table_2"] = table_2(RESULTS / RACE)
    write(path, report, indent=1)
    known = corpora(data, scale)
    if left := [name for name in PUBLIC if name not in known]:
        print(f"Left out, because {data / 'nlu'} does not hold them: {', '.join(left)}.")
    models = Models(scale, vectors)
    for kind in map(ModelKind, kinds):
        setting = scale.of(kind)
        if kind is ModelKind.CLC:
            setting["vectors"] = None if vectors is None else vectors.name
        keep(report, kind, json.loads(json.dumps(setting)))
        groups = {method: Group(kind, method, known, models) for method in METHODS}
        for name in known:
            row = report["table_1"].setdefault(str(kind), {}).setdefault(name, {})
            for method in METHODS:
                if method not in row:
                    start = time.process_time()
                    row[method] = groups[method].figures(name)
                    row[method]["cpu_seconds"] = round(time.process_time() - start, 1)
                    with_changes(row)
                    write(path, report, indent=1)
                    print(kind, name, method, json.dumps(row[method]), flush=True)
    return report


def begun(path: Path) -> Report:
    """What an earlier run has left, or a new report."""
    if path.exists():
        earlier: Report = json.loads(path.read_text())
        return earlier
    return {
        "command": "python benchmarks/edpsgd_tables.py --data PATH --vectors FILE",
        "versions": {name: version(name) for name in ("sottovoce", "torch", "transformers")},
        "settings": {},
        "table_1": {},
        "table_2": [],
    }


def keep(report: Report, kind: str, setting: Report) -> None:
    """Keep the cells of a model that were made in this very setting, and no others."""
    if report["settings"].get(kind) != setting:
        report["table_1"].pop(kind, None)
    report["settings"][str(kind)] = setting


def with_changes(row: Report) -> None:
    """Relative changes to SGD in per cent, as the paper prints them."""
    base = row["sgd"]
    for method, cell in row.items():
        if method != "sgd":
            cell["ser_change"] = round(100 * (cell["ser"] / base["ser"] - 1), 1)
            cell["auc_change"] = round(100 * (cell["auc"] / base["auc"] - 1), 1)


def table_2(race: Path) -> list[Report]:
    """Factors of the race at batch 32, where every contestant took part; None where one fails."""
    if not race.exists():
        return []
    steps = json.loads(race.read_text())["results"]
    return [
        {
            "model": found["model"],
            "sgd_seconds_a_step": round(found["sgd"]["seconds"], 2),
            **{way: _factor(found[way]) for way in FACTORS},
        }
        for found in steps
        if all(way in found for way in FACTORS)
    ]


def _factor(found: Report) -> float | None:
    return round(found["time_ratio"], 2) if "time_ratio" in found else None


def markdown(report: Report) -> str:
    """Both tables."""
    return "\n".join([*_table_1(report), "", *_table_2(report["table_2"])])


def _table_1(report: Report) -> Iterator[str]:
    yield "### Table 1: errors, attacks, epsilon"
    for kind in ModelKind:
        rows = report["table_1"].get(kind, {})
        yield f"\n**{kind.upper()}.** {_told(report['settings'].get(kind), rows)}\n"
        if rows:
            yield (
                "| corpus | method | SER % | change % | MIA-AUC % (95 %) | change % "
                "| log10 epsilon, claimed | true, were the scales public | true |"
            )
            yield "|---|---|---:|---:|---:|---:|---:|---:|---:|"
        for name, row in rows.items():
            for method, cell in row.items():
                low, high = cell["auc_interval"]
                cells = [
                    name, method, f"{cell['ser']:.1f}", _signed(cell.get("ser_change")),
                    f"{cell['auc']:.1f} ({low:.1f}-{high:.1f})", _signed(cell.get("auc_change")),
                    *(_power(cell, key) for key in ("log10_claimed", "log10_public_scales")),
                    "no guarantee" if method == "sgd" else _power(cell, "log10_true"),
                ]  # fmt: skip
                yield f"| {' | '.join(cells)} |"


def _told(setting: Report | None, rows: Report) -> str:
    """The setting in a sentence, and what has not been run."""
    if setting is None:
        return "Not run yet."
    wanted = [name for name in (*PUBLIC, *DOMAINS) if len(rows.get(name, ())) < len(METHODS)]
    return (
        f"At most {setting['train']} utterances to learn from and {setting['test']} to measure on, "
        f"{setting['epochs']} epochs (dp-sgd: {setting['epochs_of_ours']}), batches of "
        f"{setting['batch_size']}, {setting['workers']} simulated workers, "
        f"C = {setting['clip_norm']:g}, z0 = {setting['noise_multiplier']:g}, tau = "
        f"{setting['tau_linear']:g} (linear) and {setting['tau_exponential']:g} (exponential)."
        + (f" Not run, or not to the end: {', '.join(wanted)}." if wanted else "")
    )


def _table_2(rows: Sequence[Report]) -> Iterator[str]:
    yield "### Table 2: time of a step, plain SGD = 1"
    yield f"\n| model | SGD, seconds | {' | '.join(FACTORS)} |"
    yield f"|---|---:|{'---:|' * len(FACTORS)}"
    for row in rows:
        factors = ["fails" if row[way] is None else f"{row[way]:.2f}" for way in FACTORS]
        yield f"| {row['model']} | {row['sgd_seconds_a_step']:.2f} | {' | '.join(factors)} |"


def _signed(change: float | None) -> str:
    return "" if change is None else f"{change:+.1f}"


def _power(cell: Report, key: str) -> str:
    value = cell.get(key, "")
    return "infinite" if value == "inf" else str(value)


def renew(page: Path, report: Report) -> None:
    """Put the tables between the marks of the page."""
    text = page.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    page.write_text(f"{before}{BEGIN}\n{markdown(report)}\n{END}{after}", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = parser_of(__file__, __doc__, data="ATIS, SNIPS and NLU-Evaluation")
    parser.add_argument("--vectors", type=Path, help="public word vectors for the CLC")
    parser.add_argument("--full", action="store_true", help="the paper's sizes; takes days")
    parser.add_argument(
        "--kinds", nargs="+", choices=["bert", "clc"], default=["bert", "clc"], help="models"
    )
    parser.add_argument("--page", type=Path, help="only renew the tables of this page")
    given = options_of(parser, arguments, quick={"kinds": ["clc"]})
    path: Path = given.output
    if given.full and path == given.default_output:
        path = path.with_name("edpsgd_tables_full.json")
    if given.page is not None:
        renew(given.page, json.loads(path.read_text()))
        return
    if not (given.data / "nlu").is_dir():
        without_data(given, "nlu")
    torch.set_num_threads(1)
    scale = QUICK if given.quick else FULL if given.full else REDUCED
    report = run(scale, given.data, given.vectors, path, given.kinds)
    print(markdown(report))
    tell(path)


if __name__ == "__main__":
    main()
