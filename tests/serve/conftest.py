"""Fixtures: clients, a model with two intents, captured logs."""

import io
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from sottovoce.serve.app import create_app
from sottovoce.serve.logs import LOGGER, JsonLines
from sottovoce.serve.settings import Settings

with warnings.catch_warnings():
    # Starlette's test client uses a deprecated name of AnyIO.
    warnings.simplefilter("ignore", DeprecationWarning)
    from starlette.testclient import TestClient

ClientOf = Callable[..., TestClient]
# A plug-in of worker processes: collecting its doctests would register it here too.
collect_ignore = ["greedy.py"]


@dataclass(frozen=True)
class Prediction:
    """What a trained model returns for one utterance."""

    intent: str
    probability: float
    slots: tuple[str, ...]


def predict(tokens: Sequence[Sequence[str]]) -> list[Prediction]:
    """A mock of a trained run: `call` is an intent, and capitalised words are contacts."""
    return [
        Prediction(
            "call" if "call" in words else "other",
            0.75,
            tuple("B-contact" if word[0].isupper() else "O" for word in words),
        )
        for words in tokens
    ]


@pytest.fixture(scope="session")
def client_of() -> Iterator[ClientOf]:
    """`client_of(token=...)` is a client of a service with these settings."""
    with ExitStack() as stack:

        def make(*, predict: Any = None, **settings: Any) -> TestClient:
            chosen = Settings(**{"detector": "gazetteer+patterns", **settings})
            return stack.enter_context(
                TestClient(create_app(chosen, predict=predict, in_process=True))
            )

        yield make


@pytest.fixture(scope="session")
def client(client_of: ClientOf) -> TestClient:
    """A service that can parse but not rescore."""
    return client_of(predict=predict)


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    """Everything that the service logs."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    level = LOGGER.level
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    yield stream
    LOGGER.removeHandler(handler)
    LOGGER.setLevel(level)
