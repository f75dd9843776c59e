"""Releasing to standard output: every line at once, and a statement however it ends."""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from sottovoce.cli.main import sottovoce
from sottovoce.deid.files.manifest import verify

PATIENCE = 120
MAIN = "from sottovoce.cli.main import main; main()"
COMMAND = [sys.executable, "-c", MAIN, "deid", "-", "--detector", "patterns"]


@contextmanager
def _running(*options: str) -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(
        [*COMMAND, "--strategy", "typed", *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _say(process: "subprocess.Popen[bytes]", line: bytes) -> bytes:
    """The answer to a line, before the next one is sent."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(line)
    process.stdin.flush()
    there, _, _ = select.select([process.stdout], [], [], PATIENCE)
    assert there, "nothing was written for this line"
    return os.read(process.stdout.fileno(), 1 << 16)


def test_every_line_is_written_at_once_and_ctrl_c_ends_with_the_statement(tmp_path: Path) -> None:
    kept = tmp_path / "out.txt.run.json"
    with _running("--manifest", str(kept)) as process:
        first = _say(process, b"call 555-0123\n")
        second = _say(process, b"at half past three, or at noon\nnothing here\n")
        process.send_signal(signal.SIGINT)
        rest, told = process.communicate(timeout=PATIENCE)
    assert first == b"call [PHONE]\n"
    assert second + rest == b"at [TIME], or at [TIME]\nnothing here\n"
    assert process.returncode == 0
    assert b"Released 3 utterances to standard output." in told
    assert b"PHONE: 1 replaced" in told
    assert b"TIME: 2 replaced" in told
    (tmp_path / "out.txt").write_bytes(first + second + rest)
    assert verify(tmp_path / "out.txt")["metrics"]["utterances"] == 3


def test_a_reader_that_leaves_ends_with_the_statement() -> None:
    with _running() as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert _say(process, b'{"text": "at noon"}\n').startswith(b"{")
        process.stdout.close()
        process.stdin.write(b'{"text": "call 555-0123"}\n' * 5000)
        process.stdin.close()
        assert process.stderr is not None
        told = process.stderr.read()
        assert process.wait(PATIENCE) == 0
    assert b"replaced" in told
    assert b"Traceback" not in told
    assert b"Broken" not in told


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("call 555-0123\n", "call [PHONE]\n"),
        ("{broken, at noon\n", "{broken, at [TIME]\n"),
        ('id,text\n1,"at noon"\n', "at [TIME]"),
        ("id\ttext\n1\tat noon\n", "at [TIME]"),
        ("text, numbers and so on at noon\n", "text, numbers and so on at [TIME]\n"),
    ],
)
def test_the_format_is_recognised_from_the_first_line(given: str, told: str) -> None:
    arguments = ["deid", "-", "--detector", "patterns", "--strategy", "typed"]
    found = CliRunner().invoke(sottovoce, arguments, input=given)
    assert found.exit_code == 0, found.output
    assert told in found.stdout


def test_a_file_of_any_name_goes_to_standard_output(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    log.write_text("at noon\n")
    arguments = ["deid", str(log), "--detector", "patterns", "--strategy", "typed", "--json"]
    found = CliRunner().invoke(sottovoce, arguments)
    assert found.stdout == "at [TIME]\n"
    assert json.loads(found.stderr)["metrics"]["utterances"] == 1


def test_a_manifest_is_never_overwritten(tmp_path: Path) -> None:
    kept = tmp_path / "out.run.json"
    arguments = ["deid", "-", "--detector", "patterns", "--manifest", str(kept)]
    assert CliRunner().invoke(sottovoce, arguments, input="at noon\n").exit_code == 0
    again = CliRunner().invoke(sottovoce, arguments, input="at noon\n")
    assert again.exit_code != 0
    assert "existing" in str(again.exception)
