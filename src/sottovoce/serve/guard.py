"""`POST /guard` and `POST /restore`: hide values from a language model, and bring them back.

The service keeps nothing: the caller holds the values of its conversation, and sends them with the
next text.
"""

from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from sottovoce.deid.detect import Combination
from sottovoce.deid.guard import hidden, restored
from sottovoce.errors import InvalidInput
from sottovoce.serve.deidentify import PATTERN, Detectors
from sottovoce.serve.limits import Deadline
from sottovoce.serve.problems import RequestError
from sottovoce.serve.requests import ERROR_RESPONSES, Texts
from sottovoce.serve.workers import Verb, Workers, caller_of

_MOST_VALUES = 1000
Placeholder = Annotated[str, Field(max_length=80)]
Value = Annotated[str, Field(max_length=10_000)]


class GuardRequest(Texts):
    """Texts of one conversation, and the values of its earlier texts."""

    values: dict[Placeholder, Value] = Field(
        default_factory=dict,
        max_length=_MOST_VALUES,
        description="The values that earlier answers of this conversation returned.",
    )
    detector: str | None = Field(
        None, pattern=PATTERN, description="fast, gazetteer, patterns, or several joined by +."
    )


class Guarded(BaseModel):
    """Texts for a language model, and the values behind their placeholders, for the caller only."""

    texts: list[str]
    values: dict[str, str]
    statement: list[str] = Field(description="What the hidden texts tell their reader.")


class RestoreRequest(Texts):
    """Answers of a language model, and the values of the conversation."""

    values: dict[Placeholder, Value] = Field(max_length=_MOST_VALUES)


class Restored(BaseModel):
    """The texts with values instead of placeholders."""

    texts: list[str]


def guard_router(workers: Workers) -> APIRouter:
    """The endpoints."""
    router = APIRouter(tags=["text"])

    @router.post("/guard", response_model=Guarded, responses=ERROR_RESPONSES)
    async def guard(body: GuardRequest, request: Request) -> dict[str, Any]:
        """Replace private values by numbered placeholders such as <PER_1>.

        Send the returned values to /restore with the answer, and to /guard with the next text.
        """
        return await workers.run(Verb.GUARD, body.model_dump_json(), caller_of(request))

    @router.post("/restore", response_model=Restored, responses=ERROR_RESPONSES)
    async def restore(body: RestoreRequest, request: Request) -> dict[str, Any]:
        """Put the values back in place of their placeholders."""
        return await workers.run(Verb.RESTORE, body.model_dump_json(), caller_of(request))

    return router


def guarded(detectors: Detectors, request: GuardRequest, deadline: Deadline) -> dict[str, Any]:
    """Hidden texts, values and statement."""
    deadline.check()
    found = Combination([detectors.named(request.detector)])
    try:
        texts, values, statement = hidden(found, request.every, request.values)
    except InvalidInput as problem:
        raise RequestError(422, "values: Expected placeholders such as <PER_1>.") from problem
    deadline.check()
    return {"texts": texts, "values": values, "statement": statement.lines()}


def brought_back(request: RestoreRequest, deadline: Deadline) -> dict[str, Any]:
    """Texts with their values."""
    deadline.check()
    return {"texts": [restored(text, request.values) for text in request.every]}
