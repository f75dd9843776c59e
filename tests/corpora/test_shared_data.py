"""The public datasets: every file is read in strict mode, and known figures come out."""

import gzip
import io
import json
import re
from pathlib import Path

import pytest

from sottovoce.corpora import count, read, shared
from sottovoce.corpora.jsonl import jsonl_line, read_jsonl, spans_line
from sottovoce.corpora.lines import LINE_LIMIT, Problems
from sottovoce.corpora.records import is_role
from sottovoce.corpora.wordvectors import read_word_vectors


def lines_listed(folder: Path) -> dict[str, int]:
    """Every text file and its number of lines, by the table at the end of the folder's README."""
    rows = re.findall(r"^\| (\S+/\S+) \| (\d+) \|", (folder / "README.md").read_text(), re.M)
    return {name: int(lines) for name, lines in rows}


@pytest.mark.parametrize("part", ["nlu", "ner", "ami", "nbest", "deid", "text"])
def test_every_file_is_read_whole(shared_data: Path, part: str) -> None:
    listed = lines_listed(shared_data)
    files = [path for path in (shared_data / part).rglob("*") if path.is_file()]
    assert files
    for path in files:
        reader = read(path)
        lines = sum(1 for _ in reader)
        assert lines == listed[path.relative_to(shared_data).as_posix()], path.name
        assert (reader.rejected, reader.repaired, reader.blank) == (0, 0, 0)


def test_word_vectors_are_read(shared_data: Path) -> None:
    (path,) = (shared_data / "vectors").iterdir()
    assert read_word_vectors(path).vectors.shape == (60273, 100)


@pytest.mark.parametrize(
    "name", ["nlu/snips/train.jsonl.gz", "nlu/nlu-eval/test.jsonl", "ner/conll2003/valid.jsonl"]
)
def test_labelled_files_are_written_as_they_were(shared_data: Path, name: str) -> None:
    content = (shared_data / name).read_bytes()
    content = gzip.decompress(content) if name.endswith(".gz") else content
    assert b"".join(map(jsonl_line, read(shared_data / name))) == content


def test_spans_are_written_as_they_were(shared_data: Path) -> None:
    path = shared_data / "deid" / "presidio-synth-v2.jsonl"
    # A record without entities is written without the key.
    original = path.read_bytes().replace(b'"entities": [], ', b"")
    assert b"".join(map(spans_line, read(path))) == original


@pytest.mark.parametrize(
    "name", ["ami/dev.jsonl.gz", "nbest/hyporadise/atis.test.jsonl", "nlu/ms-taxi/valid.jsonl"]
)
def test_all_keys_survive_where_the_user_has_another_name(shared_data: Path, name: str) -> None:
    path = shared_data / name
    content = path.read_bytes()
    originals = (gzip.decompress(content) if name.endswith(".gz") else content).splitlines()
    for original, utterance in zip(originals, read(path), strict=True):
        record = json.loads(original)
        user = record.get("speaker") or record["client"]
        assert utterance.user == ("" if is_role(user) else user)
        line = jsonl_line(utterance)
        written = json.loads(line)
        unsaid = {"text"} if written.get("text") is None else set()
        assert all(written[key] == value for key, value in record.items() if key not in unsaid)
        again = read_jsonl(io.BytesIO(line), Problems(name, strict=True), LINE_LIMIT)
        assert list(again) == [utterance]


@pytest.mark.parametrize(
    ("name", "repeated", "size"),
    [
        ("atis", 13, 893),
        ("snips", 26, 700),
        ("en-tod", 2811, 8621),
        ("ms-restaurant", 2290, 5867),
        ("ms-taxi", 2408, 4597),
        ("nlu-eval", 0, 5518),
    ],
)
def test_utterances_of_test_that_occur_in_train(
    shared_data: Path, name: str, repeated: int, size: int
) -> None:
    (train,) = (shared_data / "nlu" / name).glob("train.*")
    (test,) = (shared_data / "nlu" / name).glob("test.*")
    tested = count(read(test))
    assert tested.statistics().utterances == size
    assert shared(tested, count(read(train))) == repeated
