"""Errors about corpora, which may be private, name places and keys but quote no values."""

import json
from pathlib import Path

import pytest

from sottovoce.corpora import Split, Utterance, read, split, write
from sottovoce.errors import InvalidInput

SECRET = "5550123"
RECORDS = [
    SECRET,
    json.dumps([SECRET]),
    json.dumps(SECRET),
    json.dumps({"text": [SECRET]}),
    json.dumps({"text": SECRET, "user": [SECRET]}),
    json.dumps({"text": SECRET, "id": {SECRET: 1}}),
    json.dumps({"tokens": SECRET}),
    json.dumps({"tokens": [f" {SECRET}"]}),
    json.dumps({"tokens": ["call", SECRET], "text": f"call {SECRET} now"}),
    json.dumps({"tokens": ["call", "mum"], "text": f"call {SECRET}"}),
    json.dumps({"tokens": [SECRET], "slots": [SECRET]}),
    json.dumps({"tokens": [SECRET], "slots": SECRET}),
    json.dumps({"text": f"call {SECRET}", "entities": [SECRET]}),
    json.dumps({"text": f"call {SECRET}", "entities": [{"value": SECRET}]}),
    json.dumps({"text": f"call {SECRET}", "entities": [{"start": SECRET, "end": 1, "type": "x"}]}),
    json.dumps({"text": f"call {SECRET}", "entities": [{"start": 4, "end": 8, "type": "x"}]}),
    json.dumps({"annot_utt": [SECRET]}),
    json.dumps({"utt": "call", "annot_utt": f"call [phone : {SECRET}]"}),
    json.dumps({"tokens": [{"surface": SECRET}], "entities": [{"span": [3], "filler": SECRET}]}),
]


@pytest.mark.parametrize("record", RECORDS)
def test_a_bad_record_is_not_quoted(tmp_path: Path, record: str) -> None:
    path = tmp_path / "calls.jsonl"
    path.write_text(f"{record}\n")
    with pytest.raises(InvalidInput, match="line 1") as caught:
        list(read(path))
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("calls.conll", f"{SECRET}\n"),
        ("calls.conll", f"{SECRET} {SECRET}\n"),
        ("calls.csv", f"text,tokens\ncall,[{SECRET}\n"),
        ("nlu.yml", f"nlu:\n- intent: call\n  examples: |\n    - call [x]{{{SECRET}}}\n"),
    ],
)
def test_a_bad_line_is_not_quoted(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InvalidInput, match="line") as caught:
        list(read(tmp_path / name))
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "token"), [("out.conll", f"{SECRET}\t1"), ("out.txt", f"{SECRET}\n1")]
)
def test_an_utterance_that_does_not_fit_is_not_quoted(
    tmp_path: Path, name: str, token: str
) -> None:
    utterance = Utterance(tokens=(token,), slots=("O",), text=token)
    with pytest.raises(InvalidInput, match="utterance 1") as caught:
        write(tmp_path / name, [utterance])
    assert SECRET not in str(caught.value)


def test_a_record_without_a_user_is_not_quoted() -> None:
    utterance = Utterance(tokens=(SECRET,), slots=("O",), id=SECRET)
    with pytest.raises(InvalidInput, match="Expected a user") as caught:
        list(split([utterance], by="user"))
    assert SECRET not in str(caught.value)
    with pytest.raises(InvalidInput, match="Expected a user"):
        Split(by="user").part(utterance)
