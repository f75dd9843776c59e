"""The guard: what a language model sees, what comes back, and what the statement says."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.deid import Guard
from sottovoce.deid.detect import Gazetteer
from sottovoce.deid.guard import StreamRestorer, restored
from sottovoce.errors import InvalidInput

TEXTS = (
    "Call Maria Lopez at 555-0199 or mail maria@mail.example",
    "maria and MARIA and Maria live in London",
    "no names here",
    "",
    "  spaced   Maria\n\ttwo lines  ",
    "<PER_1> is not Maria, <PER_2> neither, nor <TEXT_1> or <PER_01>",
    "a < b and <PE and Maria>",
)


@pytest.fixture
def guard() -> Guard:
    return Guard(detector="gazetteer+patterns")


@pytest.mark.parametrize("text", TEXTS)
def test_what_was_hidden_comes_back_exactly(guard: Guard, text: str) -> None:
    told = guard.hide(text)
    assert "aria" not in told.lower().replace("maria>", "")
    assert guard.restore(told) == text


def test_a_conversation_keeps_its_placeholders_and_others_do_not_know_them(guard: Guard) -> None:
    first = guard.hide("Maria called", "one")
    assert guard.hide("call Maria back", "one") == f"call {first.split()[0]} back"
    assert guard.restore(first, "two") == first
    assert guard.restore(first, "one") == "Maria called"
    guard.forget("one")
    assert guard.restore(first, "one") == first


def test_a_placeholder_in_a_prompt_cannot_fetch_a_value(guard: Guard) -> None:
    """Somebody who types <PER_1> gets <PER_1> back, not the name behind it."""
    secret = guard.hide("Maria")
    assert secret == "<PER_1>"
    told = guard.hide("who is <PER_1>?")
    assert told != "who is <PER_1>?"
    assert guard.restore(told) == "who is <PER_1>?"


@given(
    text=st.lists(
        st.sampled_from(["<PER_1>", "<PER_12>", "<PER_2", "<", ">", "_1>", " and ", "P"]),
        max_size=9,
    ).map("".join),
    cuts=st.lists(st.integers(0, 60), max_size=12),
)
def test_a_stream_cut_anywhere_is_restored_as_the_whole(text: str, cuts: list[int]) -> None:
    values = {"<PER_1>": "Maria", "<PER_12>": "Jo <PER_1>"}
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    stream = StreamRestorer(values)
    pieces = [stream.feed(text[a:b]) for a, b in pairwise(places)]
    assert "".join([*pieces, stream.close()]) == restored(text, values)


def test_a_stream_does_not_wait_without_need(guard: Guard) -> None:
    guard.hide("Maria")
    pending = guard.restorer()
    assert [pending.feed(piece) for piece in ("a < b", " <", "PER_1", "> c", " <PERX")] == [
        "a < b", " ", "", "Maria c", " <PERX",
    ]  # fmt: skip


def test_threads_agree_on_the_placeholders(guard: Guard) -> None:
    texts = [f"call 555-01{place:02d} and Maria" for place in range(40)] * 3
    with ThreadPoolExecutor(8) as pool:
        told = list(pool.map(guard.hide, texts))
    assert [guard.restore(each) for each in told] == texts
    assert told[:40] == told[40:80] == told[80:]
    assert len({*told}) == 40


def test_messages_are_hidden_whatever_their_form(guard: Guard) -> None:
    parts = [{"type": "text", "text": "from Maria"}, {"type": "image_url", "image_url": "x"}]
    told = guard.hide_messages(
        [{"role": "user", "content": "I am Maria"}, {"role": "user", "content": parts}]
    )
    assert told[0]["content"] == "I am <PER_1>"
    assert told[1]["content"] == [{"type": "text", "text": "from <PER_1>"}, parts[1]]


def test_the_statement_is_honest(guard: Guard) -> None:
    guard.hide("Maria met John")
    stated = guard.statement()
    assert not stated.guarantees["token"].holds
    assert stated.renaming is not None
    assert stated.renaming.epsilon == 0
    assert any("misses" in each for each in stated.guarantees["token"].not_covered)


def test_types_of_any_name_come_back() -> None:
    guard = Guard(detector=Gazetteer({"employee id 2": ["e-17"], "X_1": ["b-3"]}))
    told = guard.hide("e-17 met b-3")
    assert "17" not in told
    assert guard.restore(told) == "e-17 met b-3"


def test_it_is_neither_copied_nor_fed_other_things(guard: Guard) -> None:
    guard.hide("Maria")
    with pytest.raises(TypeError, match="private values"):
        pickle.dumps(guard)
    with pytest.raises(InvalidInput, match="Expected a text"):
        guard.hide(None)  # type: ignore[arg-type]
    assert "Maria" not in repr(guard)
