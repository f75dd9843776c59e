import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.corpora import Utterance, check_bio, repair_bio
from sottovoce.errors import InvalidInput

labels = st.lists(st.sampled_from(["O", "B-x", "I-x", "B-y", "I-y"])).map(tuple)


@given(labels)
def test_repaired_labels_are_bio_and_good_labels_stay(slots: tuple[str, ...]) -> None:
    repaired = repair_bio(slots)
    check_bio(repaired)
    try:
        check_bio(slots)
    except InvalidInput:
        assert repaired != slots
    else:
        assert repaired == slots


@pytest.mark.parametrize("label", ["", "B", "B-", "I-", "S-x", "E-x", "o", "x"])
def test_labels_of_another_kind_are_refused(label: str) -> None:
    with pytest.raises(InvalidInput, match="Expected O, B-type or I-type at token 0"):
        check_bio((label,))
    with pytest.raises(InvalidInput):
        check_bio(repair_bio((label,)))


def test_utterances_can_be_members_of_a_set() -> None:
    first = Utterance(tokens=("call",), slots=("O",), extra={"day": [1]})
    assert len({first, Utterance(tokens=("call",), slots=("O",), extra={"day": [1]})}) == 1
