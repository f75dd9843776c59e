from hypothesis import given
from hypothesis import strategies as st

from sottovoce.corpora import Utterance, check_bio
from sottovoce.corpora.spans import token_offsets
from sottovoce.deid.files.alignment import Piece, apply_pieces, apply_to_text, realign

PIECES = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 6), st.sampled_from(["x", "yy zz", "u v w"])),
    max_size=4,
)


def pieces_of(drawn: list[tuple[int, int, str]], text: str) -> list[Piece]:
    """Disjoint pieces in order, none with blanks at its edges."""
    found: list[Piece] = []
    place = 0
    for gap, size, output in drawn:
        start, end = place + gap, place + gap + size
        if end > len(text):
            break
        if text[start] == " " or text[end - 1] == " ":
            continue
        found.append((start, end, "PER", output))
        place = end
    return found


@given(PIECES)
def test_offsets_map_both_ways(drawn: list[tuple[int, int, str]]) -> None:
    text = "call anna lee at noon"
    pieces = pieces_of(drawn, text)
    released, offsets = apply_pieces(text, pieces)
    assert released == apply_to_text(text, pieces)
    inside = {place for start, end, _, _ in pieces for place in range(start, end)}
    for place in set(range(len(text))) - inside:
        there = offsets.to_released(place)
        assert released[there] == text[place]
        assert offsets.to_original(there) == place
    for (start, end, _, output), piece in zip(pieces, offsets.replacements, strict=True):
        assert released[piece.new_start : piece.new_end] == output
        assert offsets.to_released(start) == piece.new_start
        assert offsets.to_released(end - 1, after=True) in (piece.new_start, piece.new_end)
        assert offsets.to_original(piece.new_start) == start
    assert offsets.to_released(len(text)) == len(released)


@given(PIECES)
def test_tokens_and_labels_stay_aligned(drawn: list[tuple[int, int, str]]) -> None:
    call = Utterance(
        tokens=("call", "anna", "lee", "at", "noon"),
        slots=("O", "B-who", "I-who", "O", "B-when"),
        text="call anna lee at noon",
    )
    released, offsets = apply_pieces(call.text, pieces_of(drawn, call.text))
    tokens, labels = realign(call, released, offsets)
    assert len(tokens) == len(labels)
    token_offsets(released, tokens)
    check_bio(tuple(labels))


def test_a_longer_value_keeps_its_label_and_its_punctuation() -> None:
    call = Utterance(
        tokens=("call", "(anna)", "now!"), slots=("O", "B-who", "O"), text="call (anna) now!"
    )
    released, offsets = apply_pieces(call.text, [(6, 10, "PER", "mary ann lee")])
    assert realign(call, released, offsets) == (
        ["call", "(mary", "ann", "lee)", "now!"],
        ["O", "B-who", "I-who", "I-who", "O"],
    )


def test_a_shorter_value_leaves_no_orphan() -> None:
    call = Utterance(tokens=("anna", "maria", "lee"), slots=("B-who", "I-who", "I-who"))
    released, offsets = apply_pieces(call.text, [(0, 10, "PER", "eve")])
    assert realign(call, released, offsets) == (["eve", "lee"], ["B-who", "I-who"])


def test_a_value_that_the_labels_do_not_know_gets_none() -> None:
    call = Utterance(tokens=("call", "anna"), slots=("O", "O"))
    released, offsets = apply_pieces(call.text, [(5, 9, "PER", "mary lee")])
    assert realign(call, released, offsets)[1] == ["O", "O", "O"]
