"""No utterance moves the counts further than the rule says."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.errors import InvalidInput
from sottovoce.personalize.federated.counting import Counting
from sottovoce.personalize.lm.vocabulary import UNKNOWN, Vocabulary, distribution
from sottovoce.personalize.nbest.lists import Hypothesis, NBest
from sottovoce.privacy.facts import Noise
from sottovoce.privacy.recipes.federate import FederateRecipe, Kernel

WORDS = Vocabulary(("a", "b", "c", UNKNOWN), np.full(4, 0.25))
TEXT = st.lists(st.sampled_from(["a", "b", "c", "x", "y"]), max_size=12).map(" ".join)
RULES = st.builds(
    Counting,
    sigma=st.floats(0.1, 50),
    nbest=st.integers(1, 6),
    kernel=st.sampled_from(Kernel),
    max_words=st.integers(1, 6),
    distinct=st.booleans(),
    integer=st.booleans(),
)


@given(RULES, st.lists(TEXT, max_size=8))
def test_one_utterance_stays_within_the_sensitivities(rule: Counting, texts: list[str]) -> None:
    places, added = rule.count(NBest("u", tuple(map(Hypothesis, texts))), WORDS)
    assert len(set(places.tolist())) == len(places)
    assert added.sum() <= rule.l1_sensitivity * (1 + 1e-12)
    assert np.linalg.norm(added) <= rule.l2_sensitivity * (1 + 1e-12)
    if rule.integer:
        assert (added == np.rint(added)).all()


@pytest.mark.parametrize("kernel", Kernel)
@pytest.mark.parametrize("noise", Noise)
def test_sensitivity_is_that_of_the_recipe(noise: Noise, kernel: Kernel) -> None:
    discrete = noise in (Noise.DISCRETE_LAPLACE, Noise.DISCRETE_GAUSSIAN)
    recipe = FederateRecipe(
        noise=noise, scale=1.0, max_words=15, nbest=20, sigma=2.0, kernel=kernel, delta=1e-6
    )
    rule = Counting(
        sigma=2.0, nbest=20, max_words=15, kernel=kernel, distinct=True, integer=discrete
    )
    ours = rule.l2_sensitivity if recipe.is_gaussian else rule.l1_sensitivity
    if discrete and kernel is Kernel.NORMALISED:
        # Rounding may favour a shorter list, which the recipe ignores, so ours may be larger.
        assert ours / rule.unit >= recipe.sensitivity() * (1 - 1e-12)
    else:
        assert ours / rule.unit == pytest.approx(recipe.sensitivity())


def test_caps_on_words_keep_the_first_ones() -> None:
    heard = NBest("u", (Hypothesis("c c a b"),))
    places, added = Counting(max_words=2).count(heard, WORDS)
    assert (places.tolist(), added.tolist()) == ([2], [2.0])
    places, added = Counting(max_words=2, distinct=True).count(heard, WORDS)
    assert (places.tolist(), added.tolist()) == ([0, 2], [1.0, 1.0])


def test_nothing_heard_counts_nothing() -> None:
    for heard in (NBest("u", ()), NBest("u", (Hypothesis(""),))):
        places, added = Counting().count(heard, WORDS)
        assert len(places) == len(added) == 0


def test_json_there_and_back() -> None:
    rule = Counting(sigma=2.5, kernel=Kernel.NORMALISED, integer=True)
    assert Counting.from_json(rule.to_json()) == rule
    for bad in ({}, {"kernel": "round"}, {"kernel": "raw", "colour": 1}):
        with pytest.raises(InvalidInput, match="counting rule"):
            Counting.from_json(bad)


@pytest.mark.parametrize("wrong", [{"sigma": 0.0}, {"nbest": 0}, {"max_words": 0}])
def test_bad_rules(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidInput, match="Expected"):
        Counting(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("words", "unigram", "reason"),
    [
        (("a", "a", UNKNOWN), [0.5, 0.25, 0.25], "once"),
        (("a", "b"), [0.5, 0.5], "Expected <unk>"),
        (("a", UNKNOWN), [1.0, 0.0], "above 0"),
        (("a", UNKNOWN), [0.5, 0.4], "sum to 1"),
        (("a", UNKNOWN), [1.5, -0.5], ">= 0"),
        (("a", UNKNOWN), [1.0], "Expected 2 probabilities"),
    ],
)
def test_bad_vocabularies(words: tuple[str, ...], unigram: list[float], reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        Vocabulary(words, np.array(unigram))


def test_vocabulary_from_text_and_disk(tmp_path: object) -> None:
    from pathlib import Path

    path = Path(str(tmp_path)) / "words.json"
    words = Vocabulary.from_text(["b a", "a <unk>", "c"], size=3)
    assert words.words == ("a", "b", UNKNOWN)
    words.save(path)
    back = Vocabulary.load(path)
    assert back.words == words.words
    assert np.array_equal(back.unigram, words.unigram)
    path.write_text('{"words": ["a"]}')
    with pytest.raises(InvalidInput, match="Expected a vocabulary"):
        Vocabulary.load(path)
    with pytest.raises(InvalidInput, match="got none"):
        Vocabulary.from_text(["", "<unk>"], size=3)
    with pytest.raises(InvalidInput, match="size >= 2"):
        Vocabulary.from_text(["a"], size=1)
    with pytest.raises(InvalidInput, match="negative or non-finite"):
        distribution([float("nan"), 1.0], 2)
