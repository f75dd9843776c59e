"""Epsilon holds within a form: attackers who know the form are compared with its best guess."""

import re
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from sottovoce.deid import Resources, Setting
from sottovoce.deid.attacks.pairing import ReplacedValue
from sottovoce.deid.attacks.reader import best_success, best_success_within
from sottovoce.deid.attacks.run import run_attacks
from sottovoce.deid.replace import digits, uniform
from sottovoce.deid.replace.forms import canonical
from sottovoce.deid.replace.strategies import Fit, mechanism_for
from sottovoce.privacy.noise import NoiseSource

VALUES = {
    "DATE": ("monday", "friday", "sunday", "march 1st", "may 2nd", "may", "june", "the eighties",
             "tomorrow", "someday", "2024-03-01", "1999-12-05", "3/4", "11/12", "1984", "2001"),
    "TIME": ("15:30", "9:45", "07:10", "3 pm", "11 am", "half past three", "quarter past ten",
             "noon", "midnight", "thirty minutes", "two hours", "four fifteen", "six ten", "later"),
    "PER": ("maria", "john", "zebediah", "maria lopez", "john smith", "ann of green gables",
            "doctor", "manager", "project manager", "j. r.", "a. b.", "j.k's", "u.s's"),
    "ORG": ("sony", "nokia", "acme", "red cross", "best buy", "bank of x", "u.n.", "e.u."),
    "PHONE": ("555-0199", "123-4567", "five five one", "two oh nine", "+1 555", "+9 123"),
    "MONEY": ("1 dollar", "5 dollars", "$5", "$7", "$12", "$99"),
    "EMAIL": ("ann@x.org", "bob@y.com", "a.b@x.org", "c.d@y.com", "ann at x dot org"),
}  # fmt: skip
GUARANTEE = {
    "epsilon": 0.0, "delta": 0.0, "unit": "token", "relation": "replace-one", "notion": "dp",
    "accountant": "exact", "verdict": "holds", "reasons": [], "assumptions": [], "not_covered": [],
}  # fmt: skip


def differing(kind: str) -> list[tuple[str, str]]:
    """Values of one form that the same random numbers turn into different outputs.

    None at epsilon 0: the output is a function of the form and of chance, so given the form the
    posterior is the prior.
    """
    made: Any = mechanism_for(kind, Setting(), Resources())
    by_form = defaultdict(list)
    for value in VALUES[kind]:
        by_form[made.form(value)].append(value)
    assert any(len(values) > 1 for values in by_form.values())
    return [
        (values[0], other)
        for values in by_form.values()
        for other in values[1:]
        if made.replace([values[0]] * 200, [], NoiseSource.seeded(1))
        != made.replace([other] * 200, [], NoiseSource.seeded(1))
    ]


@pytest.mark.parametrize("kind", VALUES)
def test_at_epsilon_0_an_output_depends_on_the_form_only(kind: str) -> None:
    assert not differing(kind)


def test_the_letter_before_a_possessive_is_redrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    made: Any = mechanism_for("PER", Setting(), Resources())
    drawn = made.replace(["J.K's"] * 500, [], NoiseSource.seeded(1))
    assert all(re.fullmatch(r"[A-Z]\.[A-Z]'s", each) for each in drawn)
    assert len({each[2] for each in drawn}) == 26
    monkeypatch.setattr(digits, "_LETTER", re.compile(r"[^\W\d_](?!')(?<!'s)"))
    made = mechanism_for("PER", Setting(), Resources())
    assert {each[2] for each in made.replace(["J.K's"] * 9, [], NoiseSource.seeded(1))} == {"K"}


def attacked(
    kind: str,
    setting: Setting,
    resources: Resources | None = None,
    *,
    kept: float = 0.0,
    count: int = 1500,
) -> dict[str, Any]:
    """The attack on a release; a share of the values is `kept` whatever the statement says."""
    made = mechanism_for(kind, setting, resources or Resources())
    chance = np.random.default_rng(3)
    weights = 1 / np.arange(1, len(VALUES[kind]) + 1)
    values = chance.choice(VALUES[kind], count, p=weights / weights.sum()).tolist()
    told = made.replace(values, [], NoiseSource.seeded(2))
    leaks = chance.random(count) < kept
    replaced = [
        ReplacedValue(
            type=kind, value=value, output=value if leak else output, before="a", after="b"
        )
        for value, output, leak in zip(values, told, leaks, strict=True)
    ]
    guarantee = GUARANTEE | {"epsilon": made.cost().log_ratio}
    stated = {**setting.to_json(), "mechanism": made.to_json(), "guarantee": guarantee}
    found: dict[str, Any] = run_attacks(
        replaced, {"release": {"types": {kind: stated}}}, attacks=["kept"]
    )[kind]
    counts = {canonical(value): values.count(value) / count for value in values}
    return found | {"most_frequent": max(counts.values())}


@pytest.mark.parametrize("kind", VALUES)
def test_an_honest_release_gives_the_prior_of_the_form(kind: str) -> None:
    found = attacked(kind, Setting())
    first = found["attacks"][0]
    assert found["epsilon"] == 0
    assert found["knows_the_form"]
    assert not found["exceeds_epsilon"]
    assert found["allowed"] == pytest.approx(first["prior"])
    if found["knows_the_mechanism"]:
        assert first["success"] == pytest.approx(first["prior"])
    assert first["prior"] > found["most_frequent"]


def test_without_the_form_the_honest_release_would_look_wrong() -> None:
    found = attacked("DATE", Setting())
    assert found["attacks"][0]["interval"][0] > best_success(0.0, found["most_frequent"])


@pytest.mark.parametrize("kind", VALUES)
def test_a_release_that_keeps_a_fifth_at_epsilon_0_is_caught(kind: str) -> None:
    found = attacked(kind, Setting(), kept=0.2)
    assert found["epsilon"] == 0
    assert found["exceeds_epsilon"]


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
@pytest.mark.parametrize("kind", ["DATE", "PER", "ORG"])
def test_the_bound_within_forms_scales_with_epsilon(kind: str, epsilon: float) -> None:
    found = attacked(kind, Setting(epsilon=epsilon))
    assert found["allowed"] == pytest.approx(best_success_within(epsilon, found["forms"]))
    assert not found["exceeds_epsilon"]
    assert sum(share for share, _ in found["forms"]) == pytest.approx(1)


@pytest.mark.parametrize(
    "resources",
    [
        Resources(fit=Fit.GRAMMAR),
        Resources(language="de"),
        Resources(keep_case=False),
        Resources(surrogates={"PER": uniform(["li", "wu", "li wei", "wu ming", "doctor", "cook"])}),
    ],
)
def test_the_form_is_known_for_any_list(resources: Resources) -> None:
    found = attacked("PER", Setting(), resources)
    assert found["knows_the_form"]
    assert not found["exceeds_epsilon"]
    assert attacked("PER", Setting(), resources, kept=0.3)["exceeds_epsilon"]


def test_no_form_is_known_where_none_is_released() -> None:
    found = attacked("PER", Setting(), Resources(fit=Fit.NONE))
    assert not found["knows_the_form"]
    assert found["allowed"] == pytest.approx(found["most_frequent"])
    assert not found["exceeds_epsilon"]
    assert attacked("PER", Setting(), Resources(fit=Fit.NONE), kept=0.2)["exceeds_epsilon"]
