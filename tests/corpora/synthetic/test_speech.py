from hypothesis import given
from hypothesis import strategies as st

from sottovoce.corpora import check_bio
from sottovoce.corpora.synthetic.carriers import FILLERS, agree, leads, repair, stumble, tails
from sottovoce.corpora.synthetic.schema import MOODS

spans = st.lists(
    st.one_of(
        st.just([("word", "O")]),
        st.integers(0, 3).map(lambda more: [("v", "B-x")] + [("v", "I-x")] * more),
    ),
    min_size=1,
    max_size=8,
)


@given(spans, st.integers(0, 2**32))
def test_a_stumble_adds_words_outside_and_breaks_no_value(
    parts: list[list[tuple[str, str]]], number: int
) -> None:
    words, marks = zip(*(pair for part in parts for pair in part), strict=True)
    text, labels = stumble(" ".join(words), " ".join(marks), number)
    spoiled = tuple(labels.split())
    assert len(text.split()) == len(spoiled) > len(marks)
    check_bio(spoiled)
    assert [mark for mark in spoiled if mark != "O"] == [mark for mark in marks if mark != "O"]


def test_both_ways_of_stumbling_occur() -> None:
    spoiled = {stumble("call mum now", "O B-x O", number)[0] for number in range(400)}
    assert {"call call mum now", "call uh mum now"} <= spoiled
    assert len(spoiled) > len(FILLERS)


def test_a_value_taken_back_stays_labelled() -> None:
    text, labels = repair(("john smith", "B-x I-x"), ("mum", "B-x"), 0)
    assert (text, labels) == ("john smith no mum", "B-x I-x O B-x")


def test_leads_and_tails_have_a_label_for_each_word() -> None:
    for mood in MOODS:
        for text, labels in (*leads(mood), *tails(mood)):
            assert len(text.split()) == len(labels.split())
            assert text.count(" ") == labels.count(" ")
        assert leads(mood).count(("", "")) > len(leads(mood)) / 2
        assert len(set(leads(mood))) > 50


def test_articles_agree() -> None:
    assert agree("a action movie") == "an action movie"
    assert agree("play a union story on a used tv") == "play a union story on a used tv"
