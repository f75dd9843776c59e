import math
import re
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.deid.replace.channels import objections, outputs

from sottovoce.corpora.synthetic import lexicon
from sottovoce.deid import Deidentifier, Fit, Resources, Setting
from sottovoce.deid.detect import Gazetteer
from sottovoce.deid.replace import (
    Kernel,
    Surrogates,
    WithinClass,
    channel_epsilon,
    from_corpus,
    uniform,
)
from sottovoce.deid.replace.digits import Redrawn
from sottovoce.deid.replace.forms import (
    _FEMININE,
    _MASCULINE,
    date,
    gender,
    mail,
    name,
    name_of_place,
    number,
    time,
)
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
    stated = made.cost().log_ratio
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
    assert made.cost().log_ratio == pytest.approx(epsilon, rel=1e-9)
    assert within_classes(made) == pytest.approx(epsilon, rel=1e-9)


def test_between_classes_there_is_no_bound_and_the_statement_says_so() -> None:
    made = alike(0.9)
    assert math.isinf(channel_epsilon([made.channel("emma"), made.channel("john")]))
    deid = Deidentifier(
        detector=Gazetteer({"PER": ["maria", "john"]}),
        setting=Setting(epsilon=2.0),
        resources=Resources(fit=Fit.GRAMMAR),
    )
    deid.release("call maria and john", user="u")
    said = deid.statement()
    for guarantee in said.guarantees.values():
        assert any("gender of a name is released as it is" in s for s in guarantee.not_covered)
        assert any("values of one class" in sentence for sentence in guarantee.assumptions)
    assert said.guarantees["token"].epsilon == pytest.approx(2.0)
    assert said.guarantees["utterance"].epsilon == pytest.approx(4.0)


def _delta(kernel: Kernel, epsilon: float) -> float:
    least = kernel.surrogates.min_probability
    return max(0.0, 1 - kernel.p - kernel.p * least * math.expm1(epsilon))


@pytest.mark.parametrize("setting", [Setting(p=0.7), Setting(epsilon=2.0)])
def test_the_cost_is_that_of_the_class_that_dominates_every_other(setting: Setting) -> None:
    made = mechanism_for("PER", setting, Resources(fit=Fit.GRAMMAR))
    assert isinstance(made, WithinClass)
    worst = made.costliest
    assert worst is not None
    assert made.cost().replace_probability == worst.p
    for kernel in (*made.kernels.values(), made.rest):
        for epsilon in np.linspace(0, 12, 200):
            assert _delta(worst, epsilon) >= _delta(kernel, epsilon) - 1e-12


def test_the_largest_list_would_understate_the_cost_at_an_epsilon() -> None:
    """The twin of dominance: at one epsilon, longer lists keep less and cost less."""
    made = mechanism_for("PER", Setting(epsilon=2.0), Resources())
    assert isinstance(made, WithinClass)
    assert made.costliest is not None
    assert _delta(made.rest, 1.0) < _delta(made.costliest, 1.0)


@pytest.mark.parametrize(
    ("kind", "values", "form"),
    [
        ("PER", ("Maria Lopez", "maria", "Project Manager", "Anna Maria Lopez"), name),
        ("LOC", ("Rome", "New York"), name_of_place),
        ("TIME", ("thirty minutes", "half past three", "four fifteen"), time),
        ("DATE", ("monday", "march 1st", "eighties"), date),
        ("EMAIL", ("a.b@c.org", "ab@c.org", "ann dot lee at x dot org"), mail),
    ],
)
def test_surrogates_fit_the_form_and_without_a_fit_they_do_not(
    kind: str, values: tuple[str, ...], form: Callable[[str], str]
) -> None:
    fitted = mechanism_for(kind, Setting(), Resources())
    loose = mechanism_for(kind, Setting(), Resources(fit=Fit.NONE))
    assert "form of a value" in fitted.cost().reveals[0]
    assert not loose.cost().reveals
    kept = []
    for value in values:
        wanted = form(value.lower())
        assert {form(each.lower()) for each in outputs(fitted, value, 100)} == {wanted}
        kept.append({form(each.lower()) for each in outputs(loose, value, 100)} == {wanted})
    assert not all(kept)


@pytest.mark.parametrize(
    ("rule", "value", "shape"),
    [
        ("date", "2024-03-01", r"\d{4}-\d\d-\d\d"),
        ("date", "3/11/2024", r"\d{1,2}/\d{1,2}/\d{4}"),
        ("date", "01.02.99", r"\d\d\.\d\d\.\d\d"),
        ("date", "1984", r"\d{4}"),
        ("time", "15:30", r"\d{1,2}:\d\d"),
        ("time", "03:30:15 pm", r"\d\d:\d\d:\d\d [ap]m"),
        ("time", "3 PM", r"\d{1,2} [AP]M"),
        ("initials", "J. R.", r"[A-Z]\. [A-Z]\."),
        ("date", "the 3rd", r"\[X\]"),
        ("time", "1530 hours", r"\[X\]"),
    ],
)
def test_digits_and_initials_keep_their_format_and_nothing_else(
    rule: str, value: str, shape: str
) -> None:
    made = Redrawn(rule=rule, placeholder="[X]")
    told = {*outputs(made, value, 60)}
    assert all(re.fullmatch(shape, each) for each in told)
    assert len(told) > 5 or told == {"[X]"}


def test_a_redrawn_date_is_uniform_whatever_it_was() -> None:
    made = Redrawn(rule="date", placeholder="[DATE]")
    months = {f"{month:02d}": 1 / 12 for month in range(1, 13)}
    for value in ("2024-03-01", "1999-12-01"):
        drawn = [each.split("-")[1] for each in outputs(made, value)]
        assert not objections(drawn, months)
        assert objections([*drawn, *["03"] * (len(drawn) // 20)], months)


@pytest.mark.parametrize("strategy", ["word", "entity"])
def test_names_keep_their_gender_and_nouns_their_number(strategy: str) -> None:
    likes = Resources(fit=Fit.GRAMMAR)
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
    assert made.cost().log_ratio == 0


def test_a_value_that_is_always_kept_has_no_epsilon() -> None:
    cost = alike(0.0).cost()
    assert cost.epsilon is None
    assert cost.replace_probability == 0


def test_lists_of_the_corpus_and_other_strategies_are_refused() -> None:
    with pytest.raises(InvalidInput, match="public"):
        WithinClass.of(from_corpus(["maria", "john"]), "gender of a name", gender)
    with pytest.raises(InvalidInput, match="grammar"):
        mechanism_for("PER", Setting(strategy="response", epsilon=1.0), Resources(fit=Fit.GRAMMAR))


def test_the_list_of_genders_has_every_name_once_and_no_other() -> None:
    assert not _FEMININE & _MASCULINE
    assert {*lexicon("first_names")} & _FEMININE
