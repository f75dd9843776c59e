import pandas as pd
import pyarrow as pa
import pytest

from sottovoce.deid import Deidentifier, Fields, Setting
from sottovoce.deid.files.tables import TextColumns, release_arrow, release_frame
from sottovoce.errors import InvalidInput

TABLE = pa.table(
    {"utt": ["call 555-0123", None, "at noon"], "who": ["ann", "ben", "ann"], "n": [1, 2, 3]}
)
COLUMNS = TextColumns(text="utt", user="who", keep=("n",))


def deidentifier() -> Deidentifier:
    return Deidentifier(detector="patterns", setting=Setting(strategy="typed"))


def test_arrow_tables() -> None:
    deid = deidentifier()
    released = release_arrow(deid, TABLE, COLUMNS)
    assert released.column("utt").to_pylist() == ["call [PHONE]", None, "at [TIME]"]
    assert released.column("n").to_pylist() == [1, 2, 3]
    users = released.column("who").to_pylist()
    assert users[0] == users[2] != "ann"
    assert deid.unit_counts.utterances == 2
    assert deid.statement().guarantees["user"].epsilon == 0


def test_pandas_frames() -> None:
    deid = Deidentifier(
        detector="patterns", setting=Setting(strategy="typed"), fields=Fields(user="keep")
    )
    frame = pd.DataFrame({"utt": ["call 555-0123"], "who": ["ann"], "x": [1]})
    released = release_frame(deid, frame, TextColumns(text="utt", user="who"))
    assert released.to_dict("records") == [{"utt": "call [PHONE]", "who": "ann"}]


def test_missing_and_wrong_columns_are_refused() -> None:
    with pytest.raises(InvalidInput, match="column 'text'"):
        release_arrow(deidentifier(), TABLE)
    with pytest.raises(InvalidInput, match="column 'x'"):
        release_arrow(deidentifier(), TABLE, TextColumns(text="utt", keep=("x",)))
    with pytest.raises(InvalidInput, match="Expected text in column 'n'"):
        release_arrow(deidentifier(), TABLE, TextColumns(text="n"))
