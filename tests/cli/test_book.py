"""`sottovoce book`, and `--book` of the verbs: refused before anything can be read."""

import json
from pathlib import Path

import pytest
from tests.conftest import RunCli

from sottovoce.book import Book

POLICY = """
[epsilon.user]
release = 1.0
most = 1.0
why = "for a test"
source = "this test"
[epsilon.token]
release = 1.0
most = 1.0
why = "for a test"
source = "this test"
"""


@pytest.fixture
def book(run_cli: RunCli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SOTTOVOCE_ANCHORS", str(tmp_path / "anchors"))
    (tmp_path / "policy.toml").write_text(POLICY)
    made = run_cli("book", "init", tmp_path / "b.db", "--policy", tmp_path / "policy.toml")
    assert made.exit_code == 0, made.stderr
    assert "Anchor" in made.stdout
    calls = [{"tokens": ["call", "maria"], "slots": ["O", "B-PER"], "user": "u1", "id": "1"}]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(each) + "\n" for each in calls))
    return tmp_path / "b.db"


def release(run_cli: RunCli, book: Path, name: str, *more: object) -> tuple[int, str]:
    result = run_cli(
        "deid", book.parent / "in.jsonl", "-o", book.parent / name, "--detector", "gold",
        "--book", book, *more,
    )  # fmt: skip
    return result.exit_code, result.stderr


def test_what_exceeds_the_policy_is_not_released(run_cli: RunCli, book: Path) -> None:
    code, told = release(run_cli, book, "a.jsonl", "--epsilon", 0.8)
    assert code == 0, told
    code, told = release(run_cli, book, "b.jsonl", "--epsilon", 0.8)
    assert code == 2
    assert "nothing was released" in told
    assert not (book.parent / "b.jsonl").exists()
    assert not (book.parent / "b.jsonl.run.json").exists()
    code, told = release(run_cli, book, "c.jsonl", "--strategy", "typed")  # costs nothing
    assert code == 0, told
    shown = json.loads(run_cli("book", "show", book, "--json").stdout)
    assert [each["verb"] for each in shown["entries"]] == ["deid", "deid"]
    (totals,) = shown["totals"]
    assert totals["person"]["guarantee"]["epsilon"] == pytest.approx(0.8)
    assert totals["left"] == pytest.approx(0.2)
    assert all(
        len(digest) == 64 for each in shown["entries"] for digest in each["artifacts"].values()
    )


def test_the_environment_names_the_book_and_a_stream_is_refused(
    run_cli: RunCli, book: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOTTOVOCE_BOOK", str(book))
    result = run_cli("deid", book.parent / "in.jsonl", "-o", "-", "--strategy", "typed")
    assert result.exit_code == 2
    assert "--book" in result.stderr
    assert "Nothing was released" in run_cli("book", "show").stdout


def test_a_training_without_noise_is_refused_before_it_runs(run_cli: RunCli, book: Path) -> None:
    corpus = book.parent / "calls.jsonl"
    run_cli("corpus", "make", "communication", "-o", corpus, "--size", 60)
    result = run_cli("train", corpus, "--quick", "-o", book.parent / "run", "--book", book)
    assert result.exit_code == 2
    assert "no guarantee" in result.stderr
    assert not (book.parent / "run").exists()
    assert len(Book.open(str(book)).records) == 1


def test_check_names_what_was_altered(run_cli: RunCli, book: Path) -> None:
    kept = book.read_bytes()
    assert release(run_cli, book, "a.jsonl", "--epsilon", 0.5)[0] == 0
    good = run_cli("book", "check", book, "--key", f"{book}.key.pub", "--json")
    assert good.exit_code == 0, good.stderr
    anchor = json.loads(good.stdout)["anchor"]
    assert run_cli("book", "check", book, "--anchor", anchor).exit_code == 0
    book.write_bytes(kept)  # the copy of yesterday
    old = run_cli("book", "check", book)
    assert old.exit_code == 1
    assert "rolled back" in old.stderr
    code, told = release(run_cli, book, "d.jsonl", "--epsilon", 0.5)
    assert code == 2
    assert "rolled back" in told
    assert not (book.parent / "d.jsonl").exists()


@pytest.mark.parametrize("content", [b"", b"no database", b"SQLite format 3\x00" + b"x" * 200])
def test_what_is_no_book_is_refused_in_a_sentence(
    run_cli: RunCli, book: Path, content: bytes
) -> None:
    book.write_bytes(content)
    result = run_cli("book", "show", book)
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: Expected")
