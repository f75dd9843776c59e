import numpy as np
import pytest

from sottovoce.corpora.wordvectors import WordVectors
from sottovoce.deid import TYPES, Resources, Setting, Strategy, Vault
from sottovoce.deid.replace import (
    FormatPreserving,
    Kernel,
    Placeholder,
    SemanticExponential,
    WithinClass,
    uniform,
)
from sottovoce.deid.replace.strategies import mechanism_for
from sottovoce.errors import InvalidInput

VAULT = Resources(vault=Vault(bytes(32)))


@pytest.mark.parametrize("kind", [*TYPES, "SOMETHING_NEW"])
@pytest.mark.parametrize("strategy", ["redact", "typed", "named", "word", "entity", "consistent"])
def test_every_type_has_a_mechanism_for_every_strategy(kind: str, strategy: str) -> None:
    made = mechanism_for(kind, Setting(strategy=strategy), VAULT)
    assert made.cost().replace_probability == 1


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("strategy", ["word", "entity", "response"])
def test_no_type_costs_more_than_was_asked_for(kind: str, strategy: str) -> None:
    made = mechanism_for(kind, Setting(strategy=strategy, epsilon=2.0), Resources())
    cost = made.cost()
    kept = 1 - cost.replace_probability
    if kept:
        ratio = 1 + kept / (cost.replace_probability * cost.smallest_probability)
        assert ratio == pytest.approx(np.exp(2.0))
    assert not cost.why_none


def test_types_without_a_list_are_always_replaced() -> None:
    assert mechanism_for("TEXT", Setting(p=0.1), Resources()) == Placeholder(text="[TEXT]")
    assert mechanism_for("PHONE", Setting(p=0.1), Resources()) == FormatPreserving(
        placeholder="[PHONE]"
    )


def test_a_list_of_the_user_comes_first() -> None:
    resources = Resources(surrogates={"TEXT": uniform(["hello", "good bye"])})
    made = mechanism_for("TEXT", Setting(strategy="word"), resources)
    assert isinstance(made, Kernel)
    assert made.surrogates.values == ("hello", "good", "bye")


def test_semantic_needs_vectors_and_falls_back_without_neighbours() -> None:
    setting = Setting(strategy="semantic", epsilon=1.0)
    with pytest.raises(InvalidInput, match="word vectors"):
        mechanism_for("LOC", setting, Resources())
    vectors = WordVectors(("london", "paris"), np.eye(2))
    resources = Resources(vectors=vectors)
    assert isinstance(mechanism_for("LOC", setting, resources), SemanticExponential)
    assert isinstance(mechanism_for("EMAIL", setting, resources), WithinClass)


def test_bad_settings_are_refused() -> None:
    for bad, message in (
        ({"strategy": "magic"}, "one of redact"),
        ({"p": 0.5, "epsilon": 1.0}, "got both"),
        ({"p": 2.0}, "probability"),
        ({"epsilon": -1.0}, "epsilon >= 0"),
        ({"strategy": "response"}, "Expected epsilon"),
        ({"strategy": "consistent", "p": 0.5}, "neither p nor epsilon"),
    ):
        with pytest.raises(InvalidInput, match=message):
            Setting(**bad)
    with pytest.raises(InvalidInput, match="vault"):
        mechanism_for("PER", Setting(strategy="consistent"), Resources())
    with pytest.raises(InvalidInput, match="only for DATE"):
        mechanism_for("PER", Setting(strategy="shift"), VAULT)


def test_dates_are_shifted_where_asked() -> None:
    made = mechanism_for("DATE", Setting(strategy="shift"), VAULT)
    assert "released as it is" in made.cost().why_none
    assert Strategy.SHIFT not in (each for each in Strategy if each.is_placeholder)
