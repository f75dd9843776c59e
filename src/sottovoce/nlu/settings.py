"""The settings of a training run: everything a person can choose, checked and saved in run.json.

What is left open takes the default of the chosen method (see `recipes`), so that
`Settings(method="dp-sgd", epsilon=3)` is the recipe that is known to work.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Self

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.nlu.optimisation import Optimisation, OptimizerName, Schedule
from sottovoce.nlu.recipes import ModelKind, default_recipe
from sottovoce.privacy.guarantee import Relation, Unit
from sottovoce.privacy.recipes import Decay
from sottovoce.training import ClippingStyle, Method, Plan

DELTA_POWER = -1.1
"""Delta is the population to this power unless it is given: below one person in the corpus."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a model is made and trained; None means the default of the recipe.

    `encoder` is `minilm`, `paper` (4 layers x 312, untrained), or a folder with an encoder;
    `population` declares how many units there are (it fixes the sampling rate and delta, and is
    public); `as_printed` takes eDP-SGD to the letter of the paper.

    >>> settings = Settings(method=Method.DP_SGD, epsilon=3)
    >>> settings.plan(population=10_000).guarantee().epsilon <= 3
    True
    """

    model: ModelKind = ModelKind.BERT
    encoder: str = "minilm"
    tuning: str | None = None
    vectors: str | None = None
    vocabulary: str = "hashed"
    vocabulary_epsilon: float | None = None
    method: Method = Method.SGD
    as_printed: bool = False
    epsilon: float | None = None
    noise_multiplier: float | None = None
    delta: float | None = None
    unit: Unit = Unit.EXAMPLE
    population: int | None = None
    decay: Decay = Decay.NONE
    tau: float = 0.1
    workers: int = 1
    batch_size: int | None = None
    epochs: int | None = None
    clip_norm: float | None = None
    clipping: ClippingStyle | None = None
    learning_rate: float | None = None
    encoder_rate: float | None = None
    optimizer: OptimizerName | None = None
    schedule: Schedule | None = None
    averaged: float | None = None
    virtual_batch: int = 256
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.epsilon is not None:
            _validate.positive("epsilon", self.epsilon)
            if self.noise_multiplier is not None:
                raise InvalidInput("Expected an epsilon or a noise multiplier, got both.")
            if self.method is Method.SGD:
                raise InvalidInput(
                    "Expected a private method for an epsilon, got sgd: take dp-sgd or edp-sgd."
                )
            if self.as_printed:
                raise InvalidInput(
                    "Expected a noise multiplier for edp-sgd as printed, got an epsilon: "
                    "its noise was never meant to reach one."
                )
        if self.as_printed and self.method is not Method.EDP_SGD:
            raise InvalidInput(f"Expected edp-sgd to be taken as printed, got {self.method}.")
        if self.population is not None:
            _validate.at_least_one("population", self.population)

    @property
    def relation(self) -> Relation:
        """What neighbours are: the paper shuffles, everything else samples by Poisson."""
        return Relation.REPLACE_ONE if self.as_printed else Relation.ADD_OR_REMOVE

    def filled(self) -> Self:
        """The same with the recipe's default in every place that was left open."""
        recipe = default_recipe(self.model, self.method)
        known = {field.name for field in fields(self)}
        left_open = {name for name in known & set(recipe) if getattr(self, name) is None}
        return replace(self, **{name: recipe[name] for name in left_open})

    def plan(self, population: int) -> Plan:
        """The plan for so many units, its noise calibrated if an epsilon is wanted."""
        full = self.filled()
        population = self.population or population
        assert full.epochs is not None
        assert full.clip_norm is not None
        assert full.clipping is not None
        shared: dict[str, Any] = {
            "population": population,
            "batch_size": full.batch_size_for(population),
            "epochs": full.epochs,
            "delta": self.delta_for(population),
            "clip_norm": full.clip_norm,
            "unit": self.unit,
            "workers": self.workers,
            "virtual_batch": self.virtual_batch,
            "decay": self.decay,
            "tau": self.tau if self.decay is not Decay.NONE else 0.0,
        }
        if self.noise_multiplier is not None:
            shared["noise_multiplier"] = self.noise_multiplier
        if self.as_printed:
            return Plan.edpsgd_as_printed(**shared)
        plan = Plan(**shared, method=self.method, clipping=full.clipping)
        return plan if self.epsilon is None else plan.calibrate(epsilon=self.epsilon)

    def delta_for(self, population: int) -> float:
        """Delta as given, or the population to the power of -1.1, rounded down to two digits."""
        if self.delta is not None:
            return self.delta
        exact = float(population**DELTA_POWER)
        digits = 10.0 ** (math.floor(math.log10(exact)) - 1)
        return math.floor(exact / digits) * digits

    def batch_size_for(self, population: int) -> int:
        """As given, or so that an epoch has the recipe's number of steps."""
        if self.batch_size is not None:
            return min(self.batch_size, population)
        rate = default_recipe(self.model, self.method)["sampling_rate"]
        assert isinstance(rate, float)
        return max(1, round(population * rate))

    def optimisation(self) -> Optimisation:
        full = self.filled()
        return Optimisation(
            **{f.name: getattr(full, f.name) for f in fields(Optimisation) if hasattr(full, f.name)}
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read settings back; unknown ones are refused."""
        kinds: dict[str, Any] = {
            "model": ModelKind,
            "method": Method,
            "unit": Unit,
            "decay": Decay,
            "clipping": ClippingStyle,
            "optimizer": OptimizerName,
            "schedule": Schedule,
        }
        try:
            return cls(
                **{
                    name: kinds[name](value) if name in kinds and value is not None else value
                    for name, value in data.items()
                }
            )
        except InvalidInput:
            raise
        except (TypeError, ValueError) as problem:
            raise InvalidInput(f"Expected the settings of a training run, but {problem}.") from None
