"""Files from strangers: formulas for spreadsheets, and small files that unpack to large ones."""

import csv
import gzip
import io
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from sottovoce.corpora import Utterance, lines, read, tables, write
from sottovoce.errors import InvalidInput

FORMULAS = ["=cmd|' /C calc'!A0", "+1+cmd", "-2+3", "@SUM(A1)", "\t=1", "'=1", "''-x"]


@pytest.mark.parametrize("text", FORMULAS)
def test_no_cell_is_a_formula_for_a_spreadsheet_and_reading_gives_the_text_back(
    tmp_path: Path, text: str
) -> None:
    words = tuple(text.split()) or ("x",)
    utterance = Utterance(tokens=words, slots=("O",) * len(words), intent="=1+1", user="@me")
    write(tmp_path / "out.csv", [utterance])
    with (tmp_path / "out.csv").open(newline="") as stream:
        cells = [cell for row in csv.reader(stream) for cell in row]
    assert not any(cell[:1] in tuple("=+-@\t\r") for cell in cells if cell)
    [back] = read(tmp_path / "out.csv")
    assert (back.tokens, back.intent, back.user) == (words, "=1+1", "@me")


@given(st.text(alphabet="'=+-@\t 15.ea"))
def test_escaping_is_undone_by_reading(cell: str) -> None:
    assert tables._unescaped(tables._escaped(cell)) == cell


def test_numbers_stay_numbers() -> None:
    for number in ("-5", "+3.5", "-1e-9", "-.5"):
        assert tables._escaped(number) == number


def test_a_small_file_that_unpacks_to_a_large_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "_UNPACKED_FREELY", 1 << 20)
    (tmp_path / "bomb.jsonl.gz").write_bytes(gzip.compress(b" " * (1 << 24)))
    with pytest.raises(InvalidInput, match="200 times its size"):
        list(read(tmp_path / "bomb.jsonl.gz"))


def test_ordinary_text_that_compresses_well_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "_UNPACKED_FREELY", 1 << 10)
    row = b'{"tokens": ["call", "mum"], "slots": ["O", "B-who"], "intent": "call", "id": "%d"}\n'
    packed = gzip.compress(b"".join(row % number for number in range(5000)))
    (tmp_path / "plain.jsonl.gz").write_bytes(packed)
    assert sum(1 for _ in read(tmp_path / "plain.jsonl.gz")) == 5000


def test_a_text_repeated_by_a_dictionary_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "_LARGEST_BATCH", 1 << 22)
    table = pa.table({"text": ["x " * 50_000] * 1000})
    sink = io.BytesIO()
    parquet.write_table(table, sink, compression="zstd")
    assert len(sink.getvalue()) < 1 << 20
    (tmp_path / "bomb.parquet").write_bytes(sink.getvalue())
    with pytest.raises(InvalidInput, match="bytes in 4096 rows"):
        list(read(tmp_path / "bomb.parquet"))
