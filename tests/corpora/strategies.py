"""Utterances of every kind that the formats must carry, for property tests."""

from itertools import pairwise

from hypothesis import strategies as st

from sottovoce.corpora import Span, Utterance, from_spans
from sottovoce.corpora.objects import KEYS

# Blanks, line breaks of all systems, and spaces that only Unicode knows.
WHITE_SPACE = " \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2003\u2028\u2029\u202f\u205f\u3000"

_characters = st.one_of(
    st.sampled_from("ab#=[\"',B-O\ufeff"),
    st.sampled_from(WHITE_SPACE),
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"),
)
texts = st.text(_characters, max_size=40)
names = st.one_of(st.just(""), st.text(_characters, max_size=8))
kinds = st.one_of(st.sampled_from("xy"), st.text(_characters, min_size=1, max_size=4))
numbers = st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False))
values = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=4,
)
extras = st.dictionaries(names.filter(lambda name: name not in KEYS), values, max_size=2)


@st.composite
def annotated(draw: st.DrawFn) -> tuple[str, list[Span]]:
    """A text and spans that labels can express: apart, not empty, with visible edges."""
    text = draw(texts)
    edges = sorted(draw(st.sets(st.integers(0, len(text)), max_size=8)))
    spans = []
    for start, end in pairwise(edges):
        visible = not text[start].isspace() and not text[end - 1].isspace()
        if visible and draw(st.booleans()):
            spans.append(Span(start, end, draw(kinds)))
    return text, spans


@st.composite
def utterances(draw: st.DrawFn) -> Utterance:
    """Any utterance with at least one token."""
    text, spans = draw(annotated().filter(lambda drawn: bool(drawn[0].strip())))
    return from_spans(
        text,
        spans,
        intent=draw(names),
        user=draw(names),
        id=draw(names),
        extra=draw(extras),
    )
