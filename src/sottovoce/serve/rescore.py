"""`POST /rescore`: choose again among what a recogniser heard, by what the client said before.

The service keeps nothing of a client between two calls: what was said before comes with the request
as earlier lists of the same client.
"""

import json
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, Field

from sottovoce.errors import InvalidInput, SottovoceError
from sottovoce.personalize.federated.counting import Counting
from sottovoce.personalize.federated.marginals import Marginals
from sottovoce.personalize.lm.language_model import LanguageModel, load_lm
from sottovoce.personalize.lm.vocabulary import Vector
from sottovoce.personalize.nbest.lists import Hypothesis, NBest
from sottovoce.personalize.rescoring.run import Tuned
from sottovoce.personalize.rescoring.scores import Adaptation, Weights
from sottovoce.personalize.rescoring.stream import (
    Personalisation,
    adapted_scores,
    background_scores,
    personal_factors,
)
from sottovoce.serve.limits import Deadline, Workers
from sottovoce.serve.problems import Refused
from sottovoce.serve.requests import REFUSALS, Body
from sottovoce.serve.settings import MOST_TEXTS

Score = Annotated[float, Field(ge=-1e6, le=1e6)]
Share = Annotated[float, Field(ge=0, le=1)]
_UNTUNED = Tuned(Weights(), Weights(), 0.5)


class HeardText(Body):
    """One hypothesis; scores are natural logarithms, higher is better."""

    text: str = Field(max_length=2000)
    am: Score | None = Field(None, description="Acoustic score.")
    lm: Score | None = Field(None, description="Score of the first pass's language model.")
    score: Score | None = Field(None, description="Total of the first pass.")


class HeardList(Body):
    """What a recogniser heard of one utterance, best first."""

    id: str = Field("", max_length=200)
    client: str | None = Field(None, max_length=200, description="Whose utterance it is.")
    order: Score | None = Field(None, description="Its place in time among those of its client.")
    nbest: list[HeardText] = Field(min_length=1, max_length=100)


class RescoreRequest(Body):
    """N-best lists, and how much the others and the client count."""

    lists: list[HeardList] = Field(min_length=1, max_length=MOST_TEXTS)
    alpha: Share | None = Field(None, description="Weight of everybody; 0.5 with marginals.")
    beta: Share | None = Field(None, description="Weight of oneself; 0.45, alone 0.9.")
    sigma: float = Field(1.0, ge=1e-3, le=1e6, description="Width of the kernel over ranks.")
    clip: float | None = Field(None, gt=0, le=1e6, description="Largest log factor of a word.")
    power: float | None = Field(None, ge=0, le=10, description="Of the adaptation factors.")
    shortcut: bool = Field(False, description="Leave normalisation out, as the paper does.")


class Choice(BaseModel):
    """What was chosen for one utterance."""

    id: str
    text: str = Field(description="By the model adapted to the client.")
    background: str = Field(description="By the background model alone.")
    first_pass: str = Field(description="By the recogniser.")
    scores: list[float] = Field(description="Of the adapted model, one a hypothesis (ln p).")


class Rescored(BaseModel):
    choices: list[Choice]


class Rescorer:
    """A language model with what everybody says and with its weights."""

    def __init__(
        self, model: LanguageModel, everybody: Vector | None = None, tuned: Tuned = _UNTUNED
    ) -> None:
        self._model = model
        self._everybody = everybody
        self._tuned = tuned
        self._lock = threading.Lock()

    @classmethod
    def load(cls, lm: str, marginals: str | None, weights: str | None) -> "Rescorer":
        model = load_lm(lm)
        everybody = Marginals.load(marginals).over(model.vocabulary) if marginals else None
        return cls(model, everybody, _read_weights(weights) if weights else _UNTUNED)

    def settings(self, request: RescoreRequest) -> Personalisation:
        shared = self._everybody is not None
        alpha, beta, power = request.alpha, request.beta, request.power
        try:
            adaptation = Adaptation(
                alpha=(0.5 if shared else 0.0) if alpha is None else alpha,
                beta=(0.45 if shared else 0.9) if beta is None else beta,
                clip=request.clip,
                normalise=not request.shortcut,
                power=self._tuned.power if power is None else power,
            )
            return Personalisation(
                adaptation=adaptation, counting=Counting(sigma=request.sigma, nbest=100)
            )
        except InvalidInput as problem:
            # About numbers alone; no text was looked at yet.
            raise Refused(422, str(problem)) from None

    def choices(
        self, lists: list[NBest], settings: Personalisation, deadline: Deadline
    ) -> list[dict[str, Any]]:
        """One choice a list, in the order of the lists; their ids have to differ."""
        plain: dict[str, list[float]] = {}
        adapted: dict[str, list[float]] = {}
        normalise = settings.adaptation.normalise
        with self._lock:
            for each in lists:
                deadline.check()
                plain |= background_scores([each], self._model)
            found = personal_factors(lists, self._model, settings, self._everybody)
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


def rescore_router(rescorer: Rescorer | None, workers: Workers) -> APIRouter:
    """The endpoint; without a language model it says so."""
    router = APIRouter()

    @router.post("/rescore", response_model=Rescored, responses=REFUSALS, tags=["text"])
    async def rescore(request: RescoreRequest) -> dict[str, Any]:
        """Choose again among hypotheses, by the language model adapted to each client."""
        if rescorer is None:
            raise Refused(503, "No language model is loaded; start the service with --lm LM.")
        settings = rescorer.settings(request)
        lists = [_heard(place, each) for place, each in enumerate(request.lists)]

        def work(deadline: Deadline) -> dict[str, Any]:
            try:
                chosen = rescorer.choices(lists, settings, deadline)
            except SottovoceError:
                # Its sentence may quote a hypothesis.
                raise Refused(422, "The lists could not be rescored.") from None
            pairs = zip(request.lists, chosen, strict=True)
            return {"choices": [{"id": each.id, **choice} for each, choice in pairs]}

        return await workers.run(work)

    return router


def _heard(place: int, each: HeardList) -> NBest:
    # Own ids: those of a caller may be equal. Without a client every list is its own.
    rows = tuple(Hypothesis(row.text, row.am, row.lm, row.score) for row in each.nbest)
    heard = NBest(f"list {place}", rows, order=each.order)
    client = f"list {place}" if each.client is None else f"client {each.client}"
    return replace(heard, client=client)


def _read_weights(path: str) -> Tuned:
    try:
        content: Mapping[str, Any] = json.loads(Path(path).read_bytes())
    except ValueError as problem:
        raise InvalidInput(f"Expected tuned weights in {path}: {problem}.") from problem
    return Tuned.from_json(content)
