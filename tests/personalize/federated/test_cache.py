"""A client's cache: caps that hold for any history, bounded memory, and disk."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.errors import InvalidInput
from sottovoce.personalize.federated.cache import ClientCache
from sottovoce.personalize.federated.counting import Caps, Counting
from sottovoce.personalize.lm.vocabulary import UNKNOWN, Dirichlet, Vocabulary
from sottovoce.personalize.nbest.lists import Hypothesis, NBest
from sottovoce.privacy.recipes.federate import Cap

WORDS = Vocabulary(("a", "b", "c", UNKNOWN), np.full(4, 0.25))
TEXT = st.lists(st.sampled_from(["a", "b", "c", "x"]), max_size=9).map(" ".join)


def heard(*texts: str) -> NBest:
    return NBest("u", tuple(map(Hypothesis, texts)))


@given(
    st.lists(st.lists(TEXT, max_size=3), max_size=12),
    st.floats(0.5, 30),
    st.none() | st.floats(0.5, 10),
    st.booleans(),
    st.integers(1, 4),
)
def test_a_lifetime_cap_holds_over_all_rounds(
    history: list[list[str]], mass: float, per_word: float | None, integer: bool, every: int
) -> None:
    rule = Counting(sigma=1.0, integer=integer)
    cache = ClientCache(WORDS, rule, Caps(mass, per_word))
    total = np.zeros(len(WORDS))
    for i, texts in enumerate(history):
        cache.add(heard(*texts))
        if i % every == 0:
            total += cache.take_increment()
    total += cache.take_increment()
    assert total.sum() <= mass * rule.unit * (1 + 1e-9)
    assert total.max() <= (per_word or mass) * rule.unit * (1 + 1e-9)
    assert np.allclose(cache.take_cumulative(), total)
    if integer:
        assert (total == np.rint(total)).all()


def test_a_cap_per_round_starts_anew() -> None:
    cache = ClientCache(WORDS, Counting(), Caps(1.0, span=Cap.PER_ROUND))
    for _ in range(3):
        cache.add(heard("a b"))
        assert cache.take_increment().sum() == 1.0


def test_a_dropped_increment_is_spent_all_the_same() -> None:
    cache = ClientCache(WORDS, Counting(), Caps(2.0))
    cache.add(heard("a b"))
    cache.drop_increment()
    cache.add(heard("a b"))
    assert cache.take_increment().sum() == 0
    assert cache.personal().sum() == 4


def test_increments_add_up_to_what_was_said() -> None:
    cache = ClientCache(WORDS, Counting(sigma=1.0))
    sums = np.zeros(len(WORDS))
    for text in ("a b", "c c", "x"):
        cache.add(heard(text, "a"))
        sums += cache.take_increment()
    assert np.allclose(sums, cache.personal())
    assert cache.mass == pytest.approx(sums.sum())


def test_memory_stays_bounded_and_heavy_words_stay() -> None:
    words = Vocabulary((*(f"w{i}" for i in range(99)), UNKNOWN), np.full(100, 0.01))
    cache = ClientCache(words, Counting(), capacity=10)
    for i in range(500):
        cache.add(heard(f"w0 w{i % 99}"))
    assert (cache.personal() > 0).sum() <= 10
    assert cache.personal().argmax() == 0


def test_saved_and_loaded(tmp_path: Path) -> None:
    path = tmp_path / "cache.json"
    cache = ClientCache(WORDS, Counting(integer=True), Caps(3.0))
    cache.add(heard("a b"))
    cache.take_increment()
    cache.add(heard("a c"))
    cache.save(path)
    back = ClientCache.load(path, WORDS, Caps(3.0))
    assert np.array_equal(back.personal(), cache.personal())
    assert np.array_equal(back.take_increment(), cache.take_increment())
    # The lifetime cap of 3 counts stays used up after reloading.
    back.add(heard("b b b"))
    assert back.take_increment().sum() == 0
    # The caps need not be passed again; other caps are refused.
    assert ClientCache.load(path, WORDS).caps == Caps(3.0)
    with pytest.raises(InvalidInput, match="Expected the caps of the cache"):
        ClientCache.load(path, WORDS, Caps(9.0))
    other = Vocabulary(("b", "a", "c", UNKNOWN), WORDS.unigram)
    with pytest.raises(InvalidInput, match="vocabulary that the cache"):
        ClientCache.load(path, other)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"counting": {}}'])
def test_damaged_files(tmp_path: Path, text: str) -> None:
    path = tmp_path / "cache.json"
    path.write_text(text)
    with pytest.raises(InvalidInput, match="Expected a"):
        ClientCache.load(path, WORDS)


def test_a_negative_count_on_disk_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cache.json"
    cache = ClientCache(WORDS, Counting())
    cache.add(heard("a"))
    cache.save(path)
    path.write_text(path.read_text().replace("1.0", "-1.0"))
    with pytest.raises(InvalidInput, match="saved count of 'a' >= 0"):
        ClientCache.load(path, WORDS)


@given(st.lists(st.integers(0, 10**6).map(lambda n: n / 64), min_size=4, max_size=4))
def test_smoothing_keeps_a_distribution_and_is_monotone(n: list[float]) -> None:
    smooth = Dirichlet(2.0)
    counts = np.array(n)
    q = smooth(counts, WORDS.unigram)
    assert q.sum() == pytest.approx(1)
    assert (q > 0).all()
    more = counts + np.array([1.0, 0, 0, 0])
    scaled = q * counts.sum()
    assert (smooth(more, WORDS.unigram) * more.sum() - scaled >= -1e-6 * (1 + counts.sum())).all()


def test_bad_input() -> None:
    with pytest.raises(InvalidInput, match="mass > 0"):
        Dirichlet(0.0)
    with pytest.raises(InvalidInput, match="mass cap > 0"):
        Caps(0.0)
    with pytest.raises(InvalidInput, match="capacity >= 1"):
        ClientCache(WORDS, Counting(), capacity=0)


def test_state_as_arrays() -> None:
    cache = ClientCache(WORDS, Counting(), Caps(3.0))
    cache.add(heard("a b"))
    other = ClientCache(WORDS, Counting(), Caps(3.0))
    other.restore(cache.arrays())
    other.add(heard("a b c"))
    assert other.take_increment().sum() == 3.0
    with pytest.raises(InvalidInput, match="saved counts of personal"):
        other.restore({name: np.zeros(2) for name in cache.arrays()})
