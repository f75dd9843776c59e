from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.corpora import Span
from sottovoce.deid.detect import Gazetteer, detector
from sottovoce.deid.detect.detector import utterance_of
from sottovoce.deid.detect.words import words_of
from sottovoce.errors import InvalidInput

WORDS = st.sampled_from(["new", "york", "anna", "lee", "of", "port", "x"])
VALUES = st.lists(st.lists(WORDS, min_size=1, max_size=3).map(" ".join), min_size=1, max_size=6)


def slowly(values: list[str], text: str) -> list[tuple[int, int]]:
    """Try every value at every word; take the longest; go on behind it."""
    words = words_of(text)
    listed = {tuple(value.split()) for value in values}
    found, position = [], 0
    while position < len(words):
        fitting = [
            n
            for n in range(1, 4)
            if tuple(word.lower for word in words[position : position + n]) in listed
            and position + n <= len(words)
        ]
        if fitting:
            last = position + max(fitting) - 1
            found.append((words[position].start, words[last].end))
            position = last + 1
        else:
            position += 1
    return found


@given(VALUES, st.lists(WORDS, max_size=12), st.sampled_from([" ", "  ", ", ", "\n"]))
def test_the_trie_finds_what_trying_everything_finds(
    values: list[str], words: list[str], blank: str
) -> None:
    text = blank.join(words)
    [spans] = Gazetteer({"X": values}).find([utterance_of(text)])
    assert [(span.start, span.end) for span in spans] == slowly(values, text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("call ANNA", "ANNA"),
        ("call Anna's mum", "Anna"),
        ("call anna’s mum", "anna"),
        ("(anna)", "anna"),
        ("anna, please", "anna"),
        ("in New\tYork", "New\tYork"),
    ],
)
def test_case_endings_and_punctuation_hide_nothing(text: str, value: str) -> None:
    [[span]] = Gazetteer({"X": ["anna", "new york"]}).find([utterance_of(text)])
    assert text[span.start : span.end] == value


def test_the_first_type_wins_and_equal_lists_hash_alike() -> None:
    lists = {"LOC": ["paris"], "PER": ["paris", "anna"]}
    made = Gazetteer(lists)
    assert made.find([utterance_of("paris")]) == [[Span(0, 5, "LOC")]]
    assert made.size == 2
    assert made.to_json() == Gazetteer(lists).to_json()


def test_empty_lists_are_refused() -> None:
    with pytest.raises(InvalidInput, match="at least one value"):
        Gazetteer({"LOC": []})
    with pytest.raises(InvalidInput, match="at least one word"):
        Gazetteer({"LOC": [" "]})


def test_a_list_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "people.tsv"
    path.write_text("PER\tanna lee\nORG\tacme\n")
    found = detector(str(path)).find([utterance_of("Anna Lee of ACME")])
    assert [span.type for span in found[0]] == ["PER", "ORG"]
    path.write_text("anna lee\n")
    with pytest.raises(InvalidInput, match="line 1"):
        detector(str(path))
