"""How large the study of the paper's tables is, and its models (see edpsgd_tables.py)."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from sottovoce.corpora.synthetic import DOMAINS, generate
from sottovoce.corpora.wordvectors import WordVectors
from sottovoce.nlu.encoders.base import Encoded, Encoder, Prepared, prefix_mask
from sottovoce.nlu.encoders.bert import Bert
from sottovoce.nlu.encoders.clc import Clc, ClcShape
from sottovoce.nlu.encoders.tuning import tune, tuning_of
from sottovoce.nlu.encoders.whitening import Readout
from sottovoce.nlu.encoders.words import Words, words_of_vectors
from sottovoce.nlu.fit.recipes import ModelKind, readout_recipe
from sottovoce.nlu.model import JointModel
from sottovoce.nlu.schema import Schema
from sottovoce.privacy.recipes import Decay

AT_ONCE = 64


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How large the study is. `train` and `test` are the most utterances taken of a corpus."""

    train: int
    test: int
    epochs: Mapping[str, int]
    epochs_of_ours: int
    batch_size: int
    shape: ClcShape
    tuning: str
    learning_rates: Mapping[str, float]
    encoder: str = "minilm"
    buckets: int = 20_000
    workers: int = 8
    clip_norm: float = 1.0
    noise_multipliers: Mapping[str, float]
    tau_linear: float = 0.5
    tau_exponential: float = 0.5
    generated: int = 4000

    def tau(self, decay: Decay) -> float:
        taus = {Decay.LINEAR: self.tau_linear, Decay.EXPONENTIAL: self.tau_exponential}
        return taus.get(decay, 0.0)

    def of(self, kind: ModelKind) -> dict[str, Any]:
        """What of it concerns one model, for the record."""
        own = {"clc": ("shape", "buckets"), "bert": ("encoder", "tuning")}
        others = {name for other, names in own.items() if other != kind for name in names}
        found = {name: value for name, value in asdict(self).items() if name not in others}
        found["epochs"] = self.epochs[kind]
        for name in ("learning_rates", "noise_multipliers"):
            found[name.removesuffix("s")] = found.pop(name)[kind]
        if kind is ModelKind.CLC or self.tuning != "frozen":
            found["heads"] = "random at first"
        return found


REDUCED = Scale(
    train=400,
    test=300,
    epochs={"clc": 20, "bert": 8},
    epochs_of_ours=15,
    batch_size=20,
    shape=ClcShape(word_width=100, filters=20, hidden=48),
    buckets=2000,
    tuning="frozen",
    learning_rates={"clc": 5e-3, "bert": 0.03},
    workers=2,
    noise_multipliers={"clc": 0.002, "bert": 0.03},
    generated=900,
)
QUICK = Scale(
    train=12,
    test=12,
    epochs={"clc": 2, "bert": 2},
    epochs_of_ours=1,
    batch_size=6,
    shape=ClcShape(word_width=5, character_width=3, filters=4, hidden=6, layers=1),
    buckets=20,
    tuning="frozen",
    learning_rates={"clc": 1e-2, "bert": 1e-2},
    workers=2,
    noise_multipliers={"clc": 0.01, "bert": 0.01},
    generated=40,
)
FULL = Scale(
    train=10**9,
    test=10**9,
    epochs={"clc": 10, "bert": 10},
    epochs_of_ours=30,
    batch_size=64,
    shape=ClcShape(),
    tuning="full",
    learning_rates={"clc": 1e-3, "bert": 3e-4},
    noise_multipliers={"clc": 0.01, "bert": 0.03},
    generated=100_000,
)


class Kept(Encoder):
    """A fixed encoder that looks at an utterance once, however many models read its vectors."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.inner = encoder.eval()
        self.width, self.summary_width = encoder.width, encoder.summary_width
        self._known: dict[tuple[str, ...], Prepared] = {}

    def prepare(self, tokens: Sequence[str]) -> Prepared:
        if tuple(tokens) not in self._known:
            self.remember([tokens])
        return self._known[tuple(tokens)]

    @torch.no_grad()
    def remember(self, texts: Sequence[Sequence[str]]) -> None:
        new = sorted({tuple(text) for text in texts} - self._known.keys(), key=len)
        for start in range(0, len(new), AT_ONCE):
            piece = new[start : start + AT_ONCE]
            inner = self.inner
            found = inner(inner.collate([inner.prepare(text) for text in piece]))
            for row, text in enumerate(piece):
                vectors = found.words[row, : len(text)].half()
                self._known[text] = {"words": vectors, "utterance": found.utterance[row].half()}

    def collate(self, prepared: Sequence[Prepared]) -> dict[str, Tensor]:
        vectors = [one["words"] for one in prepared]
        return {
            "words": nn.utils.rnn.pad_sequence(vectors, batch_first=True).float(),
            "utterance": torch.stack([one["utterance"] for one in prepared]).float(),
            "lengths": torch.tensor([len(each) for each in vectors]),
        }

    def forward(self, inputs: dict[str, Tensor]) -> Encoded:
        mask = prefix_mask(inputs["lengths"], inputs["words"].shape[1])
        return Encoded(inputs["words"], inputs["utterance"], mask)

    def to_json(self) -> dict[str, Any]:
        return self.inner.to_json()

    @classmethod
    def from_json(cls, data: Mapping[str, Any], files: Mapping[str, bytes]) -> Self:
        raise NotImplementedError("it lives as long as the study")


class Models:
    """New models of a scale; a fixed encoder and word vectors are loaded once."""

    def __init__(self, scale: Scale, vectors: Path | None = None) -> None:
        self.scale = scale
        self._vectors = None if vectors is None else words_of_vectors(vectors)
        self._fixed: tuple[Kept, Readout] | None = None

    def make(self, kind: ModelKind, schema: Schema) -> JointModel:
        torch.manual_seed(1)
        if kind is ModelKind.CLC:
            table: tuple[Words, WordVectors | None]
            table = self._vectors or (Words.hashed(self.scale.buckets), None)
            tuned = table[1] is None
            clc = Clc(table[0], self.scale.shape, vectors=table[1], tune_words=tuned)
            return _started(JointModel(schema, clc))
        if self.scale.tuning == "frozen":
            self._fixed = self._fixed or _frozen(self.scale.encoder)
            return JointModel(schema, *self._fixed)
        bert = Bert.load(self.scale.encoder)
        tune(bert, tuning_of(self.scale.tuning))
        return _started(JointModel(schema, bert))


def _started(model: JointModel) -> JointModel:
    """With random heads, as torch makes them: the paper takes scales from the first gradient, and
    below heads of zeros that gradient is zero."""
    for head in (model.intent, model.slot):
        head.reset_parameters()
    return model


def _frozen(name: str) -> tuple[Kept, Readout]:
    """As `sottovoce train` reads a frozen encoder: evened out by made-up, hence public, text."""
    recipe = readout_recipe("frozen")
    bert = Bert.load(name, layers=recipe.layers, summary=recipe.summary)
    tune(bert, tuning_of("frozen"))
    readout = Readout(bert.width, bert.summary_width, recipe.plan)
    public = (u.tokens for domain in DOMAINS for u in generate(domain, size=300, seed=2))
    readout.fit(bert, public)
    return Kept(bert), readout
