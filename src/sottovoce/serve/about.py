"""`GET /healthz`, open to everybody, and `GET /about`: what this service offers."""

from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from sottovoce import __version__
from sottovoce.serve.deidentify import PER_CALL, OfferedStrategy
from sottovoce.serve.detectors import OFFERED
from sottovoce.serve.requests import refusals_of
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
