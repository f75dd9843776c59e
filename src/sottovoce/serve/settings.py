"""Settings of a service, and its limits."""

import ipaddress
from dataclasses import dataclass

from sottovoce import _validate
from sottovoce.errors import InvalidInput

MAX_TEXTS = 256
"""Texts or N-best lists per request."""
MAX_CHARACTERS = 10_000
"""Characters per text."""
MAX_CHARACTERS_IN_ALL = 200_000
"""Characters of all texts of a request."""
MIN_TOKEN_LENGTH = 20


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Models, limits and access control of a service.

    `run`, `lm`, `marginals` and `weights` are paths, loaded at startup. `hosts` are the accepted
    Host headers (None accepts all), against DNS rebinding. `workers` jobs run at a time, in
    processes of at most `max_memory` bytes each beyond what is loaded.

    >>> Settings(timeout=0)
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: Expected timeout > 0, got 0.
    """

    token: str | None = None
    hosts: frozenset[str] | None = None
    detector: str = "fast"
    run: str | None = None
    lm: str | None = None
    marginals: str | None = None
    weights: str | None = None
    max_body: int = 1 << 20
    max_memory: int = 1 << 30
    timeout: float = 20.0
    requests: int = 128
    workers: int = 2

    def __post_init__(self) -> None:
        _validate.at_least_one("max_body", self.max_body)
        _validate.positive("timeout", self.timeout)
        _validate.at_least_one("requests", self.requests)
        _validate.at_least_one("workers", self.workers)
        _validate.at_least_one("max_memory", self.max_memory)
        if self.token is not None:
            check_token(self.token)
        if "gold" in self.detector.split("+"):
            raise InvalidInput(
                "Expected a detector for plain text, got gold, which needs annotations."
            )
        if self.lm is None and (self.marginals or self.weights):
            raise InvalidInput(
                "Expected a language model with marginals or weights, got none: set lm."
            )


def check_token(token: str) -> str:
    """Return the token if it is long enough and can be sent in a header.

    >>> check_token("sesame")
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: Expected a token of at least 20 printable ASCII characters, no
    spaces: make one with `openssl rand -hex 32`.
    """
    if len(token) < MIN_TOKEN_LENGTH or not token.isascii() or not token.isprintable():
        raise _bad_token()
    if " " in token:
        raise _bad_token()
    return token


def _bad_token() -> InvalidInput:
    # Do not quote the token: error messages end up in logs.
    return InvalidInput(
        f"Expected a token of at least {MIN_TOKEN_LENGTH} printable ASCII characters, no spaces: "
        "make one with `openssl rand -hex 32`."
    )


def is_loopback(host: str) -> bool:
    """Whether the address is reachable only from this machine.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
