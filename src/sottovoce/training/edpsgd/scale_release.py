"""Learning the layer scales alpha from private gradients: with privacy, or as the paper prints it.

Every worker computes the K-vector of its layer norms. With privacy: each vector is clipped to norm
B, the sum gets Gaussian noise, and the release is an entry in the ledger (non-negative vectors of
norm B differ by at most sqrt(2) B). As printed: the norms are used without noise, and the ledger
gives no guarantee.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from sottovoce.privacy.facts import Fact, Noise, NoisyVector, ScaleSource
from sottovoce.training.batches import Piece
from sottovoce.training.clipping.gradients import check_losses, dense, own_gradients, trainable
from sottovoce.training.distributed import Worker
from sottovoce.training.edpsgd.scaling import LayerScales
from sottovoce.training.noise import TensorNoise
from sottovoce.training.plan import Plan


class ScaleRelease:
    """A `Gradient` that learns the scales and leaves the weights unchanged."""

    def __init__(
        self, plan: Plan, model: nn.Module, scales: LayerScales, worker: Worker, noise: TensorNoise
    ) -> None:
        self._plan, self._scales, self._worker, self._noise = plan, scales, worker, noise
        self._parameters = trainable(model)
        self._clip_norm = plan.clip_norm
        self._std = plan.alpha_noise_multiplier * plan.clip_norm
        self._group: list[Tensor | None] = [None] * len(self._parameters)
        self._sum = torch.zeros(len(scales.names))

    @property
    def _private(self) -> bool:
        return self._plan.alpha_source is ScaleSource.DP

    def facts(self, *, seeded: bool) -> Iterator[Fact]:
        """The facts to record before the step; as printed, the training steps record the source."""
        if self._private:
            norm = self._clip_norm
            yield NoisyVector(
                unit=self._plan.unit,
                noise=Noise.GAUSSIAN,
                scale=self._std,
                sensitivity=math.sqrt(2) * norm,
                replace_sensitivity=math.sqrt(2) * norm,
                seeded=seeded,
            )

    def begin(self) -> None:
        self._group = [None] * len(self._parameters)

    @contextmanager
    def piece(self, piece: Piece) -> Iterator[None]:
        yield

    def backward(self, losses: Tensor, piece: Piece) -> None:
        check_losses(losses, piece)
        total = losses.sum() / piece.sizes[0]
        self._group = own_gradients(total, self._parameters, self._group)
        if piece.closes:
            self._add_norms()

    def finish(self) -> list[Tensor]:
        return []  # the weights stay as they are

    def add_noise(self) -> None:
        """Sum over workers, with the recorded noise."""
        if self._private:
            self._noise.add([self._sum], self._std / math.sqrt(self._worker.count))
        self._worker.add_up([[self._sum]])

    def scales(self) -> LayerScales:
        return self._scales.proportional_to(self._sum.tolist())

    @torch.no_grad()
    def _add_norms(self) -> None:
        gradients = [
            torch.zeros_like(parameter) if gradient is None else dense(gradient)
            for parameter, gradient in zip(self._parameters, self._group, strict=True)
        ]
        norms = torch.nan_to_num(self._scales.norms(gradients), nan=0.0, posinf=0.0).cpu()
        if self._private:
            norms *= min(1.0, self._clip_norm / max(float(norms.norm()), 1e-38))
        self._sum += norms
        self.begin()
