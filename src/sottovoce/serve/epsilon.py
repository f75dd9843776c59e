"""`POST /epsilon`: what a recipe claims and what it guarantees, as `sottovoce epsilon --json`.

Fields are the options of the command. Their ranges are smaller than those of the library, because
accounting for a million different epochs takes longer than anybody waits.
"""

from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import Field, Strict

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
    Release,
    Strategy,
    TrainingRecipe,
)
from sottovoce.serve.limits import Deadline, Workers
from sottovoce.serve.problems import Refused
from sottovoce.serve.requests import REFUSALS, Body, RecipeStatement, recipe_statement

Positive = Annotated[float, Field(ge=1e-9, le=1e9)]
Count = Annotated[int, Field(ge=1, le=1000)]
Probability = Annotated[float, Field(ge=0, le=1)]
Delta = Annotated[float, Field(ge=0, lt=1)]


class Training(Body):
    """DP-SGD, or eDP-SGD exactly or as printed."""

    recipe: Literal["training"]
    method: Annotated[Method, Strict(False)] = Method.DP_SGD
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
    """Replacing private tokens, by the strategies of the paper."""

    recipe: Literal["deid"]
    strategy: Annotated[Strategy, Strict(False)]
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
            raise Refused(422, "Expected either epsilon_per_count or scale, and not both.")
        if self.scale is not None:
            return self.scale
        if self.mechanism not in (Noise.LAPLACE, Noise.DISCRETE_LAPLACE):
            raise Refused(
                422,
                f"Expected scale with {self.mechanism} noise: an epsilon for each count sets a "
                "Laplace scale.",
            )
        assert self.epsilon_per_count is not None
        return 1 / self.epsilon_per_count


Recipe = Annotated[Training | Deid | Federate, Field(discriminator="recipe")]


def epsilon_router(workers: Workers) -> APIRouter:
    """The endpoint; `workers` are its own, so that accounting keeps nobody's text waiting."""
    router = APIRouter()

    @router.post("/epsilon", response_model=RecipeStatement, responses=REFUSALS, tags=["epsilon"])
    async def epsilon(recipe: Recipe) -> dict[str, Any]:
        """What a recipe claims, and what it guarantees, before anything is run."""

        def work(_: Deadline) -> dict[str, Any]:
            try:
                return recipe_statement(recipe.statement())
            except SottovoceError as problem:
                # These sentences are about numbers and choices: there is no text in a recipe.
                raise Refused(422, str(problem)) from None
            except (ArithmeticError, ValueError):
                sentence = "These numbers are so large or so small that they cannot be computed."
                raise Refused(422, sentence) from None

        return await workers.run(work)

    return router
