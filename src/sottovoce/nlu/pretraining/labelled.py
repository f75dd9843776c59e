"""Multi-task adaptation of an encoder on public labelled corpora, with separate heads for each.

Corpora differ in their label sets, so each has its own heads; what they have in common (slot
boundaries, word classes) is learnt by the encoder. Heads that are later trained privately on top
of it need far fewer noisy steps.

Heads that score labels by their names (`label_names`) can be trained at the same time.

Swapping slot values teaches the encoder to recognise slots by context, not by their words alone.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from sottovoce import _validate
from sottovoce.corpora import OUTSIDE, Utterance
from sottovoce.errors import InvalidInput
from sottovoce.nlu.encoders.base import Prepared, padded
from sottovoce.nlu.encoders.bert import Bert
from sottovoce.nlu.encoders.label_names import NameHeads, name_vectors
from sottovoce.nlu.pretraining.loop import LoopOptions, Pretrained, bucket_by_length, run
from sottovoce.nlu.schema import Schema

SHARE = 0.7
"""Probability that a slot value of an augmented utterance is swapped."""


class Values:
    """The slot values of a corpus, for data augmentation.

    >>> corpus = [Utterance(tokens=("call", "mum"), slots=("O", "B-who")),
    ...           Utterance(tokens=("aunt", "ann", "please"), slots=("B-who", "I-who", "O"))]
    >>> Values(corpus).swap(corpus[0], random.Random(5)).text
    'call aunt ann'
    """

    def __init__(self, utterances: Sequence[Utterance]) -> None:
        self._of: dict[str, list[tuple[str, ...]]] = {}
        for utterance in utterances:
            for kind, begin, end in _stretches(utterance.slots):
                if kind:
                    self._of.setdefault(kind, []).append(utterance.tokens[begin:end])

    def swap(self, utterance: Utterance, draws: random.Random) -> Utterance:
        """The utterance with some of its slot values replaced by others of the same slot."""
        tokens: list[str] = []
        slots: list[str] = []
        for kind, begin, end in _stretches(utterance.slots):
            value = utterance.tokens[begin:end]
            if kind and draws.random() < SHARE:
                value = draws.choice(self._of[kind])
            tokens += value
            slots += [f"{'I' if place else 'B'}-{kind}" if kind else OUTSIDE
                      for place in range(len(value))]  # fmt: skip
        return replace(utterance, tokens=tuple(tokens), slots=tuple(slots), text="")


def _stretches(slots: Sequence[str]) -> list[tuple[str, int, int]]:
    """Slots and the gaps between them, in order; the name of a gap is empty.

    >>> _stretches(["O", "B-a", "I-a", "B-a"])
    [('', 0, 1), ('a', 1, 3), ('a', 3, 4)]
    """
    found: list[tuple[str, int, int]] = []
    for place, slot in enumerate(slots):
        kind = "" if slot == OUTSIDE else slot[2:]
        if found and found[-1][0] == kind and not slot.startswith("B-"):
            found[-1] = (kind, found[-1][1], place + 1)
        else:
            found.append((kind, place, place + 1))
    return found


INTENT_WEIGHT, BORDER_WEIGHT = 0.5, 0.3
NAME_WEIGHT = 0.7
DROPOUT_OF_HEADS = 0.1
IGNORED = -100


@dataclass(frozen=True, kw_only=True)
class LabelledPlan:
    """`passes` over at most `limit` utterances of each corpus; slot values are swapped in the
    fraction `swapped` of the utterances."""

    passes: int = 2
    limit: int | None = 8000
    batch_size: int = 32
    learning_rate: float = 1.2e-4
    head_rate: float = 1.5e-3
    dropout: float = 0.1
    longest: int = 40
    swapped: float = 0.4
    seed: int = 0

    def __post_init__(self) -> None:
        _validate.parse_fields(self)
        for name in ("passes", "batch_size", "longest"):
            _validate.at_least_one(name, getattr(self, name))
        if self.limit is not None:
            _validate.at_least_one("limit", self.limit)
        for name in ("learning_rate", "head_rate"):
            _validate.positive(name, getattr(self, name))
        _validate.between("swapped", self.swapped, 0, 1)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def chosen(
    corpora: Mapping[str, Sequence[Utterance]], plan: LabelledPlan
) -> dict[str, list[Utterance]]:
    """The training utterances of each corpus: without duplicates, and at most `limit`.

    >>> one = Utterance(tokens=("call", "mum"), slots=("O", "B-who"))
    >>> chosen({"calls": [one, one]}, LabelledPlan())["calls"] == [one]
    True
    """
    taken = {}
    for name, utterances in corpora.items():
        distinct = {(u.tokens, u.slots, u.intent): u for u in utterances if u.tokens}
        kept = list(distinct.values())
        if not any(u.intent or any(slot != OUTSIDE for slot in u.slots) for u in kept):
            raise InvalidInput(f"Expected intents or slots in the corpus {name}, found none.")
        if plan.limit is not None and len(kept) > plan.limit:
            kept = random.Random(f"{plan.seed}:{name}").sample(kept, plan.limit)
        taken[name] = kept
    return taken


def adapt(
    encoder: Bert,
    corpora: Mapping[str, Sequence[Utterance]],
    plan: LabelledPlan | None = None,
    loop: LoopOptions | None = None,
    names: NameHeads | None = None,
) -> Pretrained:
    """Train the encoder in place to label all corpora; it must read its last layer, as by default
    in `Bert.load`. Utterances are truncated to `longest` words. `names` are trained as well."""
    plan = plan or LabelledPlan()
    if not corpora:
        raise InvalidInput("Expected at least one labelled corpus, got none.")
    torch.manual_seed(plan.seed)
    taken = chosen(corpora, plan)
    schemas = {name: Schema.of(utterances, ontology=False) for name, utterances in taken.items()}
    model = _MultiTask(encoder, list(schemas.values()), names)
    # Input embeddings stay frozen, so that pieces absent from these corpora keep their meaning.
    encoder.network.get_input_embeddings().requires_grad_(False)  # type: ignore[operator]
    batches = _batches(taken, plan)
    values = [Values(utterances) for utterances in taken.values()]
    sources = list(taken)

    def loss_of(step: int) -> Tensor:
        number, rows = batches[step]
        draws = random.Random(f"{plan.seed}:{step}")
        utterances = [
            values[number].swap(u, draws) if draws.random() < plan.swapped else u
            for u in (taken[sources[number]][row] for row in rows)
        ]
        return model.loss(number, schemas[sources[number]], utterances, plan.longest)

    rates = [(encoder, plan.learning_rate), (model.heads, plan.head_rate)]
    with _dropout(encoder, plan.dropout):
        return run(model, rates, loss_of, len(batches), loop)


class _MultiTask(nn.Module):
    """An encoder with heads for each corpus."""

    def __init__(self, encoder: Bert, schemas: Sequence[Schema], names: NameHeads | None) -> None:
        super().__init__()
        self.encoder = encoder
        self.heads = nn.ModuleDict({"borders": nn.Linear(encoder.width, 3)})
        self.names = names
        if names is not None:
            self.heads["names"] = names
            self.meanings = [
                (name_vectors(encoder, each.slot_types), name_vectors(encoder, each.intents))
                for each in schemas
            ]
        self.borders = []
        for number, schema in enumerate(schemas):
            self.heads[f"slots {number}"] = nn.Linear(encoder.width, len(schema.tags))
            self.heads[f"intents {number}"] = nn.Linear(encoder.summary_width, len(schema.intents))
            self.borders.append(torch.tensor(["OBI".index(tag[0]) for tag in schema.tags]))

    def loss(
        self, number: int, schema: Schema, utterances: Sequence[Utterance], longest: int
    ) -> Tensor:
        prepared: list[Prepared] = [self.encoder.prepare(u.tokens[:longest]) for u in utterances]
        encoded = self.encoder(self.encoder.collate(prepared))
        tags = padded(
            [torch.tensor(schema.tag_numbers(u.slots[:longest])) for u in utterances], IGNORED
        )
        words = functional.dropout(encoded.words, DROPOUT_OF_HEADS, self.training)
        slots = self.heads[f"slots {number}"](words)
        borders = torch.where(tags == IGNORED, IGNORED, self.borders[number][tags.clamp(min=0)])
        total = functional.cross_entropy(slots.flatten(0, 1), tags.flatten())
        total = total + BORDER_WEIGHT * functional.cross_entropy(
            self.heads["borders"](words).flatten(0, 1), borders.flatten()
        )
        if len(schema.intents) > 1:
            summary = functional.dropout(encoded.utterance, DROPOUT_OF_HEADS, self.training)
            intents = torch.tensor([schema.intent_number(u.intent) for u in utterances])
            total = total + INTENT_WEIGHT * functional.cross_entropy(
                self.heads[f"intents {number}"](summary), intents
            )
        if self.names is not None:
            slot_types, names = self.meanings[number]
            scores = self.names.tags(words, schema.tags, slot_types)
            total = total + NAME_WEIGHT * functional.cross_entropy(
                scores.flatten(0, 1), tags.flatten()
            )
            if len(schema.intents) > 1:
                total = total + NAME_WEIGHT * INTENT_WEIGHT * functional.cross_entropy(
                    summary @ self.names.intent_weights(names).T, intents
                )
        return total


def _batches(
    taken: Mapping[str, Sequence[Utterance]], plan: LabelledPlan
) -> list[tuple[int, list[int]]]:
    """For each step: the corpus and the utterances."""
    draws = random.Random(plan.seed)
    batches: list[tuple[int, list[int]]] = []
    for _ in range(plan.passes):
        one_pass = [
            (number, rows)
            for number, utterances in enumerate(taken.values())
            for rows in bucket_by_length(
                [len(u.tokens) for u in utterances], plan.batch_size, draws
            )
        ]
        draws.shuffle(one_pass)
        batches += one_pass
    return batches


@contextmanager
def _dropout(encoder: Bert, share: float) -> Iterator[None]:
    """Set the dropout rate of the network inside the block; it is restored afterwards."""
    inside = [module for module in encoder.network.modules() if isinstance(module, nn.Dropout)]
    before = [module.p for module in inside]
    for module in inside:
        module.p = share
    try:
        yield
    finally:
        for module, was in zip(inside, before, strict=True):
            module.p = was
