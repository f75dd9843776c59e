"""What of a run may be shared: the one table of file names and of the keys of run.json.

Everything else is private. Whoever adds a file or a key and forgets this table has kept it private.
A key belongs here if it says the same of two inputs that differ in one person, given the protected
outputs: settings, the ledger, statements. Counts, times, losses and scores do not.
"""

from collections.abc import Mapping
from typing import Any

WHOLE = True
"""The value of a key that is public with everything in it."""

FILES = (
    "run.json",
    "*.run.json",  # beside the one file that a verb has written
    "README.md",
    "config.json",
    "labels.json",
    "ledger.jsonl",
    "ledger.rank*.jsonl",
    "model.safetensors",
    "tokenizer.json",
    "words.json",
    "audit.json",
    "best.json",
    "marginals.json",
    "vocabulary.json",
)
"""Names at the top of a run folder, as patterns."""

_SETTINGS: dict[str, Any] = dict.fromkeys(
    (
        "as_printed", "averaged", "batch_size", "clip_norm", "clipping", "decay", "delta",
        "encoder", "encoder_rate", "epochs", "epsilon", "hidden", "layers", "learning_rate",
        "max_examples_per_user", "method", "model", "noise_multiplier", "optimizer", "population",
        "samples", "schedule", "steps", "tau", "tuning", "unit", "vectors", "virtual_batch",
        "vocabulary", "vocabulary_epsilon", "word_width", "workers",
    ),
    WHOLE,
)  # fmt: skip
"""Settings of a training. Not the seed: whoever knows it can subtract the noise."""

_FEDERATION: dict[str, Any] = dict.fromkeys(
    (
        "alpha", "beta", "cap", "clip", "counting", "denoise", "from", "kernel", "lm", "mass_cap",
        "max_words", "minimum_clients", "nbest_size", "noise", "pair_strength", "pair_words",
        "plausible_mass", "release", "repeats", "rounds", "runner", "sampling_rate", "scale",
        "secure_aggregation", "shortcut", "sigma", "trust", "word_cap",
    ),
    WHOLE,
)  # fmt: skip
"""Settings of a federation and of rescoring by it."""

KEYS: dict[str, Any] = {
    "verb": WHOLE,
    "versions": WHOLE,
    "seed": WHOLE,
    "guarantee": WHOLE,
    "guarantees": WHOLE,
    "user_guarantee": WHOLE,
    "claimed": WHOLE,
    "ledger": WHOLE,
    "weights": WHOLE,
    "configuration": _SETTINGS | _FEDERATION,
    "asked": _SETTINGS,
    "samples": {"name": WHOLE},
    "history": {"step": WHOLE, "epsilon": WHOLE},
    "data": {"name": WHOLE},
}
"""Keys of run.json. A mapping goes on inside of the value, and inside of each item of a list."""


def split(value: Mapping[str, Any], keys: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
    """The public part of a run, and the rest.

    >>> split({"verb": "train", "data": {"name": "calls", "train": 120}}, KEYS)
    ({'verb': 'train', 'data': {'name': 'calls'}}, {'data': {'train': 120}})
    """
    public: dict[str, Any] = {}
    private: dict[str, Any] = {}
    for key, inner in value.items():
        rule = keys.get(key)
        if rule is WHOLE:
            public[key] = inner
        elif isinstance(rule, Mapping) and isinstance(inner, Mapping):
            shown, kept = split(inner, rule)
            public[key] = shown
            if kept:
                private[key] = kept
        elif isinstance(rule, Mapping) and _is_rows(inner):
            rows = [split(row, rule) for row in inner]
            public[key] = [shown for shown, _ in rows]
            if any(kept for _, kept in rows):
                private[key] = [kept for _, kept in rows]
        else:
            private[key] = inner
    return public, private


def join(public: Any, private: Any) -> Any:
    """Both parts as one again.

    >>> join({"data": {"name": "calls"}}, {"data": {"train": 120}})
    {'data': {'name': 'calls', 'train': 120}}
    """
    if isinstance(public, Mapping) and isinstance(private, Mapping):
        both = dict(public)
        for key, inner in private.items():
            both[key] = join(public[key], inner) if key in public else inner
        return both
    if _is_rows(public) and _is_rows(private) and len(public) == len(private):
        return [join(*pair) for pair in zip(public, private, strict=True)]
    return public


def _is_rows(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(row, Mapping) for row in value)
