"""Utterances from lists, tables and datasets."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from sottovoce.corpora import Utterance
from sottovoce.corpora.memory import read_parts, read_utterances
from sottovoce.corpora.splits import Split
from sottovoce.errors import InvalidInput

CALL = Utterance(tokens=("call", "mum"), slots=("O", "B-who"), intent="call")
ROW = {"tokens": ["call", "mum"], "slots": ["O", "B-who"], "intent": "call"}


@dataclass
class ClassLabel:
    names: list[str]


@dataclass
class Sequence:
    feature: Any


class Dataset:
    """What a Hugging Face dataset looks like from outside."""

    def __init__(self, rows: list[dict[str, Any]], features: dict[str, Any]) -> None:
        self.rows, self.features = rows, features
        self.column_names = list(features)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)


def test_utterances_and_dicts_are_read_alike() -> None:
    spans = {
        "text": "call mum",
        "intent": "call",
        "entities": [{"start": 5, "end": 8, "type": "who"}],
    }
    assert read_utterances([CALL, ROW, spans]) == (CALL, CALL, CALL)
    assert read_utterances(iter([CALL])) == (CALL,)


def test_a_frame_is_read_by_its_columns() -> None:
    frame = pd.DataFrame(
        {
            "said": ["call mum", "hang up"],
            "slots": ["O B-who", "O O"],
            "intent": ["call", "end"],
            "user": ["ann", float("nan")],
        }
    )
    found = read_utterances(frame, columns={"text": "said"})
    assert found[0] == Utterance(
        tokens=("call", "mum"), slots=("O", "B-who"), intent="call", user="ann"
    )
    assert found[1].user == ""


def test_a_frame_with_lists_in_cells_is_read() -> None:
    assert read_utterances(pd.DataFrame([ROW])) == (CALL,)


def test_an_arrow_table_is_read() -> None:
    assert read_utterances(pa.Table.from_pylist([ROW])) == (CALL,)


def test_class_labels_of_a_dataset_get_their_names() -> None:
    data = Dataset(
        [{"words": ["call", "mum"], "ner_tags": [0, 1], "label": 1}],
        {
            "words": Sequence(object()),
            "ner_tags": Sequence(ClassLabel(["O", "B-who"])),
            "label": ClassLabel(["end", "call"]),
        },
    )
    assert read_utterances(data) == (CALL,)


def test_a_dataset_in_the_layout_of_massive_is_read() -> None:
    data = Dataset(
        [{"utt": "call mum", "annot_utt": "call [who : mum]", "intent": 0, "partition": "train"}],
        {
            "utt": object(),
            "annot_utt": object(),
            "intent": ClassLabel(["call"]),
            "partition": object(),
        },
    )
    (found,) = read_utterances(data)
    assert (found.tokens, found.slots, found.intent) == (CALL.tokens, CALL.slots, "call")


def test_a_mapping_is_read_as_parts() -> None:
    parts = read_parts({"train": [CALL] * 3, "validation": [ROW], "test": pd.DataFrame([ROW])})
    assert parts.sizes() == {"train": 3, "valid": 1, "test": 1}


def test_data_in_memory_can_be_split() -> None:
    said = [Utterance(tokens=("call",), slots=("O",), id=str(i)) for i in range(100)]
    parts = read_parts(said, split=Split(ratios=(80, 10, 10)))
    assert sum(parts.sizes().values()) == 100
    assert parts.sizes()["train"] > 60


def test_valid_and_test_are_added() -> None:
    parts = read_parts([CALL] * 3, valid=[ROW], test=[ROW] * 2)
    assert parts.sizes() == {"train": 3, "valid": 1, "test": 2}


@pytest.mark.parametrize(
    ("data", "refusal"),
    [
        ([], "Expected utterances in data, found none"),
        (7, "Expected a path, a list of utterances or dicts, a table or a dataset, got int"),
        (CALL, "got Utterance"),
        (["call mum"], "row 1: Expected an Utterance or a dict, got str"),
        ([ROW, {"tokens": ["call"], "slots": []}], "row 2: Expected one slot label"),
        (pd.DataFrame({"said": ["hang up"]}), "Expected a column 'text', got 'said'"),
    ],
)
def test_what_holds_no_utterances_is_refused(data: Any, refusal: str) -> None:
    with pytest.raises(InvalidInput, match=refusal):
        read_utterances(data)


def test_bad_rows_are_skipped_when_lenient() -> None:
    assert read_utterances([{"text": 5}, ROW], on_error="lenient") == (CALL,)


def test_unknown_fields_and_parts_are_refused() -> None:
    with pytest.raises(InvalidInput, match="every key of columns to be one of id, user, intent"):
        read_utterances([ROW], columns={"sentence": "said"})
    with pytest.raises(InvalidInput, match="Expected a part named train, got dev"):
        read_parts({"dev": [ROW]})
    with pytest.raises(InvalidInput, match="got a mapping of parts"):
        read_parts({"train": [ROW]}, split=Split())
