"""The topics of the results page: for each, the rows and columns worth reading.

A topic reads one file of benchmarks/results and gives one table. Everything else that a file
holds (single runs, settings, intervals by type) stays in the file.
"""

from collections.abc import Callable
from statistics import fmean
from typing import Any, NamedTuple

from docs.generators.architectures import summary
from docs.generators.tables import Rows

from sottovoce.privacy.guarantee import rounded_down, rounded_up

Data = dict[str, Any]


class Topic(NamedTuple):
    """One section of the page: a title, a sentence on how to read it, and the table."""

    title: str
    file: str
    about: str
    rows: Callable[[Data], Rows]
    page: str = ""  # the page of reproductions that discusses the figures


def training(data: Data) -> Rows:
    return [
        {
            "model": each["model"],
            "batch": each["batch"],
            **{label: _ratio(each, name) for name, label in _METHODS.items()},
        }
        for each in data["results"]
        if each["optimizer"] == "sgd"
    ]


def training_cost(data: Data) -> Rows:
    """Every row of the race, as time (memory)."""
    return [
        {
            "model": each["model"],
            "batch": each["batch"],
            "optimizer": each["optimizer"],
            **{label: _ratio(each, name, memory=True) for name, label in _METHODS.items()},
        }
        for each in data["results"]
    ]


_METHODS = {
    "dp-sgd": "dp-sgd",
    "dp-sgd in one piece": "dp-sgd, one pass",
    "edp-sgd": "edp-sgd",
    "textbook": "loop over examples",
    "opacus": "Opacus",
    "opacus-ghost": "Opacus, ghost clipping",
}


def _ratio(record: Data, name: str, *, memory: bool = False) -> str:
    cell = record.get(name)
    if cell is None:
        return ""
    if "failure" in cell:
        return "fails"
    time = f"{cell['time_ratio']:.2f}"
    return f"{time} ({cell['memory_ratio']:.2f})" if memory else time


def two_workers(data: Data) -> Rows:
    return [
        {
            "model": each["model"],
            "batch per worker": each["batch_per_worker"],
            "CPU time": f"{each['cpu_ratio']:.2f}",
            "wall time": f"{each['wall_ratio']:.2f}",
        }
        for each in data["results"]
    ]


def neighbour_check(data: Data) -> Rows:
    return [
        {
            "model": each["model"],
            "steps": each["steps"],
            "steps checked": each["steps_checked"],
            "CPU time": f"{each['ratio']:.2f}",
        }
        for each in data["medians"]
    ]


def edpsgd(data: Data) -> Rows:
    return [
        {
            "model": model,
            "corpus": corpus,
            **{method: f"{cell['ser']:.1f}" for method, cell in methods.items()},
        }
        for model, corpora in data["table_1"].items()
        for corpus, methods in corpora.items()
    ]


def audit(data: Data) -> Rows:
    rows: Rows = []
    for corpus, methods in data["corpora"].items():
        for method, cell in methods.items():
            if "attacks" not in cell:
                continue
            guarantee = cell["guarantee_epsilon"]
            strongest = cell["attacks"][cell["strongest"]]
            rows.append(
                {
                    "corpus": corpus,
                    "method": method,
                    "accuracy": cell["accuracy"],
                    "guarantee": "none" if guarantee is None else rounded_up(guarantee),
                    "AUC, loss": cell["attacks"]["loss threshold"]["auc"],
                    "AUC, RMIA": cell["attacks"]["RMIA"]["auc"],
                    "TPR at 1 % FPR, strongest": strongest["tpr"]["0.01"],
                    "epsilon, lower bound": rounded_down(cell["canaries"]["epsilon_lower"]),
                }
            )
    return rows


def deid_speed(data: Data) -> Rows:
    rows: Rows = [
        {"system": f"sottovoce, {name}", "tokens per second": cell["tokens_per_second"]}
        for name, cell in data["speed"].items()
    ]
    for name, key in (("Presidio, blank engine", "presidio"), ("spaCy, detection only", "spacy")):
        if key in data:
            rows.append({"system": name, "tokens per second": data[key]["tokens_per_second"]})
    return rows


def deid_memory(data: Data) -> Rows:
    return [
        {
            "input, MB": round(each["bytes"] / 1e6),
            "CPU seconds": each["processor_seconds"],
            "peak MiB": each["peak_mebibytes"],
        }
        for each in (*data["memory"], *data.get("gigabyte", {}).get("runs", ()))
    ]


def deid_recall(data: Data) -> Rows:
    return [
        # The benchmark writes "caution" for what the command line calls the threshold.
        {"corpus": name.replace("caution", "threshold"), "recall": cell["recall"],
         "precision": cell["precision"]}
        for name, cell in data["recall"].items()
        if "recall" in cell
    ]  # fmt: skip


def deid_utility(data: Data) -> Rows:
    found: dict[str, dict[str, str]] = {}
    for key, cell in data["cells"].items():
        corpus, model, strategy = key.split("/")
        if model == "frozen" and ", p 0." not in strategy:
            mean = 100 * fmean(each["value"] for each in cell["runs"])
            found.setdefault(strategy, {})[corpus] = f"{mean:.1f}"
    return [{"strategy": strategy, **cells} for strategy, cells in found.items()]


def personalisation(data: Data) -> Rows:
    rows: Rows = []
    for corpus, backgrounds in data.items():
        for background, cell in backgrounds.items():
            base = cell["baselines"]
            rows.append(
                {
                    "corpus": corpus,
                    "background": background,
                    "first pass": base["first_pass"],
                    "background only": base["background"],
                    **{label: cell[key]["wer"] for key, label in _SETTINGS.items() if key in cell},
                    "oracle": base["oracle"],
                }
            )
    return rows


_SETTINGS = {
    "alpha 0 (personal only), chosen": "personal words",
    "cold, chosen": "words, cold",
    "warm, chosen": "words, warm",
    "warm with pairs, chosen": "pairs, warm",
}


def federation(data: Data) -> Rows:
    return [
        {
            "clients": data["clients"],
            "rounds": data["rounds"],
            "words": data["words"],
            "epsilon": data["epsilon"],
            "unit": data["unit"],
            "seconds": data["seconds"],
            "contributions per second": data["contributions_a_second"],
            "peak MB": data["peak_megabytes"],
        }
    ]


def rescoring(data: Data) -> Rows:
    return [
        {
            "lists": name,
            "prefix tree, ms per list": cell["milliseconds_a_list"]["tree"],
            "one by one, ms per list": cell["milliseconds_a_list"]["one by one"],
            "speed-up": cell["speed_up"],
        }
        for name, cell in data["results"].items()
    ]


def crf(data: Data) -> Rows:
    return [
        {
            "batch": each["batch"],
            "words": each["words"],
            "forward and backward": each["times_faster"],
            "with per-example gradients": each["times_faster_exact"],
            "decoding": each["times_faster_decode"],
        }
        for each in data["results"]
    ]


def noise(data: Data) -> Rows:
    return [
        {
            "distribution": each["distribution"],
            "sottovoce": each["ours_ns_per_value"],
            "numpy": each["numpy_ns_per_value"],
            "torch": each.get("torch_ns_per_value", ""),
        }
        for each in data["results"]
    ]


def accounting(data: Data) -> Rows:
    return [
        {
            "epochs": each["epochs"],
            "epsilon": each["epsilon_ours"],
            "epsilon, dp-accounting": each["epsilon_peer"],
            "seconds": each["seconds_ours"],
            "seconds, dp-accounting": each["seconds_peer"],
        }
        for each in data["cases"]
    ]


def corpora(data: Data) -> Rows:
    return [
        {
            "domain": each["domain"],
            "utterances": each["utterances"],
            "utterances per CPU second": each["utterances_per_cpu_second"],
            "peak MiB": each["peak_mebibytes"],
        }
        for each in data["domains"]
    ]


def service(data: Data) -> Rows:
    return [
        {
            "requests": each["requests"],
            "at once": each["at_once"],
            "errors": each["errors"],
            "requests per second": each["requests_per_second"],
            "median ms": each["p50_milliseconds"],
            "95th percentile ms": each["p95_milliseconds"],
            "attacked": "yes" if each["attacker"] else "no",
            "resident MiB": each["rss_mebibytes"],
        }
        for each in data["rounds"]
    ]


TOPICS = (
    Topic("Training", "training",
          "CPU time of one step with SGD, relative to plain SGD. Empty: not measured.",
          training, "training-cost.md"),
    Topic("Architectures", "architectures",
          "Models whose per-example gradients equal those of a loop over examples.",
          summary, "../how-to/architectures.md"),
    Topic("Training on two workers", "training_workers",
          "One eDP-SGD step in two processes, relative to DistributedDataParallel.",
          two_workers, "training-cost.md"),
    Topic("Neighbour check", "neighbour_check",
          "CPU time of private training with the check, relative to training without it.",
          neighbour_check, "training-cost.md"),
    Topic("eDP-SGD", "edpsgd_tables",
          "Semantic error rate in per cent on small samples.", edpsgd, "edpsgd-tables.md"),
    Topic("Audit", "audit",
          "Membership attacks and the epsilon that canaries prove, with 95 % confidence.",
          audit, "audit.md"),
    Topic("De-identification: speed", "deid", "Higher is better.", deid_speed, "deid-speed.md"),
    Topic("De-identification: memory", "deid",
          "Peak memory does not grow with the input.", deid_memory, "deid-speed.md"),
    Topic("De-identification: recall", "deid",
          "Share of private words found, and share of marked words that are private.",
          deid_recall, "deid-speed.md"),
    Topic("De-identification: utility", "deid_tables",
          "Accuracy (ami-ne: F1) in per cent of a model trained on released text, "
          "frozen encoder, p = 1.",
          deid_utility, "deid-tables.md"),
    Topic("Personalisation", "fmp_tables",
          "Word error rate in per cent; settings chosen on other speakers.",
          personalisation, "fmp-tables.md"),
    Topic("Federation", "federation", "Simulated clients on one machine.", federation),
    Topic("Rescoring", "rescoring",
          "N-best lists scored by the Transformer.", rescoring, "fmp-tables.md"),
    Topic("CRF", "crf",
          "Speed-up over pytorch-crf, 72 tags, one thread.", crf, "intents-and-slots.md"),
    Topic("Noise", "noise", "Nanoseconds per value; lower is better.", noise),
    Topic("Accounting", "accounting",
          "A schedule with decaying noise, beside dp-accounting.", accounting),
    Topic("Corpora", "corpus", "Built-in corpora, streamed to disk.", corpora),
    Topic("Service", "serve", "`POST /deidentify` under load.", service),
)  # fmt: skip
