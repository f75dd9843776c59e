"""Signed pages: whatever is altered after signing is found."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import RunCli
from tests.report.test_decision import audited, user_run

from sottovoce.errors import InvalidInput
from sottovoce.io.signatures import make_key, read_private_key
from sottovoce.report.signing import verify_page


@pytest.fixture
def page(run_cli: RunCli, tmp_path: Path) -> Path:
    make_key(tmp_path / "key.pem")
    audited(tmp_path / "run", user_run(30.0))
    result = run_cli(
        "report", tmp_path / "run", "-o", tmp_path / "page.html", "--policy", "strict",
        "--sign", tmp_path / "key.pem", "--author", "Ada Moss", "--scope", "to partners",
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    return tmp_path / "page.html"


def test_a_signed_page_states_everything_and_verifies(run_cli: RunCli, page: Path) -> None:
    result = run_cli("report", "verify", page, "--key", page.parent / "key.pem.pub")
    assert result.exit_code == 0, result.stderr
    assert "Ada Moss" in result.stdout
    said = json.loads(Path(f"{page}.signed.json").read_text())["statement"]
    assert (said["decision"], said["author"], said["scope"]) == (
        "release",
        "Ada Moss",
        "to partners",
    )
    assert {*said["stages"][0]["files"]} == {"run", "model", "configuration", "ledger ledger.jsonl"}
    assert said["policy"]["name"] == "strict"
    assert len(said["code"]) == 64
    text = page.read_text()
    assert "Signatures" in text
    assert "data protection officer" in text


def statement(page: Path) -> None:
    path = Path(f"{page}.signed.json")
    path.write_text(path.read_text().replace('"release"', '"do not release"'))


def html(page: Path) -> None:
    page.write_text(page.read_text().replace("strict", "relaxed"))


def model(page: Path) -> None:
    (page.parent / "run" / "model.safetensors").write_bytes(b"another")


def ledger(page: Path) -> None:
    (page.parent / "run" / "ledger.jsonl").unlink()


@pytest.mark.parametrize("alter", [statement, html, model, ledger])
def test_what_was_altered_after_signing_is_named(
    run_cli: RunCli, page: Path, alter: Callable[[Path], None]
) -> None:
    alter(page)
    result = run_cli("report", "verify", page)
    assert result.exit_code == 1
    assert "Problem: " in result.stderr


def test_another_key_is_refused(page: Path, tmp_path: Path) -> None:
    make_key(tmp_path / "other.pem")
    found = verify_page(page, tmp_path / "other.pem.pub")
    assert "another key" in found.problems[0]
    with pytest.raises(InvalidInput, match="exists"):
        make_key(tmp_path / "other.pem")
    with pytest.raises(InvalidInput, match="Ed25519 private key"):
        read_private_key(tmp_path / "other.pem.pub")
    assert (tmp_path / "other.pem").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"statement": 3}', "[" * 100000])
def test_a_signature_that_is_none_is_refused(page: Path, content: str) -> None:
    Path(f"{page}.signed.json").write_text(content)
    with pytest.raises(InvalidInput, match="Expected a signed page"):
        verify_page(page)
