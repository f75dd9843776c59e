import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.deid.replace.channels import objections, outputs

from sottovoce.deid.replace import (
    Surrogates,
    TruncatedResponse,
    channel_epsilon,
    from_corpus,
    uniform,
)
from sottovoce.deid.replace.response import kept_truth
from sottovoce.errors import InvalidInput
from sottovoce.privacy.accountants.losses import TokenLoss

CANDIDATES = ("rome", "oslo", "lima", "bern")


def response(epsilon: float) -> TruncatedResponse:
    return TruncatedResponse(candidates=CANDIDATES, epsilon=epsilon, keep_case=False)


@pytest.mark.parametrize("value", ["lima", "paris"])
def test_it_draws_from_the_channel_it_states(value: str) -> None:
    made = response(1.5)
    assert not objections(outputs(made, value), made.channel(value))


@pytest.mark.parametrize("factor", [0.7, 1.3])
def test_another_epsilon_is_noticed(factor: float) -> None:
    assert objections(outputs(response(1.5 * factor), "lima"), response(1.5).channel("lima"))


@given(epsilon=st.floats(0.0, 9.0), m=st.integers(2, 8))
def test_epsilon_is_exact_and_the_loss_says_the_same(epsilon: float, m: int) -> None:
    made = TruncatedResponse(candidates=tuple(f"v{i}" for i in range(m)), epsilon=epsilon)
    rows = [made.channel(value) for value in (*made.candidates, "elsewhere")]
    assert channel_epsilon(rows) == pytest.approx(epsilon, abs=1e-9)
    cost = made.cost()
    loss = TokenLoss(cost.replace_probability, cost.smallest_probability)
    assert loss.log_ratio == pytest.approx(epsilon, abs=1e-9)
    # The whole loss distribution is that of the kernel, not only its maximum.
    p, pi = cost.replace_probability, cost.smallest_probability
    assert made.channel("v0")["v0"] == pytest.approx(1 - p + p * pi)
    assert made.channel("v0")["v1"] == pytest.approx(p * pi)


def test_m_keeps_the_most_truth() -> None:
    ranks = range(1, 201)
    zipf = Surrogates(tuple(f"w{rank}" for rank in ranks), tuple(1 / rank for rank in ranks))
    for epsilon in (0.5, 2.0, 5.0):
        chosen = len(TruncatedResponse.for_epsilon(epsilon, zipf).candidates)
        best = max(kept_truth(m, epsilon, zipf) for m in range(2, 201))
        assert kept_truth(chosen, epsilon, zipf) == pytest.approx(best)


def test_the_published_comparison() -> None:
    """Zipf, 1000 words, epsilon 3: the truth survives 0.27 of the time, the kernel keeps 0.03."""
    ranks = range(1, 1001)
    zipf = Surrogates(tuple(f"w{rank}" for rank in ranks), tuple(1 / rank for rank in ranks))
    made = TruncatedResponse.for_epsilon(3.0, zipf)
    assert len(made.candidates) == 9
    assert kept_truth(9, 3.0, zipf) == pytest.approx(0.27, abs=0.005)
    p = 1 / (1 + math.expm1(3.0) * zipf.min_probability)
    kept = sum(q * (1 - p + p * q) for q in zipf.probabilities.values())
    assert kept == pytest.approx(0.03, abs=0.005)


def test_private_lists_and_too_few_candidates_are_refused() -> None:
    with pytest.raises(InvalidInput, match="public"):
        TruncatedResponse.for_epsilon(1.0, from_corpus(["rome", "oslo"]))
    with pytest.raises(InvalidInput, match="two different"):
        TruncatedResponse(candidates=("rome",), epsilon=1.0)
    with pytest.raises(InvalidInput, match="epsilon >= 0"):
        TruncatedResponse.for_epsilon(-1.0, uniform(["rome", "oslo"]))


def test_case_is_kept() -> None:
    made = TruncatedResponse(candidates=CANDIDATES, epsilon=100.0)
    assert outputs(made, "OSLO", 1) == ["OSLO"]
