"""From public files to a folder with an encoder: what `sottovoce pretrain` does.

The folder holds the encoder as transformers reads it, a record of every public source
(pretraining.json), and for an adapted encoder the public statistics that heads read it with.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from sottovoce import __version__
from sottovoce.corpora import Utterance, read
from sottovoce.corpora.parts import load_parts
from sottovoce.errors import InvalidInput
from sottovoce.io.staging import write_together
from sottovoce.nlu.encoders.bert import Bert, save_encoder
from sottovoce.nlu.fit.loop import Moment
from sottovoce.nlu.fit.recipes import reading_for
from sottovoce.nlu.pretraining.labelled import LabelledPlan, adapt, chosen
from sottovoce.nlu.pretraining.loop import Pretrained, Watching
from sottovoce.nlu.pretraining.masked import MaskedPlan, guess
from sottovoce.nlu.pretraining.reading import learn_reading, reading_files

RECORD = "pretraining.json"
PAPER = "paper"
STATISTICS = 2000
"""Public utterances of each corpus that statistics are taken from, at most."""


@dataclass(frozen=True, kw_only=True)
class Making:
    """Where an encoder is made, what it starts from, and who is told of it."""

    folder: Path
    start: str
    checkpoint: Path | None = None
    resume: bool = False
    on_step: Callable[[Moment], None] = lambda _: None
    should_stop: Callable[[], bool] = lambda: False

    def encoder(self) -> Bert:
        return Bert.untrained() if self.start == PAPER else Bert.load(self.start)

    def watching(self, settings: Mapping[str, Any]) -> Watching:
        return Watching(
            checkpoint=self.checkpoint,
            resume=self.resume,
            settings=settings,
            on_step=self.on_step,
            should_stop=self.should_stop,
        )


def make_from_labelled(
    sources: Sequence[str | Path], making: Making, options: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Adapt an encoder on labelled corpora; None if it was stopped before its end."""
    plan = LabelledPlan(**options)
    taken = chosen(_labelled(sources), plan)
    settings = _settings("labelled", making, plan.to_json(), _counted(taken))
    encoder = making.encoder()
    pretrained = adapt(encoder, taken, plan, making.watching(settings))
    if pretrained.stopped:
        return None
    reading = reading_for("frozen")
    public = (
        utterance.tokens[: plan.longest]
        for utterances in taken.values()
        for utterance in utterances[:STATISTICS]
    )
    read_at, readout = learn_reading(
        encoder, public, reading.plan, layers=_within(reading.layers, encoder),
        summary=reading.summary,
    )  # fmt: skip
    record = _record(settings, pretrained, None)
    save_encoder(encoder, making.folder)
    write_together(making.folder, reading_files(read_at, readout) | _as_file(record))
    return record


def make_from_text(
    sources: Sequence[str | Path],
    making: Making,
    options: Mapping[str, Any],
    limit: int | None = None,
) -> dict[str, Any] | None:
    """Pretrain an encoder on lines of text; None if it was stopped before its end."""
    plan = MaskedPlan(**options)
    texts: dict[str, list[str]] = {}
    left = limit
    for source in sources:
        lines = [utterance.text for utterance in islice(read(source), left)]
        left = None if left is None else left - len(lines)
        texts[_name(source, texts)] = lines
    settings = _settings("masked", making, plan.to_json(), _counted(texts))
    encoder = making.encoder()
    lines = [line for each in texts.values() for line in each]
    guessing = guess(encoder, lines, plan, making.watching(settings))
    if guessing.pretrained.stopped:
        return None
    record = _record(settings, guessing.pretrained, guessing.valid_loss)
    save_encoder(encoder, making.folder)
    write_together(making.folder, _as_file(record))
    return record


def _labelled(sources: Sequence[str | Path]) -> dict[str, Sequence[Utterance]]:
    """All parts of every corpus: nothing is measured on them, and all of it is public."""
    corpora: dict[str, Sequence[Utterance]] = {}
    for source in sources:
        parts = load_parts(source)
        corpora[_name(source, corpora)] = (*parts.train, *parts.valid, *parts.test)
    return corpora


def _name(source: str | Path, taken: Mapping[str, object]) -> str:
    path = Path(source)
    name = path.name.partition(".")[0] or path.resolve().name
    if name in taken:
        raise InvalidInput(f"Expected sources of different names, got {name} twice.")
    return name


def _within(layers: Sequence[int], encoder: Bert) -> tuple[int, ...]:
    """The layers that the encoder has; its last one is always read."""
    depth = len(encoder.blocks())
    return tuple(sorted({layer for layer in layers if 0 <= layer <= depth} | {depth}))


def _counted(found: Mapping[str, Sequence[object]]) -> list[dict[str, Any]]:
    return [{"name": name, "utterances": len(each)} for name, each in found.items()]


def _settings(
    kind: str, making: Making, plan: Mapping[str, Any], sources: list[dict[str, Any]]
) -> dict[str, Any]:
    return {"kind": kind, "start": making.start, "plan": dict(plan), "sources": sources}


def _record(
    settings: Mapping[str, Any], pretrained: Pretrained, valid_loss: float | None
) -> dict[str, Any]:
    return {
        "verb": "pretrain",
        "sottovoce": __version__,
        **settings,
        "steps": pretrained.steps,
        "loss": round(pretrained.loss, 4),
        "valid_loss": None if valid_loss is None else round(valid_loss, 4),
        "seconds": round(pretrained.seconds, 1),
    }


def _as_file(record: Mapping[str, Any]) -> dict[str, bytes]:
    return {RECORD: json.dumps(record, indent=2, ensure_ascii=False).encode()}
