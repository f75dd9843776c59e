import math

import pytest
from scipy import stats

from sottovoce.corpora import Utterance
from sottovoce.deid import Deidentifier, Fields, Resources, Setting, Vault, mapping
from sottovoce.deid.attacks.reader import (
    Attack,
    ContextModel,
    best_success,
    find_singletons,
    guess,
    match_frequencies,
    parrot,
    reconstruct,
)
from sottovoce.deid.detect import Gazetteer
from sottovoce.deid.detect.crf.training import TaggerTraining
from sottovoce.deid.replace import (
    Consistent,
    Kernel,
    Mechanism,
    Scope,
    Surrogates,
    TruncatedResponse,
    from_corpus,
    uniform,
)
from sottovoce.errors import InvalidInput
from sottovoce.privacy.noise import NoiseSource

NAMES = tuple(f"name{place}" for place in range(20))
ZIPF = Surrogates(NAMES, tuple(1 / (place + 1) for place in range(20)))
VALUES = [NAMES[place] for place in ZIPF.distribution.draw(4000, NoiseSource.seeded(1)).tolist()]


def pairs(mechanism: Mechanism, values: list[str] = VALUES) -> list[tuple[str, str]]:
    scopes = [Scope(type="PER")] * (len(values) if mechanism.scoped else 0)
    told = mechanism.replace(values, scopes, NoiseSource.seeded(2))
    return list(zip(values, told, strict=True))


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 4.0])
def test_guessing_gains_no_more_than_epsilon_allows(epsilon: float) -> None:
    prior = dict.fromkeys(NAMES, 1 / 20)
    values = [NAMES[place % 20] for place in range(4000)]
    for made in (
        Kernel.for_epsilon(epsilon, uniform(NAMES)),
        TruncatedResponse(candidates=NAMES, epsilon=epsilon),
    ):
        found = guess(pairs(made, values), made.channel, prior)
        assert found.interval[0] <= best_success(epsilon, found.prior)
        # Randomised response with a uniform prior attains the bound.
        assert found.interval[1] >= best_success(epsilon, found.prior)


def test_a_mechanism_with_twice_the_epsilon_is_caught() -> None:
    prior = dict.fromkeys(NAMES, 1 / 20)
    values = [NAMES[place % 20] for place in range(4000)]
    loose = TruncatedResponse(candidates=NAMES, epsilon=4.0)
    found = guess(pairs(loose, values), loose.channel, prior)
    assert found.interval[0] > best_success(2.0, found.prior)


def test_full_replacement_leaves_the_prior() -> None:
    made = Kernel(surrogates=ZIPF, p=1.0)
    found = guess(pairs(made), made.channel, ZIPF.probabilities)
    low, high = found.interval
    assert low <= found.prior <= high
    assert not found.is_above_prior


def test_consistent_surrogates_fall_to_frequencies_and_independent_ones_do_not() -> None:
    names = uniform([f"alias{place}" for place in range(500)])
    consistent = Consistent(vault=Vault(bytes(32), within="corpus"), surrogates=names)
    broken = match_frequencies(pairs(consistent), ZIPF.probabilities)
    assert broken.is_above_prior
    assert broken.success > 0.5
    independent = match_frequencies(pairs(Kernel(surrogates=names)), ZIPF.probabilities)
    assert not independent.is_above_prior


def test_singletons_show_in_surrogates_of_the_same_corpus() -> None:
    values = [f"value{place}" for place in range(1000)]
    counted = Kernel(surrogates=from_corpus(values), p=1.0)
    leaked = find_singletons(pairs(counted, values))
    low, high = leaked.interval
    assert low < 0.632 < high
    public = find_singletons(pairs(Kernel(surrogates=uniform(NAMES)), values), NAMES)
    assert public.successes == 0
    with pytest.raises(InvalidInput, match="occur once"):
        find_singletons([("a", "a"), ("a", "b")])


def test_contexts_betray_values_whatever_the_epsilon() -> None:
    known = [("call", "mum", "now"), ("in", "rome", "now"), ("in", "rome", "please")] * 5
    hidden = [("call", "mum", "please"), ("in", "rome", "now")] * 20
    found = reconstruct(known, hidden)
    assert found.success == 1
    assert found.prior == 0.5
    with pytest.raises(InvalidInput, match="trained context model"):
        ContextModel().guess("a", "b")


def test_the_parrot_finds_what_was_missed() -> None:
    """The detector knows half of the names; the parrot learns which half."""
    labels = mapping("communication")
    corpus = [
        Utterance(tokens=("call", name), slots=("O", "B-contact"), user="u")
        for n in range(400)
        for name in [f"{'abcdefgh'[n % 8]}qx{n % 40:02d}zz" if n % 8 == 0 else f"ann{n % 20}"]
    ]
    detector = Gazetteer({"PER": [f"ann{n}" for n in range(20)]})
    deid = Deidentifier(
        detector=detector,
        setting=Setting(strategy="entity"),
        resources=Resources(surrogates={"PER": uniform([f"ann{n}" for n in range(20)])}),
        fields=Fields(user="drop", id="drop"),
        source=NoiseSource.seeded(1),
    )
    released = [each.utterance for each in deid.release_all(corpus)]
    # An attacker who marks only listed values, like the original detector.
    eyes = [
        each
        if each.tokens[1].startswith("ann")
        else Utterance(tokens=each.tokens, slots=("O", "O"))
        for each in released[:200]
    ] + released[200:]
    found = parrot(corpus, eyes, detector, labels, options=TaggerTraining(iterations=30))
    assert found.is_above_prior
    with pytest.raises(InvalidInput, match="400 released utterances"):
        parrot(corpus, eyes[1:], detector, labels)


def test_without_misses_the_parrot_attack_is_refused() -> None:
    calls = [Utterance(tokens=("call", "ann"), slots=("O", "B-contact"))] * 40
    with pytest.raises(InvalidInput, match="parrot misses"):
        parrot(calls, calls, Gazetteer({"PER": ["ann"]}), mapping("communication"))


def test_intervals_are_exact_and_cover() -> None:
    found = Attack(name="x", trials=50, successes=10, prior=0.1)
    low, high = found.interval
    assert stats.binom.sf(9, 50, low) == pytest.approx(0.025)
    assert stats.binom.cdf(10, 50, high) == pytest.approx(0.025)
    assert Attack(name="x", trials=5, successes=0, prior=0).interval[0] == 0
    assert Attack(name="x", trials=5, successes=5, prior=0).interval[1] == 1
    assert "0.200" in str(found)
    assert found.to_json()["success"] == 0.2
    with pytest.raises(InvalidInput, match="at least one trial"):
        Attack(name="x", trials=0, successes=0, prior=0)


def test_the_bound_of_epsilon() -> None:
    assert best_success(math.inf, 0.1) == 1
    assert best_success(1e6, 0.1) == 1
    assert best_success(1.0, 0.5) == pytest.approx(math.e / (1 + math.e))
