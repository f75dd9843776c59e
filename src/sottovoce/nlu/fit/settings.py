"""The settings of a training run: everything a person can choose, checked and saved in run.json.

Text for a choice, such as "dp-sgd", is parsed or refused; a number is never read from text. What
is left open takes the default of the chosen method (see `recipes`), so that
`Settings(method="dp-sgd", epsilon=3)` is the recipe that is known to work.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Self

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.nlu.fit.optimisation import Optimisation, OptimizerName, Schedule
from sottovoce.nlu.fit.recipes import ModelKind, default_recipe
from sottovoce.privacy.guarantee import Relation, Unit, default_delta, largest_delta
from sottovoce.privacy.recipes import Decay
from sottovoce.training import ClippingStyle, Method, Plan

HASHED, PAID, PRIVATE = "hashed", "dp", "private"
"""Vocabularies that are no file."""

_COUNTS = (
    "population", "max_examples_per_user", "workers", "batch_size", "epochs", "virtual_batch",
    "hidden", "layers", "word_width",
)  # fmt: skip
_POSITIVE = ("epsilon", "noise_multiplier", "vocabulary_epsilon", "clip_norm")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a model is made and trained; None means the default of the recipe.

    `encoder` is `minilm`, `paper` (4 layers x 312, untrained), or a folder with an encoder;
    `samples` are public utterances to start from: a grammar, a folder of them, or a corpus;
    `population` declares how many units there are (it fixes the sampling rate and delta, and is
    public); `max_examples_per_user` asks for the guarantee to a user with so many examples, beside
    that to one example; `as_printed` takes eDP-SGD to the letter of the paper. `hidden`, `layers`
    and `word_width` are the sizes of the CLC (None: the paper's).

    >>> settings = Settings(method="dp-sgd", epsilon=3)
    >>> settings.plan(population=10_000).guarantee().epsilon <= 3
    True
    """

    model: ModelKind = ModelKind.BERT
    encoder: str = "minilm"
    samples: str | None = None
    tuning: str | None = None
    vectors: str | None = None
    vocabulary: str = HASHED
    vocabulary_epsilon: float | None = None
    hidden: int | None = None
    layers: int | None = None
    word_width: int | None = None
    method: Method = Method.SGD
    as_printed: bool = False
    epsilon: float | None = None
    noise_multiplier: float | None = None
    delta: float | None = None
    unit: Unit = Unit.EXAMPLE
    population: int | None = None
    max_examples_per_user: int | None = None
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
        _validate.parse_fields(self)
        for name in _COUNTS:
            if getattr(self, name) is not None:
                _validate.at_least_one(name, getattr(self, name))
        for name in _POSITIVE:
            if getattr(self, name) is not None:
                _validate.positive(name, getattr(self, name))
        _validate.not_negative("tau", self.tau)
        if self.delta is not None and not 0 < self.delta < 1:
            raise InvalidInput(f"Expected delta in (0, 1), got {self.delta:g}.")
        self._check_method()
        self._check_model()
        named = {f.name: getattr(self, f.name, None) for f in fields(Optimisation)}
        Optimisation(**{name: value for name, value in named.items() if value is not None})

    def _check_method(self) -> None:
        if self.epsilon is not None:
            if self.noise_multiplier is not None:
                raise InvalidInput("Expected an epsilon or a noise multiplier, got both.")
            if self.as_printed:
                raise InvalidInput(
                    "Expected a noise multiplier for edp-sgd as printed, got an epsilon: "
                    "its noise was never meant to reach one."
                )
        if self.method is Method.SGD:
            private = {
                "an epsilon": self.epsilon is not None,
                "a noise multiplier": self.noise_multiplier is not None,
                "a decay of the noise": self.decay is not Decay.NONE,
            }
            for what, is_there in private.items():
                if is_there:
                    raise InvalidInput(
                        f"Expected a private method for {what}, got sgd: take dp-sgd or edp-sgd."
                    )
        if self.max_examples_per_user is not None and (
            self.method is Method.SGD or self.unit is Unit.USER
        ):
            raise InvalidInput(
                "Expected a private method that protects examples, to tell what it is worth to a "
                f"user with {self.max_examples_per_user} of them, got {self.method} for one "
                f"{self.unit}."
            )
        if self.as_printed and self.method is not Method.EDP_SGD:
            raise InvalidInput(f"Expected edp-sgd to be taken as printed, got {self.method}.")

    def _check_model(self) -> None:
        """What belongs to the other model would be ignored, and nobody would notice."""
        if self.model is ModelKind.BERT:
            others = ("vectors", "vocabulary_epsilon", "hidden", "layers", "word_width")
            given = [name for name in others if getattr(self, name) is not None]
            given += ["vocabulary"] if self.vocabulary != HASHED else []
        else:
            given = ["tuning"] if self.tuning is not None else []
        if given:
            raise InvalidInput(
                f"Expected {given[0].replace('_', ' ')} with the other model, got it with "
                f"{self.model}."
            )
        if self.vectors is not None and (self.vocabulary != HASHED or self.word_width is not None):
            raise InvalidInput(
                "Expected word vectors, or a vocabulary and the width of its words, got both."
            )
        if self.vocabulary_epsilon is not None and self.vocabulary != PAID:
            raise InvalidInput(
                f"Expected an epsilon for the vocabulary {PAID}, got one for {self.vocabulary}."
            )

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
        """The plan for so many units, its noise calibrated if an epsilon is wanted.

        A declared population stands for them, but may not be less: sampling and delta would be
        those of fewer people than there are.
        """
        full = self.filled()
        if self.population is not None:
            if self.population < _validate.whole("population", population):
                raise InvalidInput(
                    f"Expected a declared population of at least the {population:,} {self.unit}s "
                    f"in the data, got {self.population:,}."
                )
            population = self.population
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
        """Delta as given, or a tenth of one over the population, rounded down to two digits.

        One above that is refused where something is to be protected.
        """
        if self.delta is None:
            return default_delta(population)
        limit = largest_delta(population)
        if self.method is not Method.SGD and self.delta > limit:
            raise InvalidInput(
                f"Expected delta of at most {limit:.2g}, a tenth of one over the population of "
                f"{population:,}, got {self.delta:g}: above it, publishing a record outright would "
                "count as private."
            )
        return self.delta

    def batch_size_for(self, population: int) -> int:
        """As given, or so that an epoch has the recipe's number of steps."""
        if self.batch_size is not None:
            return min(self.batch_size, population)
        rate = default_recipe(self.model, self.method)["sampling_rate"]
        assert isinstance(rate, float)
        return max(1, round(population * rate))

    def optimisation(self) -> Optimisation:
        """How the weights are moved, with the recipe's defaults."""
        full = self.filled()
        return Optimisation(
            **{f.name: getattr(full, f.name) for f in fields(Optimisation) if hasattr(full, f.name)}
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read settings back; unknown ones are refused."""
        try:
            return cls(**data)
        except InvalidInput:
            raise
        except (TypeError, ValueError) as problem:
            raise InvalidInput(f"Expected the settings of a training run, but {problem}.") from None
