"""A training recipe: its claim and its guarantee before the run.

The recipe produces the same facts that the training code records step by step, so the guarantees
before and after the run come from the same computation.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, get_args

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.privacy.accountants import papers
from sottovoce.privacy.accounting import Entry, account
from sottovoce.privacy.facts import (
    Assignment,
    Contribution,
    Fact,
    Noise,
    NoisySum,
    NoisyVector,
    Sampling,
    ScaleSource,
    Unprotected,
)
from sottovoce.privacy.guarantee import Guarantee, Relation, Statement, Unit

UNCHARGED = "hyper-parameters, the number of steps and the checkpoint were fixed in advance"
UNKNOWN_SCALES = (
    "the layer scales are not known yet, and with the same noise in every layer the largest scale "
    "weakens the guarantee; give the scales, or an upper bound on them"
)


class Method(StrEnum):
    """How a step is computed: without privacy, by exact clipping, unit by unit, or by workers."""

    SGD = "sgd"
    DP_SGD = "dp-sgd"
    TEXTBOOK = "textbook"
    EDP_SGD = "edp-sgd"


PrivateMethod = Literal[Method.DP_SGD, Method.TEXTBOOK, Method.EDP_SGD]
PRIVATE_METHODS: tuple[Method, ...] = get_args(PrivateMethod)


class Decay(StrEnum):
    NONE = "none"
    LINEAR = "linear"
    EXPONENTIAL = "exponential"

    def factor(self, tau: float, epoch: int) -> float:
        """The factor on the noise in this epoch, counted from 0."""
        match self:
            case Decay.NONE:
                return 1.0
            case Decay.LINEAR:
                return 1 / (1 + tau * epoch)
            case Decay.EXPONENTIAL:
                return math.exp(-tau * epoch)


# A named decay, a function of the epoch, or one factor per epoch.
AnyDecay = Decay | Callable[[int], float] | tuple[float, ...]


def decay_factors(decay: AnyDecay, epochs: int) -> Decay | tuple[float, ...]:
    """Evaluate a decay function for every epoch, once, so that it cannot change later.

    Named decays are returned unchanged.

    >>> decay_factors(lambda epoch: 1 / (1 + epoch), epochs=2)
    (1.0, 0.5)
    """
    _validate.at_least_one("epochs", epochs)
    if isinstance(decay, str):
        return _validate.choice("decay", decay, Decay)
    if callable(decay):
        decay = tuple(decay(epoch) for epoch in range(epochs))
    if not isinstance(decay, tuple) or len(decay) < epochs:
        raise InvalidInput(
            f"Expected a decay with one factor for each of {epochs} epochs, got {decay!r}."
        )
    return tuple(
        _validate.number("the decay", _validate.positive("the decay", factor))
        for factor in decay[:epochs]
    )


class NoiseSplit(StrEnum):
    """How N workers share the noise: exactly, or y/N each as printed in the paper."""

    EXACT = "exact"
    PAPER = "paper"


class NoiseShape(StrEnum):
    """Noise in proportion to the layer scales, or equal in every layer, as printed in the paper."""

    SCALED = "scaled"
    ISOTROPIC = "isotropic"


@dataclass(frozen=True, kw_only=True)
class TrainingRecipe:
    """DP-SGD, or eDP-SGD exactly or as printed in the paper. Clip norms cancel out.

    `alpha` are the layer scales that will be used. Without them, scales from any source but `ones`
    count as unknown: noise in proportion to them can be accounted anyway, but isotropic noise has
    no guarantee until they are known, or bounded by `max_alpha`. `population` is the public number
    of units; delta is checked against it. A decay function is evaluated once per epoch.

    >>> advertised = TrainingRecipe(method=Method.EDP_SGD, noise_multiplier=1.0,
    ...     decay=Decay.LINEAR, tau=0.1, epochs=10, steps_per_epoch=140,
    ...     sampling=Sampling.POISSON, sampling_rate=0.007, delta=5e-4,
    ...     workers=8, noise_split=NoiseSplit.PAPER)
    >>> statement = advertised.statement()
    >>> round(statement.claimed.epsilon, 1), round(statement.guarantee.epsilon)
    (29.2, 698)
    """

    method: Method
    noise_multiplier: float
    epochs: int
    delta: float
    steps_per_epoch: int = 1
    decay: AnyDecay = Decay.NONE
    tau: float = 0.0
    sampling: Sampling = Sampling.POISSON
    sampling_rate: float | None = None
    workers: int = 1
    noise_split: NoiseSplit = NoiseSplit.EXACT
    noise_shape: NoiseShape = NoiseShape.SCALED
    alpha: tuple[float, ...] | None = None
    max_alpha: float | None = None
    alpha_source: ScaleSource = ScaleSource.ONES
    alpha_noise_multiplier: float = 10.0
    contribution: Contribution | None = None
    unit: Unit = Unit.EXAMPLE
    relation: Relation | None = None
    population: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "decay", decay_factors(self.decay, self.epochs))
        _validate.parse_fields(self)
        if self.population is not None:
            _validate.at_least_one("population", self.population)
        _validate.positive("noise multiplier", self.noise_multiplier)
        _validate.at_least_one("epochs", self.epochs)
        _validate.at_least_one("steps per epoch", self.steps_per_epoch)
        _validate.at_least_one("workers", self.workers)
        _validate.not_negative("tau", self.tau)
        _validate.delta(self.delta)
        _validate.positive("alpha noise multiplier", self.alpha_noise_multiplier)
        if self.delta == 0:
            raise InvalidInput("Expected delta > 0: Gaussian noise gives no pure epsilon, got 0.")
        if self.max_alpha is not None:
            _validate.positive("max alpha", self.max_alpha)
        if self.alpha is not None:
            if not self.alpha:
                raise InvalidInput("Expected at least one alpha, got an empty list.")
            for scale in self.alpha:
                _validate.positive("every alpha", scale)
                if self.max_alpha is not None and scale > self.max_alpha:
                    raise InvalidInput(
                        f"Expected every alpha to be at most max_alpha = {self.max_alpha:g}, got "
                        f"{scale:g}."
                    )
        if self.method not in PRIVATE_METHODS:
            raise InvalidInput(
                f"Expected the method of a recipe to be one of {', '.join(PRIVATE_METHODS)}, got "
                f"{self.method}, which adds no noise."
            )
        if self.method is Method.EDP_SGD and self.contribution is Contribution.PER_UNIT:
            raise InvalidInput(
                "Expected mixed contributions with edp-sgd, which clips the mean per worker, got "
                "per-unit."
            )
        if self.unit not in (Unit.EXAMPLE, Unit.USER):
            raise InvalidInput(f"Expected the unit example or user in training, got {self.unit}.")
        if self.sampling is Sampling.POISSON and self.sampling_rate is None:
            raise InvalidInput("Expected a sampling rate with Poisson sampling, got none.")
        if self.sampling_rate is not None:
            _validate.rate("sampling rate", self.sampling_rate)

    @property
    def _contribution(self) -> Contribution:
        """What is clipped; by default a unit's vector in DP-SGD, a worker's mean in eDP-SGD."""
        if self.contribution is not None:
            return self.contribution
        return Contribution.MIXED if self.method is Method.EDP_SGD else Contribution.PER_UNIT

    @property
    def neighbours(self) -> Relation:
        """The relation given; by default the one under which this sampling can be accounted."""
        if self.relation is not None:
            return self.relation
        poisson = self.sampling is Sampling.POISSON
        return Relation.ADD_OR_REMOVE if poisson else Relation.REPLACE_ONE

    def noise_multiplier_of(self, epoch: int) -> float:
        """The advertised noise multiplier of one epoch, counted from 0."""
        if isinstance(self.decay, Decay):
            return self.noise_multiplier * self.decay.factor(self.tau, epoch)
        assert isinstance(self.decay, tuple)  # since construction
        return self.noise_multiplier * self.decay[epoch]

    def noise_multipliers(self) -> list[float]:
        """The advertised noise multiplier of every epoch."""
        return [self.noise_multiplier_of(epoch) for epoch in range(self.epochs)]

    @property
    def _scales(self) -> tuple[float, ...] | None:
        """The scales to account with; None if the noise is isotropic and the scales are unknown."""
        if self.alpha is not None:
            return self.alpha
        isotropic = self.noise_shape is NoiseShape.ISOTROPIC
        if self.alpha_source is ScaleSource.ONES or not isotropic:
            return (1.0,)  # noise in proportion to the scales: they cancel out
        return None if self.max_alpha is None else (self.max_alpha,)

    def step(self, epoch: int) -> NoisySum:
        """The fact of one step in this epoch, in units of the clip norm."""
        std = self.noise_multiplier_of(epoch)
        if self.noise_split is NoiseSplit.PAPER:
            # N independent draws of y/N have the variance of one draw divided by N.
            std /= math.sqrt(self.workers)
        alpha = self._scales
        if alpha is None:
            raise InvalidInput(f"Expected layer scales: {UNKNOWN_SCALES}.")
        scaled = self.noise_shape is NoiseShape.SCALED
        shuffled = self.sampling is Sampling.SHUFFLE
        return NoisySum(
            unit=self.unit,
            clip_norm=1.0,
            scales=alpha,
            noise_stds=tuple(std * scale if scaled else std for scale in alpha),
            contribution=self._contribution,
            assignment=Assignment.POSITIONAL if shuffled else Assignment.INDEPENDENT,
            sampling=self.sampling,
            sampling_rate=None if shuffled else self.sampling_rate,
            pool=f"epoch {epoch}" if shuffled else None,
            scale_source=self.alpha_source,
            workers=self.workers,
        )

    def entries(self) -> Iterator[Entry]:
        if self.alpha_source is ScaleSource.DP:
            yield Entry(self._alpha_release())
        for epoch in range(self.epochs):
            yield Entry(self.step(epoch), self.steps_per_epoch)

    def _alpha_release(self) -> Fact:
        # Non-negative vectors of norm B differ by at most sqrt(2) B, not 2 B.
        mixed = self._contribution is Contribution.MIXED
        return NoisyVector(
            unit=self.unit,
            noise=Noise.GAUSSIAN,
            scale=self.alpha_noise_multiplier,
            sensitivity=math.sqrt(2) if mixed else 1.0,
            replace_sensitivity=math.sqrt(2),
        )

    def guarantee(self) -> Guarantee:
        entries: Iterable[Entry] = self.entries()
        if self._scales is None:
            entries = [Entry(Unprotected(unit=self.unit, reason=UNKNOWN_SCALES))]
        return account(
            entries,
            unit=self.unit,
            relation=self.neighbours,
            delta=self.delta,
            population=self.population,
            assumptions=[UNCHARGED, *self._assumptions()],
        )

    def _assumptions(self) -> Iterator[str]:
        if self.alpha_source is ScaleSource.PUBLIC:
            yield "the batch that set the layer scales is public"
        if self.noise_shape is NoiseShape.ISOTROPIC and self.alpha_source is not ScaleSource.ONES:
            if self.alpha is not None:
                yield f"the largest layer scale is {max(self.alpha):g}"
            elif self.max_alpha is not None:
                yield f"no layer scale is above {self.max_alpha:g}"
        if self.unit is Unit.USER:
            yield "users are sampled, and all examples of a user are clipped as one vector"

    def statement(self) -> Statement:
        effective = None
        if self._scales is not None:
            effective = self.step(0).noise_multiplier(self.neighbours)
        return Statement(
            claimed=papers.zcdp(
                self.noise_multipliers(),
                self.delta,
                "the paper's zCDP: rho = sum over epochs of 1/(2 z^2), "
                "epsilon = rho + 2 sqrt(rho ln(1/delta))",
            ),
            guarantee=self.guarantee(),
            effective_noise_multiplier=effective,
        )
