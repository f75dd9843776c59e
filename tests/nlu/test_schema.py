import json
from pathlib import Path

import pytest
from tests.nlu.tiny import UTTERANCES

from sottovoce.corpora import write
from sottovoce.errors import InvalidInput
from sottovoce.nlu.schema import Schema


def test_labels_are_sorted_and_complete() -> None:
    schema = Schema.of(reversed(UTTERANCES))
    assert schema.intents == ("call", "play", "stop")
    assert schema.tags == ("O", "B-what", "I-what", "B-who", "I-who")
    assert schema.slots_of == {
        "call": frozenset({"who"}),
        "play": frozenset({"what"}),
        "stop": frozenset(),
    }


def test_the_ontology_as_masks() -> None:
    schema = Schema.of(UTTERANCES)
    call, play, stop = schema.allowed()
    assert call == [True, False, False, True, True]
    assert play == [True, True, True, False, False]
    assert stop == [True, False, False, False, False]
    assert all(all(row) for row in Schema.of(UTTERANCES, ontology=False).allowed())


def test_an_intent_without_an_entry_may_carry_everything() -> None:
    schema = Schema(("a", "b"), ("x",), {"a": frozenset()}, declared=True)
    assert schema.allowed() == [[True, False, False], [True, True, True]]


def test_what_was_read_off_private_data_is_not_covered() -> None:
    (sentence,) = Schema.of(UTTERANCES).uncovered
    assert "intents and slots" in sentence
    assert "which slots occur with which intent" in sentence
    assert "which slots" not in Schema.of(UTTERANCES, ontology=False).uncovered[0]
    assert Schema.of(UTTERANCES, declared=True).uncovered == ()


@pytest.mark.parametrize("ontology", [True, False])
def test_json_both_ways(ontology: bool) -> None:
    schema = Schema.of(UTTERANCES, ontology=ontology)
    assert Schema.from_json(json.loads(json.dumps(schema.to_json()))) == schema


def test_load_from_labels_a_corpus_or_a_folder(tmp_path: Path) -> None:
    schema = Schema.of(UTTERANCES, declared=True)
    write(tmp_path / "train.jsonl", UTTERANCES[:2])
    write(tmp_path / "test.jsonl.gz", UTTERANCES[2:])
    assert Schema.load(tmp_path) == schema
    assert Schema.load(tmp_path / "train.jsonl", declared=False).uncovered
    (tmp_path / "labels.json").write_text(json.dumps({"intents": ["x"], "slot_types": []}))
    assert Schema.load(tmp_path).intents == ("x",)
    assert Schema.load(tmp_path / "labels.json").slots_of is None


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("{", "Expected JSON"),
        ("[]", "JSON object"),
        ('{"intents": [], "slot_types": []}', "at least one intent"),
        ('{"intents": "x", "slot_types": []}', "list of names"),
        ('{"intents": ["x", "x"], "slot_types": []}', "once"),
        ('{"intents": ["x"], "slot_types": [""]}', "with a name"),
        ('{"intents": ["x"], "slot_types": [], "slots_of": {"y": []}}', "known intent"),
        ('{"intents": ["x"], "slot_types": [], "slots_of": {"x": ["z"]}}', "known slot types"),
        ('{"intents": ["x"], "slot_types": [], "slots_of": []}', "slots_of"),
    ],
)
def test_what_is_no_schema_is_refused(tmp_path: Path, content: str, complaint: str) -> None:
    path = tmp_path / "labels.json"
    path.write_text(content)
    with pytest.raises(InvalidInput, match=complaint):
        Schema.load(path)


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="found nothing"):
        Schema.load(tmp_path / "none.json")
    with pytest.raises(InvalidInput, match="found neither"):
        Schema.load(tmp_path)


def test_unknown_labels_are_named() -> None:
    schema = Schema.of(UTTERANCES)
    with pytest.raises(InvalidInput, match="'dance'"):
        schema.intent_number("dance")
    with pytest.raises(InvalidInput, match="'B-when'"):
        schema.tag_numbers(["O", "B-when"])
