"""Shared pairs: distributions, thresholding of a release, and the joint guarantee."""

from dataclasses import replace

import numpy as np
import pytest

from sottovoce.errors import InvalidInput
from sottovoce.personalize.federated.cache import ClientCache
from sottovoce.personalize.federated.counting import Caps, Counting
from sottovoce.personalize.federated.federation import clients_of, ledger_for, server_for
from sottovoce.personalize.federated.marginals import Marginals
from sottovoce.personalize.federated.pairs import PairedLM, SharedPairs, pair_vocabulary
from sottovoce.personalize.federated.plan import ReleasePlan
from sottovoce.personalize.federated.release import CountRelease
from sottovoce.personalize.federated.rounds import run_rounds
from sottovoce.personalize.federated.simplex import keep
from sottovoce.personalize.lm.language_model import LanguageModel
from sottovoce.personalize.lm.ngram.model import END, START, NGramModel
from sottovoce.personalize.lm.ngram.training import train_ngram
from sottovoce.personalize.lm.vocabulary import UNKNOWN, Vector, Vocabulary
from sottovoce.personalize.nbest.lists import Hypothesis, NBest
from sottovoce.personalize.rescoring.run import rescore, tune_weights
from sottovoce.personalize.rescoring.scores import Adaptation
from sottovoce.personalize.rescoring.stream import Personalisation
from sottovoce.privacy.facts import Noise
from sottovoce.privacy.guarantee import Unit
from sottovoce.privacy.ledger import Ledger
from sottovoce.privacy.noise import NoiseSource
from sottovoce.privacy.recipes.federate import Release

TEXT = ["call mum", "call dad", "hang up", "mum called", "dad hang up"]
WORDS = Vocabulary.from_text(TEXT, size=20)
MODEL = train_ngram(TEXT, WORDS, 2)
SENTENCES = [["call", "dad"], ["hang", "up"], ["zoe", "call"], []]
ONE_BEST = Counting(sigma=0.1, nbest=1, max_words=4, distinct=True, integer=True)
PAIRS = replace(ONE_BEST, order=2)


def told(pairs: dict[str, float], unknown: float = 0.0) -> Marginals:
    return Marginals((*pairs, UNKNOWN), np.array([*pairs.values(), unknown]))


HABITS = SharedPairs(
    told({f"{START} call": 0.3, "call dad": 0.3, "call mum": 0.1, f"dad {END}": 0.2}, 0.1),
    strength=0.7,
)


def heard(*texts: str, client: str = "ann") -> list[NBest]:
    return [
        NBest(f"{client}{i}", (Hypothesis(text),), text, client) for i, text in enumerate(texts)
    ]


# -- counting ---------------------------------------------------------------------------------


def test_pairs_are_counted_with_start_and_end() -> None:
    pairs = pair_vocabulary(WORDS, WORDS.unigram, len(WORDS) - 1)
    (said,) = heard("call dad call dad zoe")
    places, added = PAIRS.count(said, pairs)
    found = {
        pairs.words[place]: mass / PAIRS.unit for place, mass in zip(places, added, strict=True)
    }
    # Each pair once; pairs with an unlisted word are absent, even as unknown.
    assert found == {f"{START} call": 1, "call dad": 1, "dad call": 1}


def test_no_utterance_moves_pairs_by_more_than_its_sensitivity() -> None:
    pairs = pair_vocabulary(WORDS, WORDS.unigram, 5)
    chance = np.random.default_rng(1)
    for distinct in (True, False):
        rule = replace(PAIRS, distinct=distinct, nbest=3, sigma=2.0)
        for _ in range(50):
            texts = [" ".join(chance.choice(WORDS.words, 12)) for _ in range(4)]
            _, added = rule.count(NBest("u", tuple(map(Hypothesis, texts))), pairs)
            assert added.sum() <= rule.l1_sensitivity
            assert np.sqrt(added @ added) <= rule.l2_sensitivity


def test_orders_that_are_not_there() -> None:
    with pytest.raises(InvalidInput, match="order 1"):
        Counting(order=3)
    assert Counting.from_json(PAIRS.to_json()) == PAIRS
    old = PAIRS.to_json()
    del old["order"]  # as it was written before there were pairs
    assert Counting.from_json(old) == ONE_BEST


def test_a_vocabulary_of_pairs() -> None:
    q_bar = np.zeros(len(WORDS))
    q_bar[[WORDS.index["up"], WORDS.index["mum"], WORDS.index[UNKNOWN]]] = (0.2, 0.3, 0.5)
    pairs = pair_vocabulary(WORDS, q_bar, 2)
    expected = {f"{a} {b}" for a in (START, "mum", "up") for b in ("mum", "up", END)}
    assert set(pairs.words) == expected | {UNKNOWN}
    place = pairs.index
    ratio = pairs.unigram[place["mum up"]] / pairs.unigram[place["mum mum"]]
    assert ratio == pytest.approx(
        WORDS.unigram[WORDS.index["up"]] / WORDS.unigram[WORDS.index["mum"]]
    )
    for size in (0, len(WORDS)):
        with pytest.raises(InvalidInput, match="words to make pairs of"):
            pair_vocabulary(WORDS, q_bar, size)
    with pytest.raises(InvalidInput, match="probabilities"):
        pair_vocabulary(WORDS, q_bar[1:], 2)


# -- what both releases cost ------------------------------------------------------------------


def cost_of_both(
    pairs: ReleasePlan, words: ReleasePlan, rounds: int = 3, *, in_one_go: bool = False
) -> float:
    first = ledger_for(words)
    for _ in range(rounds):
        first.spend(words.fact())
    both = first if in_one_go else Ledger.from_json(first.to_json())
    for _ in range(rounds):
        both.spend(pairs.fact())
    return both.guarantee(0.0).epsilon


@pytest.mark.parametrize(("unit", "caps"), [(Unit.UTTERANCE, Caps()), (Unit.USER, Caps(mass=20.0))])
def test_words_and_pairs_are_both_paid(unit: Unit, caps: Caps) -> None:
    plan = ReleasePlan(counting=ONE_BEST, noise=Noise.DISCRETE_LAPLACE, unit=unit, caps=caps)
    words = plan.calibrated(epsilon=1.0, rounds=3)
    pairs = replace(plan, counting=PAIRS).calibrated(epsilon=2.0, rounds=3)
    assert cost_of_both(pairs, words) == pytest.approx(3.0, rel=1e-3)
    # The twin: in the pool of words, pairs would make each utterance pay only once.
    mistaken = replace(pairs, counting=ONE_BEST)
    assert cost_of_both(mistaken, words, in_one_go=True) == pytest.approx(2.0, rel=1e-3)
    # A continued ledger does not trust pool names.
    assert cost_of_both(mistaken, words) == pytest.approx(3.0, rel=1e-3)


def test_a_ledger_of_another_unit_is_refused() -> None:
    plan = ReleasePlan(counting=ONE_BEST)
    user = ReleasePlan(counting=PAIRS, unit=Unit.USER, caps=Caps(mass=20.0))
    with pytest.raises(InvalidInput, match="unit of the earlier release"):
        ledger_for(user, ledger_for(plan).to_json())


def test_a_second_release_of_the_same_kind_is_paid_beside_the_first() -> None:
    """In one pool only the worse of the two would be charged."""
    for counting in (ONE_BEST, PAIRS):
        plan = ReleasePlan(counting=counting).calibrated(epsilon=1.0, rounds=1)
        ledger = ledger_for(plan)
        assert ledger_for(plan, ledger.to_json()).entries == ()
        CountRelease(plan, ledger)(np.zeros(3))
        assert ledger.guarantee(0.0).epsilon == pytest.approx(1.0, rel=1e-3)
        both = ledger_for(plan, ledger.to_json())
        CountRelease(plan, both)(np.zeros(3))
        assert both.guarantee(0.0).epsilon == pytest.approx(2.0, rel=1e-3)


def test_cumulative_pairs_are_refused() -> None:
    with pytest.raises(InvalidInput, match="increments where pairs"):
        ReleasePlan(counting=PAIRS, release=Release.CUMULATIVE)


def test_the_assumption_speaks_of_pairs() -> None:
    assert any("4 pairs" in sentence for sentence in ReleasePlan(counting=PAIRS).assumptions())


# -- thresholding -----------------------------------------------------------------------------


def test_few_cells_without_a_count_are_kept() -> None:
    noise = np.random.default_rng(2).laplace(scale=10.0, size=200_000)
    noise[:50] += 1000
    kept = keep(noise, noise.size - 1, 10 * np.sqrt(2), rate=0.001)
    assert kept.sum() == pytest.approx(1)
    assert (kept[:50] > 0).all()
    mistaken = np.count_nonzero(kept[50:-1])
    assert 140 <= mistaken <= 260  # 200 expected


def test_if_nothing_is_kept_everything_is_unknown() -> None:
    assert keep([-1.0, 1.0, -3.0], 2, 10.0).tolist() == [0, 0, 1]
    for noise in (None, ReleasePlan(counting=PAIRS, noise=Noise.DISCRETE_LAPLACE, scale=3.0)):
        server = server_for(
            pair_vocabulary(WORDS, WORDS.unigram, 3), noise,
            ledger=ledger_for(ReleasePlan(counting=PAIRS)), denoise="keep",
            source=NoiseSource.seeded(1),
        )  # fmt: skip
        server.receive(np.zeros(len(server.vocabulary)))
        released = Marginals(server.vocabulary.words, server.finish_round())
        assert SharedPairs(released).kept == 0


def test_federated_pairs_are_found() -> None:
    vocabulary = pair_vocabulary(WORDS, WORDS.unigram, 6)
    plan = ReleasePlan(counting=PAIRS, noise=Noise.DISCRETE_LAPLACE).calibrated(epsilon=1, rounds=2)
    ledger = ledger_for(plan)
    lists = [each for i in range(200) for each in heard("call dad", "call dad", client=f"c{i}")]
    server = server_for(
        vocabulary, plan, ledger=ledger, denoise="keep", source=NoiseSource.seeded(3)
    )
    for _ in run_rounds(clients_of(lists, vocabulary, plan, rounds=2), server, rounds=2):
        pass
    found = SharedPairs(Marginals(vocabulary.words, server.q_bar))
    assert found.probability("call", "dad") > 0.9
    assert found.probability("dad", END) > 0.9
    assert ledger.guarantee(0.0).epsilon <= 1


# -- scoring ----------------------------------------------------------------------------------


def test_pairs_that_say_nothing_change_nothing() -> None:
    silent = SharedPairs(told({}, 1.0))
    factors = np.random.default_rng(0).normal(size=len(WORDS))
    for log_factors in (None, factors):
        for normalise in (True, False):
            expected = MODEL.score(SENTENCES, log_factors, normalise=normalise)
            found = silent.over(MODEL).score(SENTENCES, log_factors, normalise=normalise)
            assert np.allclose(found, expected)


def test_what_people_say_becomes_likelier() -> None:
    plain, paired = MODEL.score(SENTENCES), HABITS.over(MODEL).score(SENTENCES)
    assert paired[0] > plain[0]
    assert paired[1] == pytest.approx(plain[1] + np.log(1 - HABITS.weight(START)), abs=1e-9)


def everything_after(model: LanguageModel, said: list[str], factors: Vector | None) -> Vector:
    """p(w|h) of every word and the end, queried one by one."""
    assert isinstance(model, PairedLM | NGramModel)
    words = [word for word in WORDS.words if word != UNKNOWN] + ["neverheard"]
    values = [model.score_words([[*said, word]], factors)[0][len(said)] for word in words] + [
        model.score_words([said], factors)[0][len(said)]
    ]
    probabilities: Vector = np.exp(np.array(values))
    return probabilities


@pytest.mark.parametrize("adapted", [False, True])
@pytest.mark.parametrize("said", [[], ["call"], ["hang"], ["call", "dad"], ["zoe"]])
def test_every_history_keeps_a_distribution(said: list[str], adapted: bool) -> None:
    factors = np.random.default_rng(4).normal(size=len(WORDS)) if adapted else None
    found = everything_after(HABITS.over(MODEL), said, factors)
    assert found.sum() == pytest.approx(1)


def test_factors_adapt_the_mixture() -> None:
    factors = np.random.default_rng(5).normal(size=len(WORDS))
    said = ["call"]
    before = everything_after(HABITS.over(MODEL), said, None)
    known = [word for word in WORDS.words if word != UNKNOWN]
    each = np.exp(factors[WORDS.encode([*known, UNKNOWN])])
    expected = before * np.append(each, 1.0)
    assert everything_after(HABITS.over(MODEL), said, factors) == pytest.approx(
        expected / expected.sum()
    )


def test_models_without_scores_per_word_are_refused() -> None:
    with pytest.raises(InvalidInput, match="without scores per word"):
        HABITS.over(object())  # type: ignore[arg-type]


@pytest.mark.parametrize("words", [("call", UNKNOWN), ("call mum now", UNKNOWN)])
def test_marginals_of_words_are_no_pairs(words: tuple[str, ...]) -> None:
    with pytest.raises(InvalidInput, match="pair of words"):
        SharedPairs(Marginals(words, np.array([0.5, 0.5])))


def confused(client: int, turn: int) -> NBest:
    """All users call dad, which the recogniser confuses with a verb."""
    texts = ("call hang", "call dad") if turn % 2 else ("call dad", "call hang")
    rows = tuple(Hypothesis(text, am=-1.0 - 0.01 * rank) for rank, text in enumerate(texts))
    return NBest(f"{client}-{turn}", rows, "call dad", f"c{client}", turn)


def test_rescoring_with_pairs() -> None:
    lists = [confused(client, turn) for client in range(4) for turn in range(6)]
    nobody = Personalisation(adaptation=Adaptation(alpha=0.0, beta=0.0))
    uniform = train_ngram([" ".join(WORDS.words[:-1])], WORDS, 1)

    def errors(settings: Personalisation) -> int:
        tuned = tune_weights(lists, uniform, settings, powers=(0.0,))
        outcome = rescore(lists, uniform, settings, tuned)
        return sum(each.count for each in outcome.adapted.values())

    assert errors(replace(nobody, pairs=HABITS)) == 0
    assert errors(nobody) > 0


def test_a_saved_cache_of_pairs(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("cache") / "mine.json"
    vocabulary = pair_vocabulary(WORDS, WORDS.unigram, 5)
    cache = ClientCache(vocabulary, PAIRS)
    for each in heard("call dad", "call mum"):
        cache.add(each)
    cache.save(path)
    assert np.array_equal(ClientCache.load(path, vocabulary).personal(), cache.personal())
