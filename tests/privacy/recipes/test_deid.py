"""What de-identification recipes claim and guarantee."""

import math
from dataclasses import replace

import numpy as np
import pytest

from sottovoce.errors import InvalidInput
from sottovoce.privacy.facts import SurrogateSource
from sottovoce.privacy.guarantee import Relation, Unit, Verdict
from sottovoce.privacy.recipes import DeidRecipe, Strategy
from sottovoce.privacy.recipes.deid import (
    histogram_threshold,
    replace_probability,
)

WORD = DeidRecipe(strategy=Strategy.WORD, p=0.9, pi_min=0.1)


def test_one_word() -> None:
    statement = WORD.statement()
    assert statement.guarantee.epsilon == pytest.approx(0.747214, abs=1e-6)
    assert statement.claimed.epsilon == pytest.approx(0.747214, abs=1e-6)
    assert statement.guarantee.unit is Unit.TOKEN
    assert statement.guarantee.relation is Relation.REPLACE_ONE


def test_ten_words_of_an_utterance() -> None:
    recipe = replace(WORD, p=0.99, pi_min=0.01, tokens=10)
    assert recipe.guarantee().epsilon == pytest.approx(6.98185, abs=1e-5)
    assert replace(recipe, delta=1e-6).guarantee().epsilon == pytest.approx(2.76907, abs=1e-5)
    assert recipe.guarantee().unit is Unit.UTTERANCE


@pytest.mark.parametrize(
    ("strategy", "claimed"), [("redact", 0.0), ("typed", 0.0), ("named", 0.105361)]
)
def test_placeholders(strategy: str, claimed: float) -> None:
    recipe = DeidRecipe(strategy=Strategy(strategy), p=0.9)
    statement = recipe.statement()
    assert statement.claimed.epsilon == pytest.approx(claimed, abs=1e-6)
    assert statement.guarantee.verdict is Verdict.NO_GUARANTEE
    assert "delta = 0.1" in statement.guarantee.reasons[0]
    assert replace(recipe, delta=0.1).guarantee().epsilon == 0
    assert replace(recipe, p=1.0).guarantee().epsilon == 0
    assert replace(recipe, p=1.0, recall=0.9).guarantee().verdict is Verdict.NO_GUARANTEE


def test_independent_misses() -> None:
    found = replace(WORD, p=1.0, pi_min=0.001, recall=0.95).guarantee()
    assert found.epsilon == pytest.approx(3.982138, abs=1e-6)
    assert any("misses do not depend" in sentence for sentence in found.assumptions)


def test_surrogates_from_the_same_corpus() -> None:
    found = replace(WORD, p=1.0, pi_source=SurrogateSource.SAME_CORPUS).guarantee()
    assert found.verdict is Verdict.NO_GUARANTEE
    assert "0.632" in found.reasons[0]


def test_a_private_histogram_is_paid_for() -> None:
    found = replace(
        WORD, pi_source=SurrogateSource.DP_HISTOGRAM, histogram_epsilon=0.5, delta=1e-6
    ).guarantee()
    assert found.epsilon == pytest.approx(0.747214 + 0.5, abs=1e-3)
    assert found.delta == 1e-6
    by_default = replace(WORD, pi_source=SurrogateSource.DP_HISTOGRAM).guarantee()
    assert by_default.delta == 1e-6
    assert by_default.epsilon == pytest.approx(1.747214, abs=1e-6)


def test_formulas_of_the_vectors() -> None:
    assert replace_probability(1.0, 0.25) == pytest.approx(0.699511, abs=1e-6)
    assert replace_probability(800.0, 0.25) == 0.0
    assert histogram_threshold(1.0, 1e-6) == pytest.approx(14.122363, abs=1e-6)


def test_the_leak_of_singletons_by_simulation() -> None:
    """Replace each of n distinct tokens by a random one of them; does the first one survive?"""
    random, n, p, trials = np.random.default_rng(0), 50, 0.8, 20_000
    replaced = random.random((trials, n)) < p
    drawn = random.integers(n, size=(trials, n))
    survives = ~replaced[:, 0] | ((drawn == 0) & replaced).any(axis=1)
    recipe = replace(WORD, p=p, pi_source=SurrogateSource.SAME_CORPUS)
    (reason,) = recipe.guarantee().reasons
    stated = float(reason.rpartition(" ")[2])
    assert survives.mean() == pytest.approx(stated, abs=0.015)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"p": 2.0}, "Expected p to be a probability from 0 to 1, got 2"),
        ({"p": math.nan}, "Expected p to be finite"),
        ({"pi_min": None}, "Expected pi-min"),
        ({"pi_min": 0.7}, "Expected pi-min from 0 to 0.5"),
        ({"tokens": 0}, "Expected tokens >= 1"),
        ({"recall": 1.1}, "Expected recall"),
        ({"delta": -0.1}, "Expected delta"),
        ({"pi_source": SurrogateSource.DP_HISTOGRAM, "delta": 0.0}, "Expected delta > 0"),
    ],
)
def test_nonsense_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        replace(WORD, **changes)  # type: ignore[arg-type]


def test_a_probability_for_no_values_is_refused() -> None:
    with pytest.raises(InvalidInput, match="Expected pi_min in"):
        replace_probability(1.0, 0.0)
