"""What a detector misses: the statement that allows for misses against the exact truth.

Eleven values are there and ten are found. By the statement's own assumption every value is missed
with the same probability, whatever it is, so the distribution of the release is known exactly.
"""

from collections import defaultdict
from math import exp, inf, log
from typing import Any

import pytest

from sottovoce.corpora import Utterance
from sottovoce.deid import Deidentifier, LabelMap, ReleaseStatement, Setting
from sottovoce.deid.detect import Gazetteer, evaluate
from sottovoce.deid.replace.strategies import Resources
from sottovoce.deid.replace.surrogates import uniform
from sottovoce.deid.statement import misses as missing
from sottovoce.deid.statement.facts import ReplacedValues
from sottovoce.privacy.guarantee import Relation, Unit
from sottovoce.privacy.ledger import Ledger

LABELS = LabelMap({"who": "PER"})
NAMES = ("anna", "ben", "carla", "dora")
FOUND = Gazetteer({"PER": ["anna", "ben"]})


def call(*names: str) -> Utterance:
    return Utterance(
        tokens=("call", *names), slots=("O", *["B-who"] * len(names)), user="u", id="1"
    )


TESTED = evaluate(FOUND, [call("anna")] * 3000 + [call("zoltan")] * 10, LABELS)
RECALL = missing.Misses.of(TESTED, ["PER"], []).recall
"""The statement speaks of this bound, about 0.994, so this is the worst that may be true."""


def stated(strategy: Setting, *, found: int, delta: float) -> ReleaseStatement:
    """The statement for an utterance with `found` values."""
    deid = Deidentifier(
        detector=FOUND,
        setting=strategy,
        resources=Resources(surrogates={"PER": uniform(NAMES)}),
        delta=delta,
        evaluation=TESTED,
    )
    list(deid.release_all([call(*["anna"] * found)]))
    return deid.statement()


def row_of(value: str, channel: dict[str, float]) -> dict[str, float]:
    """The exact distribution of one released value: a missed one is released unchanged."""
    row = {out: RECALL * chance for out, chance in channel.items()}
    row[value] = row.get(value, 0.0) + 1 - RECALL
    return row


def delta_of(epsilon: float, one: dict[str, float], other: dict[str, float], values: int) -> float:
    """The delta of several values, each `one` or each `other`, at this epsilon."""
    single: dict[float, float] = defaultdict(float)
    for out, chance in one.items():
        single[round(log(chance / other[out]), 9) if other.get(out) else inf] += chance
    losses: dict[float, float] = {0.0: 1.0}
    for _ in range(values):
        summed: dict[float, float] = defaultdict(float)
        for loss, chance in losses.items():
            for more, its in single.items():
                summed[round(loss + more, 9)] += chance * its
        losses = summed
    return sum(max(0.0, chance * (1 - exp(epsilon - loss))) for loss, chance in losses.items())


def truth(statement: ReleaseStatement, values: int) -> float:
    """The true delta of the release at the epsilon stated to one utterance."""
    mechanism: Any = statement.types["PER"].mechanism
    epsilon = statement.adjusted["utterance"].epsilon

    def row(name: str) -> dict[str, float]:
        return row_of(name, mechanism.channel(name))

    return max(
        delta_of(epsilon, row(one), row(other), values)
        for one, other in (("anna", "ben"), ("zoltan", "yves"))
    )


@pytest.mark.parametrize("setting", [Setting(p=0.5), Setting(strategy="response", epsilon=3.0)])
@pytest.mark.parametrize("there", [10, 11])
def test_ten_found_of_so_many_are_covered(setting: Setting, there: int) -> None:
    statement = stated(setting, found=10, delta=0.09)
    said = statement.adjusted["utterance"]
    assert said.holds
    assert truth(statement, there) <= said.delta


def test_by_what_was_found_alone_it_would_not_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: the misses of ten values where eleven were there; outside the list each is out."""
    monkeypatch.setattr(missing, "max_values", lambda found, recall, error: found)
    statement = stated(Setting(p=1.0), found=10, delta=1.02 * (1 - RECALL**10))
    said = statement.adjusted["utterance"]
    assert said.holds
    assert truth(statement, 11) == pytest.approx(1 - RECALL**11)
    assert truth(statement, 11) > said.delta


@pytest.mark.parametrize("strategy", ["response", "entity"])
def test_below_the_probability_of_a_miss_there_is_no_epsilon(strategy: str) -> None:
    """A missed value outside the list is released verbatim, for any strategy."""
    setting = Setting(strategy=strategy, epsilon=3.9)
    statement = stated(setting, found=2, delta=0.001)
    for unit in ("token", "utterance", "user"):
        said = statement.adjusted[unit]
        assert not said.holds
        assert "no epsilon can be stated with a delta below" in said.reasons[-1]


def test_if_every_value_were_in_the_list_it_would_be_stated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The twin: if missed values were assumed to be in the list, an epsilon would be printed."""
    monkeypatch.setattr(ReplacedValues, "missed", property(lambda fact: 0.0))
    statement = stated(Setting(strategy="response", epsilon=3.9), found=2, delta=0.001)
    assert statement.adjusted["utterance"].holds
    assert truth(statement, 2) >= 1 - RECALL**2


def test_the_numbers_of_the_review() -> None:
    """7.02 was printed for 14.03: one found at a recall of a half, and two were there."""

    def fact(count: int, recall: float = 1.0) -> ReplacedValues:
        return ReplacedValues(
            unit=Unit.UTTERANCE, types=("PER",), counts=(count,), replace_probabilities=(1.0,),
            smallest_probabilities=(0.0,), epsilons=(7.015,), recalls=(recall,),
        )  # fmt: skip

    def epsilon(spent: ReplacedValues, delta: float = 0.0) -> float:
        ledger = Ledger(unit=Unit.UTTERANCE, relation=Relation.REPLACE_ONE)
        ledger.spend(spent)
        return ledger.guarantee(delta).epsilon

    assert missing.max_values(1, 0.5, 0.2) >= 2
    assert (epsilon(fact(1)), epsilon(fact(2))) == pytest.approx((7.015, 14.03))
    # Two values at a recall of 0.698: nothing holds below 0.513, and no larger delta is accepted.
    assert round(fact(2, 0.698).missed, 3) == 0.513
    assert epsilon(fact(2, 0.698), delta=0.1) == inf
