"""Files of other projects: MASSIVE, SLURP and Rasa are read as they come."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from sottovoce.corpora import read, spans_of, write
from sottovoce.corpora.splits import load_parts
from sottovoce.errors import InvalidInput

MASSIVE = [
    {
        "id": "1", "locale": "en-US", "partition": "train", "scenario": "alarm",
        "intent": "alarm_set", "utt": "wake me up at five am this week",
        "annot_utt": "wake me up at [time : five am] [date : this week]", "worker_id": "17",
    },
    {
        "id": "2", "locale": "en-US", "partition": "dev", "scenario": "play",
        "intent": "play_music", "utt": "play jazz", "annot_utt": "play [music_genre : jazz]",
        "worker_id": "9",
    },
    {
        "id": "3", "locale": "ja-JP", "partition": "test", "scenario": "alarm",
        "intent": "alarm_set", "utt": "九時に起こして", "annot_utt": "[time : 九時]に起こして",
        "worker_id": "4",
    },
]  # fmt: skip
SLURP = {
    "slurp_id": 4331,
    "sentence": "remind me tomorrow at nine a.m.",
    "sentence_annotation": "remind me [date : tomorrow] at [time : nine a.m.]",
    "intent": "calendar_set",
    "action": "set",
    "scenario": "calendar",
    "tokens": [
        {"surface": word, "id": number, "lemma": word, "pos": "NN"}
        for number, word in enumerate(["remind", "me", "tomorrow", "at", "nine", "a.m."])
    ],
    "recordings": [{"file": "audio-1.flac", "wer": 0.0, "ent_wer": 0.0, "status": "correct"}],
    "entities": [{"span": [2], "type": "date"}, {"span": [4, 5], "type": "time"}],
}
YAML = """\
version: "3.1"

# what people say
nlu:
- intent: greet
  examples: |
    - hey
    - hello there
- intent: "book"
  examples: |
    - fly to [Paris](city)
    - from [New York]{"entity": "city", "role": "from"} to [Rome]{"entity": "city", "role": "to"}
- synonym: New York
  examples: |
    - NYC
- regex: zip
  examples: |
    - \\d{5}
- intent: bye
  examples:
  - text: |
      see you
  - text: good night
stories:
- story: a
  steps:
  - intent: greet
  - action: utter_greet
"""
MARKDOWN = """\
## intent:greet
- hey
* hello there

## intent:book
- fly to [NYC](city:New York)

## synonym:New York
- NYC
"""


def lines(path: Path, records: Sequence[Mapping[str, object]]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_massive_is_read_with_slots_and_users(tmp_path: Path) -> None:
    first, _, japanese = read(lines(tmp_path / "en-US.jsonl", MASSIVE))
    assert first.text == "wake me up at five am this week"
    assert first.slots == ("O", "O", "O", "O", "B-time", "I-time", "B-date", "I-date")
    assert (first.intent, first.user, first.id) == ("alarm_set", "17", "1")
    # No second copy of the text or of the user stays behind in another key.
    assert first.extra == {"locale": "en-US", "partition": "train", "scenario": "alarm"}
    assert [(japanese.text[s.start : s.end], s.type) for s in spans_of(japanese)] == [
        ("九時", "time")
    ]


def test_the_partition_of_massive_makes_the_parts(tmp_path: Path) -> None:
    parts = load_parts(lines(tmp_path / "en-US.jsonl", MASSIVE))
    assert parts.sizes() == {"train": 1, "valid": 1, "test": 1}


def test_massive_whose_annotation_is_of_another_text_is_refused(tmp_path: Path) -> None:
    wrong = MASSIVE[1] | {"annot_utt": "play [music_genre : rock]"}
    with pytest.raises(InvalidInput, match="line 1: Expected annot_utt to be utt with slots"):
        list(read(lines(tmp_path / "en-US.jsonl", [wrong])))


def test_slurp_is_read_with_slots(tmp_path: Path) -> None:
    (found,) = read(lines(tmp_path / "train.jsonl", [SLURP]))
    assert found.tokens == ("remind", "me", "tomorrow", "at", "nine", "a.m.")
    assert found.slots == ("O", "O", "B-date", "O", "B-time", "I-time")
    assert (found.intent, found.id) == ("calendar_set", "4331")
    assert found.extra.keys() == {"action", "scenario", "recordings"}


@pytest.mark.parametrize(
    ("entities", "refusal"),
    [
        ([{"span": [2, 4], "type": "date"}], "span of adjacent tokens"),
        ([{"span": [9], "type": "date"}], "span within 6 tokens"),
        ([{"span": [2], "type": "a"}, {"span": [2], "type": "b"}], "do not overlap"),
        ([{"type": "date"}], "a SLURP record"),
    ],
)
def test_slurp_with_wrong_spans_is_refused(
    tmp_path: Path, entities: list[object], refusal: str
) -> None:
    with pytest.raises(InvalidInput, match=refusal):
        list(read(lines(tmp_path / "train.jsonl", [SLURP | {"entities": entities}])))


def test_rasa_yaml_is_read(tmp_path: Path) -> None:
    (tmp_path / "nlu.yml").write_text(YAML)
    found = list(read(tmp_path / "nlu.yml"))
    assert [(u.intent, u.text) for u in found] == [
        ("greet", "hey"),
        ("greet", "hello there"),
        ("book", "fly to Paris"),
        ("book", "from New York to Rome"),
        ("bye", "see you"),
        ("bye", "good night"),
    ]
    assert found[2].slots == ("O", "O", "B-city")
    assert found[3].slots == ("O", "B-city.from", "I-city.from", "O", "B-city.to")


def test_rasa_markdown_is_read(tmp_path: Path) -> None:
    (tmp_path / "nlu.md").write_text(MARKDOWN)
    found = list(read(tmp_path / "nlu.md"))
    assert [(u.intent, u.text) for u in found] == [
        ("greet", "hey"),
        ("greet", "hello there"),
        ("book", "fly to NYC"),
    ]
    assert found[2].slots == ("O", "O", "B-city")


def test_a_broken_entity_of_rasa_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "nlu.md").write_text("## intent:book\n- fly to [Rome]{city}\n")
    with pytest.raises(InvalidInput, match=r"line 2: Expected an entity such as"):
        list(read(tmp_path / "nlu.md"))


def test_a_page_without_examples_is_no_corpus(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# A page\n\n- a list\n")
    with pytest.raises(InvalidInput, match="Expected utterances"):
        list(read(tmp_path / "README.md"))


def test_rasa_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="read-only"):
        write(tmp_path / "nlu.yml", [])
