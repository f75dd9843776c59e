"""The model card of a run: description, privacy guarantee, scores and settings.

It is generated from the files of the run, without torch, so it can be regenerated after an audit.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sottovoce.errors import InvalidInput
from sottovoce.io.atomic import text_output
from sottovoce.nlu.metrics.scores import DISPLAY_NAMES
from sottovoce.privacy.guarantee import Claim, Guarantee, claimed_epsilon, number_from_json

CARD, CONFIG, RUN, AUDIT, LABELS = (
    "README.md", "config.json", "run.json", "audit.json", "labels.json",
)  # fmt: skip

MEASURED = "the published scores on the valid and test parts, about the people in those parts"
"""If this sentence is in the not-covered list of a run, its scores are published."""
AUDITED = (
    "the published audit: its figures were computed from the training and test data, and no "
    "guarantee covers them"
)


def published(run: Mapping[str, Any]) -> tuple[str, ...]:
    """Keys of run.json that its guarantee lists as published."""
    guarantee = run.get("guarantee")
    stated = guarantee.get("not_covered") if isinstance(guarantee, Mapping) else None
    return ("metrics",) if stated and MEASURED in stated else ()


def write_card(folder: str | Path) -> Path:
    """Regenerate the card of a run folder, for example after an audit."""
    folder = Path(folder)
    found = {name: _read(folder / name) for name in (RUN, CONFIG, LABELS)}
    audit = _read(folder / AUDIT) if (folder / AUDIT).is_file() else None
    with text_output(folder / CARD) as stream:
        stream.write(model_card(found[RUN], found[CONFIG], found[LABELS], audit))
    return folder / CARD


def model_card(
    run: Mapping[str, Any],
    config: Mapping[str, Any],
    labels: Mapping[str, Any],
    audit: Mapping[str, Any] | None = None,
) -> str:
    """The card as Markdown, from the JSON of run.json, config.json, labels.json and audit.json.

    `run` must be the part that may be shared, because the card shows all of it.
    """
    data = run.get("data", {})
    name = data.get("name") or "private utterances"
    lines = [
        "---",
        "library_name: sottovoce",
        "tags: [intent-classification, slot-filling, differential-privacy]",
        "---",
        "",
        f"# Intents and slots of {name}",
        "",
        *_about(config, labels),
        "",
        "## Privacy",
        "",
        *_privacy(run),
        *_audit(audit),
        "",
        "## Scores",
        "",
        *_scores(run.get("metrics")),
        "",
        "## Use",
        "",
        "```",
        'sottovoce predict RUN --text "play some jazz"',
        "```",
        "```python",
        "from sottovoce.nlu.runs.run import load_run",
        "",
        'model = load_run("RUN").model',
        'print(model.predict([["play", "some", "jazz"]]))',
        "```",
        "",
        "## How it was made",
        "",
        *_made(run),
        "",
        "## Labels",
        "",
        f"Intents: {_listed(labels.get('intents', []))}.",
        "",
        f"Slots: {_listed(labels.get('slot_types', []))}.",
    ]
    return "\n".join(lines) + "\n"


def _about(config: Mapping[str, Any], labels: Mapping[str, Any]) -> list[str]:
    encoder = (config.get("model") or {}).get("encoder") or {}
    source = encoder.get("source")
    kind = {
        "clc": "a character CNN, word embeddings and a bidirectional LSTM",
        "bert": f"a Transformer encoder{f' (from {source})' if source else ''}",
    }.get(encoder.get("kind", ""), "an encoder")
    return [
        f"A joint model of {len(labels.get('intents', []))} intents and "
        f"{len(labels.get('slot_types', []))} kinds of slots: {kind} under an intent head and a "
        f"CRF, trained with sottovoce {config.get('sottovoce', '')}.",
    ]


def _privacy(run: Mapping[str, Any]) -> list[str]:
    if not run.get("guarantee"):
        return ["**Guarantee.** None is recorded for this run."]
    guarantee = Guarantee.from_json(run["guarantee"])
    # Assumptions and exclusions are listed below.
    short = Guarantee.from_json(
        {**run["guarantee"], "assumptions": [], "not_covered": []}
    )  # fmt: skip
    lines = [f"**Guarantee.** {short}"]
    if run.get("user_guarantee"):
        most = (run.get("configuration") or {}).get("max_examples_per_user")
        to_user = {**run["user_guarantee"], "assumptions": [], "not_covered": []}
        lines += [
            "",
            f"**To a user** with at most {most} examples: {Guarantee.from_json(to_user)}",
        ]
    claimed = run.get("claimed")
    if claimed:
        lines += ["", f"**Claimed** by the recipe's own arithmetic: {_claim(claimed)}"]
    if run.get("seed"):
        lines += ["", f"**Randomness**: {run['seed']}."]
    if guarantee.assumptions:
        lines += ["", "**Assumptions**", "", *_bullets(guarantee.assumptions)]
    if guarantee.not_covered:
        lines += ["", "**Not covered**", "", *_bullets(guarantee.not_covered)]
    return lines


def _claim(claimed: Mapping[str, Any]) -> str:
    claim = Claim.from_json(claimed)
    return f"epsilon = {claimed_epsilon(claim)} at delta = {claim.delta:g} ({claim.how})."


def _audit(audit: Mapping[str, Any] | None) -> list[str]:
    if audit is None:
        return ["", "**Audit.** None is published: run `sottovoce audit RUN`."]
    lines = []
    bounds = audit.get("bounds") or []
    if bounds:
        from sottovoce.privacy.guarantee import rounded_down

        best = max(bounds, key=lambda bound: number_from_json(bound["epsilon_lower"]))
        epsilon = number_from_json(best["epsilon_lower"])
        lines.append(
            f"**Audit.** At least epsilon = {rounded_down(epsilon)} at delta = "
            f"{best['delta']:g} is lost, "
            f"with confidence {best['confidence']:g} ({best['method']}: {best['evidence']})."
        )
    for attack in audit.get("attacks") or []:
        low, high = attack["auc_interval"]
        lines.append(
            f"Membership inference, {attack['attack']}: AUC {attack['auc']:.3f} "
            f"({low:.3f} to {high:.3f})."
        )
    lines += [f"**Defect**: {defect}" for defect in audit.get("defects") or []]
    lines += [f"Not compared: {reason}" for reason in audit.get("not_compared") or []]
    if not lines:
        lines.append("**Audit.** It has neither attacks nor bounds.")
    lines.append(f"Not covered: {AUDITED}.")
    return [part for line in lines for part in ("", line)]


def _scores(metrics: Mapping[str, Any] | None) -> list[str]:
    if not metrics:
        return [
            "None are published: they are computed from private data, which no guarantee covers "
            "(`sottovoce train --publish-metrics` shows them here and lists them as not covered)."
        ]
    parts = list(metrics)
    rows = [
        f"| | {' | '.join(parts)} |",
        f"|---|{'---|' * len(parts)}",
    ]
    for key, name in DISPLAY_NAMES.items():
        cells = [_score(metrics[part].get(key)) for part in parts]
        if any(cells):
            rows.append(f"| {name} | {' | '.join(cells)} |")
    return [*rows, "", "In per cent, with 95 % bootstrap intervals."]


def _score(value: object) -> str:
    if isinstance(value, Mapping):
        shown = _score(value.get("value"))
        low, high = _score(value.get("low")), _score(value.get("high"))
        return f"{shown} ({low} to {high})" if low and high else shown
    return f"{100 * value:.1f}" if isinstance(value, int | float) else ""


def _made(run: Mapping[str, Any]) -> list[str]:
    configuration = run.get("configuration") or {}
    rows = [
        f"| {name} | {_cell(value)} |"
        for name, value in sorted(configuration.items())
        if value is not None
    ]
    versions = ", ".join(f"{k} {v}" for k, v in (run.get("versions") or {}).items())
    return [
        *(["| setting | value |", "|---|---|", *rows, ""] if rows else []),
        f"Made with {versions or 'sottovoce'}.",
    ]


def _cell(value: object) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text.replace("|", "\\|").replace("\n", " ")


def _bullets(sentences: Iterable[str]) -> list[str]:
    return [f"- {sentence}" for sentence in sentences]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InvalidInput(f"Expected {path.name} in the run {path.parent}, found none.") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as problem:
        raise InvalidInput(f"Expected JSON in {path}, but {problem}.") from problem
