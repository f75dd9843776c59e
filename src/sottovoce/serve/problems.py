"""Error responses, which never quote the request.

Requests are private, and error messages get copied into tickets and logs. So errors name the
invalid field and what was expected, but not its value, nor any field name unknown to the service.
"""

import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException


class RequestError(Exception):
    """An error response with this status and message; the message must not quote the request."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class WorkFailed(Exception):
    """A worker process failed: the type and the place of the exception, without its message."""

    def __init__(self, failure: str, where: str) -> None:
        super().__init__(failure)
        self.failure = failure
        self.where = where


def place_of(problem: BaseException) -> str:
    """The file and line where it was raised, without any data."""
    if isinstance(problem, WorkFailed):
        return problem.where
    frames = traceback.extract_tb(problem.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""


class FieldProblem(BaseModel):
    """One invalid field."""

    field: str = Field(description="Path of the field, such as body.texts.0.")
    problem: str = Field(description="What is wrong with it.")


class Problem(BaseModel):
    """Why the request failed. Never quotes the request."""

    error: str
    fields: list[FieldProblem] = []


def error_response(
    status: int,
    message: str,
    fields: Iterable[FieldProblem] = (),
    *,
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    """The response to a failed request."""
    content = Problem(error=message, fields=list(fields)).model_dump()
    again = {"Retry-After": "1"} if status == 503 else {}
    return JSONResponse(content, status, again | dict(headers or {}))


def add_error_handlers(app: FastAPI) -> None:
    """Make the app return every error as a `Problem`."""

    def failed(_: Request, problem: Exception) -> JSONResponse:
        assert isinstance(problem, RequestError)
        return error_response(problem.status, problem.message)

    def invalid(_: Request, problem: Exception) -> JSONResponse:
        assert isinstance(problem, RequestValidationError)
        known = frozenset(_names(app.openapi()))
        fields = [described(each, known) for each in problem.errors()]
        return error_response(422, "The request is invalid.", fields)

    def http(_: Request, problem: Exception) -> JSONResponse:
        assert isinstance(problem, HTTPException)
        message = _STATUS.get(problem.status_code, "The request was rejected.")
        return error_response(problem.status_code, message, headers=problem.headers)

    app.add_exception_handler(RequestError, failed)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)


def described(error: Mapping[str, Any], known: frozenset[str]) -> FieldProblem:
    """One validation error, without the input.

    >>> error = {"type": "extra_forbidden", "loc": ("body", "call mum"), "msg": "", "input": "now"}
    >>> described(error, frozenset({"text"}))
    FieldProblem(field='body.?', problem='is not a field of this request')
    """
    place = ".".join(
        str(part) if isinstance(part, int) or part in known or part in _PARTS else "?"
        for part in error["loc"]
    )
    message = _MESSAGES.get(error["type"], "is invalid")
    limits = {name: value for name, value in error.get("ctx", {}).items() if name in _LIMITS}
    if error["type"] == "value_error" and isinstance(error.get("ctx", {}).get("error"), Rule):
        message = str(error["ctx"]["error"])
    try:
        return FieldProblem(field=place, problem=message.format(**limits))
    except KeyError:
        return FieldProblem(field=place, problem="is invalid")


class Rule(ValueError):
    """A violated rule of our own; its message must not quote the request."""


_PARTS = frozenset({"body", "query", "header", "path", "training", "deid", "federate"})
# Values that messages may contain: limits from our own schema.
_LIMITS = frozenset({"max_length", "min_length", "ge", "gt", "le", "lt", "expected"})
_MESSAGES = {
    "missing": "is missing",
    "json_invalid": "is not JSON",
    "extra_forbidden": "is not a field of this request",
    "string_type": "is not text",
    "string_unicode": "is not valid Unicode",
    "string_too_long": "has more than {max_length} characters",
    "string_too_short": "has fewer than {min_length} characters",
    "string_pattern_mismatch": "is not one of the available names",
    "list_type": "is not a list",
    "too_long": "has more than {max_length} entries",
    "too_short": "has fewer than {min_length} entries",
    "float_type": "is not a number",
    "int_type": "is not an integer",
    "int_from_float": "is not an integer",
    "finite_number": "is not a finite number",
    "bool_type": "is not true or false",
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "enum": "must be {expected}",
    "literal_error": "must be {expected}",
    "model_attributes_type": "is not an object",
    "model_type": "is not an object",
    "dict_type": "is not an object",
    "union_tag_invalid": "names an unknown recipe; expected training, deid or federate",
    "union_tag_not_found": "has no recipe: training, deid or federate",
}
_STATUS = {
    400: "The body could not be read as JSON.",
    404: "Unknown path; GET /docs lists all paths.",
    405: "Wrong method for this path; GET /docs lists them.",
    415: "Expected a body of the type application/json.",
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
