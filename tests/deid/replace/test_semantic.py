import numpy as np
import pytest
from tests.deid.replace.channels import objections, outputs

from sottovoce.corpora.wordvectors import WordVectors
from sottovoce.deid.replace import SemanticExponential, channel_epsilon, from_corpus, uniform
from sottovoce.errors import InvalidInput

WORDS = ("rome", "milan", "oslo", "bergen", "york")
POINTS = np.array([[1, 0.1], [1, 0.2], [0.1, 1], [0.2, 1], [-1, 0.3]])
VECTORS = WordVectors(WORDS, POINTS)


def semantic(epsilon: float) -> SemanticExponential:
    return SemanticExponential.for_epsilon(epsilon, uniform(WORDS), VECTORS, keep_case=False)


@pytest.mark.parametrize("value", ["rome", "paris"])
def test_it_draws_from_the_channel_it_states(value: str) -> None:
    made = semantic(2.0)
    assert not objections(outputs(made, value, 50_000), made.channel(value))


@pytest.mark.parametrize("factor", [0.7, 1.3])
def test_another_epsilon_is_noticed(factor: float) -> None:
    assert objections(
        outputs(semantic(2.0 * factor), "rome", 50_000), semantic(2.0).channel("rome")
    )


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 4.0, 9.0])
def test_epsilon_is_exact_and_used_up(epsilon: float) -> None:
    made = semantic(epsilon)
    rows = [made.channel(value) for value in (*WORDS, "elsewhere")]
    assert channel_epsilon(rows) == pytest.approx(made.epsilon, abs=1e-9)
    assert epsilon * 0.999 - 1e-9 <= made.epsilon <= epsilon + 1e-9
    assert made.scale >= epsilon / 2 * 0.999  # at least what the proof allows


def test_neighbours_are_likelier() -> None:
    row = semantic(3.0).channel("rome")
    assert row["rome"] > row["milan"] > row["oslo"] > row["york"]


def test_values_of_several_words_and_words_without_vectors() -> None:
    made = SemanticExponential.for_epsilon(1.0, uniform(["new york", "rome", "atlantis"]), VECTORS)
    assert made.values == ("new york", "rome")


def test_too_few_vectors_and_private_lists_are_refused() -> None:
    with pytest.raises(InvalidInput, match="word vector"):
        SemanticExponential.for_epsilon(1.0, uniform(["atlantis", "utopia"]), VECTORS)
    with pytest.raises(InvalidInput, match="public"):
        SemanticExponential.for_epsilon(1.0, from_corpus(["rome", "oslo"]), VECTORS)
