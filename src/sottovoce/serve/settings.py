"""How a service is set up, and how much it takes from a caller."""

import ipaddress
from dataclasses import dataclass

from sottovoce import _validate
from sottovoce.errors import InvalidInput

MOST_TEXTS = 256
"""Texts, or N-best lists, in one request."""
LONGEST_TEXT = 10_000
"""Characters of one text."""
SHORTEST_TOKEN = 20


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a service offers and what it refuses.

    `run`, `lm`, `marginals` and `weights` are paths, loaded at the start. `hosts` are the only
    names that it answers to: a page elsewhere that points its own name at this machine is refused.

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
    timeout: float = 20.0
    requests: int = 128
    threads: int = 2

    def __post_init__(self) -> None:
        _validate.at_least_one("max_body", self.max_body)
        _validate.positive("timeout", self.timeout)
        _validate.at_least_one("requests", self.requests)
        _validate.at_least_one("threads", self.threads)
        if self.token is not None:
            check_token(self.token)
        if "gold" in self.detector.split("+"):
            raise InvalidInput(
                "Expected a detector for plain text, got gold, which needs annotations."
            )
        if self.lm is None and (self.marginals or self.weights):
            raise InvalidInput("Expected a language model with marginals or weights, got none.")


def check_token(token: str) -> str:
    """Return a token that is long enough and can be sent in a header.

    >>> check_token("sesame")
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: Expected a token of at least 20 letters and digits without
    blanks; make one with `openssl rand -hex 32`.
    """
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable():
        raise _bad_token()
    if " " in token:
        raise _bad_token()
    return token


def _bad_token() -> InvalidInput:
    # The token itself is left out: error messages end up in logs.
    return InvalidInput(
        f"Expected a token of at least {SHORTEST_TOKEN} letters and digits without blanks; make "
        "one with `openssl rand -hex 32`."
    )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
