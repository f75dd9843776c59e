"""The joint model of intents and slots.

It has an encoder, a readout of its vectors, an intent head, and a CRF over slot tags.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from sottovoce import _validate
from sottovoce.corpora import OUTSIDE, Utterance
from sottovoce.errors import InvalidInput
from sottovoce.nlu.crf.linear_chain import IMPOSSIBLE, Crf
from sottovoce.nlu.crf.viterbi import decode, log_partition, marginals
from sottovoce.nlu.encoders.base import Encoded, Encoder, encoder_from_json
from sottovoce.nlu.encoders.label_names import name_words
from sottovoce.nlu.encoders.whitening import Readout
from sottovoce.nlu.fit.data import Batch, Encodings
from sottovoce.nlu.schema import Schema

OWN, PART, BORDER = 0.7, 0.5, 0.5
"""Weights of the tag itself, of each part of its name, and of its prefix (O, B or I)."""


def parts_of(kind: str) -> frozenset[str]:
    """The parts of a slot type's name: its words, and its prefix and suffix at a dot.

    >>> sorted(parts_of("arrive_date.day_name"))
    ['.day_name', 'arrive', 'arrive_date.', 'date', 'day', 'name']
    >>> sorted(parts_of("timeRange"))
    ['range', 'time']
    """
    words = {*name_words(kind)}
    first, dot, _ = kind.partition(".")
    return frozenset(words | ({f"{first}.", f".{kind.rpartition('.')[2]}"} if dot else set()))


def tag_features(tags: Sequence[str]) -> Tensor:
    """[tags, columns] feature weights of each tag; rows have unit length.

    The columns are the tags themselves, the parts that occur in several slot types, and O, B, I.

    Slot names have parts: `arrive_date.day_name` and `depart_date.day_name` are both days,
    `arrive_date.day_name` and `arrive_time.time` both arrivals. Each part has its own weights, and
    the score of a tag is the weighted sum over its parts. Rare tags thus benefit from the examples
    of other tags with the same part, while independent noise averages out. Only names are used, no
    data.

    >>> tag_features(["O", "B-who", "I-who"]).shape
    torch.Size([3, 6])
    """
    kinds = sorted({tag[2:] for tag in tags if tag != OUTSIDE})
    carriers = Counter(part for kind in kinds for part in parts_of(kind))
    parts = sorted(part for part, carried in carriers.items() if carried > 1)
    rows = []
    for tag in tags:
        has = frozenset() if tag == OUTSIDE else parts_of(tag[2:])
        rows.append(
            [OWN * (tag == other) for other in tags]
            + [PART * (part in has) for part in parts]
            + [BORDER * (tag[0] == border) for border in "OBI"]
        )
    shares = torch.tensor(rows, dtype=torch.float32)
    return shares / shares.square().sum(1, keepdim=True).sqrt()


TRIED_INTENTS = 5
"""Number of most likely intents whose slots are decoded."""

Reduction = Literal["sum", "mean"]


@dataclass(frozen=True)
class Prediction:
    """Predicted intent and slots of an utterance, with the model's probabilities."""

    intent: str
    probability: float
    slots: tuple[str, ...]
    slot_probabilities: tuple[float, ...]


class JointModel(nn.Module):
    """Predicts the intent and slots of an utterance from one shared encoder.

        -log p(intent, tags | words) = -log p(intent | words) - log p(tags | intent, words)

    The first term is cross entropy. The second is the CRF's negative log-likelihood over the
    sequences that are valid BIO and, if the schema has an ontology, allowed for the intent.
    Decoding uses the same constraints and returns the best pair of intent and tags, so the model
    need not learn the ontology.

    >>> from sottovoce.nlu.encoders.clc import Clc, ClcShape
    >>> from sottovoce.nlu.encoders.words import Words
    >>> schema = Schema(intents=("call", "stop"), slot_types=("who",), slots_of=None, declared=True)
    >>> shape = ClcShape(word_width=4, filters=3, hidden=5, layers=1)
    >>> model = JointModel(schema, Clc(Words.hashed(10), shape))
    >>> model.predict([["call", "mum"]])[0].probability         # untrained
    0.5
    """

    allowed: Tensor
    """[intents, tags] the tags that the ontology allows for each intent."""
    tag_features: Tensor | None
    """[tags, columns] features shared between tags; None if every tag has its own weights only."""

    def __init__(
        self,
        schema: Schema,
        encoder: Encoder,
        readout: Readout | None = None,
        *,
        slot_reduction: Reduction = "sum",
        share_names: bool = False,
    ) -> None:
        """Heads are initialised to zero, so every label is equally likely.

        With `share_names`, slots whose names have parts in common share weights.
        """
        super().__init__()
        _validate.one_of("slot_reduction", slot_reduction, ("sum", "mean"))
        self.schema, self.encoder, self.slot_reduction = schema, encoder, slot_reduction
        self.readout = readout or Readout(encoder.width, encoder.summary_width)
        if self.readout.sizes != (encoder.width, encoder.summary_width):
            raise InvalidInput(
                f"Expected a readout for widths {encoder.width} and {encoder.summary_width}, "
                f"got one for {self.readout.sizes[0]} and {self.readout.sizes[1]}."
            )
        self.intent = nn.Linear(self.readout.summary_width, len(schema.intents))
        features = tag_features(schema.tags) if share_names else None
        self.register_buffer("tag_features", features, persistent=False)
        columns = len(schema.tags) if features is None else features.shape[1]
        self.slot = nn.Linear(self.readout.width, columns)
        self.crf = Crf(len(schema.tags), schema.tags)
        allowed = torch.tensor(schema.allowed(), dtype=torch.bool)
        self.register_buffer("allowed", allowed, persistent=False)
        for head in (self.intent, self.slot):
            nn.init.zeros_(head.weight)
            nn.init.zeros_(head.bias)

    @property
    def device(self) -> torch.device:
        return self.intent.weight.device

    def heads(self, inputs: dict[str, Tensor] | Encoded) -> tuple[Tensor, Tensor, Tensor]:
        """Intent scores [B, I], tag scores [B, T, K], and the mask of words [B, T]."""
        kept = isinstance(inputs, Encoded)
        encoded = inputs if isinstance(inputs, Encoded) else self.encoder(inputs)
        seen = self.readout.add_context(encoded) if kept else self.readout(encoded)
        emissions = self.slot(seen.words)
        if self.tag_features is not None:
            emissions = emissions @ self.tag_features.T
        return self.intent(seen.utterance), emissions, seen.mask

    def mask_by_intent(self, intents: Tensor, emissions: Tensor) -> Tensor:
        """Emissions [B, T, K] with the tags masked that the ontology forbids for intents [B]."""
        if self.schema.slots_of is None:
            return emissions
        return emissions.masked_fill(~self.allowed[intents][:, None], IMPOSSIBLE)

    def losses(self, batch: Batch) -> Tensor:
        """[examples] loss of each example."""
        batch = batch.to(self.device)
        intents, emissions, mask = self.heads(batch.inputs)
        by_intent = functional.cross_entropy(intents, batch.intents, reduction="none")
        by_slots: Tensor = self.crf(self.mask_by_intent(batch.intents, emissions), batch.tags, mask)
        if self.slot_reduction == "mean":
            by_slots = by_slots / mask.sum(1)
        return by_intent + by_slots

    def forward(self, batch: Batch) -> Tensor:
        return self.losses(batch)

    @torch.no_grad()
    def predict(self, tokens: Sequence[Sequence[str]], *, batch_size: int = 64) -> list[Prediction]:
        """Intent and slots of each utterance (a list of words)."""
        _validate.at_least_one("batch_size", batch_size)
        found: list[Prediction | None] = [None] * len(tokens)
        encodings = Encodings(self, [_unlabelled(words) for words in tokens], False, labelled=False)
        with _evaluating(self):
            for chosen in encodings.batches_by_length(batch_size):
                batch = encodings.batch(chosen).to(self.device)
                predicted = self._predict(*self.heads(batch.inputs))
                for number, prediction in zip(chosen.tolist(), predicted, strict=True):
                    found[number] = prediction
        return [prediction for prediction in found if prediction is not None]

    def _predict(self, intents: Tensor, emissions: Tensor, mask: Tensor) -> list[Prediction]:
        logs = intents.log_softmax(-1)
        chosen, paths = self._decode(logs, emissions, mask)
        posteriors = marginals(self.crf, self.mask_by_intent(chosen, emissions), mask).cpu()
        predictions = []
        for row, (number, path) in enumerate(zip(chosen.tolist(), paths, strict=True)):
            sure = posteriors[row, torch.arange(len(path)), torch.tensor(path)]
            predictions.append(
                Prediction(
                    intent=self.schema.intents[number],
                    probability=min(1.0, float(logs[row, number].exp())),
                    slots=tuple(self.schema.tags[tag] for tag in path),
                    slot_probabilities=tuple(sure.clamp(0, 1).tolist()),
                )
            )
        return predictions

    def _decode(
        self, logs: Tensor, emissions: Tensor, mask: Tensor
    ) -> tuple[Tensor, list[list[int]]]:
        """The best intent [B] and tags of each utterance."""
        if self.schema.slots_of is None:
            return logs.argmax(-1), decode(self.crf, emissions, mask).tags
        tried = min(TRIED_INTENTS, len(self.schema.intents))
        best, which = logs.topk(tried, -1)
        chosen = which[:, 0].clone()
        scores, paths = self._decode_as(chosen, emissions, mask)
        scores += best[:, 0]
        for place in range(1, tried):
            # log p(tags | intent) <= 0, so an intent that is less likely than the best pair so far
            # cannot be part of a better one.
            rows = (scores < best[:, place]).nonzero()[:, 0]
            if not len(rows):
                break
            intents = which[rows, place]
            found, other = self._decode_as(intents, emissions[rows], mask[rows])
            found += best[rows, place]
            for row, intent, score, path in zip(rows.tolist(), intents, found, other, strict=True):
                if score > scores[row]:
                    scores[row], chosen[row], paths[row] = score, intent, path
        return chosen, paths

    def _decode_as(
        self, intents: Tensor, emissions: Tensor, mask: Tensor
    ) -> tuple[Tensor, list[list[int]]]:
        """log p(tags | intent) of the best tags for these intents [B], and the tags.

        Scores of different intents are comparable only as p(tags | intent).
        """
        restricted = self.mask_by_intent(intents, emissions)
        decoded = decode(self.crf, restricted, mask)
        return decoded.scores - log_partition(self.crf, restricted, mask), decoded.tags

    @torch.no_grad()
    def log_probabilities(
        self, utterances: Sequence[Utterance], *, batch_size: int = 64
    ) -> list[float]:
        """log p(intent, slots | words) of each utterance; unknown labels raise InvalidInput."""
        found = torch.zeros(len(utterances))
        encodings = Encodings(self, utterances, False)
        with _evaluating(self):
            for chosen in encodings.batches_by_length(batch_size):
                batch = encodings.batch(chosen).to(self.device)
                intents, emissions, mask = self.heads(batch.inputs)
                loss = functional.cross_entropy(intents, batch.intents, reduction="none")
                emissions = self.mask_by_intent(batch.intents, emissions)
                found[chosen] = -(loss + self.crf(emissions, batch.tags, mask)).cpu()
        return found.tolist()

    @torch.no_grad()
    def scores(
        self, utterances: Sequence[Utterance], *, batch_size: int = 64
    ) -> tuple[Tensor, list[Tensor]]:
        """Intent posteriors [B, I], and tag posteriors of the words, [T, K] per utterance."""
        intents = torch.zeros(len(utterances), len(self.schema.intents))
        words = [torch.zeros(0)] * len(utterances)
        encodings = Encodings(self, utterances, False, labelled=False)
        with _evaluating(self):
            for chosen in encodings.batches_by_length(batch_size):
                scored, emissions, mask = self.heads(encodings.batch(chosen).to(self.device).inputs)
                intents[chosen] = scored.softmax(-1).cpu()
                emissions = self.mask_by_intent(scored.argmax(-1), emissions)
                posteriors = marginals(self.crf, emissions, mask).cpu()
                for row, number in enumerate(chosen.tolist()):
                    words[number] = posteriors[row, : int(encodings.lengths[number])].clone()
        return intents, words

    def to_json(self) -> dict[str, Any]:
        return {
            "encoder": self.encoder.to_json(),
            "readout": self.readout.to_json(),
            "slot_reduction": self.slot_reduction,
            "share_names": self.tag_features is not None,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], schema: Schema, files: Mapping[str, bytes]) -> Self:
        """The same architecture, without weights."""
        return cls(
            schema,
            encoder_from_json(data["encoder"], files),
            Readout.from_json(data["readout"]),
            slot_reduction=data["slot_reduction"],
            share_names=data.get("share_names", False),
        )


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode inside the block; the previous mode is restored afterwards."""
    mode = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(mode)


def _unlabelled(words: Sequence[str]) -> Utterance:
    tokens = tuple(words)
    return Utterance(tokens=tokens, slots=("O",) * len(tokens))
