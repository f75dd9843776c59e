"""`POST /rescore`: rescore N-best lists with a language model adapted to each client.

The service stores nothing between calls: the history of a client is sent with each request, as
earlier lists of that client.
"""

import json
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from sottovoce.errors import InvalidInput, SottovoceError
from sottovoce.personalize.federated.counting import Counting
from sottovoce.personalize.federated.marginals import Marginals
from sottovoce.personalize.lm.language_model import LanguageModel, load_lm
from sottovoce.personalize.lm.vocabulary import Vector
from sottovoce.personalize.nbest.lists import Hypothesis, NBest
from sottovoce.personalize.rescoring.run import Tuned
from sottovoce.personalize.rescoring.scores import (
    ALPHA,
    BETA,
    BETA_ALONE,
    SIGMA,
    Adaptation,
    Weights,
)
from sottovoce.personalize.rescoring.stream import (
    Personalisation,
    adapted_scores,
    background_scores,
    personal_factors,
)
from sottovoce.serve.limits import Deadline
from sottovoce.serve.problems import RequestError
from sottovoce.serve.requests import ERROR_RESPONSES, Body
from sottovoce.serve.settings import MAX_TEXTS
from sottovoce.serve.workers import Verb, Workers, caller_of

Score = Annotated[float, Field(ge=-1e6, le=1e6)]
Share = Annotated[float, Field(ge=0, le=1)]
_UNTUNED = Tuned(Weights(), Weights(), Adaptation().power)


class NBestHypothesis(Body):
    """One hypothesis; scores are natural logarithms."""

    text: str = Field(max_length=2000)
    am: Score | None = Field(None, description="Acoustic score.")
    lm: Score | None = Field(None, description="Language model score of the first pass.")
    score: Score | None = Field(None, description="Total score of the first pass.")


class NBestList(Body):
    """The hypotheses of one utterance, best first."""

    id: str = Field("", max_length=200)
    client: str | None = Field(None, max_length=200, description="Client of the utterance.")
    order: Score | None = Field(None, description="Position in time among the lists of the client.")
    nbest: list[NBestHypothesis] = Field(min_length=1, max_length=100)


class RescoreRequest(Body):
    """N-best lists and adaptation settings."""

    lists: list[NBestList] = Field(min_length=1, max_length=MAX_TEXTS)
    alpha: Share | None = Field(
        None, description=f"Weight of the shared marginals; default {ALPHA} with marginals."
    )
    beta: Share | None = Field(
        None,
        description=f"Weight of the client's own counts; default {BETA_ALONE}, or {BETA} with "
        "marginals.",
    )
    sigma: float = Field(SIGMA, ge=1e-3, le=1e6, description="Width of the rank kernel.")
    clip: float | None = Field(
        None, gt=0, le=1e6, description="Maximum absolute log factor of a word."
    )
    power: float | None = Field(
        None, ge=0, le=10, description="Exponent of the adaptation factors."
    )
    shortcut: bool = Field(False, description="Skip normalisation, as the paper does.")


class Choice(BaseModel):
    """The chosen hypotheses of one utterance."""

    id: str
    text: str = Field(description="Chosen by the adapted model.")
    background: str = Field(description="Chosen by the background model.")
    first_pass: str = Field(description="Chosen by the recogniser.")
    scores: list[float] = Field(
        description="Log probabilities of the adapted model, one per hypothesis."
    )


class Rescored(BaseModel):
    choices: list[Choice]


class Rescorer:
    """A language model with shared marginals and tuned weights."""

    def __init__(
        self, model: LanguageModel, shared_marginals: Vector | None = None, tuned: Tuned = _UNTUNED
    ) -> None:
        self._model = model
        self._shared_marginals = shared_marginals
        self._tuned = tuned
        self._lock = threading.Lock()

    @classmethod
    def load(cls, lm: str, marginals: str | None, weights: str | None) -> "Rescorer":
        model = load_lm(lm)
        shared_marginals = Marginals.load(marginals).over(model.vocabulary) if marginals else None
        return cls(model, shared_marginals, _read_weights(weights) if weights else _UNTUNED)

    def settings(self, request: RescoreRequest) -> Personalisation:
        power = request.power
        try:
            adaptation = Adaptation.usual(
                shared=self._shared_marginals is not None,
                alpha=request.alpha,
                beta=request.beta,
                clip=request.clip,
                normalise=not request.shortcut,
                power=self._tuned.power if power is None else power,
            )
            return Personalisation(
                adaptation=adaptation, counting=Counting(sigma=request.sigma, nbest=100)
            )
        except InvalidInput as problem:
            # Safe to return: no text has been read yet.
            raise RequestError(422, str(problem)) from None

    def choices(
        self, lists: list[NBest], settings: Personalisation, deadline: Deadline
    ) -> list[dict[str, Any]]:
        """One choice per list, in the order of the lists; ids must be unique."""
        plain: dict[str, list[float]] = {}
        adapted: dict[str, list[float]] = {}
        normalise = settings.adaptation.normalise
        with self._lock:
            for each in lists:
                deadline.check()
                plain |= background_scores([each], self._model)
            found = personal_factors(lists, self._model, settings, self._shared_marginals)
            for pair in found:
                deadline.check()
                adapted |= adapted_scores([pair], self._model, normalise=normalise)
        return [
            {
                "text": self._tuned.adapted.choose(each, adapted[each.id]).text,
                "background": self._tuned.background.choose(each, plain[each.id]).text,
                "first_pass": each.best.text,
                "scores": [float(score) for score in adapted[each.id]],
            }
            for each in lists
        ]


def rescore_router(workers: Workers, *, loaded: bool) -> APIRouter:
    """The endpoint; it returns an error if no language model is loaded."""
    router = APIRouter()

    @router.post("/rescore", response_model=Rescored, responses=ERROR_RESPONSES, tags=["text"])
    async def rescore(body: RescoreRequest, request: Request) -> dict[str, Any]:
        """Choose among hypotheses with the language model adapted to each client."""
        if not loaded:
            raise RequestError(503, "No language model is loaded; start the service with --lm LM.")
        return await workers.run(Verb.RESCORE, body.model_dump_json(), caller_of(request))

    return router


def rescored(
    rescorer: Rescorer | None, request: RescoreRequest, deadline: Deadline
) -> dict[str, Any]:
    """The choices for all lists."""
    assert rescorer is not None
    settings = rescorer.settings(request)
    lists = [_nbest(place, each) for place, each in enumerate(request.lists)]
    try:
        chosen = rescorer.choices(lists, settings, deadline)
    except SottovoceError:
        # The message may quote a hypothesis.
        raise RequestError(422, "The lists could not be rescored.") from None
    pairs = zip(request.lists, chosen, strict=True)
    return {"choices": [{"id": each.id, **choice} for each, choice in pairs]}


def _nbest(place: int, each: NBestList) -> NBest:
    # Use new ids: ids in requests may repeat. Without a client, each list is its own client.
    rows = tuple(Hypothesis(row.text, row.am, row.lm, row.score) for row in each.nbest)
    found = NBest(f"list {place}", rows, order=each.order)
    client = f"list {place}" if each.client is None else f"client {each.client}"
    return replace(found, client=client)


def _read_weights(path: str) -> Tuned:
    try:
        content: Mapping[str, Any] = json.loads(Path(path).read_bytes())
    except ValueError as problem:
        raise InvalidInput(f"Expected tuned weights in {path}: {problem}.") from problem
    return Tuned.from_json(content)
