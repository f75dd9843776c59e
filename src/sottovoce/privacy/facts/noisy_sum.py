"""Facts of added noise: on a sum of clipped contributions, and on a vector of counts."""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

import numpy as np

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.privacy.accountants.losses import (
    ConcentratedLoss,
    GaussianLoss,
    LaplaceLoss,
    Loss,
    PoissonGaussianLoss,
    PureLoss,
)
from sottovoce.privacy.facts.fact import LARGEST_SIZE, SMALLEST_SIZE, Fact, checked_size
from sottovoce.privacy.guarantee import Relation

# Below this fraction of the clip norm, float32 noise has too few distinct values.
SMALLEST_NOISE = 2.0**-20


class Contribution(StrEnum):
    """What is clipped: the vector of one unit, or a mean over several units."""

    PER_UNIT = "per-unit"
    MIXED = "mixed"


class Sampling(StrEnum):
    """How the units of a step are selected."""

    POISSON = "poisson"
    SHUFFLE = "shuffle"
    EVERYONE = "everyone"


class Assignment(StrEnum):
    """How records are assigned to workers: independently, or by position in the batch."""

    INDEPENDENT = "independent"
    POSITIONAL = "positional"


class ScaleSource(StrEnum):
    """Where the layer scales alpha_k came from."""

    ONES = "ones"
    SHAPES = "shapes"
    PUBLIC = "public"
    DP = "dp"
    FIRST_BATCH = "first-batch"


@dataclass(frozen=True, kw_only=True)
class NoisySum(Fact):
    """Gaussian noise on a sum of clipped contributions: one step of private training.

    `noise_stds[k]` is the standard deviation on the *sum* in layer k and `scales[k]` is alpha_k; a
    single contribution has norm at most `clip_norm` after division by alpha_k. The master formula
    is z_eff = min_k S_k / (kappa C alpha_k). If each layer is clipped separately to C alpha_k
    (`clipped_per_layer`), the layers compose: 1 / z_eff^2 = kappa^2 sum_k (C alpha_k / S_k)^2.

    A worker that adds a share of the noise records that share with its `rank`; the shares must be
    merged before a guarantee can be derived (see `ledgers.merging.merge_workers`).
    """

    clip_norm: float
    noise_stds: tuple[float, ...]
    scales: tuple[float, ...] = (1.0,)
    contribution: Contribution = Contribution.PER_UNIT
    clipped_per_layer: bool = False
    sampling: Sampling = Sampling.POISSON
    sampling_rate: float | None = None
    assignment: Assignment = Assignment.INDEPENDENT
    scale_source: ScaleSource = ScaleSource.ONES
    workers: int = 1
    rank: int | None = None

    kind: ClassVar[str] = "noisy-sum"

    def __post_init__(self) -> None:
        super().__post_init__()
        checked_size("clip_norm", self.clip_norm)
        _validate.at_least_one("workers", self.workers)
        if self.rank is not None and not 0 <= self.rank < self.workers:
            raise InvalidInput(
                f"Expected a rank from 0 to {self.workers - 1} among {self.workers} workers, got "
                f"{self.rank}."
            )
        if not self.scales or len(self.scales) != len(self.noise_stds):
            raise InvalidInput(
                f"Expected one noise standard deviation for each of {len(self.scales)} layer "
                f"scales, got {len(self.noise_stds)}."
            )
        for scale, std in zip(self.scales, self.noise_stds, strict=True):
            checked_size("every layer scale", scale)
            # Noise near zero raises an objection below; huge noise would give epsilon 0.
            _validate.between("every noise standard deviation", std, 0, LARGEST_SIZE)
        if self.sampling is Sampling.POISSON:
            if self.sampling_rate is None:
                raise InvalidInput("Expected a sampling_rate with Poisson sampling, got none.")
            _validate.rate("sampling_rate", self.sampling_rate)
            _validate.between("sampling_rate", self.sampling_rate, SMALLEST_SIZE, 1)
        shuffled = self.sampling is Sampling.SHUFFLE
        if shuffled and self.pool is None:
            raise InvalidInput(
                "Expected a pool (the name of the epoch) with shuffled batches, got none."
            )
        if not shuffled and self.pool is not None:
            raise InvalidInput(
                f"Expected a pool with shuffled batches only, got {self.pool!r} with the sampling "
                f"{self.sampling}: its steps are not disjoint, and every one of them counts."
            )

    def noise_multiplier(self, relation: Relation) -> float:
        """z_eff of the master formula: noise over sensitivity under this relation."""
        return self._noise_over_norm() / self._kappa(relation)

    def _kappa(self, relation: Relation) -> int:
        relation = _validate.choice("relation", relation, Relation)
        # One more record can reverse the clipped mean, so kappa is 2 under both relations.
        mixed = self.contribution is Contribution.MIXED
        return 2 if mixed or relation is Relation.REPLACE_ONE else 1

    def _noise_over_norm(self) -> float:
        shares = [
            std / (self.clip_norm * scale)
            for scale, std in zip(self.scales, self.noise_stds, strict=True)
        ]
        if not self.clipped_per_layer:
            return min(shares)
        return 0.0 if 0 in shares else 1 / math.hypot(*(1 / share for share in shares))

    def losses(self, relation: Relation) -> list[tuple[Loss, int]]:
        noise = self.noise_multiplier(relation)
        if self.sampling is not Sampling.POISSON or self.sampling_rate == 1:
            # No subsampling: no amplification, and a closed form.
            return [(GaussianLoss(1 / noise if noise else math.inf), 1)]
        assert self.sampling_rate is not None
        if self.contribution is Contribution.PER_UNIT:
            # The accountant applies the factor 2 of replace-one itself.
            noise = self._noise_over_norm()
        return [(PoissonGaussianLoss(self.sampling_rate, noise), 1)]

    def objections(self, relation: Relation) -> list[str]:
        relation = _validate.choice("relation", relation, Relation)
        found = []
        if self.rank is not None:
            found.append(
                f"this is only the noise share of worker {self.rank} of {self.workers}; merge the "
                "ledgers of all workers first"
            )
        if min(s / a for a, s in zip(self.scales, self.noise_stds, strict=True)) < (
            SMALLEST_NOISE * self.clip_norm
        ):
            found.append(
                "noise below 2^-20 of the clip norm is no longer Gaussian in float32 arithmetic"
            )
        if self.scale_source is ScaleSource.FIRST_BATCH:
            found.append(
                "the layer scales alpha were computed from a private gradient without noise, so "
                "both noise and clipping depend on the data"
            )
        if relation is Relation.ADD_OR_REMOVE:
            if self.sampling is Sampling.SHUFFLE:
                found.append(
                    "with shuffled or fixed batches, adding one record moves others between "
                    "batches; only the relation replace-one can be accounted"
                )
            if self.contribution is Contribution.MIXED and (
                self.assignment is Assignment.POSITIONAL
            ):
                found.append(
                    "records were assigned to workers by position, so adding one record changes "
                    "the records of every worker; assign each record independently"
                )
        return found

    def assumptions(self, relation: Relation) -> list[str]:
        stated = super().assumptions(relation)
        if self.sampling is Sampling.POISSON:
            stated.append(
                f"each {self.unit} is sampled into each step independently with probability "
                f"{self.sampling_rate:g}, and the sample stays secret"
            )
        elif self.sampling is Sampling.SHUFFLE:
            stated.append(
                f"each {self.unit} is in one batch per epoch, at a position that does not depend "
                "on the data (no amplification is claimed)"
            )
        if self.contribution is Contribution.MIXED:
            stated.append(
                f"each {self.unit} is assigned to a worker independently of all others"
                if self.assignment is Assignment.INDEPENDENT
                else f"each {self.unit} is assigned to a worker by position, in fixed-size batches"
            )
        stated.append("sums are divided by configured sizes, never by realised sizes")
        stated.append("floating-point noise is treated as real-valued Gaussian noise")
        return stated


class Noise(StrEnum):
    """The noise distribution."""

    LAPLACE = "laplace"
    DISCRETE_LAPLACE = "discrete-laplace"
    GAUSSIAN = "gaussian"
    DISCRETE_GAUSSIAN = "discrete-gaussian"


@dataclass(frozen=True, kw_only=True)
class NoisyVector(Fact):
    """Noise on a vector whose change between neighbours is bounded: counts, layer norms.

    `sensitivity` is for adding or removing one unit: the L1 norm for Laplace kinds, the L2 norm for
    Gaussian kinds, in the units of `scale`. Under replace-one the sensitivity is twice as large, or
    `replace_sensitivity` if a tighter bound is known.
    """

    noise: Noise
    scale: float
    sensitivity: float
    replace_sensitivity: float | None = None
    sampling_rate: float | None = None

    kind: ClassVar[str] = "noisy-vector"

    def __post_init__(self) -> None:
        super().__post_init__()
        # A tiny scale gives an infinite epsilon; a huge one would underflow to epsilon 0.
        _validate.between("scale", _validate.positive("scale", self.scale), 0, LARGEST_SIZE)
        checked_size("sensitivity", self.sensitivity)
        if self.replace_sensitivity is not None:
            checked_size("replace_sensitivity", self.replace_sensitivity)
        if self.sampling_rate is not None:
            _validate.rate("sampling_rate", self.sampling_rate)
            _validate.between("sampling_rate", self.sampling_rate, SMALLEST_SIZE, 1)
            if self.noise not in (Noise.LAPLACE, Noise.DISCRETE_LAPLACE):
                raise InvalidInput(
                    f"Expected Laplace noise with client sampling, got {self.noise}."
                )

    def losses(self, relation: Relation) -> list[tuple[Loss, int]]:
        sensitivity = self.sensitivity
        if _validate.choice("relation", relation, Relation) is Relation.REPLACE_ONE:
            sensitivity = self.replace_sensitivity or 2 * sensitivity
            if self.sampling_rate is not None:
                # The replaced unit may be sampled in only one of the two runs.
                sensitivity = max(sensitivity, self.sensitivity)
        ratio = sensitivity / self.scale
        if self.sampling_rate is not None and self.sampling_rate < 1:
            return [(PureLoss(amplified(ratio, self.sampling_rate)), 1)]
        match self.noise:
            case Noise.LAPLACE:
                return [(LaplaceLoss(ratio), 1)]
            case Noise.DISCRETE_LAPLACE:
                return [(PureLoss(ratio), 1)]
            case Noise.GAUSSIAN:
                return [(GaussianLoss(ratio), 1)]
            case Noise.DISCRETE_GAUSSIAN:
                return [(ConcentratedLoss(ratio * ratio / 2), 1)]

    def assumptions(self, relation: Relation) -> list[str]:
        stated = super().assumptions(relation)
        if self.sampling_rate is not None and self.sampling_rate < 1:
            stated.append("observers do not learn which clients were sampled")
        if self.noise in (Noise.LAPLACE, Noise.GAUSSIAN):
            stated.append(f"floating-point noise is treated as real-valued {self.noise} noise")
        return stated


def amplified(epsilon: float, rate: float) -> float:
    """The epsilon of a pure mechanism on a Poisson sample of rate `rate` (amplification).

    >>> round(amplified(1.0, 0.1), 6)
    0.158565
    """
    _validate.not_negative("epsilon", epsilon)
    if _validate.rate("rate", rate) == 1:
        return epsilon
    if epsilon > 700:
        # ln(1 - q + q e^epsilon); where q is tiny, both terms matter.
        return max(0.0, float(np.logaddexp(epsilon + math.log(rate), math.log1p(-rate))))
    return math.log1p(rate * math.expm1(epsilon))
