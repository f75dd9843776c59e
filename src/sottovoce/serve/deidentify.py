"""`POST /deidentify`: release texts with the guarantee of the call.

Requests may name only built-in detectors. Elsewhere a detector name may be a file path, and clients
must not make the service read files.
"""

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from sottovoce.corpora import Span, Utterance
from sottovoce.deid import Deidentifier, Fields, Release, ReleaseStatement, Setting
from sottovoce.deid.detect import Detector, detector
from sottovoce.deid.detect.detector import utterance_of
from sottovoce.errors import InvalidInput
from sottovoce.privacy.recipes import PAPER_STRATEGIES, PaperStrategy, Strategy
from sottovoce.serve.limits import Deadline
from sottovoce.serve.problems import RequestError
from sottovoce.serve.requests import (
    ERROR_RESPONSES,
    Claimed,
    FullGuarantee,
    Texts,
    claimed,
    full_guarantee,
)
from sottovoce.serve.workers import Verb, Workers, caller_of

OFFERED = ("fast", "assistant", "tagger", "gazetteer", "patterns")
PATTERN = rf"^({'|'.join(OFFERED)})(\+({'|'.join(OFFERED)})){{0,2}}$"
_RELOAD_AFTER = 250_000  # characters


class SharedDetector:
    """A detector for all threads, reloaded from time to time to clear its caches.

    A tagger caches features of words. Words of requests should neither stay in memory for long nor
    fill it, so the detector is reloaded after a fixed amount of text.

    >>> from sottovoce.deid.detect.detector import utterance_of
    >>> SharedDetector("patterns").find([utterance_of("at half past three")])
    [[Span(start=3, end=18, type='TIME')]]
    """

    def __init__(self, name: str) -> None:
        self._asked = name
        self._lock = threading.Lock()
        self._detector: Detector = detector(name)
        self._read = 0

    @property
    def name(self) -> str:
        return self._detector.name

    def find(self, batch: Sequence[Utterance]) -> list[list[Span]]:
        with self._lock:
            if self._read > _RELOAD_AFTER:
                self._detector = detector(self._asked)
                self._read = 0
            self._read += sum(len(utterance.text) for utterance in batch)
            return self._detector.find(batch)

    def to_json(self) -> dict[str, Any]:
        return self._detector.to_json()


class Detectors:
    """The default detector, and those named in requests, loaded on first use."""

    def __init__(self, default: str) -> None:
        self._default = SharedDetector(default)
        self._made: dict[str, SharedDetector] = {default: self._default}
        self._lock = threading.Lock()

    @property
    def default(self) -> SharedDetector:
        return self._default

    def named(self, name: str | None) -> SharedDetector:
        """The detector of a name that matches `PATTERN`; the order of its parts does not matter."""
        if name is None:
            return self._default
        parts = set(name.split("+"))
        ordered = "+".join(part for part in OFFERED if part in parts)
        with self._lock:
            if ordered not in self._made:
                self._made[ordered] = SharedDetector(ordered)
            return self._made[ordered]


PER_CALL = (
    "Epsilon covers this call only. Releasing the same text again draws new noise and spends "
    "again: the epsilons of all calls add up."
)


# Those that need neither a key nor word vectors.
OfferedStrategy = PaperStrategy | Literal[Strategy.RESPONSE]
OFFERED_STRATEGIES: tuple[Strategy, ...] = (*PAPER_STRATEGIES, Strategy.RESPONSE)


class DeidentifyRequest(Texts):
    """Texts, and how to replace the private values in them."""

    strategy: OfferedStrategy = Strategy.ENTITY
    p: float | None = Field(
        None, ge=0, le=1, description="Probability of replacing a private value; default 1."
    )
    epsilon: float | None = Field(
        None, ge=0, le=1e6, description="Epsilon of one private token, instead of p."
    )
    detector: str | None = Field(
        None,
        pattern=PATTERN,
        description="tagger, gazetteer, patterns, or several joined by +.",
    )
    delta: float = Field(0.0, ge=0, lt=1, description="Failure probability delta of the statement.")

    def setting(self) -> Setting:
        """The setting; its errors are about numbers, so they are safe to return."""
        try:
            return Setting(strategy=str(self.strategy), p=self.p, epsilon=self.epsilon)
        except InvalidInput as problem:
            raise RequestError(422, str(problem)) from None


class ReplacedSpan(BaseModel):
    """`text[start:end]` of the request became `text[released_start:released_end]` of the release.

    Offsets count Unicode characters. The value may be unchanged.
    """

    start: int
    end: int
    type: str
    released_start: int
    released_end: int


class ReleasedText(BaseModel):
    """One released text. The spans are for the client only, not part of the release."""

    text: str
    spans: list[ReplacedSpan]


class TypeCost(BaseModel):
    """The mechanism for one type of private value, and the cost of one token."""

    tokens: int
    mechanism: dict[str, Any]
    guarantee: FullGuarantee
    claimed: Claimed | None


class Deidentified(BaseModel):
    """The release and its statement."""

    released: list[ReleasedText]
    detector: str
    types: dict[str, TypeCost]
    guarantees: dict[str, FullGuarantee] = Field(description="To one token and one utterance.")
    claimed: Claimed | None = Field(
        description="The largest epsilon that the publication claims for one token of these types."
    )
    statement: list[str] = Field(description="The full statement as text, line by line.")
    epsilon_is: str = Field(description="What the epsilon covers.")


def deidentify_router(workers: Workers) -> APIRouter:
    """The endpoint."""
    router = APIRouter()

    @router.post(
        "/deidentify", response_model=Deidentified, responses=ERROR_RESPONSES, tags=["text"]
    )
    async def deidentify(body: DeidentifyRequest, request: Request) -> dict[str, Any]:
        """Replace the private values of texts, and state the guarantee.

        Noise is cryptographically secure and new for every call, so calls are not repeatable.
        """
        body.setting()
        return await workers.run(Verb.DEIDENTIFY, body.model_dump_json(), caller_of(request))

    return router


def deidentified(
    detectors: Detectors, request: DeidentifyRequest, deadline: Deadline
) -> dict[str, Any]:
    """The release and its statement.

    A statement covers all releases of a de-identifier, so each call has its own. Equal texts count
    as one utterance that is released several times: averaging over copies would remove the noise.
    """
    deid = Deidentifier(
        detector=detectors.named(request.detector),
        setting=request.setting(),
        fields=Fields(user="drop", id="drop"),
        delta=request.delta,
    )
    released = []
    numbers: dict[str, str] = {}
    for text in request.every:
        deadline.check()
        known = numbers.setdefault(text, str(len(numbers)))
        utterance = replace(utterance_of(text), id=known)
        released += [_released(each) for each in deid.release_all([utterance])]
    deadline.check()
    return _answer(released, deid.statement(), deid.detector.name)


def _released(release: Release) -> dict[str, Any]:
    spans = [
        {
            "start": piece.start,
            "end": piece.end,
            "type": piece.type,
            "released_start": piece.new_start,
            "released_end": piece.new_end,
        }
        for piece in release.offsets.replacements
    ]
    return {"text": release.text, "spans": spans}


def _answer(
    released: list[dict[str, Any]], statement: ReleaseStatement, detector: str
) -> dict[str, Any]:
    types = statement.types
    claims = [each.claimed for each in types.values() if each.claimed is not None]
    return {
        "released": released,
        "detector": detector,
        "types": {
            kind: {
                "tokens": each.tokens,
                "mechanism": each.mechanism.to_json(),
                "guarantee": full_guarantee(each.guarantee),
                "claimed": claimed(each.claimed),
            }
            for kind, each in sorted(types.items())
        },
        "guarantees": {unit: full_guarantee(each) for unit, each in statement.guarantees.items()},
        "claimed": claimed(max(claims, key=lambda claim: claim.epsilon, default=None)),
        "statement": statement.lines(),
        "epsilon_is": PER_CALL,
    }
