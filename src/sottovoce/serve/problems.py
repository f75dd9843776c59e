"""Errors as answers: one sentence that never quotes what was sent.

What people send here is private, and error messages are what gets copied into tickets and logs. So
a refused field is named, and what it should have been; its value is left out, and so is any name
that this service does not know itself.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException


class Refused(Exception):
    """An answer with this status and this sentence; the sentence holds nothing of the input."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence


class FieldProblem(BaseModel):
    """One field that is not what it has to be."""

    field: str = Field(description="Which one, such as body.texts.0.")
    problem: str = Field(description="What was expected of it.")


class Problem(BaseModel):
    """Why there is no answer. It never quotes the request."""

    error: str
    fields: list[FieldProblem] = []


def refusal(
    status: int,
    sentence: str,
    fields: Iterable[FieldProblem] = (),
    *,
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    """The answer to a request that was refused."""
    content = Problem(error=sentence, fields=list(fields)).model_dump()
    again = {"Retry-After": "1"} if status == 503 else {}
    return JSONResponse(content, status, again | dict(headers or {}))


def answer_problems(app: FastAPI) -> None:
    """Make the app answer every error in this way."""

    def refused(_: Request, problem: Exception) -> JSONResponse:
        assert isinstance(problem, Refused)
        return refusal(problem.status, problem.sentence)

    def invalid(_: Request, problem: Exception) -> JSONResponse:
        assert isinstance(problem, RequestValidationError)
        known = frozenset(_names(app.openapi()))
        fields = [described(each, known) for each in problem.errors()]
        return refusal(422, "The request is not what it has to be.", fields)

    def http(_: Request, problem: Exception) -> JSONResponse:
        assert isinstance(problem, HTTPException)
        sentence = _STATUS.get(problem.status_code, "The request was refused.")
        return refusal(problem.status_code, sentence, headers=problem.headers)

    app.add_exception_handler(Refused, refused)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)


def described(error: Mapping[str, Any], known: frozenset[str]) -> FieldProblem:
    """One error of the validation, without what was sent.

    >>> error = {"type": "extra_forbidden", "loc": ("body", "call mum"), "msg": "", "input": "now"}
    >>> described(error, frozenset({"text"}))
    FieldProblem(field='body.?', problem='is not a field of this request')
    """
    place = ".".join(
        str(part) if isinstance(part, int) or part in known or part in _PARTS else "?"
        for part in error["loc"]
    )
    sentence = _SENTENCES.get(error["type"], "is not what it has to be")
    limits = {name: value for name, value in error.get("ctx", {}).items() if name in _LIMITS}
    if error["type"] == "value_error" and isinstance(error.get("ctx", {}).get("error"), Rule):
        sentence = str(error["ctx"]["error"])
    try:
        return FieldProblem(field=place, problem=sentence.format(**limits))
    except KeyError:
        return FieldProblem(field=place, problem="is not what it has to be")


class Rule(ValueError):
    """A rule of our own for a request; its sentence holds nothing of the input."""


_PARTS = frozenset({"body", "query", "header", "path", "training", "deid", "federate"})
# What an error may say besides its sentence: limits that are written in our own schema.
_LIMITS = frozenset({"max_length", "min_length", "ge", "gt", "le", "lt", "expected"})
_SENTENCES = {
    "missing": "is missing",
    "json_invalid": "is not JSON",
    "extra_forbidden": "is not a field of this request",
    "string_type": "is not text",
    "string_unicode": "is not valid Unicode",
    "string_too_long": "has more than {max_length} characters",
    "string_too_short": "has fewer than {min_length} characters",
    "string_pattern_mismatch": "is not one of the names that are offered",
    "list_type": "is not a list",
    "too_long": "has more than {max_length} entries",
    "too_short": "has fewer than {min_length} entries",
    "float_type": "is not a number",
    "int_type": "is not a whole number",
    "int_from_float": "is not a whole number",
    "finite_number": "is not a finite number",
    "bool_type": "is neither true nor false",
    "greater_than": "has to be greater than {gt}",
    "greater_than_equal": "has to be at least {ge}",
    "less_than": "has to be less than {lt}",
    "less_than_equal": "has to be at most {le}",
    "enum": "has to be {expected}",
    "literal_error": "has to be {expected}",
    "model_attributes_type": "is not an object",
    "model_type": "is not an object",
    "dict_type": "is not an object",
    "union_tag_invalid": "names a recipe that is not training, deid or federate",
    "union_tag_not_found": "has no recipe: training, deid or federate",
}
_STATUS = {
    400: "The body could not be read as JSON.",
    404: "There is nothing at this address; GET /docs lists what there is.",
    405: "This address takes another method; GET /docs lists them.",
}


def _names(schema: object) -> Iterator[str]:
    """The names of all fields in an OpenAPI description."""
    if isinstance(schema, Mapping):
        properties = schema.get("properties")
        if isinstance(properties, Mapping):
            yield from properties
        for part in schema.values():
            yield from _names(part)
    elif isinstance(schema, Sequence) and not isinstance(schema, str):
        for part in schema:
            yield from _names(part)
