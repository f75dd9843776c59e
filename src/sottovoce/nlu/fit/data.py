"""A corpus prepared once as model input, and batches of it.

The vectors of a frozen encoder are computed once and cached, so a training step runs the heads
only. The cache is one flat tensor, in half precision if needed to fit into memory. Utterances of
the same words share their vectors.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from sottovoce.corpora import Utterance
from sottovoce.errors import InvalidInput
from sottovoce.nlu.encoders.base import Encoded, Encoder, Prepared, prefix_mask
from sottovoce.nlu.encoders.whitening import Readout
from sottovoce.nlu.schema import Schema

CACHE_LIMIT = 2 << 30
"""Maximum size of the cache in bytes; above half of it, vectors are stored in half precision."""
ENCODE_BATCH = 64
"""Utterances per batch when the cache is filled."""
ENCODE_WORDS = 4096
"""Words per batch, with padding; it limits the memory that long utterances take."""
PADDING = 0.5
"""Largest share of padding in a group of utterances of similar length."""


class _Model(Protocol):
    """The parts of a model that a prepared corpus needs."""

    @property
    def schema(self) -> Schema: ...
    @property
    def encoder(self) -> Encoder: ...
    @property
    def readout(self) -> Readout: ...


@dataclass(frozen=True, eq=False)
class Batch:
    """Examples with their labels. `inputs` are encoder inputs, or cached vectors."""

    inputs: dict[str, Tensor] | Encoded
    intents: Tensor
    tags: Tensor
    mask: Tensor

    def __len__(self) -> int:
        return len(self.intents)

    def to(self, device: torch.device | str) -> "Batch":
        inputs: dict[str, Tensor] | Encoded
        if isinstance(self.inputs, Encoded):
            inputs = self.inputs.to(device)
        else:
            inputs = {name: tensor.to(device) for name, tensor in self.inputs.items()}
        return Batch(inputs, self.intents.to(device), self.tags.to(device), self.mask.to(device))


class Encodings:
    """Utterances prepared as model input.

    `cache` stores the vectors of a frozen encoder, computed with its current weights (None: if
    they fit into `limit` bytes). Without `labelled`, labels are ignored.
    """

    def __init__(
        self,
        model: _Model,
        utterances: Sequence[Utterance],
        cache: bool | None = None,
        *,
        labelled: bool = True,
        half: bool | None = None,
        limit: int = CACHE_LIMIT,
        on_count: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._encoder, self._readout = model.encoder, model.readout
        self.lengths = torch.tensor([len(u.tokens) for u in utterances], dtype=torch.int64)
        self._starts = self.lengths.cumsum(0) - self.lengths
        self._intents, self._tags = _labels(model.schema, utterances, labelled)
        self._prepared: list[Prepared] = []
        self._cache: tuple[Tensor, Tensor] | None = None
        distinct: dict[tuple[str, ...], int] = {}
        own = torch.tensor(
            [distinct.setdefault(u.tokens, len(distinct)) for u in utterances], dtype=torch.int64
        )
        sizes = torch.tensor([len(tokens) for tokens in distinct], dtype=torch.int64)
        self._vectors_of = own, (sizes.cumsum(0) - sizes)[own]
        words = int(sizes.sum())
        size = 4 * (
            words * model.readout.words.width + len(distinct) * model.readout.utterance.width
        )
        fits = size // 2 <= limit
        if cache and not model.encoder.frozen:
            raise InvalidInput(
                "Expected a frozen encoder to cache vectors of, got a trainable one: pass "
                "cache=False, or freeze the encoder."
            )
        if cache and not fits:
            raise InvalidInput(
                f"Expected vectors of at most {limit:,} bytes to cache, got {size // 2:,}: raise "
                "the limit, or compute them at every step (cache=False)."
            )
        if model.encoder.frozen and (fits if cache is None else cache):
            in_half = size > limit // 2 if half is None else half
            self._cache = self._encode(list(distinct), sizes, in_half, on_count)
        else:
            self._prepared = [model.encoder.prepare(u.tokens) for u in utterances]

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def cached(self) -> bool:
        return self._cache is not None

    def batch(self, indices: Tensor | Sequence[int]) -> Batch:
        """The examples with these indices, padded to the longest."""
        chosen = torch.as_tensor(indices, dtype=torch.int64)
        if not len(chosen):
            raise InvalidInput("Expected at least one example in a batch, got none.")
        lengths = self.lengths[chosen]
        mask = prefix_mask(lengths)
        places = self._starts[chosen, None] + torch.arange(mask.shape[1])
        # Padding positions would index the next utterance, or past the end of the tensor.
        places = places.masked_fill(~mask, 0)
        tags = self._tags[places].masked_fill(~mask, 0)
        inputs: dict[str, Tensor] | Encoded
        if self._cache is not None:
            words, summaries = self._cache
            distinct, starts = (each[chosen] for each in self._vectors_of)
            places = (starts[:, None] + torch.arange(mask.shape[1])).masked_fill(~mask, 0)
            vectors = words[places].float().masked_fill(~mask.unsqueeze(-1), 0.0)
            inputs = Encoded(vectors, summaries[distinct].float(), mask)
        else:
            inputs = self._encoder.collate([self._prepared[i] for i in chosen.tolist()])
        return Batch(inputs, self._intents[chosen], tags, mask)

    def batches_by_length(self, batch_size: int = ENCODE_BATCH) -> Iterator[Tensor]:
        """Indices of all examples in batches of similar length, for one pass."""
        yield from _by_length(self.lengths, batch_size)

    def groups_by_length(self, indices: Tensor) -> list[Tensor]:
        """Positions in `indices`, in groups with at most `PADDING` of padding."""
        lengths = self.lengths[indices]
        order = lengths.argsort(stable=True)
        groups, begin, words = list[Tensor](), 0, 0
        for place, length in enumerate(lengths[order].tolist()):
            if (place - begin + 1) * length > (words + length) * (1 + PADDING):
                groups.append(order[begin:place])
                begin, words = place, 0
            words += length
        return [*groups, order[begin:]]

    @torch.no_grad()
    def _encode(
        self,
        distinct: Sequence[tuple[str, ...]],
        sizes: Tensor,
        half: bool,
        on_count: Callable[[int], None],
    ) -> tuple[Tensor, Tensor]:
        dtype = torch.float16 if half else torch.float32
        words = torch.empty(int(sizes.sum()), self._readout.words.width, dtype=dtype)
        summaries = torch.empty(len(distinct), self._readout.utterance.width, dtype=dtype)
        starts = sizes.cumsum(0) - sizes
        repeats = torch.bincount(self._vectors_of[0], minlength=len(distinct))
        encoder = self._encoder
        mode, device = encoder.training, next(encoder.parameters()).device
        encoder.eval()
        done = 0
        try:
            for chosen in _by_length(sizes, ENCODE_BATCH):
                prepared = [encoder.prepare(distinct[i]) for i in chosen.tolist()]
                inputs = {name: x.to(device) for name, x in encoder.collate(prepared).items()}
                encoded = self._readout.whiten(encoder(inputs)).to("cpu")
                for row, number in enumerate(chosen.tolist()):
                    start, length = int(starts[number]), int(sizes[number])
                    words[start : start + length] = encoded.words[row, :length].to(dtype)
                summaries[chosen] = encoded.utterance.to(dtype)
                done += int(repeats[chosen].sum())
                on_count(done)
        finally:
            encoder.train(mode)
        return words, summaries


def _by_length(lengths: Tensor, batch_size: int) -> Iterator[Tensor]:
    order = lengths.argsort(stable=True)
    begin = 0
    for place, length in enumerate(lengths[order].tolist()):
        taken = place - begin
        if taken == batch_size or (taken and (taken + 1) * length > ENCODE_WORDS):
            yield order[begin:place]
            begin = place
    if begin < len(order):
        yield order[begin:]


def _labels(
    schema: Schema, utterances: Sequence[Utterance], labelled: bool
) -> tuple[Tensor, Tensor]:
    if not labelled:
        words = sum(len(u.tokens) for u in utterances)
        return torch.zeros(len(utterances), dtype=torch.int64), torch.zeros(
            words, dtype=torch.int64
        )
    intents, tags = [], []
    for number, utterance in enumerate(utterances, 1):
        try:
            intents.append(schema.intent_number(utterance.intent))
            tags.extend(schema.tag_numbers(utterance.slots))
        except InvalidInput as problem:
            raise InvalidInput(f"Utterance {number}: {problem}") from problem
    return torch.tensor(intents, dtype=torch.int64), torch.tensor(tags, dtype=torch.int64)
