"""The personal model: its probabilities, decay, corrections, bias lists, how far it is believed."""

import math
from dataclasses import replace

import numpy as np
import pytest

from sottovoce.errors import InvalidInput
from sottovoce.personalize.federated.marginals import Marginals
from sottovoce.personalize.federated.pairs import SharedPairs
from sottovoce.personalize.lm.ngram.training import train_ngram
from sottovoce.personalize.lm.vocabulary import Vocabulary
from sottovoce.personalize.nbest.lists import Hypothesis, NBest
from sottovoce.personalize.rescoring.personal import (
    BiasList,
    CacheSettings,
    PersonalModel,
    read_bias,
)
from sottovoce.personalize.rescoring.scores import Weights, acoustic_scores
from sottovoce.personalize.rescoring.trusting import (
    Gate,
    Sources,
    Trust,
    choose_personal,
    rescore_personal,
    tune_trust,
)

TEXT = ["call mum now", "call dad", "play some music", "call mum", "hang up now please"] * 4
WORDS = Vocabulary.from_text(TEXT, 12)
LM = train_ngram(TEXT, WORDS, 2)
SETTINGS = CacheSettings(unseen=3, frequent=3)
# All words that there are: those of the vocabulary, and the three that <unk> stands for.
EVERY = [word for word in WORDS.words if word != "<unk>"] + ["zoe", "kim", "bo"]
SHARED = Marginals(WORDS.words, np.full(len(WORDS), 1 / len(WORDS)))
PAIRS = SharedPairs(Marginals(("call mum", "call </s>", "<unk>"), np.array([0.5, 0.3, 0.2])))


def log_p(sentence: list[str]) -> np.ndarray:
    values, _ = LM.score_words([sentence])
    return values


def probability(model: PersonalModel, before: list[str], word: str) -> float:
    """p' of one word, or of the end, after `before`: the gain of the longer sentence tells it."""
    sentence = before if word == "</s>" else [*before, word]
    p = math.exp(log_p(sentence)[len(before)])
    p /= 1 if word in WORDS.index or word == "</s>" else SETTINGS.unseen
    return model._mixed(p, ["<s>", *before][-1], word)


@pytest.mark.parametrize("pairs", [None, PAIRS])
@pytest.mark.parametrize("before", [[], ["call"], ["zoe"], ["call", "mum"]])
def test_it_is_a_distribution_over_all_words(pairs: SharedPairs | None, before: list[str]) -> None:
    model = PersonalModel(WORDS, SETTINGS, pairs=pairs)
    for sentence in ("call zoe", "call mum now", "play zoe", "call zoe"):
        model.add(sentence.split())
    total = sum(probability(model, before, word) for word in [*EVERY, "</s>"])
    assert total == pytest.approx(1)
    assert probability(model, ["call"], "zoe") > 5 * probability(model, ["call"], "kim")


def test_gains_are_sums_of_log_ratios() -> None:
    model = PersonalModel(WORDS, SETTINGS, everybody=SHARED.over(WORDS), pairs=PAIRS)
    model.add(["call", "zoe"])
    sentence = ["call", "zoe", "now"]
    plain = log_p(sentence)
    expected = 0.0
    for place, word in enumerate([*sentence, "</s>"]):
        p = math.exp(plain[place]) / (SETTINGS.unseen if word == "zoe" else 1)
        expected += math.log(probability(model, sentence[:place], word) / p)
    assert model.gains([sentence], [plain]).sum() == pytest.approx(expected)


def test_new_words_fade() -> None:
    settings = replace(SETTINGS, half_life=2.0)
    model = PersonalModel(WORDS, settings)
    plain = [log_p(["play", "zoe"])]
    model.add(["zoe"])
    gains = []
    for _ in range(6):
        gains.append(float(model.gains([["play", "zoe"]], plain).sum()))
        model.add(["hang", "up"])
    assert gains == sorted(gains, reverse=True)
    assert gains[0] > 1 > gains[-1]
    slow = PersonalModel(WORDS, replace(settings, half_life=1e6))
    slow.add(["zoe"])
    for _ in range(6):
        slow.add(["hang", "up"])
    assert float(slow.gains([["play", "zoe"]], plain).sum()) > gains[-1]


def test_a_long_life_does_not_overflow() -> None:
    model = PersonalModel(WORDS, replace(SETTINGS, half_life=0.01))
    for _ in range(50):
        model.add(["call", "zoe"])
    assert np.isfinite(model.gains([["call", "zoe"]], [log_p(["call", "zoe"])])).all()


def test_a_correction_counts_several_times() -> None:
    plain = [log_p(["call", "zoe"])]

    def gain(*, corrected: bool) -> float:
        model = PersonalModel(WORDS, SETTINGS)
        model.add(["call", "mum"])
        model.add(["call", "zoe"], corrected=corrected)
        return float(model.gains([["call", "zoe"]], plain).sum())

    assert gain(corrected=True) > gain(corrected=False) > 0


def test_bias_lists() -> None:
    common, own = read_bias(["mum", "", "ann\tZoe Kim", "ann\tbo"])
    assert common.matched(["call", "mum"]) == [False, True]
    assert own["ann"].matched(["call", "zoe", "kim", "mum"]) == [False, True, True, True]
    assert own["ann"].matched(["zoe", "mum"]) == [False, True]
    assert not BiasList([" "])
    model = PersonalModel(WORDS, SETTINGS, bias=own["ann"])
    sentences = [["call", "zoe", "kim"], ["call", "zoe", "bob"]]
    listed, other = model.gains(sentences, [log_p(each) for each in sentences]).sum(axis=1)
    assert listed == pytest.approx(2 * SETTINGS.boost)
    assert other == 0


def test_the_gate_opens_with_what_is_borne_out() -> None:
    gate = Gate()
    assert gate.value == 0
    for _ in range(10):
        gate.add(np.array([0.0, 2.0, 0.0]), words=10)
    assert 0.2 < gate.value < 0.4
    for _ in range(30):
        gate.add(np.array([-3.0, 0.0, 0.0]), words=10)
    assert gate.value == 0
    assert Gate(expected=9.0).value == 1


NAMES = ("zoe", "kim", "bo", "mum", "dad", "liv")


def said(client: int, turn: int, *, helps: bool = True) -> NBest:
    """Clients call their own person; every third time the recogniser hears another name."""
    mine, other = NAMES[client % 6], NAMES[(client + 1) % 6]
    if not helps:
        # What a client says has nothing to do with what it said before.
        rng = np.random.default_rng(1000 * client + turn)
        mine, other = rng.choice(NAMES, 2, replace=False)
    heard = [other, mine] if turn % 3 == 2 else [mine, other]
    rows = tuple(Hypothesis(f"call {name}", am=-0.1 * rank) for rank, name in enumerate(heard))
    return NBest(f"{client}-{turn}", rows, f"call {mine}", f"c{client}", turn)


def lists_of(clients: range, **how: bool) -> list[NBest]:
    return [said(client, turn, **how) for client in clients for turn in range(12)]


def test_clients_that_repeat_themselves_gain() -> None:
    trust = tune_trust(lists_of(range(8)), LM, Sources())
    assert any(trust.classes)
    found = rescore_personal(lists_of(range(8, 20)), LM, trust, Sources()).to_json()
    assert found["change_from_background"]["relative"] < -40
    assert Trust.from_json(trust.to_json()) == trust


def test_without_a_gain_the_result_is_the_background() -> None:
    dev, rest = lists_of(range(8), helps=False), lists_of(range(8, 20))
    trust = tune_trust(dev, LM, Sources())
    assert trust.classes == (False, False, False)
    before, after = choose_personal(rest, LM, trust, Sources())
    assert before == after


def test_noise_of_everybody_is_not_used() -> None:
    dev = lists_of(range(8))
    noise = np.random.default_rng(0).dirichlet(np.full(len(WORDS), 0.05)) + 1e-9
    useful = np.full(len(WORDS), 1e-3)
    useful[WORDS.index["call"]] = 1
    for shares, used in ((noise, False), (useful, True)):
        trust = tune_trust(dev, LM, Sources(everybody=shares / shares.sum()))
        assert trust.words_of_all is used
        assert (trust.used(Sources(everybody=shares)).everybody is not None) is used


def test_a_user_whose_history_does_not_bear_it_out_keeps_the_background() -> None:
    trust = tune_trust(lists_of(range(8)), LM, Sources())
    # This one never repeats a word.
    rng = np.random.default_rng(5)
    strange = [
        NBest(
            f"s{i}",
            tuple(Hypothesis(f"w{i} x{i} {rng.integers(10**9)}", am=-0.01 * r) for r in range(3)),
            "",
            "stranger",
            i,
        )
        for i in range(20)
    ]
    before, after = choose_personal(strange, LM, trust, Sources())
    assert before == after


def test_weights_that_are_none() -> None:
    for data in ({}, {"background": {}, "classes": [True]}, {"background": Weights().to_json()}):
        with pytest.raises(InvalidInput, match="tuned weights"):
            Trust.from_json(data)


def test_the_order_of_a_list_without_scores_is_evidence() -> None:
    bare = NBest("u", tuple(map(Hypothesis, ("a", "b", "c"))))
    assert acoustic_scores(bare) == [-math.log(rank) for rank in (1, 2, 3)]
    some = NBest("u", (Hypothesis("a"), Hypothesis("b", score=-2.0), Hypothesis("c", score=-5.0)))
    assert acoustic_scores(some) == [-2.0, -2.0, -5.0]
