"""`sottovoce serve` as a process: it listens, answers, logs and ends; and what it refuses."""

import builtins
import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import RunCli

pytest.importorskip("uvicorn", reason="the extra serve is not installed")


@contextmanager
def serving(*options: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """A service on a free port, and the lines it printed at startup."""
    command = [sys.executable, "-m", "sottovoce", "serve", "--port", "0", "--detector", "patterns"]
    process = subprocess.Popen(
        [*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        lines = [process.stdout.readline()]
        while "Listening" in lines[0] and not lines[-1].startswith("This is plain HTTP"):
            if "127.0.0.1" in lines[0] and len(lines) == 1:
                break
            lines.append(process.stdout.readline())
        yield process, lines
    finally:
        process.kill()
        process.communicate()


def ask(url: str, body: object = None, **headers: str) -> Any:
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        url, content, {"Content-Type": "application/json", **headers}
    )  # fmt: skip
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read())


def test_it_answers_on_this_machine_and_ends_on_ctrl_c() -> None:
    with serving() as (process, [line]):
        found = re.search(r"http://127\.0\.0\.1:\d+/", line)
        assert found
        url = found[0]
        assert ask(url + "healthz") == {"status": "ok"}
        released = ask(url + "deidentify", {"text": "at half past three", "strategy": "typed"})
        assert released["released"][0]["text"] == "at [TIME]"
        with pytest.raises(urllib.error.HTTPError) as refused:
            ask(url + "about", Host="evil.example")
        assert refused.value.code == 421
        refused.value.close()
        process.send_signal(signal.SIGINT)
        _, logs = process.communicate(timeout=60)
    events = [json.loads(line) for line in logs.splitlines()]
    assert [each["path"] for each in events if each["event"] == "request"] == [
        "/healthz", "/deidentify", "/about",
    ]  # fmt: skip
    assert "half past" not in logs


def test_elsewhere_it_makes_a_token_and_asks_for_it() -> None:
    with serving("--host", "0.0.0.0") as (_, lines):
        url = "http://127.0.0.1:" + lines[0].split("0.0.0.0:")[1].split("/")[0] + "/"
        token = lines[1].removeprefix("Token: ").strip()
        assert len(token) >= 40
        assert "TLS" in lines[-1]
        assert ask(url + "healthz") == {"status": "ok"}
        with pytest.raises(urllib.error.HTTPError) as refused:
            ask(url + "about")
        assert refused.value.code == 401
        refused.value.close()
        assert ask(url + "about", Authorization=f"Bearer {token}")["detector"] == "patterns"


def test_a_taken_port_is_one_sentence(run_cli: RunCli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = run_cli("serve", "--detector", "patterns", "--port", taken.getsockname()[1])
    assert result.exit_code == 2
    assert "Expected a free port" in result.stderr


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--host", "no.such.host.invalid"], "Expected an address"),
        (["--detector", "gold"], "plain text"),
        (["--detector", "magic"], "Expected a detector"),
        (["--marginals", "x"], "language model"),
        (["--lm", "nowhere"], "Expected an ARPA file"),
        (["--timeout", "0"], "timeout > 0"),
        (["--token-file", "nowhere"], "No such file"),
    ],
)
def test_what_cannot_be_served_is_one_sentence(
    run_cli: RunCli, options: list[str], sentence: str
) -> None:
    result = run_cli("serve", "--port", 0, *options)
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_short_token_is_refused_and_not_printed(run_cli: RunCli, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("sesame\n")
    result = run_cli("serve", "--token-file", tmp_path / "token")
    assert result.exit_code == 2
    assert "at least 20" in result.stderr
    assert "sesame" not in result.stderr


def test_without_the_extra_it_says_what_to_install(
    run_cli: RunCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name == "uvicorn":
            raise ModuleNotFoundError("No module named 'uvicorn'", name="uvicorn")
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    result = run_cli("serve")
    assert result.exit_code == 2
    assert "pip install 'sottovoce[serve]'" in result.stderr


def test_help_has_examples_and_loads_no_server() -> None:
    code = (
        "import sys, sottovoce.cli.serve; print('fastapi' in sys.modules, 'uvicorn' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.split() == ["False", "False"]
    helped = subprocess.run(
        [sys.executable, "-m", "sottovoce", "serve", "--help"],
        capture_output=True, check=True, text=True, env={**os.environ, "COLUMNS": "100"},
    )  # fmt: skip
    assert "sottovoce serve --host 0.0.0.0" in helped.stdout
