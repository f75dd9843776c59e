"""The application: endpoints, with middleware for limits, authentication, logs and headers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

from fastapi import APIRouter, FastAPI
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, Field

from sottovoce import __version__
from sottovoce.serve.auth import OPEN, KnownHosts, SafeHeaders, TokenRequired
from sottovoce.serve.deidentify import OFFERED, OFFERED_STRATEGIES, PER_CALL, deidentify_router
from sottovoce.serve.epsilon import epsilon_router
from sottovoce.serve.guard import guard_router
from sottovoce.serve.jobs import Resources
from sottovoce.serve.limits import BodyLimit, HeadAsGet, JsonOnly
from sottovoce.serve.logs import RequestLog
from sottovoce.serve.metrics import CONTENT_TYPE, Metrics
from sottovoce.serve.pages import PATHS, pages_router
from sottovoce.serve.parse import Predict, parse_router
from sottovoce.serve.problems import RequestError, add_error_handlers
from sottovoce.serve.processes import Processes
from sottovoce.serve.requests import error_responses
from sottovoce.serve.rescore import rescore_router
from sottovoce.serve.settings import (
    MAX_CHARACTERS,
    MAX_CHARACTERS_IN_ALL,
    MAX_TEXTS,
    Settings,
)
from sottovoce.serve.workers import Threads, Workers


class Health(BaseModel):
    status: Literal["ok"] = "ok"


class Limits(BaseModel):
    body_bytes: int
    seconds: float
    memory_bytes: int
    texts: int = MAX_TEXTS
    characters: int = MAX_CHARACTERS
    characters_in_all: int = MAX_CHARACTERS_IN_ALL


class About(BaseModel):
    """Loaded models and limits."""

    version: str = __version__
    detector: str = Field(description="The default detector.")
    detectors: tuple[str, ...] = OFFERED
    strategies: tuple[str, ...] = tuple(str(each) for each in OFFERED_STRATEGIES)
    parse: bool = Field(description="Whether a run is loaded.")
    rescore: bool = Field(description="Whether a language model is loaded.")
    limits: Limits
    epsilon_is: str = PER_CALL


def about_router(settings: Settings, workers: Workers, metrics: Metrics) -> APIRouter:
    """The endpoints /healthz, /readyz, /about and /metrics."""
    router = APIRouter(tags=["service"])
    limits = Limits(
        body_bytes=settings.max_body, seconds=settings.timeout, memory_bytes=settings.max_memory
    )
    answer = About(**vars(workers.loaded), limits=limits)
    errors = error_responses(401, 408, 413, 421, 429, 500, 503)

    @router.get("/healthz", responses=error_responses(421, 500))
    async def healthz() -> Health:
        """Health check: the server runs. Needs no token and reveals nothing else."""
        return Health()

    @router.get("/readyz", responses=error_responses(421, 500, 503))
    async def readyz() -> Health:
        """Readiness check: the models are loaded and jobs can run. Needs no token."""
        if not workers.ready:
            raise RequestError(503, "The worker process is not running; the next job starts it.")
        return Health()

    @router.get("/about", responses=errors)
    async def about() -> About:
        """Loaded models, available options and limits."""
        return answer

    @router.get(
        "/metrics",
        response_class=PlainTextResponse,
        responses={
            **errors,
            200: {
                "description": "Metrics in the text format of Prometheus.",
                "content": {"text/plain": {"schema": {"type": "string"}}},
            },
        },
    )
    async def counters() -> PlainTextResponse:
        """Counts and times of requests and jobs, for Prometheus."""
        return PlainTextResponse(metrics.text(), media_type=CONTENT_TYPE)

    return router


DESCRIPTION = (
    "Private language understanding: release text, parse it, and know the privacy cost. "
    "Epsilon is per call. Requests are not logged, stored or quoted in errors."
)


def create_app(
    settings: Settings,
    *,
    predict: Predict | None = None,
    in_process: bool = False,
    plugins: tuple[str, ...] = (),
    root_path: str = "",
) -> FastAPI:
    """The service as an ASGI application.

    Work runs in processes that can be killed. With `in_process`, or with a function `predict` in
    place of the model of a run folder, it runs in threads of this process, which cannot.

    >>> app = create_app(Settings(detector="patterns"), in_process=True)
    >>> sorted(path for path in app.openapi()["paths"])
    ['/about', '/deidentify', '/epsilon', '/guard', '/healthz', '/metrics', '/parse', '/readyz',
     '/rescore', '/restore']
    """
    metrics = Metrics()
    workers: Workers
    if in_process or predict is not None:
        workers = Threads(Resources(settings, predict), settings.workers, settings.timeout)
    else:
        workers = Processes(settings, metrics, plugins)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        workers.close()

    app = FastAPI(
        title="sottovoce",
        version=__version__,
        description=DESCRIPTION,
        # FastAPI's documentation pages load scripts from a CDN; ours do not.
        docs_url=None,
        redoc_url=None,
        # A redirect would go to the host that the caller names.
        redirect_slashes=False,
        root_path=root_path,
        lifespan=lifespan,
    )
    app.include_router(deidentify_router(workers))
    app.include_router(guard_router(workers))
    app.include_router(parse_router(workers, loaded=workers.loaded.parse))
    app.include_router(rescore_router(workers, loaded=workers.loaded.rescore))
    app.include_router(epsilon_router(workers))
    app.include_router(about_router(settings, workers, metrics))
    app.include_router(pages_router(app))
    add_error_handlers(app)
    _add_middleware(app, settings, metrics)
    if settings.token is not None:
        _describe_token(app)
    return app


def _add_middleware(app: FastAPI, settings: Settings, metrics: Metrics) -> None:
    """Add the middleware, innermost first."""
    paths = {*app.openapi()["paths"], *PATHS, "/openapi.json"}
    app.add_middleware(
        BodyLimit,
        max_body=settings.max_body,
        requests=settings.requests,
        seconds=settings.timeout,
    )
    app.add_middleware(JsonOnly)
    if settings.token is not None:
        app.add_middleware(TokenRequired, token=settings.token)
    if settings.hosts is not None:
        app.add_middleware(KnownHosts, hosts=settings.hosts)
    app.add_middleware(HeadAsGet)
    app.add_middleware(RequestLog, paths=paths, metrics=metrics)
    app.add_middleware(SafeHeaders)


def _describe_token(app: FastAPI) -> None:
    described: dict[str, Any] = app.openapi()
    schemes = described.setdefault("components", {}).setdefault("securitySchemes", {})
    schemes["token"] = {"type": "http", "scheme": "bearer"}
    described["security"] = [{"token": []}]
    for path in OPEN:
        described["paths"][path]["get"]["security"] = []
