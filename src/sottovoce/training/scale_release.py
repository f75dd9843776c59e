"""Learning the layer scales alpha from private gradients: paid for, or as the paper prints it.

Every worker brings the K-vector of its layer norms. Paid for: each vector is clipped to norm B, the
sum gets Gaussian noise, and the release is one more entry in the ledger (non-negative vectors of
norm B differ by at most sqrt(2) B). As printed: the norms are taken as they are, and the ledger
says that there is no guarantee.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from sottovoce.privacy.facts import Fact, Noise, NoisyVector, ScaleSource
from sottovoce.training.batches import Piece
from sottovoce.training.gradients import check_losses, trainable
from sottovoce.training.noise import TensorNoise
from sottovoce.training.plan import Plan
from sottovoce.training.scaling import LayerScales
from sottovoce.training.workers import Worker


class ScaleRelease:
    """A `Gradient` that changes nothing and learns the scales."""

    def __init__(
        self, plan: Plan, model: nn.Module, scales: LayerScales, worker: Worker, noise: TensorNoise
    ) -> None:
        self._plan, self._scales, self._worker, self._noise = plan, scales, worker, noise
        self._parameters = trainable(model)
        self._sum = torch.zeros(len(scales.names))

    @property
    def _private(self) -> bool:
        return self._plan.alpha_source is ScaleSource.DP

    def facts(self, *, seeded: bool) -> Iterator[Fact]:
        """What the ledger has to know before the step; as printed, the steps themselves say it."""
        if self._private:
            norm = self._plan.clip_norm
            yield NoisyVector(
                unit=self._plan.unit,
                noise=Noise.GAUSSIAN,
                scale=self._plan.alpha_noise_multiplier * norm,
                sensitivity=math.sqrt(2) * norm,
                replace_sensitivity=math.sqrt(2) * norm,
                seeded=seeded,
            )

    def begin(self) -> None:
        for parameter in self._parameters:
            parameter.grad = None

    @contextmanager
    def piece(self, piece: Piece) -> Iterator[None]:
        yield

    def backward(self, losses: Tensor, piece: Piece) -> None:
        check_losses(losses, piece)
        (losses.sum() / piece.sizes[0]).backward()  # type: ignore[no-untyped-call]
        if piece.closes:
            self._add_norms()

    def finish(self) -> list[Tensor]:
        if self._private:
            std = self._plan.alpha_noise_multiplier * self._plan.clip_norm
            self._noise.add([self._sum], std / math.sqrt(self._worker.count))
        self._worker.add_up([[self._sum]])
        return [self._sum]

    def scales(self) -> LayerScales:
        return self._scales.proportional_to(self._sum.tolist())

    @torch.no_grad()
    def _add_norms(self) -> None:
        gradients = [
            torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            for parameter in self._parameters
        ]
        norms = torch.nan_to_num(self._scales.norms(gradients), nan=0.0, posinf=0.0).cpu()
        if self._private:
            norms *= min(1.0, self._plan.clip_norm / max(float(norms.norm()), 1e-38))
        self._sum += norms
        self.begin()
