"""`sottovoce serve`: start the HTTP service with its playground."""

import os
import secrets
import socket
import ssl
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from sottovoce.cli.shared.console import json_option, print_json
from sottovoce.cli.shared.options import loaded_plugins
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
@click.option("--workers", type=click.IntRange(min=1), default=lambda: max(2, os.cpu_count() or 2),
              show_default="processors, at least 2", help="Jobs that run at the same time, in "
              "processes of their own.")  # fmt: skip
@click.option("--max-memory", type=click.IntRange(min=1), default=1 << 30, show_default=True,
              help="Bytes that a job may take beyond the loaded models.")  # fmt: skip
@click.option("--tls-cert", help="Certificate file (PEM) for HTTPS, with --tls-key.")
@click.option("--tls-key", help="Private key file (PEM) of --tls-cert.")
@click.option("--root-path", default="", help="Path prefix under which a proxy serves this "
              "service, such as /privacy; the proxy removes it.")  # fmt: skip
@click.option("--trust-proxy", metavar="ADDRESS", help="Address of a proxy whose X-Forwarded-For "
              "names the client.")  # fmt: skip
@json_option
def serve(
    host: str, port: int, run_folder: str | None, token_file: str | None, tls_cert: str | None,
    tls_key: str | None, root_path: str, trust_proxy: str | None, as_json: bool, **options: Any,
) -> None:  # fmt: skip
    """Serve /deidentify, /epsilon, /parse, /rescore and a playground over HTTP.

    By default only this machine can connect. On any other address clients need a token: that of
    --token-file, or a new one, printed once.

    \b
    Examples:
      sottovoce serve
      sottovoce serve --run runs/private --lm lm/ --port 9000
      sottovoce serve --host 0.0.0.0 --token-file token.txt --tls-cert c.pem --tls-key k.pem
    """
    _check_tls(tls_cert, tls_key)
    root_path = _check_root_path(root_path)
    try:
        import uvicorn

        from sottovoce.serve.app import create_app
        from sottovoce.serve.connections import LimitedProtocol
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
    settings = Settings(token=token, hosts=hosts, run=run_folder, **options)
    app = create_app(settings, plugins=loaded_plugins(), root_path=root_path)
    listening = _listen(host, port)
    url = _url(listening, "https" if tls_cert else "http")
    _announce(url, token if is_new else None, token is not None, as_json=as_json)
    log_to()
    configuration = uvicorn.Config(
        app, access_log=False, log_config=None, server_header=False, ws="none",
        http=LimitedProtocol, timeout_graceful_shutdown=_GRACE,
        h11_max_incomplete_event_size=1 << 16,
        proxy_headers=trust_proxy is not None, forwarded_allow_ips=trust_proxy,
        ssl_certfile=tls_cert, ssl_keyfile=tls_key,
    )  # fmt: skip
    # Ctrl-C is the normal way to stop: uvicorn shuts down cleanly, then raises it again.
    with listening, suppress(KeyboardInterrupt):
        uvicorn.Server(configuration).run(sockets=[listening])


def _check_tls(certificate: str | None, key: str | None) -> None:
    if (certificate is None) != (key is None):
        raise InvalidInput("Expected both of --tls-cert and --tls-key, got one.")
    if certificate is not None:
        try:
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certificate, key)
        except (OSError, ssl.SSLError) as problem:
            raise InvalidInput(
                f"Expected a PEM certificate and its key, got {certificate} and {key}: {problem}."
            ) from problem


def _check_root_path(path: str) -> str:
    if path and (not path.startswith("/") or path.endswith("/")):
        raise InvalidInput(f"Expected a path such as /privacy, got {path!r}.")
    return path


def _token(host: str, token_file: str | None) -> tuple[str | None, bool]:
    """The token, and whether it is new."""
    if token_file is not None:
        if stat.S_IMODE(Path(token_file).stat().st_mode) & 0o077:
            click.echo(
                f"Other users can read {token_file}: run `chmod 600 {token_file}`.", err=True
            )
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


def _url(listening: socket.socket, scheme: str) -> str:
    host, port = listening.getsockname()[:2]
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/"


def _announce(url: str, new_token: str | None, guarded: bool, *, as_json: bool) -> None:
    if as_json:
        print_json({"url": url, "token": new_token})
        return
    click.echo(f"Listening on {url} (Ctrl-C to stop).")
    if new_token is not None:
        click.echo(f"Token: {new_token}")
    if guarded:
        click.echo("In a browser, enter the token as the password, with any user name.")
    if guarded and url.startswith("http:"):
        click.echo(
            "This is plain HTTP: use --tls-cert or a TLS proxy, or others can read the text."
        )
