import datetime
import io
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from sottovoce.corpora import Columns, Utterance, read, write
from sottovoce.corpora.lines import Problems
from sottovoce.corpora.tables import ROWS_IN_BATCH, read_parquet
from sottovoce.errors import InvalidInput


def table_at(path: Path, columns: dict[str, list[object]]) -> Path:
    parquet.write_table(pa.table(columns), path)
    return path


def test_columns_are_named_by_the_user_and_others_are_kept(tmp_path: Path) -> None:
    path = table_at(
        tmp_path / "calls.parquet",
        {
            "utt": ["call mum"],
            "bio": [["O", "B-who"]],
            "who": [7],
            "when": [datetime.date(2024, 1, 31)],
            "score": [float("nan")],
            "length": [2],
        },
    )
    (utterance,) = read(path, columns=Columns(text="utt", slots="bio", user="who"))
    assert utterance.slots == ("O", "B-who")
    assert utterance.user == "7"
    assert utterance.extra == {"when": "2024-01-31", "score": None, "length": 2}


def test_pandas_reads_what_is_written_and_is_read(tmp_path: Path) -> None:
    call = Utterance(tokens=("call", "mum"), slots=("O", "B-who"), user="u1")
    write(tmp_path / "calls.parquet", [call] * 3)
    frame = pd.read_parquet(tmp_path / "calls.parquet")
    assert list(frame["text"]) == ["call mum"] * 3
    assert list(frame["slots"][0]) == ["O", "B-who"]
    frame["user"] = pd.Categorical(frame["user"])
    frame.to_parquet(tmp_path / "again.parquet")
    assert list(read(tmp_path / "again.parquet")) == [call] * 3


def test_more_rows_than_a_batch(tmp_path: Path) -> None:
    count = ROWS_IN_BATCH + 1
    calls = [Utterance(tokens=("call",), slots=("O",), id=str(i)) for i in range(count)]
    assert write(tmp_path / "calls.parquet", calls) == count
    assert list(read(tmp_path / "calls.parquet")) == calls


def test_bad_row_is_refused_with_its_place(tmp_path: Path) -> None:
    path = table_at(
        tmp_path / "calls.parquet", {"text": ["a", None, "c"], "slots": [["O"], ["O"], ["I-x"]]}
    )
    with pytest.raises(InvalidInput, match=r"calls\.parquet, row 2: Expected tokens, text or"):
        list(read(path))
    reader = read(path, on_error="lenient")
    assert [u.slots for u in reader] == [("O",), ("B-x",)]
    assert (reader.rejected, reader.repaired) == (1, 1)


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ({"utt": ["a"]}, "Expected a column 'text', got 'utt'"),
        ({"text": ["a"], "sound": [b"\xff"]}, "in column 'sound', got bytes"),
    ],
)
def test_bad_table_is_refused(
    tmp_path: Path, columns: dict[str, list[object]], complaint: str
) -> None:
    path = table_at(tmp_path / "calls.parquet", columns)
    with pytest.raises(InvalidInput, match=rf"calls\.parquet: .*{complaint}"):
        list(read(path, on_error="lenient"))


def test_what_is_not_parquet_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "calls.parquet"
    path.write_text("text\ncall mum\n" * 10)
    with pytest.raises(InvalidInput, match="Expected a Parquet file, got"):
        list(read(path))
    whole = table_at(tmp_path / "whole.parquet", {"text": ["a"] * 100}).read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InvalidInput, match="Expected a Parquet file, got"):
        list(read(path))


def test_pipe_is_refused() -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    with pytest.raises(InvalidInput, match="got a pipe"):
        list(read_parquet(Pipe(), Problems("standard input", strict=True), Columns()))
