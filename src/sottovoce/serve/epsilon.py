"""`POST /epsilon`: claimed and true epsilon of a recipe, as `sottovoce epsilon --json`.

Fields are the options of the command. Their ranges are smaller than in the library, because
accounting for a million different epochs would exceed the time limit.
"""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import Field, RootModel, Strict

from sottovoce.errors import SottovoceError
from sottovoce.privacy.facts import Noise, Sampling, ScaleSource, SurrogateSource
from sottovoce.privacy.guarantee import Relation, Statement, Unit
from sottovoce.privacy.recipes import (
    Cap,
    Decay,
    DeidRecipe,
    FederateRecipe,
    Kernel,
    Method,
    NoiseShape,
    NoiseSplit,
    PaperStrategy,
    PrivateMethod,
    Release,
    TrainingRecipe,
)
from sottovoce.serve.problems import RequestError
from sottovoce.serve.requests import (
    ERROR_RESPONSES,
    Body,
    RecipeStatement,
    recipe_statement,
)
from sottovoce.serve.workers import Verb, Workers, caller_of

Positive = Annotated[float, Field(ge=1e-9, le=1e9)]
Count = Annotated[int, Field(ge=1, le=1000)]
Probability = Annotated[float, Field(ge=0, le=1)]
Delta = Annotated[float, Field(ge=0, lt=1)]


class Training(Body):
    """DP-SGD or eDP-SGD, exact or as in the paper."""

    recipe: Literal["training"]
    method: PrivateMethod = Method.DP_SGD
    noise_multiplier: Positive
    decay: Annotated[Decay, Strict(False)] = Decay.NONE
    tau: float = Field(0.0, ge=0, le=1e3)
    epochs: Count
    steps_per_epoch: int = Field(1, ge=1, le=1_000_000)
    sampling: Literal["poisson", "shuffle"] = "poisson"
    sampling_rate: float | None = Field(None, gt=0, le=1)
    delta: float = Field(gt=0, lt=1)
    workers: int = Field(1, ge=1, le=1_000_000)
    noise_split: Annotated[NoiseSplit, Strict(False)] = NoiseSplit.EXACT
    alpha: list[Positive] = Field([1.0], min_length=1, max_length=1000)
    noise_shape: Annotated[NoiseShape, Strict(False)] = NoiseShape.SCALED
    alpha_source: Literal["ones", "public", "dp", "first-batch"] = "ones"
    alpha_noise_multiplier: Positive = 10.0
    unit: Literal["example", "user"] = "example"
    relation: Annotated[Relation, Strict(False)] | None = None

    def statement(self) -> Statement:
        options = self.model_dump(exclude={"recipe"}) | {
            "sampling": Sampling(self.sampling),
            "alpha": tuple(self.alpha),
            "alpha_source": ScaleSource(self.alpha_source),
            "unit": Unit(self.unit),
        }
        return TrainingRecipe(**options).statement()


class Deid(Body):
    """Replacement of private tokens, with the strategies of the paper."""

    recipe: Literal["deid"]
    strategy: PaperStrategy
    p: Probability
    pi_min: float | None = Field(None, ge=0, le=0.5)
    tokens: Count = 1
    delta: Delta | None = None
    recall: Probability = 1.0
    pi_source: Annotated[SurrogateSource, Strict(False)] = SurrogateSource.PUBLIC
    histogram_epsilon: Positive = 1.0

    def statement(self) -> Statement:
        return DeidRecipe(**self.model_dump(exclude={"recipe"})).statement()


class Federate(Body):
    """Federated word counts with noise."""

    recipe: Literal["federate"]
    mechanism: Annotated[Noise, Strict(False)] = Noise.LAPLACE
    epsilon_per_count: Positive | None = None
    scale: Positive | None = None
    max_words: Count
    nbest: Count
    sigma: float = Field(ge=1e-3, le=1e6)
    kernel: Annotated[Kernel, Strict(False)] = Kernel.RAW
    rounds: Count = 1
    release: Annotated[Release, Strict(False)] = Release.INCREMENTS
    unit: Literal["utterance", "user"] = "utterance"
    mass_cap: Positive | None = None
    word_cap: Positive | None = None
    cap: Annotated[Cap, Strict(False)] = Cap.LIFETIME
    delta: Delta = 0.0

    def statement(self) -> Statement:
        options = self.model_dump(exclude={"recipe", "mechanism", "epsilon_per_count"}) | {
            "noise": self.mechanism,
            "scale": self._scale(),
            "unit": Unit(self.unit),
        }
        return FederateRecipe(**options).statement()

    def _scale(self) -> float:
        if (self.epsilon_per_count is None) == (self.scale is None):
            raise RequestError(422, "Expected exactly one of epsilon_per_count and scale.")
        if self.scale is not None:
            return self.scale
        if self.mechanism not in (Noise.LAPLACE, Noise.DISCRETE_LAPLACE):
            raise RequestError(
                422,
                f"Expected scale with {self.mechanism} noise: epsilon_per_count is for Laplace.",
            )
        assert self.epsilon_per_count is not None
        return 1 / self.epsilon_per_count


Recipe = Annotated[Training | Deid | Federate, Field(discriminator="recipe")]


class EpsilonRequest(RootModel[Recipe]):
    """One recipe, by its name."""


def epsilon_router(workers: Workers) -> APIRouter:
    """The endpoint."""
    router = APIRouter()

    @router.post(
        "/epsilon", response_model=RecipeStatement, responses=ERROR_RESPONSES, tags=["epsilon"]
    )
    async def epsilon(recipe: Recipe, request: Request) -> dict[str, Any]:
        """Claimed and true epsilon of a recipe, before anything is run."""
        return await workers.run(Verb.EPSILON, recipe.model_dump_json(), caller_of(request))

    return router


def epsilon_of(recipe: Training | Deid | Federate) -> dict[str, Any]:
    """The statement of a recipe."""
    try:
        return recipe_statement(recipe.statement())
    except SottovoceError as problem:
        # Safe to return: a recipe contains only numbers and choices, no text.
        raise RequestError(422, str(problem)) from None
    except (ArithmeticError, ValueError):
        message = "These numbers are too large or too small to compute."
        raise RequestError(422, message) from None
