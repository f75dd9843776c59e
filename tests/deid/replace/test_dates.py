import re
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.deid.replace import DateShift, Scope, Vault
from sottovoce.errors import InvalidInput
from sottovoce.privacy.noise import NoiseSource

SHIFT = DateShift(vault=Vault(bytes(32)), placeholder="[DATE]", days=30)


def shifted(value: str, user: str = "u1") -> str:
    return SHIFT.replace([value], [Scope(type="DATE", user=user)], NoiseSource())[0]


@given(st.dates(date(1000, 3, 1), date(9000, 1, 1)))
def test_iso_dates_move_by_the_shift_of_the_user(day: date) -> None:
    moved = date.fromisoformat(shifted(day.isoformat()))
    assert (moved - day).days == SHIFT.shift(Scope(type="DATE", user="u1"))


def test_shifts_differ_and_never_vanish() -> None:
    shifts = [SHIFT.shift(Scope(type="DATE", user=f"u{n}")) for n in range(2000)]
    assert {*shifts} == {*range(-30, 31)} - {0}


@pytest.mark.parametrize(
    ("value", "pattern"),
    [
        ("3/4/2024", r"\d+/\d+/20\d\d"),
        ("2024/03/04", r"20\d\d/\d\d/\d\d"),
        ("March 4th", r"[A-Z][a-z]+ \d+"),
        ("march 4, 2024", r"[a-z]+ \d+, 20\d\d"),
        ("Monday", r"[A-Z][a-z]+day"),
    ],
)
def test_forms_stay(value: str, pattern: str) -> None:
    assert re.fullmatch(pattern, shifted(value))


@pytest.mark.parametrize("value", ["next week", "2024-02-31", "the fifth", "99/99/2024"])
def test_what_cannot_be_read_is_hidden(value: str) -> None:
    assert shifted(value) == "[DATE]"


def test_no_epsilon_is_stated_and_bad_reach_is_refused() -> None:
    assert "released as it is" in SHIFT.cost().why_none
    with pytest.raises(InvalidInput, match="days >= 1"):
        DateShift(vault=Vault(bytes(32)), placeholder="[DATE]", days=0)
