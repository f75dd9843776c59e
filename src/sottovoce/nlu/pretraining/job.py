"""From public files to an encoder folder: the implementation of `sottovoce pretrain`.

The folder holds the encoder in the format of transformers, a record of all public sources
(pretraining.json), and for an adapted encoder the public statistics of its readout.

The statistics are estimated once, from the public text that the encoder was adapted on, so a
private training that uses the folder needs no other public text.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from sottovoce.corpora import Utterance, read
from sottovoce.corpora.splits import load_parts
from sottovoce.errors import InvalidInput
from sottovoce.io.atomic import find, settle, write_together
from sottovoce.io.run import header
from sottovoce.nlu.encoders.bert import Bert, Summary, save_encoder
from sottovoce.nlu.encoders.whitening import Readout, ReadoutPlan
from sottovoce.nlu.fit.loop import Progress
from sottovoce.nlu.fit.recipes import readout_recipe
from sottovoce.nlu.pretraining.labelled import LabelledPlan, adapt, chosen
from sottovoce.nlu.pretraining.loop import LoopOptions, Pretrained
from sottovoce.nlu.pretraining.masked import MaskedPlan, pretrain_masked

READOUT, WEIGHTS = "readout.json", "readout.safetensors"


def fit_readout(
    encoder: Bert,
    public: Iterable[Sequence[str]],
    plan: ReadoutPlan,
    *,
    layers: Sequence[int],
    summary: Summary,
) -> tuple[Bert, Readout]:
    """The encoder with outputs `layers`, and its readout with statistics of public utterances."""
    read = Bert(
        encoder.network, encoder.pieces, layers=layers, summary=summary, source=encoder.source
    )
    readout = Readout(read.width, read.summary_width, plan)
    readout.fit(read, public)
    return read, readout


def readout_files(encoder: Bert, readout: Readout) -> dict[str, bytes]:
    """The files that `load_readout` reads."""
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


def has_readout(folder: str | Path) -> bool:
    """Whether an encoder folder contains a readout."""
    return find(folder, READOUT).is_file() and find(folder, WEIGHTS).is_file()


def load_readout(folder: str | Path) -> tuple[Bert, Readout]:
    """The encoder of a folder, and its readout."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    if not has_readout(folder):
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
            f"{folder}, got {readout.sizes[0]} and {readout.sizes[1]}."
        )
    return encoder, readout


RECORD = "pretraining.json"
PAPER = "paper"
STATISTICS = 2000
"""Maximum number of utterances per corpus for the statistics."""


@dataclass(frozen=True, kw_only=True)
class PretrainingJob:
    """Output folder and initial encoder of a pretraining, with its checkpoint and callbacks."""

    folder: Path
    start: str
    checkpoint: Path | None = None
    resume: bool = False
    on_step: Callable[[Progress], None] = lambda _: None
    should_stop: Callable[[], bool] = lambda: False

    def encoder(self) -> Bert:
        return Bert.untrained() if self.start == PAPER else Bert.load(self.start)

    def loop_options(self, settings: Mapping[str, Any]) -> LoopOptions:
        return LoopOptions(
            checkpoint=self.checkpoint,
            resume=self.resume,
            settings=settings,
            on_step=self.on_step,
            should_stop=self.should_stop,
        )


def pretrain_on_labels(
    sources: Sequence[str | Path], job: PretrainingJob, options: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Adapt an encoder on labelled corpora; None if stopped early."""
    plan = LabelledPlan(**options)
    taken = chosen(_labelled(sources), plan)
    settings = _settings("labelled", job, plan.to_json(), _counted(taken))
    encoder = job.encoder()
    pretrained = adapt(encoder, taken, plan, job.loop_options(settings))
    if pretrained.stopped:
        return None
    recipe = readout_recipe("frozen")
    public = (
        utterance.tokens[: plan.longest]
        for utterances in taken.values()
        for utterance in utterances[:STATISTICS]
    )
    read_at, readout = fit_readout(
        encoder, public, recipe.plan, layers=_within(recipe.layers, encoder),
        summary=recipe.summary,
    )  # fmt: skip
    record = _record(settings, pretrained, None)
    save_encoder(encoder, job.folder)
    write_together(job.folder, readout_files(read_at, readout) | _as_file(record))
    return record


def pretrain_on_text(
    sources: Sequence[str | Path],
    job: PretrainingJob,
    options: Mapping[str, Any],
    limit: int | None = None,
) -> dict[str, Any] | None:
    """Pretrain an encoder on lines of text; None if stopped early."""
    plan = MaskedPlan(**options)
    texts: dict[str, list[str]] = {}
    left = limit
    for source in sources:
        lines = [utterance.text for utterance in islice(read(source), left)]
        left = None if left is None else left - len(lines)
        texts[_name(source, texts)] = lines
    settings = _settings("masked", job, plan.to_json(), _counted(texts))
    encoder = job.encoder()
    lines = [line for each in texts.values() for line in each]
    guessing = pretrain_masked(encoder, lines, plan, job.loop_options(settings))
    if guessing.pretrained.stopped:
        return None
    record = _record(settings, guessing.pretrained, guessing.valid_loss)
    save_encoder(encoder, job.folder)
    write_together(job.folder, _as_file(record))
    return record


def _labelled(sources: Sequence[str | Path]) -> dict[str, Sequence[Utterance]]:
    """All parts of every corpus: they are public, and none is used for evaluation."""
    corpora: dict[str, Sequence[Utterance]] = {}
    for source in sources:
        parts = load_parts(source)
        corpora[_name(source, corpora)] = (*parts.train, *parts.valid, *parts.test)
    return corpora


def _name(source: str | Path, taken: Mapping[str, object]) -> str:
    path = Path(source)
    name = path.name.partition(".")[0] or path.resolve().name
    if name in taken:
        raise InvalidInput(f"Expected sources with different names, got {name} twice.")
    return name


def _within(layers: Sequence[int], encoder: Bert) -> tuple[int, ...]:
    """The layers that exist in the encoder, and always the last one."""
    depth = len(encoder.blocks())
    return tuple(sorted({layer for layer in layers if 0 <= layer <= depth} | {depth}))


def _counted(found: Mapping[str, Sequence[object]]) -> list[dict[str, Any]]:
    return [{"name": name, "utterances": len(each)} for name, each in found.items()]


def _settings(
    kind: str, job: PretrainingJob, plan: Mapping[str, Any], sources: list[dict[str, Any]]
) -> dict[str, Any]:
    return {"kind": kind, "start": job.start, "plan": dict(plan), "sources": sources}


def _record(
    settings: Mapping[str, Any], pretrained: Pretrained, valid_loss: float | None
) -> dict[str, Any]:
    return {
        **header("pretrain"),
        **settings,
        "steps": pretrained.steps,
        "loss": round(pretrained.loss, 4),
        "valid_loss": None if valid_loss is None else round(valid_loss, 4),
        "seconds": round(pretrained.seconds, 1),
    }


def _as_file(record: Mapping[str, Any]) -> dict[str, bytes]:
    return {RECORD: json.dumps(record, indent=2, ensure_ascii=False).encode()}
