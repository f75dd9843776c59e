"""The default detector on text that nobody prepared."""

import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path

import pytest

from sottovoce.corpora import Span, from_spans
from sottovoce.deid import Deidentifier
from sottovoce.deid.detect import Combination, Tagger, detector
from sottovoce.deid.detect.crf import general_corpus
from sottovoce.deid.detect.crf.decoding import read_weights, rounded
from sottovoce.deid.detect.crf.general import CASELESS, FIRST, General, lexicon_from, lexicon_text
from sottovoce.deid.detect.crf.training import TaggerTraining, train
from sottovoce.deid.detect.detector import utterance_of
from sottovoce.deid.detect.labels import LabelMap
from sottovoce.errors import InvalidInput

CARD = Path(__file__).parents[3] / "docs" / "reproductions" / "general-tagger.md"


@cache
def fast() -> Combination:
    return detector("fast")


def values(text: str) -> list[str]:
    [spans] = fast().find([utterance_of(text)])
    return [text[span.start : span.end] for span in spans]


def test_it_is_the_default() -> None:
    assert Deidentifier().detector.name == "general+patterns"


@pytest.mark.parametrize(
    ("text", "private"),
    [
        ("The patient, Mr. O'Brien-Kowalski, saw Dr. Müller.", ["O'Brien-Kowalski", "Müller"]),
        ("John's and Mary's house", ["John", "Mary"]),
        ("John’s and Mary’s house", ["John", "Mary"]),
        ("my name is priya natarajan and i live in lagos", ["priya natarajan", "lagos"]),
        ("MY NAME IS PRIYA NATARAJAN AND I LIVE IN LAGOS", ["PRIYA NATARAJAN", "LAGOS"]),
        ("Xi Jinping met Angela Merkel in Berlin.", ["Xi Jinping", "Angela Merkel", "Berlin"]),
        ("john smith called from paris", ["john smith", "paris"]),
        ("I spoke to Fatima al-Hassan yesterday.", ["Fatima al-Hassan", "yesterday"]),
        ("Jean-Luc's sister lives in New York.", ["Jean-Luc", "New York"]),
        ("seen by Dr.Jones at 10:30", ["Jones", "10:30"]),
        ("MAC 00:1B:44:11:3A:B7 seen", ["00:1B:44:11:3A:B7"]),
        ("ring 01.23.45.67.89 or +49 (0)30 1234567", ["01.23.45.67.89", "+49 (0)30 1234567"]),
    ],
)
def test_the_private_goes_and_nothing_else(text: str, private: list[str]) -> None:
    assert values(text) == private


@pytest.mark.parametrize(
    "text",
    [
        "Can you open the window",
        "can you open the window",
        "CAN YOU OPEN THE WINDOW",
        "Can You Open The Window Please",
        "I will mark the page and may go.",
        "We are the best team ever, right?",
        "um so i i think we should uh talk about the remote control",
        "How do I reset my password?",
        "5'11\" tall, 180 lbs",
        "",
        "   ",
        "!!!",
        "\u200b\u200b",
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    assert values(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "\0\1\2 john",
        "\1",
        "\2 A",
        "a" * 10_000,
        "\1anna \2Ben",
        "İstanbul'da Ayşe",
        "🙂 Anna 🙂",
        "e\u0301 Ana\u0301 called",
        "x" * 5000 + " Anna " + "'" * 5000,
        "¯\\_(ツ)_/¯",
        "- ' - ' -",
        "Anna\nBen\r\n\tCleo",
        "’s ’s 's",
    ],
)
def test_ugly_text_is_read_to_its_end(text: str) -> None:
    [spans] = fast().find([utterance_of(text)])
    assert all(0 <= span.start < span.end <= len(text) for span in spans)


def test_the_assistant_is_there_by_name() -> None:
    assert detector("assistant").name == detector("tagger").name == "tagger+patterns"


def test_the_file_is_small_and_has_a_card_that_names_every_set() -> None:
    shipped = Tagger.shipped("general")
    assert len(shipped._model) + len(shipped._lexicon) < 10 << 20
    assert shipped.types == general_corpus.TYPES
    card = CARD.read_text()
    for name in (*general_corpus.SOURCES, "GloVe", "Faker"):
        assert name in card, name


def test_it_needs_no_torch_and_no_crfsuite() -> None:
    code = (
        "import sys; from sottovoce.deid import Deidentifier; "
        "Deidentifier().release('call Anna'); "
        "assert not {'torch', 'pycrfsuite', 'faker'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


CALLS = [
    from_spans(f"Call {name} now.", [Span(5, 5 + len(name), "PER")])
    for name in ("Anna", "Ben", "Eve", "Joe", "Sue", "Tom")
] * 3
LEXICON = lexicon_text({"anna": ("F", "2.1"), "call": ("2.0",)}).encode()


def test_the_same_training_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        tagger = train(CALLS, LabelMap({"PER": "PER"}), TaggerTraining(), lexicon=LEXICON)
        tagger.save(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    again = Tagger.load(tmp_path / "one")
    assert again.find([utterance_of("Call Zebediah now.")]) == [[Span(5, 13, "PER")]]
    assert again.with_caution(0.9).find(CALLS) == again.find(CALLS)


def test_an_altered_lexicon_is_refused(tmp_path: Path) -> None:
    tagger = train(CALLS, LabelMap({"PER": "PER"}), TaggerTraining(), lexicon=LEXICON)
    tagger.save(tmp_path / "one")
    with zipfile.ZipFile(tmp_path / "one") as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    files["lexicon.tsv"] = b"anna\tL\n"
    with zipfile.ZipFile(tmp_path / "two", "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    with pytest.raises(InvalidInput, match="lexicon that was saved"):
        Tagger.load(tmp_path / "two")
    with pytest.raises(InvalidInput, match="make the tagger again"):
        lexicon_from("anna F\n")


def test_rounding_keeps_weights_near() -> None:
    model = train(CALLS, LabelMap({"PER": "PER"}), TaggerTraining())._model
    before, after = read_weights(model), read_weights(rounded(model, 1 / 64))
    assert abs(before.states - after.states).max() <= 1 / 128
    assert (after.states * 64 == (after.states * 64).round()).all()


def test_case_that_tells_nothing_is_marked() -> None:
    reading = General({})
    assert reading.marked("call anna", ["call", "anna"]) == [f"{CASELESS}call", f"{CASELESS}anna"]
    assert reading.marked("CALL ME", ["CALL", "ME"]) == [f"{CASELESS}call", f"{CASELESS}me"]
    words = ["Stop", ".", "Call", "Anna"]
    assert reading.marked("Stop. Call Anna", words) == [f"{FIRST}Stop", ".", f"{FIRST}Call", "Anna"]
    headline = ["Can", "You", "Open", "The", "Window"]
    assert reading.marked(" ".join(headline), headline)[0] == f"{CASELESS}can"


def test_sets_are_read_without_titles_roles_and_possessives() -> None:
    made = general_corpus.natural(
        ["Mr.", "Bush", "'s", "Borrower", "left", "two", "days", "ago"],
        ["B-per", "I-per", "O", "B-per", "O", "B-tim", "I-tim", "O"],
        {"per": "PER", "tim": "DATE"},
    )
    assert made.text == "Mr. Bush's Borrower left two days ago"
    assert made.slots == ("O", "B-PER", "O", "O", "O", "O", "O", "O")
