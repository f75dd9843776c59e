"""One cell of the tables of de-identification: transform the train part, fit, measure (see
deid_tables.py)."""

import math
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from sottovoce.corpora import OUTSIDE, Utterance
from sottovoce.corpora.splits import Parts, load_parts
from sottovoce.corpora.wordvectors import WordVectors, read_word_vectors
from sottovoce.deid import Deidentifier, LabelMap, Resources, Setting, Surrogates, mapping
from sottovoce.deid.detect.detector import Gold
from sottovoce.deid.replace import from_corpus
from sottovoce.deid.replace.forms import canonical
from sottovoce.nlu.encoders.bert import Bert
from sottovoce.nlu.encoders.tuning import Tuned, Tuning, tune
from sottovoce.nlu.fit.settings import Settings
from sottovoce.nlu.metrics.bootstrap import intervals
from sottovoce.nlu.metrics.scores import count
from sottovoce.nlu.runs.experiment import train

EVERY_SLOT = "snips-all"
FOLDERS = {
    "atis": "nlu/atis",
    "snips": "nlu/snips",
    EVERY_SLOT: "nlu/snips",
    "en-tod": "nlu/en-tod",
    "ms-restaurant": "nlu/ms-restaurant",
    "ms-taxi": "nlu/ms-taxi",
    "ami-ne": "ner/ami-ne",
}
ENTITIES = "ami-ne"
"""The set whose entities are tagged; of the others the intent or dialogue act is told."""
CLASSES = ("PER", "ORG", "LOC", "DATE", "TIME")
LAYERS = (3, 6)
RIDGE = 0.01
ROUNDS = 40
RESAMPLES = 1000
AT_ONCE = 32
NORMAL = 1.96

Found = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Row:
    """A strategy; None leaves the text as it is. `corpus` takes surrogates from the text itself."""

    name: str
    setting: Setting | None = None
    corpus: bool = False


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """How many utterances are learnt from and measured on; None: all there are."""

    train: int | None
    test: int | None


@dataclass(frozen=True, kw_only=True)
class Sample:
    """What one run works with, and which of its labels are private."""

    name: str
    train: tuple[Utterance, ...]
    test: tuple[Utterance, ...]
    labels: LabelMap


def labels_of(name: str) -> LabelMap:
    """Which labels are private.

    `snips-all` hides every slot, as the paper does. AMI-NE keeps to the paper's five classes.
    """
    if name == EVERY_SLOT:
        some = mapping("snips")
        return LabelMap({**some.private, **dict.fromkeys(some.public, "MISC")})
    labels = mapping(name)
    if name != ENTITIES:
        return labels
    private = {label: kind for label, kind in labels.private.items() if kind in CLASSES}
    return LabelMap(private, labels.public | (labels.private.keys() - private.keys()))


@cache
def corpus(data: Path, name: str) -> Parts:
    parts = load_parts(data / FOLDERS[name])
    return Parts(name=name, train=_bare(parts.train), test=_bare(parts.test))


def sample(parts: Parts, sizes: Sizes, run: int) -> Sample:
    """Every run learns from utterances of its own; all are measured on the same ones.

    One utterance of AMI in twenty has a private entity: there a sample has as many with as without,
    as far as there are.
    """
    labels = labels_of(parts.name)
    learnt = _drawn(parts.train, sizes.train, labels, f"{parts.name} {run}")
    measured = _drawn(parts.test, sizes.test, labels, parts.name)
    return Sample(name=parts.name, train=learnt, test=measured, labels=labels)


def transformed(
    row: Row, drawn: Sample, vectors: WordVectors | None = None
) -> tuple[list[Utterance], Found]:
    """The train part as it would be released, and what one token of it costs."""
    if row.setting is None:
        return list(drawn.train), {"epsilon": None, "claimed": None}
    gold = Gold(drawn.labels)
    lists = counted(drawn.train, gold) if row.corpus else {}
    resources = Resources(surrogates=lists, vectors=vectors)
    deid = Deidentifier(detector=gold, setting=row.setting, resources=resources)
    told = [release.utterance for release in deid.release_all(drawn.train)]
    statement = deid.statement()
    claims = [found.claimed for found in statement.types.values() if found.claimed is not None]
    token = statement.guarantees["token"]
    return told, {
        "epsilon": round(token.epsilon, 4) if token.holds else None,
        "claimed": round(max(claim.epsilon for claim in claims), 4) if claims else None,
    }


def counted(utterances: Sequence[Utterance], gold: Gold) -> dict[str, Surrogates]:
    """The values of every type by their frequency, free text too: the paper's surrogates."""
    values: dict[str, Counter[str]] = {}
    for utterance, spans in zip(utterances, gold.find(utterances), strict=True):
        for start, end, kind in spans:
            values.setdefault(kind, Counter())[canonical(utterance.text[start:end])] += 1
    return {kind: from_corpus(each) for kind, each in values.items() if len(each) > 1}


class Kept:
    """Vectors of a frozen encoder. Many utterances are alike in several rows: each is encoded once.

    The encoder is MiniLM: two of its layers, one vector a word and their mean for the utterance.
    """

    def __init__(self, encoder: Bert | None = None) -> None:
        self._encoder = encoder or Bert.load(layers=LAYERS)
        tune(self._encoder, Tuning(kind=Tuned.FROZEN))
        self._encoder.eval()
        self._vectors: dict[tuple[str, ...], Tensor] = {}

    def forget(self) -> None:
        self._vectors.clear()

    def utterances(self, given: Sequence[Utterance]) -> Tensor:
        return torch.stack([each.float().mean(0) for each in self._all(given)])

    def words(self, given: Sequence[Utterance]) -> Tensor:
        return torch.cat([each.float() for each in self._all(given)])

    @torch.no_grad()
    def _all(self, given: Sequence[Utterance]) -> list[Tensor]:
        new = sorted({each.tokens for each in given} - self._vectors.keys(), key=len)
        for start in range(0, len(new), AT_ONCE):
            some = new[start : start + AT_ONCE]
            prepared = [self._encoder.prepare(tokens) for tokens in some]
            encoded = self._encoder(self._encoder.collate(prepared))
            for tokens, words in zip(some, encoded.words, strict=True):
                self._vectors[tokens] = words[: len(tokens)].half()
        return [self._vectors[each.tokens] for each in given]


def frozen(kept: Kept, learnt: Sequence[Utterance], drawn: Sample) -> Found:
    """A linear layer on the frozen encoder, as in the paper, over utterances or over words."""
    if drawn.name != ENTITIES:
        intents = sorted({each.intent for each in learnt})
        right = torch.tensor([intents.index(each.intent) for each in learnt])
        guessed = linear(kept.utterances(learnt), right, kept.utterances(drawn.test))
        named = [intents[number] for number in guessed.tolist()]
        return accuracy([each.intent for each in drawn.test], named)
    learnt, test = by_class(learnt, drawn.labels), by_class(drawn.test, drawn.labels)
    tags = sorted({slot for each in learnt for slot in each.slots})
    right = torch.tensor([tags.index(slot) for each in learnt for slot in each.slots])
    words = iter(linear(kept.words(learnt), right, kept.words(test)).tolist())
    found = [
        replace(each, slots=tuple(tags[next(words)] for _ in each.tokens), extra={})
        for each in test
    ]
    counts = count(test, found)
    low, high = intervals(counts, resamples=RESAMPLES)["slot_f1"]
    return {"value": counts.scores().slot_f1, "error": (high - low) / (2 * NORMAL)}


def trained(settings: Settings, learnt: Sequence[Utterance], drawn: Sample) -> Found:
    """The same by `sottovoce.nlu`, which tunes the encoder as well, or trains the CLC."""
    if drawn.name == ENTITIES:
        score = "slot_f1"
        learnt, test = by_class(learnt, drawn.labels), by_class(drawn.test, drawn.labels)
    else:
        score = "intent_accuracy"
        learnt, test = _without_slots(learnt), _without_slots(drawn.test)
    parts = Parts(name=drawn.name, train=tuple(learnt), test=tuple(test))
    found = train(settings, parts).run["metrics"]["test"][score]
    return {"value": found["value"], "error": (found["high"] - found["low"]) / (2 * NORMAL)}


def linear(inputs: Tensor, right: Tensor, asked: Tensor) -> Tensor:
    """What multinomial logistic regression, learnt from the first two, says of the third."""
    mean, deviation = inputs.mean(0), inputs.std(0) + 1e-3
    inputs, asked = (inputs - mean) / deviation, (asked - mean) / deviation
    weights = torch.zeros(int(right.max()) + 1, inputs.shape[1] + 1, requires_grad=True)
    optimizer = torch.optim.LBFGS([weights], max_iter=ROUNDS, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        scores = functional.linear(inputs, weights[:, :-1], weights[:, -1])
        loss = functional.cross_entropy(scores, right) + RIDGE / 2 * weights[:, :-1].square().sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        return functional.linear(asked, weights[:, :-1], weights[:, -1]).argmax(-1)


def accuracy(right: Sequence[str], guessed: Sequence[str]) -> Found:
    """The share that is right, with its standard error."""
    share = sum(a == b for a, b in zip(right, guessed, strict=True)) / len(right)
    return {"value": share, "error": math.sqrt(share * (1 - share) / len(right))}


def by_class(utterances: Iterable[Utterance], labels: LabelMap) -> list[Utterance]:
    """The same with the type in place of a private label, and without the public ones."""
    told = []
    for each in utterances:
        kinds = [None if slot == OUTSIDE else labels.type_of(slot[2:]) for slot in each.slots]
        pairs = zip(each.slots, kinds, strict=True)
        slots = tuple(OUTSIDE if kind is None else slot[:2] + kind for slot, kind in pairs)
        told.append(replace(each, slots=slots))
    return told


def vectors_of(data: Path) -> WordVectors:
    return read_word_vectors(data / "vectors" / "glove-100d-subset.npz")


def _bare(utterances: Iterable[Utterance]) -> tuple[Utterance, ...]:
    return tuple(Utterance(tokens=u.tokens, slots=u.slots, intent=u.intent) for u in utterances)


def _without_slots(utterances: Iterable[Utterance]) -> list[Utterance]:
    return [replace(each, slots=(OUTSIDE,) * len(each.tokens)) for each in utterances]


def _drawn(
    utterances: Sequence[Utterance], size: int | None, labels: LabelMap, seed: str
) -> tuple[Utterance, ...]:
    if size is None or size >= len(utterances):
        return tuple(utterances)
    order = random.Random(seed).sample(list(utterances), len(utterances))
    if not order[0].intent:
        marked = list(zip(order, Gold(labels).find(order), strict=True))
        private = [each for each, found in marked if found]
        others = [each for each, found in marked if not found]
        order = private[: size // 2]
        order += others[: size - len(order)]
    return tuple(order[:size])
