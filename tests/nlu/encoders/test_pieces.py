from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.nlu.tiny import MARKS, PIECES, tiny_pieces

from sottovoce.errors import InvalidInput
from sottovoce.nlu.encoders.pieces import best_windows, split_windows

sizes = st.lists(st.integers(1, 6), min_size=1, max_size=40)


def test_every_word_keeps_its_pieces() -> None:
    pieces = tiny_pieces()
    prepared = pieces.prepare(["call", "mummy", "stops"])
    names = [PIECES[number] for number in prepared["pieces"][0].tolist()]
    assert names == ["[CLS]", "call", "mum", "##my", "stop", "##s", "[SEP]"]
    assert prepared["first"].tolist() == [1, 2, 4]
    assert prepared["count"].tolist() == [1, 2, 2]


@pytest.mark.parametrize("word", ["\u200b", "\u00ad", "żółw", "\x7f"])
def test_a_word_that_leaves_nothing_becomes_unknown(word: str) -> None:
    pieces = tiny_pieces()
    assert pieces.of_word(word) == [MARKS.unknown]
    assert pieces.prepare(["call", word, "mum"])["count"].tolist() == [1, 1, 1]


def test_a_word_longer_than_a_window_keeps_its_beginning() -> None:
    pieces = tiny_pieces(positions=6)
    long = "call" + "-call" * 20
    prepared = pieces.prepare(["stop", long, "stop"])
    assert prepared["count"].tolist() == [1, 4, 1]
    assert prepared["pieces"].shape[1] <= 6


@given(sizes=sizes, capacity=st.integers(6, 12))
def test_windows_cover_every_word_and_fit(sizes: list[int], capacity: int) -> None:
    windows = split_windows(sizes, capacity)
    assert windows[0][0] == 0
    assert windows[-1][1] == len(sizes)
    for begin, end in windows:
        assert 0 < sum(sizes[begin:end]) <= capacity
    for (begin, end), (following, further) in pairwise(windows):
        assert begin < following <= end < further
    for word, window in enumerate(best_windows(sizes, windows)):
        assert windows[window][0] <= word < windows[window][1]


def test_batches_put_the_windows_of_an_utterance_side_by_side() -> None:
    pieces = tiny_pieces(positions=6)
    long, short = ["call"] * 7, ["mummy"]
    batch = pieces.collate([pieces.prepare(long), pieces.prepare(short)])
    examples, windows, longest = batch["pieces"].shape
    assert (examples, longest) == (2, 6)
    assert windows > 1
    flat = batch["pieces"].flatten(1)
    for row, tokens in enumerate((long, short)):
        for word in range(len(tokens)):
            start, count = int(batch["first"][row, word]), int(batch["count"][row, word])
            own = flat[row, start : start + count].tolist()
            assert own == pieces.of_word(tokens[word])
    assert batch["count"][1, 1:].sum() == 0
    assert batch["attention"].any(-1).all()


def test_a_byte_level_tokeniser_sees_words_inside_of_a_text() -> None:
    """There "a" at the start and " a" inside are different pieces; words are mostly inside."""
    tokenizers = pytest.importorskip("tokenizers", reason="needs the extra `bert`")
    from sottovoce.nlu.encoders.pieces import Pieces

    vocabulary = {"<unk>": 0, "a": 1, "Ġ": 2, "Ġa": 3, "<s>": 4, "</s>": 5}
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.BPE(vocabulary, [("Ġ", "a")], unk_token="<unk>")
    )
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    assert Pieces(tokenizer, MARKS, 8).of_word("a") == [3]


def test_refusals() -> None:
    with pytest.raises(InvalidInput, match="at least one token"):
        tiny_pieces().prepare([])
    with pytest.raises(InvalidInput, match="positions"):
        tiny_pieces(positions=2)
