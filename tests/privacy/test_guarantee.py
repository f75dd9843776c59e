"""Guarantees: the sentence, the JSON round trip, and invalid values."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.errors import InvalidInput
from sottovoce.privacy.guarantee import (
    Claim,
    Guarantee,
    Notion,
    Relation,
    Unit,
    Verdict,
    number_from_json,
    rounded_up,
)

guarantees = st.builds(
    Guarantee,
    epsilon=st.floats(0, 1e25),
    delta=st.floats(0, 0.5),
    unit=st.sampled_from(Unit),
    relation=st.sampled_from(Relation),
    notion=st.sampled_from(Notion),
    accountant=st.text(max_size=20),
    assumptions=st.lists(st.text(max_size=20), max_size=3).map(tuple),
    not_covered=st.lists(st.text(max_size=20), max_size=3).map(tuple),
)


def no_guarantee(**changes: object) -> Guarantee:
    fields = {
        "epsilon": math.inf,
        "delta": 0.0,
        "unit": Unit.TOKEN,
        "relation": Relation.REPLACE_ONE,
        "accountant": "none",
        "verdict": Verdict.NO_GUARANTEE,
        "reasons": ("the noise depends on the data",),
    }
    return Guarantee(**{**fields, **changes})  # type: ignore[arg-type]


@given(guarantees)
def test_json_both_ways(guarantee: Guarantee) -> None:
    text = json.dumps(guarantee.to_json(), allow_nan=False)
    assert Guarantee.from_json(json.loads(text)) == guarantee


def test_an_infinite_epsilon_is_the_string_inf() -> None:
    data = no_guarantee().to_json()
    assert data["epsilon"] == "inf"
    assert Guarantee.from_json(data) == no_guarantee()


def test_the_sentence_names_assumptions_and_gaps() -> None:
    sentence = str(
        Guarantee(
            epsilon=2.0,
            delta=1e-5,
            unit=Unit.USER,
            relation=Relation.REPLACE_ONE,
            accountant="PLD",
            assumptions=("the sample is secret",),
            not_covered=("the vocabulary",),
        )
    )
    assert sentence.startswith("Replacing any one user changes")
    assert "e^2, except with probability at most 1e-05" in sentence
    assert "provided that the sample is secret" in sentence
    assert sentence.endswith("not covered: the vocabulary.")


def test_no_guarantee_is_a_sentence_with_reasons() -> None:
    assert str(no_guarantee()) == (
        "No guarantee can be given to any one token: the noise depends on the data."
    )


def test_metric_privacy_is_named_as_such() -> None:
    metric = Guarantee(
        epsilon=1.0,
        delta=0.0,
        unit=Unit.TOKEN,
        relation=Relation.REPLACE_ONE,
        accountant="pure composition",
        notion=Notion.METRIC_DP,
    )
    assert "for every unit of distance" in str(metric)
    assert "metric differential privacy" in str(metric)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilon": -1.0}, "Expected epsilon >= 0, got -1"),
        ({"epsilon": math.nan}, "Expected epsilon >= 0, got nan"),
        ({"delta": 1.0}, r"Expected delta in \[0, 1\), got 1"),
        ({"verdict": Verdict.HOLDS}, "Expected a finite epsilon"),
        ({"reasons": ()}, "Expected at least one reason"),
    ],
)
def test_contradictions_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        no_guarantee(**changes)


@pytest.mark.parametrize(
    "data", [{}, {"epsilon": None}, {"epsilon": 1, "delta": 0, "unit": "user"}]
)
def test_incomplete_json_is_refused(data: dict[str, object]) -> None:
    with pytest.raises(InvalidInput, match="Expected a guarantee in JSON"):
        Guarantee.from_json(data)


def test_a_number_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidInput, match='Expected a number or "inf"'):
        number_from_json("many")


@given(st.floats(1e-12, 1e300))
def test_a_printed_epsilon_is_never_less_than_it_is(epsilon: float) -> None:
    printed = float(rounded_up(epsilon))
    assert epsilon * (1 - 1e-11) <= printed <= epsilon * 1.0101


def test_qualifying_keeps_order_and_names_each_once() -> None:
    twice = no_guarantee().qualified(assumptions=("a", "b")).qualified(assumptions=("b", "c"))
    assert twice.assumptions == ("a", "b", "c")


def test_a_claimed_zero_has_no_logarithm() -> None:
    assert Claim.of(0.0, delta=0.0, how="").to_json()["log10_epsilon"] is None
