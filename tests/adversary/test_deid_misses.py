"""What a detector misses, by brute force: the statement that allows for misses against the truth.

Two values are there and one is found. Under the statement's own assumption every value is missed
with the same probability, whatever it is, so the distribution of the release is known exactly.
"""

from itertools import product

import pytest

from sottovoce.corpora import Utterance
from sottovoce.deid import Deidentifier, LabelMap, ReleaseStatement, Setting
from sottovoce.deid import misses as missing
from sottovoce.deid.detect import Gazetteer, evaluate
from sottovoce.deid.replace.surrogates import even
from sottovoce.deid.strategies import Materials
from sottovoce.deid.facts import ReplacedValues

LABELS = LabelMap({"who": "PER"})
NAMES = ("anna", "ben", "carla", "dora")
FOUND = Gazetteer({"PER": ["anna", "ben"]})
DELTA = 0.7


def call(*names: str) -> Utterance:
    return Utterance(tokens=("call", *names), slots=("O", *["B-who"] * len(names)), user="u", id="1")


def stated(strategy: Setting, *, found: int, delta: float = DELTA) -> ReleaseStatement:
    """The statement about an utterance in which so many values were found; recall is 0.8."""
    tested = evaluate(FOUND, [call("anna")] * 400 + [call("zoltan")] * 100, LABELS)
    deid = Deidentifier(
        detector=FOUND,
        setting=strategy,
        materials=Materials(surrogates={"PER": even(NAMES)}),
        delta=delta,
        evaluation=tested,
    )
    list(deid.release_all([call(*["anna"] * found)]))
    return deid.statement()


def release_of(values: tuple[str, ...], row: dict[str, dict[str, float]], recall: float) -> dict[tuple[str, ...], float]:
    """The exact distribution: a missed value is out as it is."""
    chances: dict[tuple[str, ...], float] = {}
    rows = []
    for value in values:
        own = {out: recall * chance for out, chance in row[value].items()}
        own[value] = own.get(value, 0.0) + 1 - recall
        rows.append(own)
    for outs in product(*rows):
        chance = 1.0
        for own, out in zip(rows, outs, strict=True):
            chance *= own[out]
        chances[outs] = chances.get(outs, 0.0) + chance
    return chances


def delta_of(epsilon: float, one: dict[tuple[str, ...], float], other: dict[tuple[str, ...], float]) -> float:
    from math import exp

    return sum(max(0.0, p - exp(epsilon) * other.get(out, 0.0)) for out, p in one.items())


def truth(statement: ReleaseStatement, values: int) -> float:
    """The delta that the release really has at the epsilon stated to one utterance."""
    kernel = statement.types["PER"].mechanism
    row = {name: kernel.channel(name) for name in (*NAMES, "zoltan", "yves")}  # type: ignore[attr-defined]
    epsilon = statement.adjusted["utterance"].epsilon
    pairs = [("anna", "ben"), ("zoltan", "yves")]
    return max(
        delta_of(
            epsilon,
            release_of((one,) * values, row, 0.8),
            release_of((other,) * values, row, 0.8),
        )
        for one, other in pairs
    )


@pytest.mark.parametrize("setting", [Setting(p=0.5), Setting(strategy="response", epsilon=3.0)])
@pytest.mark.parametrize("there", [1, 2, 3])
def test_one_found_of_so_many_is_covered(setting: Setting, there: int) -> None:
    statement = stated(setting, found=1, delta=0.9)
    said = statement.adjusted["utterance"]
    assert said.holds
    assert truth(statement, there) <= said.delta


def test_by_what_was_found_alone_it_would_not_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: 1 - r of one value where two were there. Outside the list a miss is out."""
    monkeypatch.setattr(missing, "most_values", lambda found, recall, error: found)
    statement = stated(Setting(p=1.0), found=1, delta=0.25)
    said = statement.adjusted["utterance"]
    assert said.holds
    assert truth(statement, 2) == pytest.approx(1 - 0.8**2)
    assert truth(statement, 2) > said.delta


@pytest.mark.parametrize("strategy", ["response", "entity"])
def test_below_the_probability_of_a_miss_there_is_no_epsilon(strategy: str) -> None:
    """A value outside the list that is missed is out verbatim, whatever the strategy."""
    setting = Setting(strategy=strategy, epsilon=3.9)
    statement = stated(setting, found=2, delta=0.05)
    for unit in ("token", "utterance", "user"):
        said = statement.adjusted[unit]
        assert not said.holds
        assert "no epsilon can be stated with a delta below" in said.reasons[-1]


def test_if_every_value_were_in_the_list_it_would_be_stated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The twin: as if a missed value could always be a surrogate, an epsilon is printed."""
    monkeypatch.setattr(ReplacedValues, "missed", property(lambda fact: 0.0))
    statement = stated(Setting(strategy="response", epsilon=3.9), found=2, delta=0.05)
    assert statement.adjusted["utterance"].holds
    row = {name: {name: 1.0} for name in ("zoltan", "yves")}
    one, other = (release_of((name,) * 2, row, 0.8) for name in row)
    assert delta_of(statement.adjusted["utterance"].epsilon, one, other) == pytest.approx(1)


def test_the_numbers_of_the_review() -> None:
    """7.02 was printed for 14.03: one found at a recall of a half, and two were there."""
    from sottovoce.privacy.guarantee import Relation, Unit
    from sottovoce.privacy.ledger import Ledger

    def epsilon(count: int, recall: float, delta: float) -> float:
        ledger = Ledger(unit=Unit.UTTERANCE, relation=Relation.REPLACE_ONE)
        ledger.spend(
            ReplacedValues(
                unit=Unit.UTTERANCE, types=("PER",), counts=(count,), replace_probabilities=(1.0,),
                smallest_probabilities=(0.0,), epsilons=(7.015,), recalls=(recall,),
            )
        )  # fmt: skip
        return ledger.guarantee(delta).epsilon

    assert epsilon(1, 1.0, 0.0) == pytest.approx(7.015)
    assert missing.most_values(1, 0.5, 0.2) >= 2
    assert epsilon(2, 1.0, 0.0) == pytest.approx(14.03)
    # A unit of k values at recall r: nothing holds below 1 - r^k, such as 0.513 for two at 0.698.
    assert epsilon(2, 0.698, 0.512) == float("inf")
    assert epsilon(2, 0.698, 0.5135) < float("inf")
