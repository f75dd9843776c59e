"""Warm start: train on public sample utterances before the private training.

Developers of an assistant can write sample utterances before they have users. The samples are
public, so training on them costs no privacy, and fewer noisy steps are needed afterwards.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sottovoce.corpora import Utterance
from sottovoce.corpora.splits import load_parts
from sottovoce.corpora.synthetic import GRAMMAR, Samples
from sottovoce.errors import InvalidInput
from sottovoce.nlu.fit.data import Encodings
from sottovoce.nlu.fit.loop import Progress, fit
from sottovoce.nlu.fit.optimisation import Optimisation
from sottovoce.nlu.model import JointModel
from sottovoce.nlu.schema import Schema
from sottovoce.training import Method, Plan, Worker

DRAWN = 8000
"""Utterances sampled from each grammar."""
STEPS, BATCH = 500, 64
"""Number of steps and batch size; small sample sets get more epochs."""
PUBLIC_SAMPLES = "the sample utterances {name} were written without a look at private data"


@dataclass(frozen=True, kw_only=True)
class SampleSet:
    """Sample utterances with labels of the model; `left_out` counts those with other labels."""

    name: str
    utterances: tuple[Utterance, ...]
    left_out: int

    @property
    def assumption(self) -> str:
        return PUBLIC_SAMPLES.format(name=self.name)

    def to_json(self) -> dict[str, str | int]:
        return {"name": self.name, "utterances": len(self.utterances), "left_out": self.left_out}


def read_samples(path: str | Path, schema: Schema) -> SampleSet:
    """Samples from a grammar (a .toml file), a folder of grammars, or a labelled corpus."""
    path = Path(path)
    if grammars := grammars_in(path):
        found = tuple(u for grammar in grammars for u in Samples.load(grammar).utterances(DRAWN))
    else:
        parts = load_parts(path)
        found = (*parts.train, *parts.valid, *parts.test)
    fits = schema.fits()
    fitting = tuple(utterance for utterance in found if fits(utterance))
    if not fitting:
        raise InvalidInput(
            f"Expected sample utterances with the intents and slots of the data in {path}, "
            f"got {len(found):,} with others."
        )
    return SampleSet(name=path.name, utterances=fitting, left_out=len(found) - len(fitting))


def grammars_in(path: Path) -> list[Path]:
    """The path itself if it is a grammar, the grammars of a folder by name, or none."""
    if path.is_dir():
        return sorted(path.glob(f"*{GRAMMAR}"))
    return [path] if path.suffix == GRAMMAR else []


def warm_start_from(
    samples: SampleSet,
    model: JointModel,
    optimisation: Optimisation,
    *,
    virtual_batch: int,
    seed: int | None = None,
    on_step: Callable[[Progress], None] | None = None,
) -> None:
    """Train the model on the samples without noise, since they are public."""
    count = len(samples.utterances)
    size = min(BATCH, count)
    plan = Plan(
        method=Method.SGD,
        population=count,
        batch_size=size,
        epochs=math.ceil(STEPS * size / count),
        delta=0.5,  # has no effect without privacy
        virtual_batch=virtual_batch,
        workers=Worker.this().count,
    )
    encodings = Encodings(model, samples.utterances)
    fit(model, encodings, plan, optimisation, owners=count, seed=seed, on_step=on_step)
