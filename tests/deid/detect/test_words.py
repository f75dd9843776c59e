from hypothesis import given
from hypothesis import strategies as st

from sottovoce.deid.detect.words import lowered, plain_words, words_of

TEXT = st.text(alphabet="ab1_' ’.-\nİß", max_size=20)


@given(TEXT)
def test_no_visible_character_is_between_words(text: str) -> None:
    covered = {place for start, end, _ in words_of(text) for place in range(start, end)}
    assert all(place in covered or text[place].isspace() for place in range(len(text)))


@given(TEXT)
def test_places_survive_lower_case(text: str) -> None:
    assert len(lowered(text)) == len(text)


@given(TEXT)
def test_the_fast_way_to_cut_agrees_with_the_slow_one(text: str) -> None:
    lower = lowered(text)
    words = plain_words(lower)
    if words is not None:
        assert words == [word.lower for word in words_of(lower)]
        assert " ".join(words) == lower
