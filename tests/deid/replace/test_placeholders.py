import math

import pytest
from tests.deid.replace.channels import objections, outputs

from sottovoce.deid.detect.labels import TYPES
from sottovoce.deid.replace import Placeholder, channel_epsilon
from sottovoce.deid.replace.placeholders import EXEMPLARS, exemplar
from sottovoce.errors import InvalidInput


def test_it_draws_from_the_channel_it_states() -> None:
    made = Placeholder(text="[LOC]", p=0.8)
    assert not objections(outputs(made, "rome"), made.channel("rome"))


@pytest.mark.parametrize("p", [0.56, 0.95])
def test_another_p_is_noticed(p: float) -> None:
    drawn = outputs(Placeholder(text="[LOC]", p=p), "rome")
    assert objections(drawn, Placeholder(text="[LOC]", p=0.8).channel("rome"))


def test_epsilon_is_zero_or_infinite() -> None:
    always, mostly = Placeholder(text="[LOC]"), Placeholder(text="[LOC]", p=0.9)
    assert channel_epsilon([always.channel("rome"), always.channel("oslo")]) == 0
    assert math.isinf(channel_epsilon([mostly.channel("rome"), mostly.channel("oslo")]))
    assert mostly.cost().smallest_probability == 0


def test_an_exemplar_is_an_input_too_and_changes_nothing() -> None:
    named = Placeholder(text="rome", p=0.9)
    assert math.isinf(channel_epsilon([named.channel("rome"), named.channel("oslo")]))


def test_every_type_has_an_exemplar() -> None:
    assert EXEMPLARS.keys() == TYPES.keys()
    assert exemplar("SOMETHING_NEW") == exemplar("MISC")


def test_blank_placeholders_are_refused() -> None:
    with pytest.raises(InvalidInput, match="visible"):
        Placeholder(text=" ")
