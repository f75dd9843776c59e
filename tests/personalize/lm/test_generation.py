"""Factors in generation are those of rescoring."""

import numpy as np
import pytest

from sottovoce.errors import InvalidInput
from sottovoce.personalize.lm.vocabulary import UNKNOWN, Vocabulary
from sottovoce.personalize.rescoring.scores import normalised

torch = pytest.importorskip("torch", reason="torch is not installed")

from sottovoce.personalize.lm.neural.huggingface import MarginalLogits  # noqa: E402

WORDS = Vocabulary(("call", "mum", UNKNOWN), np.array([0.4, 0.4, 0.2]))


def test_the_softmax_is_the_adapted_distribution() -> None:
    scores = torch.tensor([[0.3, -1.0, 0.5, 0.0]])
    factors = np.array([0.5, 2.0, 9.0])
    process = MarginalLogits(WORDS, factors, {"mum": 3, "call": 0, UNKNOWN: 1})
    found = process(torch.zeros(1, 1, dtype=torch.long), scores).log_softmax(-1)
    # Token 3 is "mum" and token 0 is "call"; unknown words are unchanged.
    plain = scores.log_softmax(-1).numpy()[0].astype(np.float64)
    expected = normalised(plain, np.array([0.5, 0.0, 0.0, 2.0]))
    assert np.allclose(found.numpy()[0], expected, atol=1e-6)
    assert torch.equal(scores, torch.tensor([[0.3, -1.0, 0.5, 0.0]]))


def test_bad_input() -> None:
    with pytest.raises(InvalidInput, match="Expected 3 log factors"):
        MarginalLogits(WORDS, [0.0], {"mum": 0})
    with pytest.raises(InvalidInput, match="Expected tokens"):
        MarginalLogits(WORDS, [0.0] * 3, {"dad": 0})
    process = MarginalLogits(WORDS, [0.0] * 3, {"mum": 7})
    with pytest.raises(InvalidInput, match="tokens below 2"):
        process(torch.zeros(1, 1), torch.zeros(1, 2))
