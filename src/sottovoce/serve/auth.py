"""Authentication by token, the check of the Host header, and security headers.

Hashes of tokens are compared in constant time, so that response times reveal neither the token nor
its length. A browser cannot add a token to the header of its first request, so the token may also
be the password of HTTP Basic authentication, with any user name.
"""

import base64
import binascii
import hashlib
import hmac
import math
import time
from collections import OrderedDict
from collections.abc import Callable

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sottovoce.serve.problems import error_response

OPEN = frozenset({"/healthz", "/readyz"})
"""Paths that need no token."""


GUESSES, _SECONDS, _ADDRESSES = 10, 60.0, 10_000


class Guesses:
    """Wrong tokens by address: after ten within a minute, an address has to wait.

    >>> guesses = Guesses(clock=lambda: 0.0)
    >>> [guesses.wait("203.0.113.9") or guesses.wrong("203.0.113.9") for _ in range(11)][-1]
    60.0
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def wait(self, address: str) -> float:
        """Seconds until the address may try again."""
        began, count = self._seen.get(address, (0.0, 0))
        left = began + _SECONDS - self._clock()
        if left <= 0:
            self._seen.pop(address, None)
        return left if count >= GUESSES and left > 0 else 0.0

    def wrong(self, address: str) -> None:
        began, count = self._seen.get(address, (self._clock(), 0))
        self._seen[address] = (began, count + 1)
        if len(self._seen) > _ADDRESSES:
            self._seen.popitem(last=False)


class TokenRequired:
    """Middleware: reject requests without the token, except health checks."""

    def __init__(self, app: ASGIApp, *, token: str) -> None:
        self._app = app
        self._digest = _digest(token.encode())
        self._guesses = Guesses()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in OPEN:
            refusal = self._refusal(scope)
            if refusal is not None:
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        address = scope["client"][0] if scope.get("client") else ""
        if seconds := self._guesses.wait(address):
            after = {"Retry-After": str(math.ceil(seconds))}
            message = "Too many wrong tokens from this address; wait a minute."
            return error_response(429, message, headers=after)
        given = token_of(Headers(scope=scope).get("authorization", ""))
        if hmac.compare_digest(_digest(given), self._digest):
            return None
        # A browser asks without a token first; that is no guess.
        if given:
            self._guesses.wrong(address)
        answer = error_response(
            401, "Expected the header `Authorization: Bearer TOKEN`, got no valid token."
        )
        answer.headers["WWW-Authenticate"] = 'Bearer realm="sottovoce"'
        answer.headers.append("WWW-Authenticate", 'Basic realm="sottovoce"')
        return answer


def token_of(header: str) -> bytes:
    """The token in the Authorization header; empty if there is none.

    >>> token_of("Bearer abc"), token_of("Basic YW5uOmFiYw=="), token_of("Basic ?"), token_of("")
    (b'abc', b'abc', b'', b'')
    """
    scheme, _, given = header.partition(" ")
    match scheme.lower():
        case "bearer":
            return given.strip().encode()
        case "basic":
            try:
                return base64.b64decode(given.strip(), validate=True).partition(b":")[2]
            except (binascii.Error, ValueError):
                return b""
        case _:
            return b""


class KnownHosts:
    """Middleware: reject requests with an unknown Host header.

    This prevents DNS rebinding: a web page could resolve its own host name to 127.0.0.1 and read
    responses of a service without a token.
    """

    def __init__(self, app: ASGIApp, *, hosts: frozenset[str]) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and host_of(scope) not in self._hosts:
            answer = error_response(421, "Unknown Host header.")
            await answer(scope, receive, send)
            return
        await self._app(scope, receive, send)


def host_of(scope: Scope) -> str:
    """The name in the Host header, without the port.

    >>> [host_of({"headers": [(b"host", h)]}) for h in (b"localhost:8321", b"[::1]:8321", b"a")]
    ['localhost', '::1', 'a']
    """
    host = Headers(scope=scope).get("host", "").lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


CONTENT_SECURITY_POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
)
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class SafeHeaders:
    """Middleware: add the security headers to every response."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        await self._app(scope, receive, guarded if scope["type"] == "http" else send)
