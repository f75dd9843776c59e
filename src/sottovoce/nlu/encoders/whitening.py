"""What the heads see of an encoder: its vectors made even with public statistics, and neighbours.

Nothing here is trained. Means and directions come from public text, once, before any private
utterance is looked at. Vectors whose directions are all of one size are learnt from with fewer
steps, and each step costs privacy; a word's neighbours spare the heads a context of their own.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.nlu.encoders.base import Encoded, Encoder


class Whitening(StrEnum):
    """How vectors are made even."""

    NONE = "none"
    STANDARDISE = "standardise"
    """Every number gets mean 0 and deviation 1."""
    WHITEN = "whiten"
    """And then numbers become uncorrelated, the strongest directions first."""


@dataclass(frozen=True, kw_only=True)
class ReadoutPlan:
    """What is kept of vectors, and how words get their neighbours.

    `components` keeps the strongest directions of words only, `summary_components` those of
    utterances (both with whitening). `unit` makes vectors one long on average. `window` puts so
    many words from either side beside each word, of which the first `neighbours` numbers are kept.
    `norm` gives every single vector this length.
    """

    evening: Whitening = Whitening.NONE
    components: int | None = None
    summary_components: int | None = None
    neighbours: int | None = None
    unit: bool = False
    ridge: float = 0.01
    """Added to every variance, as a share of their mean, so that noise is not blown up."""
    window: int = 0
    norm: float | None = None

    def __post_init__(self) -> None:
        _validate.parse_fields(self)
        _validate.not_negative("window", self.window)
        _validate.not_negative("ridge", self.ridge)
        if self.norm is not None:
            _validate.positive("norm", self.norm)
        for name in ("components", "summary_components", "neighbours"):
            if getattr(self, name) is not None:
                _validate.at_least_one(name, getattr(self, name))
                if self.evening is not Whitening.WHITEN:
                    raise InvalidInput("Expected whitening where only some components are kept.")
        if self.unit and self.evening is Whitening.NONE:
            raise InvalidInput("Expected public statistics for vectors of unit length, got none.")


class Readout(nn.Module):
    """Evens vectors out and adds neighbours. `learn` has to be called where the plan needs it.

    >>> readout = Readout(3, 3, ReadoutPlan(window=1))
    >>> readout.width, readout.summary_width
    (9, 3)
    """

    def __init__(self, width: int, summary_width: int, plan: ReadoutPlan | None = None) -> None:
        super().__init__()
        self.plan = plan = plan or ReadoutPlan()
        self.words = _Even(width, plan, plan.components)
        self.utterance = _Even(summary_width, plan, plan.summary_components)
        self.beside = min(plan.neighbours or self.words.width, self.words.width)
        self.width = self.words.width + 2 * plan.window * self.beside
        self.summary_width = self.utterance.width
        self.sizes = (width, summary_width)

    @torch.no_grad()
    def learn(
        self,
        encoder: Encoder,
        public: Iterable[Sequence[str]],
        *,
        batch_size: int = 64,
        on_count: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Take the statistics of public utterances (each a list of words)."""
        if self.plan.evening is Whitening.NONE:
            return
        words, utterances = (_Moments(size) for size in self.sizes)
        mode = encoder.training
        encoder.eval()
        try:
            for batch in _in_batches(public, batch_size):
                encoded = encoder(encoder.collate([encoder.prepare(tokens) for tokens in batch]))
                words.add(encoded.words[encoded.mask])
                utterances.add(encoded.utterance)
                on_count(utterances.count)
        finally:
            encoder.train(mode)
        self.words.learn(words)
        self.utterance.learn(utterances)

    def even(self, encoded: Encoded) -> Encoded:
        """The part that depends on one word at a time, so that its result can be kept."""
        words = self.words(encoded.words) * encoded.mask.unsqueeze(-1)
        return Encoded(words, self.utterance(encoded.utterance), encoded.mask)

    def surround(self, encoded: Encoded) -> Encoded:
        """Put the neighbours of every word beside it; zeros stand for words that are not there."""
        reach = self.plan.window
        if not reach:
            return encoded
        wide = functional.pad(encoded.words[..., : self.beside], (0, 0, reach, reach))
        length = encoded.words.shape[1]
        others = [shift for shift in range(2 * reach + 1) if shift != reach]
        beside = [wide[:, shift : shift + length] for shift in others]
        return Encoded(torch.cat([encoded.words, *beside], -1), encoded.utterance, encoded.mask)

    def forward(self, encoded: Encoded) -> Encoded:
        return self.surround(self.even(encoded))

    def to_json(self) -> dict[str, Any]:
        plan = {**asdict(self.plan), "evening": str(self.plan.evening)}
        return {"width": self.sizes[0], "summary_width": self.sizes[1], "plan": plan}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The same readout; what it has learnt is loaded with the weights."""
        return cls(data["width"], data["summary_width"], ReadoutPlan(**data["plan"]))


class _Even(nn.Module):
    """(x - mean) times a scale or a matrix, then to a length; all of it buffers."""

    mean: Tensor
    scale: Tensor
    learnt: Tensor

    def __init__(self, width: int, plan: ReadoutPlan, components: int | None) -> None:
        super().__init__()
        self.plan = plan
        self.width = width if components is None else min(components, width)
        if plan.evening is Whitening.NONE:
            return
        whiten = plan.evening is Whitening.WHITEN
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("scale", torch.zeros((width, self.width) if whiten else width))
        self.register_buffer("learnt", torch.tensor(False))

    def learn(self, moments: "_Moments") -> None:
        mean, covariance = moments.finish()
        self.mean.copy_(mean)
        # Layers differ in size; in units of its own deviation no number outweighs the others.
        scale = _inverse_root(covariance.diagonal(), self.plan.ridge)
        if self.plan.evening is Whitening.WHITEN:
            values, directions = torch.linalg.eigh(scale[:, None] * covariance * scale)
            whitening = directions * _inverse_root(values, self.plan.ridge)
            scale = (scale[:, None] * whitening).flip(1)[:, : self.width]
        if self.plan.unit:
            matrix = scale if scale.dim() == 2 else scale.diag()
            scale = scale / (matrix.t() @ covariance @ matrix).trace().sqrt()
        self.scale.copy_(scale)
        self.learnt.fill_(True)

    def forward(self, x: Tensor) -> Tensor:
        if self.plan.evening is not Whitening.NONE:
            if not self.learnt:
                raise InvalidInput(
                    "Expected statistics of public text to even out vectors, got none: call learn."
                )
            x = x - self.mean
            x = x * self.scale if self.scale.dim() == 1 else x @ self.scale
        if self.plan.norm is not None:
            x = self.plan.norm * functional.normalize(x, dim=-1)
        return x


def _inverse_root(variances: Tensor, ridge: float) -> Tensor:
    """1 / sqrt(variance), where a ridge keeps noise in small directions from being blown up."""
    sizes = variances.clamp(min=0)
    return (sizes + ridge * sizes.mean()).clamp(min=1e-12).rsqrt()


class _Moments:
    """Count, sum and products of vectors, in double precision."""

    def __init__(self, width: int) -> None:
        self.count = 0
        self.sum = torch.zeros(width, dtype=torch.float64)
        self.products = torch.zeros(width, width, dtype=torch.float64)

    def add(self, vectors: Tensor) -> None:
        vectors = vectors.double().cpu()
        self.count += len(vectors)
        self.sum += vectors.sum(0)
        self.products.addmm_(vectors.t(), vectors)

    def finish(self) -> tuple[Tensor, Tensor]:
        if self.count < 2:
            raise InvalidInput(
                f"Expected public text to take statistics of, got {self.count} vectors."
            )
        mean = self.sum / self.count
        return mean, self.products / self.count - torch.outer(mean, mean)


def _in_batches(public: Iterable[Sequence[str]], batch_size: int) -> Iterable[list[Sequence[str]]]:
    batch: list[Sequence[str]] = []
    for tokens in public:
        batch.append(tokens)
        if len(batch) == batch_size:
            yield batch
            batch = []
    if batch:
        yield batch
