from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.corpora import Span, Utterance
from sottovoce.deid.detect import Combination, merged
from sottovoce.deid.detect.detector import utterance_of
from sottovoce.errors import InvalidInput

TEXT = "ab cd, ef-gh ij kl"
SPANS = st.lists(
    st.builds(
        lambda start, length, kind: Span(start, min(start + length, len(TEXT)), kind),
        st.integers(0, len(TEXT) - 1),
        st.integers(1, 6),
        st.sampled_from(["PER", "LOC"]),
    ),
    max_size=6,
)


@given(SPANS, SPANS)
def test_everything_found_is_covered_and_nothing_overlaps(a: list[Span], b: list[Span]) -> None:
    together = merged(TEXT, a, b)
    covered = {place for span in together for place in range(span.start, span.end)}
    for span in (*a, *b):
        visible = {p for p in range(span.start, span.end) if not TEXT[p].isspace()}
        assert covered.issuperset(visible)
    for first, second in pairwise(together):
        assert first.end <= second.start
    for span in together:  # no word is cut, and no blank is at an edge
        assert TEXT[span.start : span.end].strip() == TEXT[span.start : span.end]
        for edge in (span.start, span.end):
            assert not TEXT[max(edge - 1, 0) : edge + 1].isalnum() or edge in (0, len(TEXT))


@given(SPANS, st.randoms())
def test_the_order_of_spans_does_not_matter(spans: list[Span], random: Any) -> None:
    shuffled = list(spans)
    random.shuffle(shuffled)
    assert merged(TEXT, spans) == merged(TEXT, shuffled)


def test_the_longest_gives_the_type_then_the_earlier_detector() -> None:
    assert merged(TEXT, [Span(0, 2, "PER")], [Span(0, 5, "LOC")])[0].type == "LOC"
    assert merged(TEXT, [Span(0, 5, "PER")], [Span(0, 5, "LOC")])[0].type == "PER"
    assert merged(TEXT, [Span(0, 5, "LOC")], [Span(0, 5, "PER")])[0].type == "LOC"


class Fixed:
    """A detector that gives the same answers to anything."""

    name = "fixed"

    def __init__(self, answers: list[list[Span]]) -> None:
        self.answers = answers

    def find(self, batch: Sequence[Utterance]) -> list[list[Span]]:
        return self.answers

    def to_json(self) -> dict[str, Any]:
        return {}


def test_silent_detectors_are_refused() -> None:
    """A detector that skips an utterance would let it through."""
    with pytest.raises(InvalidInput, match="answer for all 1 utterances"):
        Combination([Fixed([])]).find([utterance_of("call anna")])
    with pytest.raises(InvalidInput, match="at least one detector"):
        Combination([])


@pytest.mark.parametrize("span", [Span(-1, 2, "PER"), Span(3, 3, "PER"), Span(0, 99, "PER")])
def test_spans_outside_the_text_are_refused(span: Span) -> None:
    with pytest.raises(InvalidInput, match="inside a text"):
        Combination([Fixed([[span]])]).find([utterance_of("call anna")])


def test_a_span_of_blanks_is_nothing() -> None:
    assert merged("a  b", [Span(0, 1, "PER"), Span(1, 3, "LOC")]) == [Span(0, 1, "PER")]
