"""The settings of a training run, validated and saved in run.json.

Strings are parsed for choices such as "dp-sgd", but never for numbers. Settings that are None take
the default of the model and method (see `recipes`), so `Settings(method="dp-sgd", epsilon=3)` is a
tested recipe.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Self

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.nlu.encoders import ENCODERS
from sottovoce.nlu.encoders.adapter import ADAPTED
from sottovoce.nlu.encoders.tuning import tuning_of
from sottovoce.nlu.fit.optimisation import Optimisation, OptimizerName, Schedule
from sottovoce.nlu.fit.recipes import ModelKind, default_recipe
from sottovoce.privacy.guarantee import Relation, Unit, default_delta, largest_delta
from sottovoce.privacy.recipes import Decay
from sottovoce.training import ClippingStyle, Method, Plan
from sottovoce.training.plan import VIRTUAL_BATCH

HASHED, DP, PRIVATE = "hashed", "dp", "private"
"""Vocabularies that are not read from a file."""

SMALLEST_EPSILON = 1e-6
_COUNTS = (
    "population", "max_examples_per_user", "workers", "batch_size", "epochs", "virtual_batch",
    "hidden", "layers", "word_width",
)  # fmt: skip
_POSITIVE = ("epsilon", "noise_multiplier", "vocabulary_epsilon", "clip_norm")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a model is built and trained; None means the default of the recipe.

    `model` is a name in `ENCODERS`;
    `encoder` is `adapted-minilm` (MiniLM with the shipped adapter), `minilm`, `paper` (4 layers x
    312, untrained), a folder with an encoder, or the file of another adapter of MiniLM;
    `samples` are public utterances for a warm start: a grammar, a folder of grammars, or a corpus;
    `population` declares the number of units (it determines the sampling rate and delta, and is
    public); `max_examples_per_user` requests, in addition to the guarantee for one example, the
    guarantee for a user with at most that many examples; `as_printed` implements eDP-SGD exactly
    as the paper prints it. `hidden`, `layers` and `word_width` are the sizes of the CLC (None: the
    paper's).

    >>> settings = Settings(method="dp-sgd", epsilon=3)
    >>> settings.plan(population=10_000).guarantee().epsilon <= 3
    True
    """

    model: str = ModelKind.BERT
    encoder: str = ADAPTED
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
    virtual_batch: int = VIRTUAL_BATCH
    seed: int | None = None

    def __post_init__(self) -> None:
        _validate.parse_fields(self)
        ENCODERS.require(self.model)
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
            if self.epsilon < SMALLEST_EPSILON:
                raise InvalidInput(
                    f"Expected an epsilon of at least {SMALLEST_EPSILON:g}, got {self.epsilon:g}: "
                    "nothing can be learnt with so much noise."
                )
            if self.noise_multiplier is not None:
                raise InvalidInput(
                    "Expected an epsilon or a noise multiplier, got both: set one of them."
                )
            if self.as_printed:
                raise InvalidInput(
                    "Expected a noise multiplier for edp-sgd as printed, got an epsilon: "
                    "its noise cannot be calibrated to one."
                )
        if self.method is Method.SGD:
            private = {
                "an epsilon": self.epsilon is not None,
                "a noise multiplier": self.noise_multiplier is not None,
                "a decay of the noise": self.decay is not Decay.NONE,
            }
            for what, given in private.items():
                if given:
                    raise InvalidInput(
                        f"Expected a private method for {what}, got sgd: choose dp-sgd or edp-sgd."
                    )
        if self.max_examples_per_user is not None and (
            self.method is Method.SGD or self.unit is Unit.USER
        ):
            raise InvalidInput(
                "Expected a private method that protects examples, to derive a guarantee for a "
                f"user with {self.max_examples_per_user} of them, got {self.method} for one "
                f"{self.unit}."
            )
        if self.as_printed and self.method is not Method.EDP_SGD:
            raise InvalidInput(f"Expected edp-sgd with as_printed, got {self.method}.")

    def _check_model(self) -> None:
        """Refuse settings of another model, which would be silently ignored."""
        others: tuple[str, ...] = ("tuning", "vectors", "vocabulary_epsilon")
        if self.model == ModelKind.BERT:
            others = ("vectors", "vocabulary_epsilon", "hidden", "layers", "word_width")
        elif self.model == ModelKind.CLC:
            others = ("tuning",)
        if self.model == ModelKind.BERT and self.tuning is not None:
            tuning_of(self.tuning)
        given = [name for name in others if getattr(self, name) is not None]
        if self.model != ModelKind.CLC and self.vocabulary != HASHED:
            given.append("vocabulary")
        if given:
            raise InvalidInput(
                f"Expected no {given[0].replace('_', ' ')} with the model {self.model}, got one: "
                "it is a setting of another model."
            )
        if self.vectors is not None and (self.vocabulary != HASHED or self.word_width is not None):
            raise InvalidInput(
                "Expected word vectors, or a vocabulary and its word width, got both: set one."
            )
        if self.vocabulary_epsilon is not None and self.vocabulary != DP:
            raise InvalidInput(
                f"Expected an epsilon for the vocabulary {DP}, got one for {self.vocabulary}."
            )

    @property
    def relation(self) -> Relation:
        """The neighbouring relation: the printed method shuffles, all others sample by Poisson."""
        return Relation.REPLACE_ONE if self.as_printed else Relation.ADD_OR_REMOVE

    def filled(self) -> Self:
        """The same settings with the recipe's default for each None."""
        recipe = default_recipe(self.model, self.method)
        known = {field.name for field in fields(self)}
        unset = {name for name in known & set(recipe) if getattr(self, name) is None}
        return replace(self, **{name: recipe[name] for name in unset})

    def plan(self, population: int) -> Plan:
        """The plan for `population` units, with noise calibrated if an epsilon is set.

        A declared population replaces the number, but must not be smaller: sampling rate and delta
        would be those of fewer units than there are.
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
        """Delta as set, or 0.1 / population, rounded down to two digits.

        A private method refuses a larger delta.
        """
        if self.delta is None:
            return default_delta(population)
        limit = largest_delta(population)
        if self.method is not Method.SGD and self.delta > limit:
            raise InvalidInput(
                f"Expected delta of at most {limit:.2g}, a tenth of one over the population of "
                f"{population:,}, got {self.delta:g}: with a larger delta, publishing a record "
                "outright would count as private."
            )
        return self.delta

    def batch_size_for(self, population: int) -> int:
        """The batch size as set, or from the recipe's sampling rate."""
        if self.batch_size is not None:
            return min(self.batch_size, population)
        rate = default_recipe(self.model, self.method)["sampling_rate"]
        assert isinstance(rate, float)
        return max(1, round(population * rate))

    def optimisation(self) -> Optimisation:
        """Optimiser settings, with the recipe's defaults."""
        full = self.filled()
        return Optimisation(
            **{f.name: getattr(full, f.name) for f in fields(Optimisation) if hasattr(full, f.name)}
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read settings from JSON; unknown settings are refused."""
        try:
            return cls(**data)
        except InvalidInput:
            raise
        except (TypeError, ValueError) as problem:
            raise InvalidInput(f"Expected the settings of a training run, but {problem}.") from None
