"""`sottovoce serve`: start the HTTP service with its playground."""

import secrets
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from sottovoce.cli.shared.console import json_option, print_json
from sottovoce.errors import InvalidInput
from sottovoce.serve.settings import Settings, check_token, is_loopback

_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_GRACE = 5
"""Seconds for running requests to finish after Ctrl-C."""


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8321, show_default=True,
              help="Port to listen on; 0 picks a free one.")  # fmt: skip
@click.option("--run", "run_folder", help="Run folder of `train`, for /parse.")
@click.option("--lm", help="Folder of `lm train`, or an ARPA file, for /rescore.")
@click.option("--marginals", help="marginals.json of `federate`, with --lm.")
@click.option("--weights", help="Tuned weights of `rescore --save-weights`, with --lm.")
@click.option("--detector", default="fast", show_default=True,
              help="Default detector: names joined by +, or a file, as in `deid`.")  # fmt: skip
@click.option("--token-file", help="File with the token that clients must send.")
@click.option("--max-body", type=click.IntRange(min=1), default=1 << 20, show_default=True,
              help="Maximum request size in bytes.")  # fmt: skip
@click.option("--timeout", type=float, default=20.0, show_default=True,
              help="Maximum processing time per request, in seconds.")  # fmt: skip
@json_option
def serve(
    host: str, port: int, run_folder: str | None, token_file: str | None, as_json: bool,
    **options: Any,
) -> None:  # fmt: skip
    """Serve /deidentify, /epsilon, /parse, /rescore and a playground over HTTP.

    By default only this machine can connect. On any other address clients need a token: that of
    --token-file, or a new one, printed once.

    \b
    Examples:
      sottovoce serve
      sottovoce serve --run runs/private --lm lm/ --port 9000
      sottovoce serve --host 0.0.0.0 --token-file token.txt
    """
    try:
        import uvicorn

        from sottovoce.serve.app import create_app
    except ModuleNotFoundError as problem:
        if problem.name and problem.name.startswith("sottovoce"):
            raise
        raise InvalidInput(
            f"Expected FastAPI and uvicorn, but {problem.name} is not installed: run "
            "`pip install 'sottovoce[serve]'`."
        ) from problem
    from sottovoce.serve.logs import log_to

    token, is_new = _token(host, token_file)
    # Without a token the Host header must name this machine (DNS rebinding); a token suffices.
    hosts = _LOOPBACK_NAMES | {host} if token is None else None
    app = create_app(Settings(token=token, hosts=hosts, run=run_folder, **options))
    listening = _listen(host, port)
    url = _url(listening)
    _announce(url, token if is_new else None, token is not None, as_json=as_json)
    log_to()
    configuration = uvicorn.Config(
        app, access_log=False, log_config=None, server_header=False, ws="none",
        timeout_graceful_shutdown=_GRACE, h11_max_incomplete_event_size=1 << 16,
        proxy_headers=False,
    )  # fmt: skip
    # Ctrl-C is the normal way to stop: uvicorn shuts down cleanly, then raises it again.
    with listening, suppress(KeyboardInterrupt):
        uvicorn.Server(configuration).run(sockets=[listening])


def _token(host: str, token_file: str | None) -> tuple[str | None, bool]:
    """The token, and whether it is new."""
    if token_file is not None:
        return check_token(Path(token_file).read_text(encoding="utf-8").strip()), False
    if is_loopback(host):
        return None, False
    return secrets.token_urlsafe(32), True


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except socket.gaierror as problem:
        raise InvalidInput(f"Expected an address to listen on, got {host!r}.") from problem
    listening = socket.socket(family, kind, protocol)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(address)
        # Listen before the address is printed: early clients then wait until the service is up.
        listening.listen()
    except (OSError, OverflowError) as problem:
        listening.close()
        raise InvalidInput(f"Expected a free port on {host}, got {port}: {problem}.") from problem
    listening.set_inheritable(True)
    return listening


def _url(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


def _announce(url: str, new_token: str | None, guarded: bool, *, as_json: bool) -> None:
    if as_json:
        print_json({"url": url, "token": new_token})
        return
    click.echo(f"Listening on {url} (Ctrl-C to stop).")
    if new_token is not None:
        click.echo(f"Token: {new_token}")
    if guarded:
        click.echo("In a browser, enter the token as the password, with any user name.")
        click.echo("This is plain HTTP: use a TLS proxy, or the text can be read on the network.")
