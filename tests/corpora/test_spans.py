import pytest
from hypothesis import given
from tests.corpora.strategies import annotated, utterances

from sottovoce.corpora import Span, Utterance, from_spans, spans_of
from sottovoce.corpora.spans import token_offsets
from sottovoce.errors import InvalidInput


@given(annotated())
def test_spans_become_labels_and_come_back(drawn: tuple[str, list[Span]]) -> None:
    text, spans = drawn
    utterance = from_spans(text, spans)
    assert utterance.text == text
    assert spans_of(utterance) == spans


@given(utterances())
def test_labels_become_spans_and_come_back(utterance: Utterance) -> None:
    again = from_spans(
        utterance.text,
        spans_of(utterance),
        intent=utterance.intent,
        user=utterance.user,
        id=utterance.id,
        extra=utterance.extra,
    )
    assert again == utterance


def test_tokens_finer_than_white_space_come_back_when_given() -> None:
    utterance = Utterance(tokens=("do", "n't", "go"), slots=("O", "O", "B-verb"), text="don't  go")
    assert from_spans("don't  go", spans_of(utterance), tokens=utterance.tokens) == utterance


def test_neighbours_of_one_type_stay_apart() -> None:
    spans = [Span(0, 2, "x"), Span(2, 3, "x"), Span(4, 5, "x")]
    utterance = from_spans("abc d", spans)
    assert utterance.tokens == ("ab", "c", "d")
    assert utterance.slots == ("B-x", "B-x", "B-x")
    assert spans_of(utterance) == spans


def test_span_inside_a_word_cuts_it() -> None:
    utterance = from_spans("unbelievable", [Span(2, 8, "x")])
    assert utterance.tokens == ("un", "believ", "able")
    assert utterance.slots == ("O", "B-x", "O")


@pytest.mark.parametrize("space", ["\xa0", "\u2003", "\u3000", "\u2028", "\x85", "\x1c"])
def test_unusual_spaces_part_tokens_and_stay_in_the_text(space: str) -> None:
    utterance = from_spans(f"call{space}mum", [Span(5, 8, "who")])
    assert utterance.tokens == ("call", "mum")
    assert utterance.text == f"call{space}mum"


@pytest.mark.parametrize(
    ("spans", "complaint"),
    [
        ([Span(0, 4, "x"), Span(3, 8, "y")], "do not overlap"),
        ([Span(0, 4, "x"), Span(0, 4, "x")], "do not overlap"),
        ([Span(2, 2, "x")], "0 <= start < end <= 8"),
        ([Span(3, 2, "x")], "0 <= start < end <= 8"),
        ([Span(-4, 2, "x")], "0 <= start < end <= 8"),
        ([Span(5, 9, "x")], "0 <= start < end <= 8"),
        ([Span(4, 8, "x")], "white space at their edges"),
        ([Span(0, 5, "x")], "white space at their edges"),
        ([Span(0, 4, "")], "a type for every span"),
    ],
)
def test_what_labels_cannot_say_is_refused(spans: list[Span], complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        from_spans("call mum", spans)


def test_span_that_cuts_a_given_token_is_refused() -> None:
    with pytest.raises(InvalidInput, match="start and end at token boundaries"):
        from_spans("call mum", [Span(0, 2, "x")], tokens=["call", "mum"])


@pytest.mark.parametrize(
    ("tokens", "complaint"),
    [
        (["call", "dad"], "Expected token 1 at character 4"),
        (["mum"], "Expected token 0 at character 0"),
        (["call"], "got more text from character 4"),
        (["call", "", "mum"], "Expected token 1 at"),
    ],
)
def test_tokens_that_do_not_cover_the_text_are_refused(tokens: list[str], complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        token_offsets("call mum", tokens)


def test_labels_that_are_not_bio_have_no_spans() -> None:
    with pytest.raises(InvalidInput, match="Expected B-who or I-who before I-who"):
        spans_of(Utterance(tokens=("mum",), slots=("I-who",)))
