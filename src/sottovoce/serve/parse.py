"""`POST /parse`: the intent and the slots of texts, by a trained run."""

import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from fastapi import APIRouter
from pydantic import BaseModel, Field

from sottovoce.serve.limits import Deadline, Workers
from sottovoce.serve.problems import Refused
from sottovoce.serve.requests import REFUSALS, Texts

_AT_ONCE = 32


class Predicted(Protocol):
    """What a model says of one utterance."""

    @property
    def intent(self) -> str: ...
    @property
    def probability(self) -> float: ...
    @property
    def slots(self) -> Sequence[str]: ...


Predict = Callable[[Sequence[Sequence[str]]], Sequence[Predicted]]


class Slot(BaseModel):
    """The words `tokens[start:end]` fill a slot of this type."""

    start: int
    end: int
    type: str
    text: str


class Parse(BaseModel):
    """What one text means to the model."""

    intent: str
    probability: float = Field(description="Of the intent.")
    tokens: list[str]
    tags: list[str] = Field(description="B-, I- and O, one a token.")
    slots: list[Slot]


class Parsed(BaseModel):
    parses: list[Parse]


def load_parser(folder: str) -> Predict:
    """The model of a run folder, for one thread at a time."""
    from sottovoce.nlu.runs.run import load_run

    model = load_run(folder).model
    lock = threading.Lock()

    def predict(tokens: Sequence[Sequence[str]]) -> Sequence[Predicted]:
        with lock:
            return model.predict(tokens)

    return predict


def parse_router(predict: Predict | None, workers: Workers) -> APIRouter:
    """The endpoint; without a model it says so."""
    router = APIRouter()

    @router.post("/parse", response_model=Parsed, responses=REFUSALS, tags=["text"])
    async def parse(request: Texts) -> dict[str, Any]:
        """The intent, its probability and the slots of texts; words are parted by blanks."""
        if predict is None:
            raise Refused(503, "No model is loaded; start the service with --run RUN.")
        tokens = [text.split() for text in request.every]
        if not all(tokens):
            raise Refused(422, "Expected at least one word in every text.")

        def work(deadline: Deadline) -> dict[str, Any]:
            found: list[dict[str, Any]] = []
            for start in range(0, len(tokens), _AT_ONCE):
                deadline.check()
                batch = tokens[start : start + _AT_ONCE]
                found += map(_parse, batch, predict(batch))
            return {"parses": found}

        return await workers.run(work)

    return router


def _parse(tokens: Sequence[str], predicted: Predicted) -> dict[str, Any]:
    return {
        "intent": predicted.intent,
        "probability": float(predicted.probability),
        "tokens": list(tokens),
        "tags": list(predicted.slots),
        "slots": slots_of(tokens, predicted.slots),
    }


def slots_of(tokens: Sequence[str], tags: Sequence[str]) -> list[dict[str, Any]]:
    """The slots that the tags of tokens make.

    >>> slots_of(["call", "anna", "lee"], ["O", "B-who", "I-who"])
    [{'start': 1, 'end': 3, 'type': 'who', 'text': 'anna lee'}]
    """
    found: list[dict[str, Any]] = []
    for place, tag in enumerate(tags):
        prefix, _, kind = tag.partition("-")
        goes_on = prefix == "I" and found and found[-1]["end"] == place
        if goes_on and found[-1]["type"] == kind:
            found[-1]["end"] = place + 1
        elif kind:
            found.append({"start": place, "end": place + 1, "type": kind})
    for slot in found:
        slot["text"] = " ".join(tokens[slot["start"] : slot["end"]])
    return found
