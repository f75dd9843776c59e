"""Second-pass totals, and personal factors in time order."""

import numpy as np
import pytest

from sottovoce.errors import InvalidInput
from sottovoce.personalize.federated.counting import Counting
from sottovoce.personalize.lm.ngram.training import train_ngram
from sottovoce.personalize.lm.vocabulary import UNKNOWN, Vocabulary
from sottovoce.personalize.nbest.lists import Hypothesis, NBest
from sottovoce.personalize.rescoring.scores import Adaptation, ScoreTable, Weights
from sottovoce.personalize.rescoring.stream import (
    Personalisation,
    adapted_scores,
    background_scores,
    factor_sums,
    personal_factors,
)

TEXT = ["call mum", "call mom", "call dad", "hang up"] * 3
WORDS = Vocabulary.from_text(TEXT, size=20)
MODEL = train_ngram(TEXT, WORDS, 2)


def heard(i: int, *texts: str, reference: str = "call mum", client: str = "ann") -> NBest:
    hypotheses = tuple(Hypothesis(text, am=-1.0 - 0.1 * rank) for rank, text in enumerate(texts))
    return NBest(f"{client}{i}", hypotheses, reference, client, order=i)


def test_the_worked_example() -> None:
    weights = Weights(mix=0.5)
    texts = ["meeting design", "remote design", "remote button design"]
    rows = zip(texts, [-7.0, -6.75, -6.9], [-3.1, -3.2, -5.0], strict=True)
    nbest = NBest("u", tuple(Hypothesis(text, am=am, lm=lm) for text, am, lm in rows))
    assert weights.choose(nbest, [-3.0, -3.6, -5.2]).text == "meeting design"
    adapted = [-3.087292, -3.31055, -4.722604]
    assert weights.choose(nbest, adapted).text == "remote design"
    totals = [weights.total(h, s) for h, s in zip(nbest.hypotheses, adapted, strict=True)]
    assert np.allclose(totals, [-10.093646, -10.005275, -11.761302])


def test_lists_without_scores_or_hypotheses() -> None:
    empty = NBest("u", (), "hi")
    assert Weights().choose(empty, []).text == ""
    bare = NBest("u", (Hypothesis("a"), Hypothesis("b b")), "hi")
    assert Weights().choose(bare, [0.0, 0.0]).text == "a"
    assert Weights(bonus=1.0).choose(bare, [0.0, 0.0]).text == "b b"
    only_total = NBest("u", (Hypothesis("a", score=-2.0), Hypothesis("b", score=-1.0)), "hi")
    assert Weights(scale=0.0).choose(only_total, [0.0, 0.0]).text == "b"
    two_words = Hypothesis("a b", am=-1.5)
    assert Weights(per_word=True).total(two_words, 0.0) == -3.0
    assert Weights(average=2.0).total(two_words, 0.0) == -1.5 - 2 * 0.75
    assert Weights(average=2.0, per_word=True).total(two_words, 0.0) == -3.0 - 2 * 1.5


def test_the_table_agrees_with_choosing_one_by_one() -> None:
    rng = np.random.default_rng(0)
    texts = ["call mum", "call", "um call mom now", "uh mum um"]
    lists, second = [], {}
    for i in range(30):
        size = int(rng.integers(1, 5))
        rows = tuple(Hypothesis(t, am=float(rng.normal()), lm=-1.0) for t in texts[:size])
        lists.append(NBest(f"u{i}", rows, "call mum"))
        second[f"u{i}"] = rng.normal(size=size).tolist()
    known = Vocabulary.from_text(["call mum"], size=9)
    table = ScoreTable(lists, second, known)
    for weights in (
        Weights(),
        Weights(scale=0.3, mix=0.8, bonus=-0.4, per_word=True),
        Weights(acoustic=0.2, average=1.5, bonus=0.4),
        Weights(average=0.5, per_word=True),
        Weights(hesitation=2.5),
        Weights(unknown=-1.5),
    ):
        from sottovoce.personalize.rescoring.wer import pooled

        chosen = [("call mum", weights.choose(e, second[e.id], known).text) for e in lists]
        assert table.count(weights) == pooled(chosen).count


def test_words_that_the_model_does_not_know() -> None:
    each = NBest(
        "u", (Hypothesis("call zyx", am=-1.0), Hypothesis("call mum", am=-1.1)), "call mum"
    )
    known = Vocabulary.from_text(["call mum"], size=9)
    wary = Weights(unknown=-0.5)
    assert wary.total(each.best, 0.0, 1) == Weights().total(each.best, 0.0) - 0.5
    assert wary.choose(each, [0.0, 0.0], known).text == "call mum"
    # Without a vocabulary nothing is unknown.
    assert wary.choose(each, [0.0, 0.0]).text == "call zyx"


def test_factors_follow_time_and_stay_with_their_client() -> None:
    lists = [
        heard(1, "hang up", client="bob"),
        heard(2, "call dad"),
        heard(1, "call dad"),
        heard(3, "call dad"),
    ]
    settings = Personalisation(
        adaptation=Adaptation(alpha=0.0, beta=0.9, power=1.0), counting=Counting()
    )
    dad, unknown = WORDS.index["dad"], WORDS.index[UNKNOWN]
    seen = {each.id: factors for each, factors in personal_factors(lists, MODEL, settings)}
    # Before a client's first utterance nothing is counted.
    assert np.allclose(seen["bob1"], 0)
    assert np.allclose(seen["ann1"], 0)
    assert 0 < seen["ann2"][dad] < seen["ann3"][dad]
    assert seen["ann3"][unknown] == 0


def test_adapted_scores_and_the_shortcut() -> None:
    lists = [heard(1, "call dad"), heard(2, "call mum", "call dad")]
    settings = Personalisation(adaptation=Adaptation(alpha=0.0, beta=0.9, power=1.0))
    factors = list(personal_factors(lists, MODEL, settings))
    plain, sums = background_scores(lists, MODEL), factor_sums(factors, MODEL)
    short = adapted_scores(factors, MODEL, normalise=False)
    exact = adapted_scores(factors, MODEL)
    for each in lists:
        total = np.add(plain[each.id], sums[each.id])
        assert np.allclose(short[each.id], total)
    mum, dad = exact["ann2"]
    assert dad - mum > plain["ann2"][1] - plain["ann2"][0]
    shared = np.full(len(WORDS), 1 / len(WORDS))
    moving = personal_factors(lists, MODEL, settings, lambda each: shared)
    fixed = personal_factors(lists, MODEL, settings, shared)
    for (_, one), (_, other) in zip(moving, fixed, strict=True):
        assert np.array_equal(one, other)


def test_bad_input() -> None:
    for wrong in ({"scale": -1.0}, {"mix": 2.0}, {"acoustic": -1.0}, {"bonus": float("nan")}):
        with pytest.raises(InvalidInput, match="Expected"):
            Weights(**wrong)  # type: ignore[arg-type]
    assert Weights.from_json(Weights(bonus=0.5).to_json()) == Weights(bonus=0.5)
    with pytest.raises(InvalidInput, match="Expected weights"):
        Weights.from_json({"colour": 1})
    with pytest.raises(InvalidInput, match="Expected 1 scores"):
        Weights().choose(heard(1, "a"), [])
    with pytest.raises(InvalidInput, match="to tune weights on"):
        ScoreTable([NBest("u", ())], {})


def test_clients_are_split_whole() -> None:
    from sottovoce.personalize.rescoring.run import Tuned, split_clients

    lists = [heard(i, "call mum", client=f"c{i % 10}") for i in range(60)]
    dev, rest = split_clients(lists, 0.4)
    assert {e.client for e in dev}.isdisjoint({e.client for e in rest})
    assert len(dev) + len(rest) == len(lists)
    assert split_clients(lists[::-1], 0.4)[0] == dev[::-1]
    tuned = Tuned(Weights(), Weights(bonus=0.1), 2.0)
    assert Tuned.from_json(tuned.to_json()) == tuned
    with pytest.raises(InvalidInput, match="tuned weights"):
        Tuned.from_json({})
