import re
from collections import Counter

import numpy as np
import pytest
from tests.deid.replace.channels import outputs
from tests.statistical.distributions import choice_objections

from sottovoce.deid.replace import FormatPreserving

SAME = FormatPreserving(placeholder="[ID]")


@pytest.mark.parametrize(
    ("value", "form"),
    [
        ("555-0123", r"\d{3}-\d{4}"),
        ("+1 (555) 0123", r"\+\d \(\d{3}\) \d{4}"),
        ("$5,000.25", r"\$\d,\d{3}\.\d\d"),
        ("10.0.0.1", r"\d\d\.\d\.\d\.\d"),
        ("five five oh one", r"[a-z]+( [a-z]+){3}"),
        ("double five one", r"double [a-z]+ [a-z]+"),
        ("12 dollars", r"\d\d dollars"),
    ],
)
def test_the_form_stays(value: str, form: str) -> None:
    for output in outputs(SAME, value, 50):
        assert re.fullmatch(form, output)


@pytest.mark.parametrize("value", ["ba2490", "twenty five dollars", "call me", "4th", ""])
def test_what_has_telling_letters_becomes_a_placeholder(value: str) -> None:
    assert outputs(SAME, value, 1) == ["[ID]"]


def test_digits_are_uniform_for_any_input() -> None:
    for value in ("7", "0"):
        drawn = np.array([int(output) for output in outputs(SAME, value, 20_000)])
        assert not choice_objections(drawn, [0.1] * 10)
    # The twin: digits that depend on the input are detected.
    biased = np.where(np.arange(drawn.size) % 10 == 0, 7, drawn)
    assert choice_objections(biased, [0.1] * 10)


def test_spoken_digits_are_uniform() -> None:
    counts = Counter(outputs(SAME, "five", 5000))
    assert len(counts) == 10
    assert min(counts.values()) > 400


def test_it_costs_nothing() -> None:
    cost = SAME.cost()
    assert cost.replace_probability == 1
    assert cost.epsilon is None
    assert "form" in cost.assumptions[0]
