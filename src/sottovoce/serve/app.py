"""The application: endpoints, with middleware for limits, authentication, logs and headers."""

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
from sottovoce.serve.problems import add_error_handlers
from sottovoce.serve.requests import error_responses
from sottovoce.serve.rescore import Rescorer, rescore_router
from sottovoce.serve.settings import MAX_CHARACTERS, MAX_TEXTS, Settings


class Health(BaseModel):
    status: Literal["ok"] = "ok"


class Limits(BaseModel):
    body_bytes: int
    seconds: float
    texts: int = MAX_TEXTS
    characters: int = MAX_CHARACTERS


class About(BaseModel):
    """Loaded models and limits."""

    version: str = __version__
    detector: str = Field(description="The default detector.")
    detectors: tuple[str, ...] = OFFERED
    strategies: tuple[str, ...] = tuple(str(each) for each in OfferedStrategy)
    parse: bool = Field(description="Whether a run is loaded.")
    rescore: bool = Field(description="Whether a language model is loaded.")
    limits: Limits
    epsilon_is: str = PER_CALL


def about_router(settings: Settings, *, detector: str, parse: bool, rescore: bool) -> APIRouter:
    """The endpoints /healthz and /about."""
    router = APIRouter(tags=["service"])
    limits = Limits(body_bytes=settings.max_body, seconds=settings.timeout)
    answer = About(detector=detector, parse=parse, rescore=rescore, limits=limits)
    errors = error_responses(401, 408, 413, 421, 500, 503)
    health_errors = error_responses(421, 500)

    @router.get("/healthz", responses=health_errors)
    async def healthz() -> Health:
        """Health check; needs no token and reveals nothing else."""
        return Health()

    @router.get("/about", responses=errors)
    async def about() -> About:
        """Loaded models, available options and limits."""
        return answer

    return router


DESCRIPTION = (
    "Private language understanding: release text, parse it, and know the privacy cost. "
    "Epsilon is per call. Requests are not logged, stored or quoted in errors."
)


def create_app(settings: Settings, *, predict: Predict | None = None) -> FastAPI:
    """The service as an ASGI application; `predict` replaces the model of a run folder.

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

    # FastAPI's documentation pages load scripts from a CDN; ours do not.
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
    add_error_handlers(app)
    _add_middleware(app, settings)
    if settings.token is not None:
        _describe_token(app)
    return app


def _add_middleware(app: FastAPI, settings: Settings) -> None:
    """Add the middleware, innermost first."""
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
