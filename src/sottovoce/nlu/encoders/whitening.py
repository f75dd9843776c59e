"""The input of the heads: encoder vectors, whitened with public statistics, plus context words.

Nothing here is trained. Means and covariances are estimated once from public text, before any
private utterance is read. Whitened vectors need fewer training steps, each of which costs privacy.
The vectors of neighbouring words give the heads local context.
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
    """How vectors are normalised."""

    NONE = "none"
    STANDARDISE = "standardise"
    """Mean 0 and standard deviation 1 in each dimension."""
    WHITEN = "whiten"
    """Standardised, then decorrelated, with the principal components first."""


@dataclass(frozen=True, kw_only=True)
class ReadoutPlan:
    """Settings of a readout.

    `components` and `summary_components` keep that many principal components of words and of
    utterances (both need whitening). `unit` scales vectors to mean squared norm 1. `window` appends
    to each word the vectors of that many words on either side, truncated to `neighbours`
    dimensions. `norm` rescales each vector to this norm.
    """

    whitening: Whitening = Whitening.NONE
    components: int | None = None
    summary_components: int | None = None
    neighbours: int | None = None
    unit: bool = False
    ridge: float = 0.01
    """Added to each variance, as a fraction of the mean variance; limits the gain of noise."""
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
                if self.whitening is not Whitening.WHITEN:
                    raise InvalidInput(
                        f"Expected whitening=whiten with {name}, got {self.whitening}."
                    )
        if self.unit and self.whitening is Whitening.NONE:
            raise InvalidInput("Expected whitening with unit, got none: set whitening.")


class Readout(nn.Module):
    """Whitens vectors and adds context words. Call `fit` first unless whitening is none.

    >>> readout = Readout(3, 3, ReadoutPlan(window=1))
    >>> readout.width, readout.summary_width
    (9, 3)
    """

    def __init__(self, width: int, summary_width: int, plan: ReadoutPlan | None = None) -> None:
        super().__init__()
        self.plan = plan = plan or ReadoutPlan()
        self.words = _Whitener(width, plan, plan.components)
        self.utterance = _Whitener(summary_width, plan, plan.summary_components)
        self.context_width = min(plan.neighbours or self.words.width, self.words.width)
        self.width = self.words.width + 2 * plan.window * self.context_width
        self.summary_width = self.utterance.width
        self.sizes = (width, summary_width)

    @torch.no_grad()
    def fit(
        self,
        encoder: Encoder,
        public: Iterable[Sequence[str]],
        *,
        batch_size: int = 64,
        on_count: Callable[[int], None] = lambda _: None,
    ) -> "PublicStatistics | None":
        """Estimate the statistics from public utterances (each a list of words)."""
        if self.plan.whitening is Whitening.NONE:
            return None
        words, utterances = (Moments(size) for size in self.sizes)
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
        self.words.fit(words)
        self.utterance.fit(utterances)
        return PublicStatistics(words=words, utterances=utterances)

    def whiten(self, encoded: Encoded) -> Encoded:
        """Whiten each vector; the result does not depend on other words and can be cached."""
        words = self.words(encoded.words) * encoded.mask.unsqueeze(-1)
        return Encoded(words, self.utterance(encoded.utterance), encoded.mask)

    def add_context(self, encoded: Encoded) -> Encoded:
        """Append the vectors of neighbouring words, zero beyond the ends of the utterance."""
        reach = self.plan.window
        if not reach:
            return encoded
        wide = functional.pad(encoded.words[..., : self.context_width], (0, 0, reach, reach))
        length = encoded.words.shape[1]
        others = [shift for shift in range(2 * reach + 1) if shift != reach]
        context = [wide[:, shift : shift + length] for shift in others]
        return Encoded(torch.cat([encoded.words, *context], -1), encoded.utterance, encoded.mask)

    def forward(self, encoded: Encoded) -> Encoded:
        return self.add_context(self.whiten(encoded))

    def to_json(self) -> dict[str, Any]:
        plan = {**asdict(self.plan), "whitening": str(self.plan.whitening)}
        return {"width": self.sizes[0], "summary_width": self.sizes[1], "plan": plan}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The same readout; its statistics are loaded with the weights."""
        plan = dict(data["plan"])
        if "evening" in plan:  # the former name of this field
            plan["whitening"] = plan.pop("evening")
        return cls(data["width"], data["summary_width"], ReadoutPlan(**plan))


class _Whitener(nn.Module):
    """(x - mean) times a scale or a matrix, then rescaled to `norm`; statistics are buffers."""

    mean: Tensor
    scale: Tensor
    learnt: Tensor

    def __init__(self, width: int, plan: ReadoutPlan, components: int | None) -> None:
        super().__init__()
        self.plan = plan
        self.width = width if components is None else min(components, width)
        if plan.whitening is Whitening.NONE:
            return
        whiten = plan.whitening is Whitening.WHITEN
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("scale", torch.zeros((width, self.width) if whiten else width))
        self.register_buffer("learnt", torch.tensor(False))

    def fit(self, moments: "Moments") -> None:
        mean, covariance = moments.finish()
        self.mean.copy_(mean)
        # Layers differ in scale, so dimensions are standardised before whitening.
        scale = _inverse_root(covariance.diagonal(), self.plan.ridge)
        if self.plan.whitening is Whitening.WHITEN:
            values, directions = torch.linalg.eigh(scale[:, None] * covariance * scale)
            whitening = directions * _inverse_root(values, self.plan.ridge)
            scale = (scale[:, None] * whitening).flip(1)[:, : self.width]
        if self.plan.unit:
            matrix = scale if scale.dim() == 2 else scale.diag()
            scale = scale / (matrix.t() @ covariance @ matrix).trace().sqrt()
        self.scale.copy_(scale)
        self.learnt.fill_(True)

    def forward(self, x: Tensor) -> Tensor:
        if self.plan.whitening is not Whitening.NONE:
            if not self.learnt:
                raise InvalidInput(
                    "Expected statistics of public text to whiten vectors, got none: call fit."
                )
            x = x - self.mean
            x = x * self.scale if self.scale.dim() == 1 else x @ self.scale
        if self.plan.norm is not None:
            x = self.plan.norm * functional.normalize(x, dim=-1)
        return x


def _inverse_root(variances: Tensor, ridge: float) -> Tensor:
    """1 / sqrt(variance + ridge); the ridge limits the gain in directions of small variance."""
    sizes = variances.clamp(min=0)
    return (sizes + ridge * sizes.mean()).clamp(min=1e-12).rsqrt()


class Moments:
    """Count, sum and outer products of vectors, added up in double precision."""

    def __init__(self, width: int) -> None:
        self.count = 0
        self.sum = torch.zeros(width, dtype=torch.float64)
        self.products = torch.zeros(width, width, dtype=torch.float64)

    def add(self, vectors: Tensor) -> None:
        vectors = vectors.cpu()
        self.count += len(vectors)
        self.sum += vectors.double().sum(0)
        self.products += vectors.t() @ vectors

    def finish(self) -> tuple[Tensor, Tensor]:
        if self.count < 2:
            raise InvalidInput(
                f"Expected public text to estimate statistics from, got {self.count} vectors."
            )
        mean = self.sum / self.count
        return mean, self.products / self.count - torch.outer(mean, mean)


@dataclass(frozen=True, kw_only=True, eq=False)
class PublicStatistics:
    """What `Readout.fit` learnt of public words and utterances."""

    words: Moments
    utterances: Moments


def _in_batches(public: Iterable[Sequence[str]], batch_size: int) -> Iterable[list[Sequence[str]]]:
    batch: list[Sequence[str]] = []
    for tokens in public:
        batch.append(tokens)
        if len(batch) == batch_size:
            yield batch
            batch = []
    if batch:
        yield batch
