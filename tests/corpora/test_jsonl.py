import io
import json
from typing import Any

import pytest

from sottovoce.corpora import Utterance
from sottovoce.corpora.jsonl import jsonl_line, read_jsonl, spans_line
from sottovoce.corpora.lines import LINE_LIMIT, Problems
from sottovoce.corpora.objects import from_object, to_object
from sottovoce.errors import InvalidInput


def read_line(line: str, *, strict: bool = True) -> list[Utterance]:
    stream = io.BytesIO(f"{line}\n".encode())
    return list(read_jsonl(stream, Problems("calls.jsonl", strict=strict), LINE_LIMIT))


def test_tokens_form() -> None:
    line = '{"tokens": ["call", "mum"], "slots": ["O", "B-who"], "intent": "call", "day": 3}'
    (utterance,) = read_line(line)
    assert utterance.slots == ("O", "B-who")
    assert utterance.extra == {"day": 3}
    assert jsonl_line(utterance).decode() == f"{line}\n"


def test_spans_form() -> None:
    line = '{"text": "call mum!", "entities": [{"start": 5, "end": 8, "type": "who"}], "n": 1}'
    (utterance,) = read_line(line)
    assert utterance.tokens == ("call", "mum", "!")
    assert spans_line(utterance).decode() == f"{line}\n"


@pytest.mark.parametrize("key", ["text", "reference"])
def test_mere_text_is_cut_at_white_space(key: str) -> None:
    (utterance,) = read_line(json.dumps({key: " call  mum"}))
    assert utterance.tokens == ("call", "mum")
    assert utterance.slots == ("O", "O")
    assert utterance.text == " call  mum"
    assert read_line(jsonl_line(utterance).decode()) == [utterance]


@pytest.mark.parametrize(
    ("keys", "user"),
    [
        ({"user": "a", "speaker": "b"}, "a"),
        ({"speaker": "b", "client": "c"}, "b"),
        ({"client": "c"}, "c"),
        ({"user": None, "client": "c"}, "c"),
        ({"user": 7}, "7"),
        ({"user": "", "speaker": "b"}, ""),
        ({"speaker": ["b"]}, ""),
        ({}, ""),
    ],
)
def test_who_is_the_user(keys: dict[str, Any], user: str) -> None:
    utterance = from_object({"tokens": ["call"], **keys})
    assert utterance.user == user
    assert from_object(to_object(utterance)) == utterance
    assert from_object(to_object(utterance, spans=True)) == utterance


def test_entities_beside_slots_are_kept_untouched() -> None:
    record = {"tokens": ["a"], "slots": ["O"], "intent": "", "entities": "elsewhere"}
    assert to_object(from_object(record)) == record


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("call mum", "Expected a JSON object, got Expecting value at column 1"),
        ('{"tokens": ["a"]', "Expected a JSON object"),
        ('["a"]', "Expected a JSON object, got"),
        ("null", "Expected a JSON object, got null"),
        ('{"tokens": ["a"], "tokens": ["b"]}', "every key once, got 'tokens' twice"),
        ('{"tokens": ["a"], "x": {"y": 1, "y": 2}}', "every key once, got 'y' twice"),
        ('{"tokens": ["a"], "x": NaN}', "NaN"),
        ("[" * 100_000, "Expected a JSON object"),
        ('{"tokens": ["a"], "x": ' + "9" * 5000 + "}", "Expected a JSON object"),
        ('{"text": "a\\ud800"}', r"lone surrogate U\+D800"),
        ('{"text": "a", "x": [{"\\udc00": 1}]}', r"lone surrogate U\+DC00"),
        ('{"text": "a\\u0000"}', "NUL"),
        ("{}", r"Expected tokens, text or reference, got the keys \(none\)"),
        ('{"words": ["a"]}', "got the keys words"),
        ('{"tokens": "call mum"}', "Expected tokens to be a list of strings"),
        ('{"tokens": ["a", 1]}', "Expected tokens to be a list of strings"),
        ('{"tokens": []}', "at least one token"),
        ('{"text": " "}', "at least one token"),
        ('{"text": 5}', "Expected text to be a string, got a number"),
        ('{"tokens": ["a", ""]}', "got an empty string as token 1"),
        ('{"tokens": ["a "]}', "got white space around token 0"),
        ('{"tokens": ["a"], "text": "b"}', "Expected token 0"),
        ('{"tokens": ["a"], "text": ""}', "Expected token 0"),
        ('{"tokens": ["a"], "slots": ["O", "O"]}', "one slot label for each of 1 tokens, got 2"),
        ('{"tokens": ["a"], "slots": []}', "one slot label for each of 1 tokens, got 0"),
        ('{"tokens": ["a"], "slots": "O"}', "Expected slots to be a list of strings"),
        ('{"tokens": ["a"], "slots": ["I-x"]}', "Expected B-x or I-x before I-x"),
        ('{"tokens": ["a"], "slots": ["S-x"]}', "Expected O, B-type or I-type"),
        ('{"tokens": ["a"], "intent": ["x"]}', "Expected intent to be a string"),
        ('{"tokens": ["a"], "id": 1.5}', "Expected id to be a string, got a number"),
        ('{"tokens": ["a"], "user": true}', "Expected user to be a string, got a boolean"),
        ('{"text": "a", "entities": 1}', "Expected entities to be a list"),
        ('{"text": "a", "entities": [1]}', "Expected entities to be objects, got a number"),
        ('{"text": "a", "entities": [{"start": 0, "end": 1}]}', "got the keys start, end"),
        (
            '{"text": "a", "entities": [{"start": 0, "end": 1, "type": "x", "score": 1}]}',
            "got the keys start, end, type, score",
        ),
        (
            '{"text": "a", "entities": [{"start": "0", "end": 1, "type": "x"}]}',
            "integers as start and end",
        ),
        ('{"text": "a", "entities": [{"start": 0, "end": 1, "type": null}]}', "a string as type"),
        ('{"text": "a", "entities": [{"start": 0, "end": 2, "type": "x"}]}', "the length of the"),
    ],
)
def test_bad_line_is_refused_with_its_place(line: str, complaint: str) -> None:
    with pytest.raises(InvalidInput, match=rf"^calls\.jsonl, line 1: .*{complaint}"):
        read_line(line)
    assert read_line(line, strict=False) == [] or '"I-x"' in line


def test_iob1_is_repaired_and_counted_only_when_lenient() -> None:
    line = b'{"tokens": ["a", "b"], "slots": ["I-x", "B-x"]}\n'
    problems = Problems("calls.jsonl", strict=False)
    (utterance,) = read_jsonl(io.BytesIO(line * 1), problems, LINE_LIMIT)
    assert utterance.slots == ("B-x", "B-x")
    assert (problems.repaired, problems.rejected) == (1, 0)


def test_blank_lines_are_skipped() -> None:
    assert len(read_line('\n\n{"text": "a"}\n \n')) == 1
