"""From public files to a folder with an encoder: what `sottovoce pretrain` does.

The folder holds the encoder as transformers reads it, a record of every public source
(pretraining.json), and for an adapted encoder the public statistics that heads read it with.

Means and directions are taken from the public text the encoder was adapted on, once, so a private
training that starts from the folder needs no public text of its own.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from sottovoce import __version__
from sottovoce.corpora import Utterance, read
from sottovoce.corpora.splits import load_parts
from sottovoce.errors import InvalidInput
from sottovoce.io.staging import find, settle, write_together
from sottovoce.nlu.encoders.bert import Bert, Summary, save_encoder
from sottovoce.nlu.encoders.whitening import Readout, ReadoutPlan
from sottovoce.nlu.fit.loop import Progress
from sottovoce.nlu.fit.recipes import reading_for
from sottovoce.nlu.pretraining.labelled import LabelledPlan, adapt, chosen
from sottovoce.nlu.pretraining.loop import Pretrained, Watching
from sottovoce.nlu.pretraining.masked import MaskedPlan, guess

READOUT, WEIGHTS = "readout.json", "readout.safetensors"


def learn_reading(
    encoder: Bert,
    public: Iterable[Sequence[str]],
    plan: ReadoutPlan,
    *,
    layers: Sequence[int],
    summary: Summary,
) -> tuple[Bert, Readout]:
    """The encoder read at `layers`, and a readout with the statistics of public utterances."""
    read = Bert(
        encoder.network, encoder.pieces, layers=layers, summary=summary, source=encoder.source
    )
    readout = Readout(read.width, read.summary_width, plan)
    readout.learn(read, public)
    return read, readout


def reading_files(encoder: Bert, readout: Readout) -> dict[str, bytes]:
    """What `load_reading` needs, as files."""
    from safetensors.torch import save

    data = {
        "layers": list(encoder.layers),
        "summary": encoder.summary,
        "pooling": encoder.pooling,
        "readout": readout.to_json(),
    }
    return {
        READOUT: json.dumps(data, indent=2).encode(),
        WEIGHTS: save(dict(readout.state_dict())),
    }


def has_reading(folder: str | Path) -> bool:
    """Whether an encoder's folder says how it wants to be read."""
    return find(folder, READOUT).is_file() and find(folder, WEIGHTS).is_file()


def load_reading(folder: str | Path) -> tuple[Bert, Readout]:
    """The encoder of a folder, and its readout with public statistics."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    if not has_reading(folder):
        raise InvalidInput(f"Expected {READOUT} and {WEIGHTS} in {folder}, found none.")
    settle(folder)
    try:
        data = json.loads(find(folder, READOUT).read_text(encoding="utf-8"))
        readout = Readout.from_json(data["readout"])
        readout.load_state_dict(load(find(folder, WEIGHTS).read_bytes()))
        layers, summary, pooling = data["layers"], data["summary"], data["pooling"]
    except (ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as problem:
        raise InvalidInput(
            f"Expected the statistics of an adapted encoder in {folder}, but they cannot be read."
        ) from problem
    encoder = Bert.load(folder, layers=layers, summary=summary, pooling=pooling)
    if readout.sizes != (encoder.width, encoder.summary_width):
        raise InvalidInput(
            f"Expected statistics for widths {encoder.width} and {encoder.summary_width} in "
            f"{folder}, got some for {readout.sizes[0]} and {readout.sizes[1]}."
        )
    return encoder, readout


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
    on_step: Callable[[Progress], None] = lambda _: None
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
