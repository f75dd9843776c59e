"""All formats together: round trips, detection, strict and lenient reading, safe writing."""

import gzip
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.corpora.strategies import utterances

from sottovoce.corpora import Columns, Utterance, format_of, read, write
from sottovoce.corpora.conll import conll_block, read_conll
from sottovoce.corpora.jsonl import jsonl_line, read_jsonl, spans_line
from sottovoce.corpora.lines import LINE_LIMIT, Problems
from sottovoce.corpora.tables import (
    delimited_header,
    delimited_row,
    read_delimited,
    read_parquet,
    write_parquet,
)
from sottovoce.errors import InvalidInput
from sottovoce.io.atomic import output

CALL = Utterance(tokens=("call", "mum"), slots=("O", "B-who"), intent="call", user="u1", id="7")
STOP = Utterance(tokens=("stop", "!"), slots=("O", "O"), text="stop!", extra={"day": [1, None]})
LOSSLESS = ("jsonl", "spans", "conll", "csv", "tsv", "parquet")
NAMES = {
    "jsonl": "calls.jsonl",
    "spans": "calls.jsonl",
    "conll": "calls.conll",
    "csv": "calls.csv",
    "tsv": "calls.tsv",
    "parquet": "calls.parquet",
    "text": "calls.txt",
}


@pytest.mark.parametrize("format", LOSSLESS)
def test_every_field_comes_back(tmp_path: Path, format: str) -> None:
    path = tmp_path / NAMES[format]
    assert write(path, [CALL, STOP], format) == 2
    assert list(read(path)) == [CALL, STOP]


@pytest.mark.parametrize("format", [*LOSSLESS[:-1], "text"])
def test_compressed_files_are_read_and_written(tmp_path: Path, format: str) -> None:
    path = tmp_path / f"{NAMES[format]}.gz"
    write(path, [CALL], format)
    assert gzip.decompress(path.read_bytes())
    assert [u.text for u in read(path)] == ["call mum"]


@given(st.lists(utterances(), min_size=1, max_size=3))
def test_jsonl_and_spans_lose_nothing(found: list[Utterance]) -> None:
    for encode in (jsonl_line, spans_line):
        stream = io.BytesIO(b"".join(map(encode, found)))
        assert list(read_jsonl(stream, Problems("x", strict=True), LINE_LIMIT)) == found


def fits_conll(utterance: Utterance) -> bool:
    broken = any(mark in label for label in utterance.slots for mark in "\t\n\r")
    return not broken and not utterance.tokens[0].startswith("\ufeff")


@given(st.lists(utterances().filter(fits_conll), min_size=1, max_size=3))
def test_conll_loses_nothing(found: list[Utterance]) -> None:
    stream = io.BytesIO(b"".join(map(conll_block, found)))
    assert list(read_conll(stream, Problems("x", strict=True), LINE_LIMIT)) == found


@given(st.lists(utterances(), min_size=1, max_size=3), st.sampled_from(",\t;"))
def test_csv_loses_nothing(found: list[Utterance], delimiter: str) -> None:
    columns = Columns(text="what was said")
    encode = delimited_row(columns, delimiter)
    stream = io.BytesIO(delimited_header(columns, delimiter) + b"".join(map(encode, found)))
    problems = Problems("x", strict=True)
    assert list(read_delimited(stream, problems, LINE_LIMIT, columns, delimiter)) == found


@given(st.lists(utterances(), min_size=1, max_size=3))
def test_parquet_loses_nothing(found: list[Utterance]) -> None:
    stream = io.BytesIO()
    write_parquet(stream, found, Columns(user="who"))
    stream.seek(0)
    assert list(read_parquet(stream, Problems("x", strict=True), Columns(user="who"))) == found


@given(utterances())
def test_tokens_of_any_cut_come_back(utterance: Utterance) -> None:
    letters = tuple(letter for token in utterance.tokens for letter in token)
    finer = Utterance(tokens=letters, slots=("O",) * len(letters), text=utterance.text)
    for encode in (jsonl_line, spans_line):
        read_back = read_jsonl(io.BytesIO(encode(finer)), Problems("x", strict=True), LINE_LIMIT)
        assert list(read_back) == [finer]


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("a.jsonl", "jsonl"),
        ("a.NDJSON.GZ", "jsonl"),
        ("a.b.txt", "text"),
        ("a.bio", "conll"),
        ("a.tsv.gz", "tsv"),
        ("a.parquet", "parquet"),
        ("-", "jsonl"),
    ],
)
def test_format_by_name(name: str, format: str) -> None:
    assert format_of(name) == format


@pytest.mark.parametrize("name", ["a", "a.gz", "a.json", "a.npz", ".jsonl"])
def test_unknown_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="Expected a name that ends in"):
        format_of(name)


def test_reader_can_be_read_again(tmp_path: Path) -> None:
    path = tmp_path / "calls.txt"
    path.write_text("call mum\n\nstop\n")
    reader = read(path)
    for _ in range(2):
        assert [u.text for u in reader] == ["call mum", "stop"]
        assert reader.blank == 1


def test_lenient_reader_counts_and_places_what_it_rejects(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    good = jsonl_line(CALL)
    path.write_bytes(good + b"nonsense\n" + good + b"\xff\n" + b"[]\n" * 20 + good)
    reader = read(path, on_error="lenient")
    assert list(reader) == [CALL] * 3
    assert reader.rejected == 22
    assert [problem.place for problem in reader.problems] == [2, 4, 5, 6, 7, 8, 9, 10, 11, 12]
    assert list(reader) == [CALL] * 3
    assert reader.rejected == 22


@pytest.mark.parametrize("format", NAMES)
def test_empty_file_is_refused(tmp_path: Path, format: str) -> None:
    path = tmp_path / NAMES[format]
    path.touch()
    with pytest.raises(InvalidInput, match=r"calls\.\w+"):
        list(read(path, format))


def test_file_with_nothing_but_rejected_records_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    path.write_text("[]\n[]\n")
    with pytest.raises(InvalidInput, match="all 2 records were rejected; the first error: Expec"):
        list(read(path, on_error="lenient"))


def test_missing_file_and_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="found nothing there"):
        read(tmp_path / "none.jsonl")
    with pytest.raises(InvalidInput, match="got the folder"):
        read(tmp_path, "jsonl")


def test_bad_options_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    write(path, [CALL])
    with pytest.raises(InvalidInput, match="on_error"):
        read(path, on_error="ignore")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="format"):
        read(path, "yaml")
    with pytest.raises(InvalidInput, match="line_limit"):
        read(path, line_limit=0)
    with pytest.raises(InvalidInput, match="column names only for"):
        read(path, columns=Columns(text="utt"))
    with pytest.raises(InvalidInput, match="column names only for"):
        write(path, [CALL], columns=Columns(text="utt"))
    with pytest.raises(InvalidInput, match="compresses itself"):
        write(tmp_path / "a.parquet.gz", [CALL])


@pytest.mark.parametrize("format", NAMES)
@pytest.mark.parametrize("character", ["\ud800", "\0"])
def test_what_utf8_text_cannot_hold_is_not_written(
    tmp_path: Path, format: str, character: str
) -> None:
    path = tmp_path / NAMES[format]
    path.write_text("precious")
    bad = Utterance(tokens=(f"a{character}",), slots=("O",))
    with pytest.raises(InvalidInput, match="Cannot write utterance 2: Expected text, got"):
        write(path, [CALL, bad], format)
    assert [found.name for found in tmp_path.iterdir()] == [path.name]
    assert path.read_text() == "precious"


@pytest.mark.parametrize("format", LOSSLESS)
@pytest.mark.parametrize(
    "bad",
    [
        Utterance(tokens=(), slots=()),
        Utterance(tokens=("",), slots=("O",)),
        Utterance(tokens=(" a",), slots=("O",)),
        Utterance(tokens=("a",), slots=("I-x",)),
        Utterance(tokens=("a",), slots=("O",), text="b"),
        Utterance(tokens=("a",), slots=("O",), extra={"tokens": 1}),
        Utterance(tokens=("a",), slots=("O",), extra={"x": float("nan")}),
        Utterance(tokens=("a",), slots=("O",), extra={"x": object()}),
    ],
)
def test_what_could_not_be_read_back_is_not_written(
    tmp_path: Path, format: str, bad: Utterance
) -> None:
    with pytest.raises(InvalidInput, match="Cannot write utterance 1: Expected"):
        write(tmp_path / NAMES[format], [bad], format)
    assert list(tmp_path.iterdir()) == []


def test_corpus_can_be_converted_onto_itself(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    write(path, [CALL, STOP])
    write(path, read(path), "spans")
    assert list(read(path)) == [CALL, STOP]


@pytest.mark.parametrize("cut", [5, -5])
def test_damaged_gzip_is_refused_and_named(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "calls.jsonl.gz"
    with output(path) as stream:
        stream.write(jsonl_line(CALL) * 100)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(InvalidInput, match=r"calls\.jsonl\.gz: Expected complete gzip data"):
        list(read(path, on_error="lenient"))
