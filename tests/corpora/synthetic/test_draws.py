import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.corpora.synthetic.draws import cumulative, key, mix, unit, wheel, zipf

MASK = 2**64 - 1


def plain_mix(number: int) -> int:
    """SplitMix64's finaliser in unbounded integers, as it is published."""
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 & MASK
    number = (number ^ number >> 27) * 0x94D049BB133111EB & MASK
    return number ^ number >> 31


@given(st.lists(st.integers(0, MASK), min_size=1))
def test_mix_is_the_published_function(numbers: list[int]) -> None:
    mixed = mix(np.array(numbers, dtype=np.uint64))
    assert mixed.tolist() == [plain_mix(number) for number in numbers]


@given(st.integers(0, MASK))
def test_unit_is_a_fraction(number: int) -> None:
    fraction = unit(np.array([number], dtype=np.uint64))[0]
    assert 0 <= fraction < 1


def test_keys_tell_purposes_apart_and_never_change() -> None:
    assert key("corpus", 0, "health") == 1830612396655912027
    assert key("a", "b") != key("ab")


@settings(max_examples=25)
@given(st.dictionaries(st.text(min_size=1), st.floats(0.01, 100), min_size=1, max_size=50))
def test_wheel_keeps_every_item_and_the_weights(weights: dict[str, float]) -> None:
    size = 4096
    places = wheel(weights, size)
    total = sum(weights.values())
    assert len(places) == size
    assert set(places) == set(weights)
    for item, weight in weights.items():
        assert abs(places.count(item) / size - weight / total) < (len(weights) + 2) / size


def test_shares_are_zipf() -> None:
    weights = zipf(100, 0.0)
    assert weights[0] / weights[9] == 10
    shares = cumulative(weights)
    assert shares[-1] == 1
    assert np.searchsorted(shares, np.nextafter(1.0, 0.0), side="right") == 99
