import os
import subprocess
import sys
from collections import Counter, defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.corpora import PARTS, Split, Utterance, split
from sottovoce.corpora.splits import By, parse_ratios
from sottovoce.errors import InvalidInput

CORPUS = [
    Utterance(tokens=("call", str(i % 701)), slots=("O", "O"), id=f"id{i}", user=f"u{i % 997}")
    for i in range(20_000)
]

# A part of share p in n hashed keys deviates from n p by more than 5 standard deviations with
# probability below 1e-6; the keys are fixed, so the outcome is too.
TOLERATED_DEVIATIONS = 5


@pytest.mark.parametrize("ratios", [(45, 5, 50), (80, 10, 10), (0.7, 0.1, 0.2)])
def test_parts_have_their_shares(ratios: tuple[float, float, float]) -> None:
    sizes = Counter(part for part, _ in split(CORPUS, ratios))
    for part, ratio in zip(PARTS, ratios, strict=True):
        share = ratio / sum(ratios)
        deviation = (len(CORPUS) * share * (1 - share)) ** 0.5
        assert abs(sizes[part] - len(CORPUS) * share) < TOLERATED_DEVIATIONS * deviation


@pytest.mark.parametrize("by", ["id", "user", "text"])
def test_adding_and_removing_records_moves_no_other(by: By) -> None:
    whole = {utterance.id: part for part, utterance in split(CORPUS, by=by)}
    some = {utterance.id: part for part, utterance in split(reversed(CORPUS[::3]), by=by)}
    assert some == {key: whole[key] for key in some}


@pytest.mark.parametrize(("by", "field"), [("user", "user"), ("text", "tokens")])
def test_nothing_is_on_two_sides(by: By, field: str) -> None:
    sides = defaultdict(set)
    for part, utterance in split(CORPUS, by=by):
        sides[getattr(utterance, field)].add(part)
    assert {len(parts) for parts in sides.values()} == {1}
    assert {part for parts in sides.values() for part in parts} == {*PARTS}


def test_another_salt_gives_another_split() -> None:
    first = [part for part, _ in split(CORPUS[:100])]
    second = [part for part, _ in split(CORPUS[:100], salt="other")]
    assert first != second


def test_same_split_in_every_process() -> None:
    code = (
        "from sottovoce.corpora import Split, Utterance\n"
        "for i in range(40):\n"
        "    call = Utterance(tokens=(str(i),), slots=('O',), extra={'a': 1, 'b': 2})\n"
        "    print(Split().part(call)[1], end='')"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("0", "1")
    }
    assert printed == {"rreeeeerrrrreeereererreereerreeereeereaa"}


def test_records_without_id_go_by_their_content() -> None:
    rule = Split()
    first = Utterance(tokens=("a",), slots=("O",), extra={"x": 1, "y": 2})
    second = Utterance(tokens=("a",), slots=("O",), extra={"y": 2, "x": 1})
    assert rule.part(first) == rule.part(second)
    parts = {rule.part(Utterance(tokens=("a",), slots=("O",), intent=str(i))) for i in range(200)}
    assert parts == {*PARTS}


@given(st.text(), st.text())
def test_any_salt_and_id_will_do(salt: str, id: str) -> None:
    assert Split(salt=salt).part(Utterance(tokens=("a",), slots=("O",), id=id)) in PARTS


def test_record_without_user_cannot_be_split_by_user() -> None:
    with pytest.raises(InvalidInput, match="Expected a user in every record"):
        list(split([Utterance(tokens=("a",), slots=("O",))], by="user"))


@pytest.mark.parametrize(
    "ratios", [(1, 0, 1), (-1, 1, 1), (float("nan"), 1, 1), (float("inf"), 1, 1), (1, 1)]
)
def test_bad_ratios_are_refused(ratios: tuple[float, float, float]) -> None:
    with pytest.raises(InvalidInput, match="Expected"):
        Split(ratios=ratios)


@pytest.mark.parametrize("text", ["", "45", "45:5", "45:5:50:1", "a:b:c", "45,5,50"])
def test_ratios_in_another_form_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="Expected ratios train:valid:test"):
        parse_ratios(text)


def test_bad_key_is_refused() -> None:
    with pytest.raises(InvalidInput, match="Expected by to be one of"):
        Split(by="day")  # type: ignore[arg-type]
