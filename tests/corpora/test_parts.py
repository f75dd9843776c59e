"""Corpora in parts."""

from pathlib import Path

import pytest

from sottovoce.corpora import Split, Utterance, write
from sottovoce.corpora.splits import load_parts
from sottovoce.errors import InvalidInput

CALLS = [Utterance(tokens=("call", str(i)), slots=("O", "B-who"), user=f"u{i}") for i in range(40)]


def test_a_folder_of_parts(tmp_path: Path) -> None:
    write(tmp_path / "train.jsonl.gz", CALLS[:30])
    write(tmp_path / "validation.conll", CALLS[30:33])
    (tmp_path / "README.md").write_text("not a part")
    parts = load_parts(tmp_path)
    assert parts.name == tmp_path.name
    assert parts.sizes() == {"train": 30, "valid": 3, "test": 0}
    assert list(parts.train) == CALLS[:30]


def test_one_file_whole_or_split(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    write(path, CALLS)
    whole = load_parts(path)
    assert whole.name == "calls"
    assert whole.sizes() == {"train": 40, "valid": 0, "test": 0}
    parts = load_parts(path, split=Split(ratios=(50, 25, 25), by="user"))
    assert sum(parts.sizes().values()) == 40
    assert set(parts.train) | set(parts.valid) | set(parts.test) == set(CALLS)
    more = load_parts(path, test=path)
    assert more.sizes() == {"train": 40, "valid": 0, "test": 40}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([], "Expected a file such as train.jsonl"),
        (["train.jsonl", "train.txt"], "Expected one file for train"),
    ],
)
def test_folders_that_cannot_be_read(tmp_path: Path, files: list[str], message: str) -> None:
    for name in files:
        write(tmp_path / name, CALLS)
    with pytest.raises(InvalidInput, match=message):
        load_parts(tmp_path)


def test_a_folder_is_not_split(tmp_path: Path) -> None:
    write(tmp_path / "train.jsonl", CALLS)
    with pytest.raises(InvalidInput, match="one file to split"):
        load_parts(tmp_path, split=Split())
