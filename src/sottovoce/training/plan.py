"""The plan of a private training run: everything that determines its guarantee, fixed in advance.

A plan is a recipe with a batch size and a clip norm. Its guarantee is known before the run, and
`calibrate` finds the noise for a target epsilon. `PrivateTraining` executes it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Self

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.privacy import calibrate
from sottovoce.privacy.facts import Assignment, Contribution, Sampling, ScaleSource
from sottovoce.privacy.guarantee import Guarantee, Relation, Statement, Unit
from sottovoce.privacy.recipes import Decay, NoiseShape, NoiseSplit, TrainingRecipe
from sottovoce.privacy.recipes import Method as Method
from sottovoce.privacy.recipes.training import decay_factors
from sottovoce.training.edpsgd.scaling import LayerScales

VIRTUAL_BATCH = 64  # examples per forward pass, unless given


class ClippingStyle(StrEnum):
    FLAT = "flat"
    AUTOMATIC = "automatic"
    PER_LAYER = "per-layer"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The settings of a private training run.

    `population` is the public, declared number of units (it need not be exact); `batch_size` is the
    expected number of units per step. Their ratio is the sampling rate, and sums are divided by
    `batch_size`, not by the size of the sample. With `micro_batch` > 1, means over that many units
    are clipped instead of single units. `virtual_batch` is the number of examples per forward pass.
    With the unit user, at most `examples_per_user` examples of a user are used, drawn anew at every
    step; set it without looking at the data.

    >>> plan = Plan(population=60_000, batch_size=600, epochs=3, delta=1e-6)
    >>> plan.steps, plan.sampling_rate
    (300, 0.01)
    >>> plan.calibrate(epsilon=3).guarantee().epsilon <= 3
    True
    """

    population: int
    batch_size: int
    epochs: int
    delta: float
    method: Method = Method.DP_SGD
    noise_multiplier: float = 1.0
    clip_norm: float = 1.0
    clipping: ClippingStyle = ClippingStyle.FLAT
    unit: Unit = Unit.EXAMPLE
    relation: Relation | None = None
    sampling: Sampling = Sampling.POISSON
    micro_batch: int = 1
    virtual_batch: int = VIRTUAL_BATCH
    examples_per_user: int | None = None
    decay: Decay | Callable[[int], float] | tuple[float, ...] = Decay.NONE
    tau: float = 0.0
    workers: int = 1
    noise_split: NoiseSplit = NoiseSplit.EXACT
    noise_shape: NoiseShape = NoiseShape.SCALED
    alpha_source: ScaleSource = ScaleSource.ONES
    alpha_noise_multiplier: float = 10.0
    max_alpha: float | None = None

    def __post_init__(self) -> None:
        _validate.parse_fields(self)
        _validate.at_least_one("population", self.population)
        _validate.at_least_one("epochs", self.epochs)
        # Evaluate a decay function once, so that accounting and training use the same factors.
        object.__setattr__(self, "decay", decay_factors(self.decay, self.epochs))
        if self.sampling is Sampling.EVERYONE:
            raise InvalidInput(
                "Expected the sampling poisson or shuffle, got everyone: for steps of all "
                f"{self.unit}s, sample by poisson with a batch_size of the population."
            )
        _validate.at_least_one("virtual_batch", self.virtual_batch)
        _validate.at_least_one("micro_batch", self.micro_batch)
        if self.examples_per_user is not None:
            _validate.at_least_one("examples_per_user", self.examples_per_user)
            if self.unit is not Unit.USER:
                raise InvalidInput(
                    "Expected examples_per_user with the unit user only, got the unit "
                    f"{self.unit}: there, every example counts by itself."
                )
        # Outside this range, noise or squared norms exceed float32.
        _validate.positive("clip_norm", self.clip_norm)
        _validate.between("clip_norm", self.clip_norm, 1e-15, 1e15)
        if not 1 <= self.batch_size <= self.population:
            raise InvalidInput(
                f"Expected batch_size from 1 to the population of {self.population}, "
                f"got {self.batch_size}."
            )
        if self.micro_batch > 1 and self.batch_size % self.micro_batch:
            raise InvalidInput(
                f"Expected a batch_size that is a multiple of the micro_batch of "
                f"{self.micro_batch}, got {self.batch_size}."
            )
        if self.method is Method.EDP_SGD and self.micro_batch > 1:
            raise InvalidInput(
                "Expected micro_batch=1 with edp-sgd, which clips the batch of each worker, "
                f"got {self.micro_batch}."
            )
        if self.method is not Method.EDP_SGD and (
            self.alpha_source is not ScaleSource.ONES or self.noise_split is NoiseSplit.PAPER
        ):
            raise InvalidInput(
                f"Expected layer scales or the paper's noise split only with edp-sgd, "
                f"got {self.method}."
            )
        if self.method is not Method.SGD:
            self.recipe()  # validates the rest

    @classmethod
    def edpsgd_as_printed(cls, **settings: Any) -> Self:
        """Algorithm 1 exactly as printed: noise y/N, isotropic, alpha from a private gradient."""
        printed = {
            "method": Method.EDP_SGD,
            "noise_split": NoiseSplit.PAPER,
            "noise_shape": NoiseShape.ISOTROPIC,
            "alpha_source": ScaleSource.FIRST_BATCH,
            "sampling": Sampling.SHUFFLE,
        }
        return cls(**{**printed, **settings})

    @property
    def sampling_rate(self) -> float:
        return self.batch_size / self.population

    @property
    def steps_per_epoch(self) -> int:
        if self.sampling is Sampling.SHUFFLE:
            return math.ceil(self.population / self.batch_size)
        return max(1, round(self.population / self.batch_size))

    @property
    def steps(self) -> int:
        return self.epochs * self.steps_per_epoch

    @property
    def divisor(self) -> int:
        """The divisor of the noisy sum of clipped contributions: configured, not counted."""
        if self.method is Method.EDP_SGD:
            return self.workers
        return self.batch_size // self.micro_batch

    @property
    def contribution(self) -> Contribution:
        mixed = self.method is Method.EDP_SGD or self.micro_batch > 1
        return Contribution.MIXED if mixed else Contribution.PER_UNIT

    @property
    def assignment(self) -> Assignment:
        """How units are assigned to workers or micro-batches: independently if Poisson-sampled."""
        shuffled = self.sampling is Sampling.SHUFFLE
        return Assignment.POSITIONAL if shuffled else Assignment.INDEPENDENT

    @property
    def neighbours(self) -> Relation:
        return self.recipe().neighbours

    def recipe(self, alpha: tuple[float, ...] | None = None) -> TrainingRecipe:
        """The plan as a recipe, the form that `sottovoce epsilon training` uses.

        `alpha` are the layer scales that will be used, if they are known.
        """
        if self.method is Method.SGD:
            raise InvalidInput("Expected a private method for a recipe, got sgd.")
        return TrainingRecipe(
            method=self.method,
            noise_multiplier=self.noise_multiplier,
            epochs=self.epochs,
            steps_per_epoch=self.steps_per_epoch,
            delta=self.delta,
            decay=self.decay,
            tau=self.tau,
            sampling=self.sampling,
            sampling_rate=self.sampling_rate if self.sampling is Sampling.POISSON else None,
            workers=self.workers,
            noise_split=self.noise_split,
            noise_shape=self.noise_shape,
            alpha=(1.0,) if alpha is None and self.alpha_source is ScaleSource.ONES else alpha,
            max_alpha=self.max_alpha,
            population=self.population,
            alpha_source=self.alpha_source,
            alpha_noise_multiplier=self.alpha_noise_multiplier,
            contribution=self.contribution,
            unit=self.unit,
            relation=self.relation,
        )

    def noise_multiplier_of(self, epoch: int) -> float:
        return self.recipe().noise_multiplier_of(epoch)

    def guarantee(self, scales: LayerScales | None = None) -> Guarantee:
        """The guarantee after all steps.

        With isotropic noise it depends on the layer scales: give those that will be used, or their
        upper bound `max_alpha`.
        """
        return self.recipe(None if scales is None else scales.alpha).guarantee()

    def statement(self, scales: LayerScales | None = None) -> Statement:
        return self.recipe(None if scales is None else scales.alpha).statement()

    def calibrate(
        self, *, epsilon: float, delta: float | None = None, scales: LayerScales | None = None
    ) -> Self:
        """The plan with the least noise that stays within epsilon, at this delta if given."""
        if self.method is Method.SGD:
            raise InvalidInput("Expected a private method to calibrate, got sgd: it adds no noise.")
        plan = self if delta is None else replace(self, delta=delta)
        if scales is None:
            return calibrate.noise_multiplier(plan, epsilon)
        recipe = calibrate.noise_multiplier(plan.recipe(scales.alpha), epsilon)
        return replace(plan, noise_multiplier=recipe.noise_multiplier)
