"""A corpus of few intents and a CLC of few numbers, so that a training takes a second."""

from functools import cache
from pathlib import Path
from typing import Any

from sottovoce.cli.main import sottovoce
from sottovoce.corpora import Utterance, write
from sottovoce.corpora.splits import Parts
from sottovoce.corpora.synthetic import generate
from sottovoce.nlu.fit.recipes import ModelKind

INTENTS = {
    "communication": {"answer_call", "end_call", "redial", "check_voicemail"},
    "health": {"add_allergy", "check_dose", "emergency"},
}
SIZES: dict[str, Any] = {"hidden": 8, "layers": 1, "word_width": 8, "vocabulary": "hashed-200"}
SMALL: dict[str, Any] = {
    "model": ModelKind.CLC,
    **SIZES,
    "epochs": 2,
    "batch_size": 40,
}
"""Settings of a small run; the same as options below."""
OPTIONS = tuple(
    str(word) for name, value in SMALL.items() for word in (f"--{name.replace('_', '-')}", value)
)


@cache
def utterances(domain: str = "communication") -> tuple[Utterance, ...]:
    return tuple(u for u in generate(domain, size=4000, seed=1) if u.intent in INTENTS[domain])


def small_parts(domain: str = "communication", *, train: int = 120) -> Parts:
    found = utterances(domain)
    return Parts(
        name=domain,
        train=found[:train],
        valid=found[train : train + 30],
        test=found[train + 30 : train + 110],
    )


def write_parts(folder: Path, parts: Parts) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("train", "valid", "test"):
        write(folder / f"{name}.jsonl", getattr(parts, name))
    return folder


def command(*arguments: object) -> None:
    """Run the command in a fixture that several tests share; what it raises is raised here."""
    sottovoce.main(args=[str(each) for each in arguments], standalone_mode=False)
