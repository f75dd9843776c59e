"""Several processes release one file: the text, the statement and the errors of one."""

import json
import os
from pathlib import Path

import pytest

from sottovoce.corpora import Reader, read
from sottovoce.corpora.synthetic import write_jsonl
from sottovoce.deid import Deidentifier, Resources, Setting, Vault
from sottovoce.deid.files import workers as module
from sottovoce.deid.files.corpus_file import release_file
from sottovoce.errors import InvalidInput
from sottovoce.privacy.noise import NoiseSource


def made(strategy: str = "entity", **more: object) -> Deidentifier:
    return Deidentifier(
        detector="gazetteer+patterns",
        setting=Setting(strategy=strategy, epsilon=None if strategy == "typed" else 2.0),
        **more,  # type: ignore[arg-type]
    )


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("calls") / "calls.jsonl"
    write_jsonl(path, "communication", size=400, users=7, seed=5)
    return path


@pytest.mark.parametrize("workers", [2, 3])
def test_the_release_and_its_statement_are_those_of_one_process(
    calls: Path, tmp_path: Path, workers: int
) -> None:
    one, many = made("typed"), made("typed")
    for each in (one, many):
        object.__setattr__(each, "_names", Vault(bytes(32), within="corpus"))
    alone = release_file(one, read(calls), tmp_path / "one.jsonl", examples=3)
    shared = release_file(many, read(calls), tmp_path / "many.jsonl", workers=workers, examples=3)
    assert (tmp_path / "one.jsonl").read_bytes() == (tmp_path / "many.jsonl").read_bytes()
    for key in ("guarantee", "metrics", "examples"):
        assert shared[key] == alone[key]
    for key in ("types", "guarantees", "adjusted", "notes"):
        assert shared["release"][key] == alone["release"][key]
    assert not list(tmp_path.glob(".*"))


def test_texts_without_ids_count_as_in_one_process(tmp_path: Path) -> None:
    """Equal texts of one release are different utterances, whichever process released them."""
    path = tmp_path / "in.txt"
    path.write_text("call maria\ncall maria and john\nhang up\n" * 30)
    costs = []
    for workers in (1, 2):
        deid = made()
        release_file(deid, read(path), tmp_path / f"out{workers}.txt", workers=workers)
        costs.append({unit: g.epsilon for unit, g in deid.statement().guarantees.items()})
        again = read(tmp_path / f"out{workers}.txt")
        assert len(list(again)) == 90
    assert costs[0] == costs[1]


def test_workers_draw_numbers_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_text("call 555-0123-4567\n" * 40)
    release_file(made(), read(path), tmp_path / "out.txt", workers=2)
    told = (tmp_path / "out.txt").read_text().splitlines()
    assert len({*told}) == 40


def test_errors_name_the_line_and_nothing_is_published(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    lines = [json.dumps({"text": f"call {place}"}) for place in range(100)]
    path.write_text("\n".join([*lines[:80], "{broken", *lines[80:]]) + "\n")
    with pytest.raises(InvalidInput, match="line 81:"):
        release_file(made(), read(path), tmp_path / "out.jsonl", workers=2)
    assert {each.name for each in tmp_path.iterdir()} <= {"in.jsonl", "private"}
    lenient = read(path, on_error="lenient")
    release_file(made(), lenient, tmp_path / "out.jsonl", workers=2)
    assert (lenient.rejected, lenient.problems[0].place) == (1, 81)


def test_a_worker_that_dies_publishes_nothing(
    calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Reader, "part", lambda *_: os._exit(9))
    with pytest.raises(InvalidInput, match="ended with code 9"):
        release_file(made(), read(calls), tmp_path / "out.jsonl", workers=2)
    assert not (tmp_path / "out.jsonl").exists()


def test_counts_that_are_not_merged_would_be_noticed(
    calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin: without the merge the statement covers nothing."""
    monkeypatch.setattr(Deidentifier, "merge_counts", lambda *_: None)
    deid = made()
    release_file(deid, read(calls), tmp_path / "out.jsonl", workers=2)
    assert deid.statement().guarantees["utterance"].epsilon == 0


def test_what_several_processes_cannot_do_is_refused(calls: Path, tmp_path: Path) -> None:
    vault = Resources(vault=Vault(bytes(32), reversible=True))
    for deid in (made(source=NoiseSource.seeded(1)), made(resources=vault)):
        with pytest.raises(InvalidInput, match="one worker"):
            release_file(deid, read(calls), tmp_path / "out.jsonl", workers=2)
    with pytest.raises(InvalidInput, match="uncompressed"):
        release_file(made(), read(calls), tmp_path / "out.csv", workers=2)


@pytest.mark.parametrize(
    "content", ["a\n", "a", "a\nb", "\n\na\n\n", "a\n" * 7, "long " * 99 + "\nb"]
)
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_parts_are_whole_lines_and_together_the_file(
    tmp_path: Path, content: str, workers: int
) -> None:
    path = tmp_path / "in.txt"
    path.write_text(content)
    parts = [content[start : start + size] for start, size in module._cuts(path, workers)]
    assert "".join(parts) == content
    assert all(part.endswith("\n") for part in parts[:-1])


def test_what_a_killed_release_left_is_removed_by_the_next(calls: Path, tmp_path: Path) -> None:
    left, other = tmp_path / ".0badcafe.part.out.jsonl", tmp_path / ".0badcafe.part.else.jsonl"
    for folder in (left, other):
        folder.mkdir()
        (folder / "out.jsonl").write_text("half")
    release_file(made(), read(calls), tmp_path / "out.jsonl")
    assert not left.exists()
    assert other.exists()
