import math

import pytest

from sottovoce.audit.bounds import LowerBound, one_run_bound
from sottovoce.errors import CannotAccount, InvalidInput
from sottovoce.privacy.guarantee import Guarantee, Relation, Unit, Verdict, rounded_down

BOUND = one_run_bound(canaries=1000, guesses=100, correct=95, delta=1e-5)


def guarantee(epsilon: float, delta: float = 1e-5, **other: object) -> Guarantee:
    given = {"unit": Unit.EXAMPLE, "relation": Relation.ADD_OR_REMOVE, "accountant": "PLD"} | other
    return Guarantee(epsilon=epsilon, delta=delta, **given)  # type: ignore[arg-type]


def test_a_bound_contradicts_a_smaller_epsilon_only() -> None:
    assert BOUND.contradicts(guarantee(BOUND.epsilon - 0.01))
    assert not BOUND.contradicts(guarantee(BOUND.epsilon + 0.01))
    assert BOUND.contradicts(guarantee(1.0, delta=1e-7))


def test_no_guarantee_cannot_be_contradicted() -> None:
    none = guarantee(math.inf, verdict=Verdict.NO_GUARANTEE, reasons=("no noise",))
    assert not BOUND.contradicts(none)


def test_unlike_things_are_not_compared() -> None:
    with pytest.raises(CannotAccount, match="got one under replace-one"):
        BOUND.contradicts(guarantee(1.0, relation=Relation.REPLACE_ONE))
    with pytest.raises(CannotAccount, match="repeat the audit at that delta"):
        BOUND.contradicts(guarantee(1.0, delta=1e-3))


def test_chance_is_not_called_safety() -> None:
    nothing = one_run_bound(canaries=100, guesses=100, correct=50, delta=1e-5)
    assert "not evidence of safety" in str(nothing)


def test_a_printed_bound_is_never_above_the_bound() -> None:
    for value in (0.0, 1e-9, 0.7022, 1.999, 9.996, 123456.0):
        assert float(rounded_down(value)) <= value
    assert rounded_down(math.inf) == "inf"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epsilon_lower": -1}, "Expected epsilon >= 0, got -1."),
        ({"epsilon_lower": "much"}, "Expected a number or"),
        ({"confidence": 0}, "Expected a confidence between 0 and 1"),
        ({"delta": None}, "Expected a lower bound in JSON"),
        ({"relation": "friends"}, "Expected a lower bound in JSON"),
    ],
)
def test_bad_json(change: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        LowerBound.from_json(BOUND.to_json() | change)
    with pytest.raises(InvalidInput, match="Expected a lower bound in JSON"):
        LowerBound.from_json({})
