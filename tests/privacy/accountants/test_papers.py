"""The arithmetic of the papers, as published."""

import math

import pytest

from sottovoce.privacy.accountants import papers
from sottovoce.privacy.recipes.training import Decay


@pytest.mark.parametrize(
    ("z0", "decay", "tau", "epochs", "delta", "epsilon", "log10"),
    [
        (1.0, "none", 0, 10, 5e-4, 17.3295599755564, 1.23878753544249),
        (1.0, "exponential", 0.05, 10, 5e-4, 23.9286606241626, 1.37891839022169),
        (0.5, "linear", 0.5, 20, 5e-5, 1911.04899452603, 3.28127182142421),
        (0.01, "none", 0, 50, 5e-4, 252756.9734238, 5.40270314637065),
        (1e-6, "exponential", 0.5, 30, 5e-4, 3.10963964250862e24, 24.4927100641594),
        (0.001, "linear", 0.9, 30, 5e-4, 3871618075.40669, 9.58789250877987),
        (2.0, "none", 0, 1, 1e-5, 2.52426295609404, 0.402134594007996),
        # Cells of the paper's Table 1 that its grid can explain.
        (0.02, "none", 0, 20, 5e-4, 10**4.4128, 4.4128),
        (5e-6, "exponential", 0.5, 33, 5e-4, 10**24.3977, 24.3977),
        (1.0, "linear", 0.05, 20, 5e-4, 10**1.6884, 1.6884),
    ],
)
def test_zcdp(
    z0: float, decay: str, tau: float, epochs: int, delta: float, epsilon: float, log10: float
) -> None:
    noise = [z0 * Decay(decay).factor(tau, epoch) for epoch in range(epochs)]
    claim = papers.zcdp(noise, delta, "zCDP")
    assert claim.epsilon == pytest.approx(epsilon, rel=2e-4 if epsilon == 10**log10 else 1e-12)
    assert claim.log10_epsilon == pytest.approx(log10, abs=1e-4)


def test_zcdp_beyond_floating_point_keeps_its_logarithm() -> None:
    claim = papers.zcdp([1e-200], 1e-5, "zCDP")
    assert math.isinf(claim.epsilon)
    assert claim.log10_epsilon == pytest.approx(400 - math.log10(2))
    assert claim.to_json()["epsilon"] == "inf"


@pytest.mark.parametrize(
    ("p", "pi", "epsilon"), [(1, 0.3, 0), (0.9, 0.1, 0.747214), (0.9, 0, math.inf)]
)
def test_lemma(p: float, pi: float, epsilon: float) -> None:
    assert papers.replacement_lemma(p, pi) == pytest.approx(epsilon, abs=1e-6)
