"""The service put together: endpoints inside, limits around them, headers outermost."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

from fastapi import APIRouter, FastAPI
from pydantic import BaseModel, Field

from sottovoce import __version__
from sottovoce.serve.auth import KnownHosts, SafeHeaders, TokenRequired
from sottovoce.serve.deidentify import (
    OFFERED,
    PER_CALL,
    Detectors,
    OfferedStrategy,
    deidentify_router,
)
from sottovoce.serve.epsilon import epsilon_router
from sottovoce.serve.limits import BodyLimit, Workers
from sottovoce.serve.logs import RequestLog
from sottovoce.serve.pages import PATHS, pages_router
from sottovoce.serve.parse import Predict, load_parser, parse_router
from sottovoce.serve.problems import answer_problems
from sottovoce.serve.requests import refusals_of
from sottovoce.serve.rescore import Rescorer, rescore_router
from sottovoce.serve.settings import LONGEST_TEXT, MOST_TEXTS, Settings


class Health(BaseModel):
    status: Literal["ok"] = "ok"


class Limits(BaseModel):
    body_bytes: int
    seconds: float
    texts: int = MOST_TEXTS
    characters: int = LONGEST_TEXT


class About(BaseModel):
    """What is loaded and what is allowed."""

    version: str = __version__
    detector: str = Field(description="The detector that is used if none is named.")
    detectors: tuple[str, ...] = OFFERED
    strategies: tuple[str, ...] = tuple(str(each) for each in OfferedStrategy)
    parse: bool = Field(description="Whether a run is loaded.")
    rescore: bool = Field(description="Whether a language model is loaded.")
    limits: Limits
    epsilon_is: str = PER_CALL


def about_router(settings: Settings, *, detector: str, parse: bool, rescore: bool) -> APIRouter:
    """The two endpoints."""
    router = APIRouter(tags=["service"])
    limits = Limits(body_bytes=settings.max_body, seconds=settings.timeout)
    told = About(detector=detector, parse=parse, rescore=rescore, limits=limits)
    refusals = refusals_of(401, 408, 413, 421, 500, 503)
    open_to_all = refusals_of(421, 500)

    @router.get("/healthz", responses=open_to_all)
    async def healthz() -> Health:
        """Whether the service is up; needs no token and says nothing else."""
        return Health()

    @router.get("/about", responses=refusals)
    async def about() -> About:
        """What is loaded, what may be asked for, and the limits."""
        return told

    return router


DESCRIPTION = (
    "Private language understanding: release text, parse it, and know what it cost. "
    "Epsilon is per call. Nothing that is sent here is logged, stored or quoted in an error."
)


def create_app(settings: Settings, *, predict: Predict | None = None) -> FastAPI:
    """The service as an ASGI application; `predict` stands in for a run folder.

    >>> app = create_app(Settings(detector="patterns"))
    >>> sorted(path for path in app.openapi()["paths"])
    ['/about', '/deidentify', '/epsilon', '/healthz', '/parse', '/rescore']
    """
    if predict is None and settings.run is not None:
        predict = load_parser(settings.run)
    rescorer = None
    if settings.lm is not None:
        rescorer = Rescorer.load(settings.lm, settings.marginals, settings.weights)
    detectors = Detectors(settings.detector)
    texts, numbers = (Workers(settings.threads, settings.timeout) for _ in range(2))

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        texts.close()
        numbers.close()

    # The pages that FastAPI offers for documentation load scripts from elsewhere; ours do not.
    app = FastAPI(
        title="sottovoce",
        version=__version__,
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.include_router(deidentify_router(detectors, texts))
    app.include_router(parse_router(predict, texts))
    app.include_router(rescore_router(rescorer, texts))
    app.include_router(epsilon_router(numbers))
    app.include_router(
        about_router(
            settings,
            detector=detectors.default.name,
            parse=predict is not None,
            rescore=rescorer is not None,
        )
    )
    app.include_router(pages_router(app))
    answer_problems(app)
    _wrap(app, settings)
    if settings.token is not None:
        _describe_token(app)
    return app


def _wrap(app: FastAPI, settings: Settings) -> None:
    """Add the middleware, from the inside out."""
    paths = {*app.openapi()["paths"], *PATHS, "/openapi.json"}
    app.add_middleware(
        BodyLimit,
        max_body=settings.max_body,
        requests=settings.requests,
        seconds=settings.timeout,
    )
    if settings.token is not None:
        app.add_middleware(TokenRequired, token=settings.token)
    if settings.hosts is not None:
        app.add_middleware(KnownHosts, hosts=settings.hosts)
    app.add_middleware(RequestLog, paths=paths)
    app.add_middleware(SafeHeaders)


def _describe_token(app: FastAPI) -> None:
    described: dict[str, Any] = app.openapi()
    schemes = described.setdefault("components", {}).setdefault("securitySchemes", {})
    schemes["token"] = {"type": "http", "scheme": "bearer"}
    described["security"] = [{"token": []}]
    described["paths"]["/healthz"]["get"]["security"] = []
