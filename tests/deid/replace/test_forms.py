import math
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.deid.replace.channels import objections, outputs

from sottovoce.corpora.synthetic import lexicon
from sottovoce.deid import Deidentifier, Resources, Setting
from sottovoce.deid.detect import Gazetteer
from sottovoce.deid.replace import Surrogates, WithinClass, channel_epsilon, from_corpus, uniform
from sottovoce.deid.replace.forms import _FEMININE, _MASCULINE, gender, number
from sottovoce.deid.replace.strategies import mechanism_for
from sottovoce.errors import InvalidInput

NAMES = Surrogates(
    ("maria", "anna", "emma", "john", "david", "alex", "chris"), (4.0, 2.0, 1.0, 3.0, 1.0, 1.0, 2.0)
)
FOREIGN = ("zebediah", "mariana")


def alike(p: float) -> WithinClass:
    return WithinClass.of(NAMES, "gender of a name", gender, p=p, keep_case=False)


def within_classes(made: WithinClass) -> float:
    """Epsilon by brute force: every pair of inputs of one class, every output."""
    inputs = (*NAMES.values, *FOREIGN)
    return max(
        channel_epsilon([made.channel(one), made.channel(other)])
        for one, other in product(inputs, inputs)
        if gender(one) == gender(other)
    )


@pytest.mark.parametrize("value", ["emma", "john", "alex", "zebediah"])
def test_it_draws_from_the_channel_it_states(value: str) -> None:
    assert not objections(outputs(alike(0.6), value), alike(0.6).channel(value))


@pytest.mark.parametrize("p", [0.6 * 0.7, 0.6 * 1.3])
def test_another_p_is_noticed(p: float) -> None:
    assert objections(outputs(alike(p), "emma"), alike(0.6).channel("emma"))


def test_a_draw_from_all_classes_is_noticed() -> None:
    everything = WithinClass.of(NAMES, "nothing", lambda value: "", p=0.6, keep_case=False)
    assert objections(outputs(everything, "emma"), alike(0.6).channel("emma"))


@given(p=st.floats(0.01, 1.0))
def test_epsilon_is_the_largest_log_ratio_within_a_class(p: float) -> None:
    made = alike(p)
    stated = made.cost().epsilon
    assert stated is not None
    # The kernel over the whole list serves classes without surrogates; here there are none.
    listed = max(
        math.log1p((1 - p) / (p * kernel.surrogates.min_probability))
        for kernel in made.kernels.values()
    )
    assert within_classes(made) == pytest.approx(listed, abs=1e-9)
    assert within_classes(made) <= stated + 1e-9


@given(epsilon=st.floats(0.01, 8.0))
def test_for_epsilon_every_class_reaches_it(epsilon: float) -> None:
    made = WithinClass.of(NAMES, "gender of a name", gender, epsilon=epsilon)
    assert made.cost().epsilon == pytest.approx(epsilon, rel=1e-9)
    assert within_classes(made) == pytest.approx(epsilon, rel=1e-9)


def test_between_classes_there_is_no_bound_and_the_statement_says_so() -> None:
    made = alike(0.9)
    assert math.isinf(channel_epsilon([made.channel("emma"), made.channel("john")]))
    deid = Deidentifier(
        detector=Gazetteer({"PER": ["maria", "john"]}),
        setting=Setting(epsilon=2.0),
        resources=Resources(like_for_like=True),
    )
    deid.release("call maria and john", user="u")
    said = deid.statement()
    for guarantee in said.guarantees.values():
        assert any("gender of a name is released as it is" in s for s in guarantee.not_covered)
        assert any("values of one class" in sentence for sentence in guarantee.assumptions)
    assert said.guarantees["token"].epsilon == pytest.approx(2.0)
    assert said.guarantees["utterance"].epsilon == pytest.approx(4.0)


def test_it_is_off_unless_asked_for() -> None:
    assert not isinstance(mechanism_for("PER", Setting(p=0.5), Resources()), WithinClass)
    kinds = {
        kind: mechanism_for(kind, Setting(p=0.5), Resources(like_for_like=True))
        for kind in ("PER", "MEDICAL", "LOC")
    }
    assert [isinstance(made, WithinClass) for made in kinds.values()] == [True, True, False]


@pytest.mark.parametrize("strategy", ["word", "entity"])
def test_names_keep_their_gender_and_nouns_their_number(strategy: str) -> None:
    likes = Resources(like_for_like=True)
    for kind, values, classes in (
        ("PER", ("Maria", "john"), gender),
        ("MEDICAL", ("cramps", "cough"), number),
    ):
        made = mechanism_for(kind, Setting(strategy=strategy), likes)
        for value in values:
            told = {classes(output.lower()) for output in outputs(made, value, 200)}
            assert told == {classes(value.lower())}


def test_a_value_of_a_class_without_surrogates_may_become_any() -> None:
    made = WithinClass.of(
        uniform(["maria", "anna", "john"]), "gender of a name", gender, keep_case=False
    )
    assert {*outputs(made, "john", 500)} == {"maria", "anna", "john"}
    assert made.cost().epsilon == 0


def test_a_value_that_is_always_kept_has_no_epsilon() -> None:
    cost = alike(0.0).cost()
    assert cost.epsilon is None
    assert cost.replace_probability == 0


def test_lists_of_the_corpus_and_other_strategies_are_refused() -> None:
    with pytest.raises(InvalidInput, match="public"):
        WithinClass.of(from_corpus(["maria", "john"]), "gender of a name", gender)
    with pytest.raises(InvalidInput, match="like-for-like"):
        mechanism_for(
            "PER", Setting(strategy="response", epsilon=1.0), Resources(like_for_like=True)
        )


def test_the_list_of_genders_has_every_name_once_and_no_other() -> None:
    assert not _FEMININE & _MASCULINE
    assert {*lexicon("first_names")} >= _FEMININE | _MASCULINE
