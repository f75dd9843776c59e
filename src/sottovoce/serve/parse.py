"""`POST /parse`: intents and slots of texts, from a trained run."""

import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from sottovoce.serve.limits import Deadline
from sottovoce.serve.problems import RequestError
from sottovoce.serve.requests import ERROR_RESPONSES, Texts
from sottovoce.serve.workers import Verb, Workers, caller_of

_BATCH_SIZE = 32


class Predicted(Protocol):
    """The prediction for one utterance."""

    @property
    def intent(self) -> str: ...
    @property
    def probability(self) -> float: ...
    @property
    def slots(self) -> Sequence[str]: ...


Predict = Callable[[Sequence[Sequence[str]]], Sequence[Predicted]]


class Slot(BaseModel):
    """`tokens[start:end]` is a slot of this type."""

    start: int
    end: int
    type: str
    text: str


class Parse(BaseModel):
    """Intent and slots of one text."""

    intent: str
    probability: float = Field(description="Probability of the intent.")
    tokens: list[str]
    tags: list[str] = Field(description="BIO tags, one per token.")
    slots: list[Slot]


class Parsed(BaseModel):
    parses: list[Parse]


def load_parser(folder: str) -> Predict:
    """Load the model of a run folder; predictions take a lock."""
    from sottovoce.nlu.runs.run import load_run

    model = load_run(folder).model
    lock = threading.Lock()

    def predict(tokens: Sequence[Sequence[str]]) -> Sequence[Predicted]:
        with lock:
            return model.predict(tokens)

    return predict


def parse_router(workers: Workers, *, loaded: bool) -> APIRouter:
    """The endpoint; it returns an error if no model is loaded."""
    router = APIRouter()

    @router.post("/parse", response_model=Parsed, responses=ERROR_RESPONSES, tags=["text"])
    async def parse(body: Texts, request: Request) -> dict[str, Any]:
        """Intents with probabilities, and slots; texts are split at whitespace."""
        if not loaded:
            raise RequestError(503, "No model is loaded; start the service with --run RUN.")
        if not all(text.split() for text in body.every):
            raise RequestError(422, "Expected at least one word in every text.")
        return await workers.run(Verb.PARSE, body.model_dump_json(), caller_of(request))

    return router


def parsed(predict: Predict | None, request: Texts, deadline: Deadline) -> dict[str, Any]:
    """The parses of all texts."""
    assert predict is not None
    tokens = [text.split() for text in request.every]
    found: list[dict[str, Any]] = []
    for start in range(0, len(tokens), _BATCH_SIZE):
        deadline.check()
        batch = tokens[start : start + _BATCH_SIZE]
        found += map(_parse, batch, predict(batch))
    return {"parses": found}


def _parse(tokens: Sequence[str], predicted: Predicted) -> dict[str, Any]:
    return {
        "intent": predicted.intent,
        "probability": float(predicted.probability),
        "tokens": list(tokens),
        "tags": list(predicted.slots),
        "slots": slots_of(tokens, predicted.slots),
    }


def slots_of(tokens: Sequence[str], tags: Sequence[str]) -> list[dict[str, Any]]:
    """The slots of BIO-tagged tokens.

    >>> slots_of(["call", "anna", "lee"], ["O", "B-who", "I-who"])
    [{'start': 1, 'end': 3, 'type': 'who', 'text': 'anna lee'}]
    """
    found: list[dict[str, Any]] = []
    for place, tag in enumerate(tags):
        prefix, _, kind = tag.partition("-")
        continues = prefix == "I" and found and found[-1]["end"] == place
        if continues and found[-1]["type"] == kind:
            found[-1]["end"] = place + 1
        elif kind:
            found.append({"start": place, "end": place + 1, "type": kind})
    for slot in found:
        slot["text"] = " ".join(tokens[slot["start"] : slot["end"]])
    return found
