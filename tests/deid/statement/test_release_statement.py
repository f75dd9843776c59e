import itertools
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sottovoce.corpora import Utterance
from sottovoce.deid import Deidentifier, LabelMap, Resources, Setting, Vault
from sottovoce.deid.detect import Gazetteer, Gold, detector, evaluate
from sottovoce.deid.replace import Surrogates, from_corpus, uniform
from sottovoce.deid.statement.facts import ReplacedValues
from sottovoce.deid.statement.release_statement import ReleaseStatement
from sottovoce.errors import InvalidInput
from sottovoce.privacy.facts import SurrogateSource, fact_from_json
from sottovoce.privacy.guarantee import Relation, Unit
from sottovoce.privacy.noise import NoiseSource

NUMBERS = itertools.count()
LABELS = LabelMap({"who": "PER", "where": "LOC", "what": "TEXT"})
LISTS = {"PER": uniform(["anna", "ben", "eve", "joe"]), "LOC": uniform(["rome", "oslo"])}


def call(*labels: str, user: str = "u1") -> Utterance:
    return Utterance(
        id=str(next(NUMBERS)),
        tokens=tuple(f"t{place}" for place in range(len(labels))),
        slots=tuple("O" if label == "O" else f"B-{label}" for label in labels),
        user=user,
    )


def stated(
    calls: Sequence[Utterance],
    setting: Setting,
    lists: dict[str, Surrogates] = LISTS,
    **more: Any,
) -> ReleaseStatement:
    resources = Resources(surrogates=lists, vault=Vault(bytes(32)))
    deid = Deidentifier(
        detector=Gold(LABELS),
        setting=setting,
        resources=resources,
        **more,
    )
    for _ in deid.release_all(calls):
        pass
    return deid.statement()


def test_units_compose_what_they_hold() -> None:
    calls = [call("who", "who"), call("who", "where"), call("where", user="u2")]
    found = stated(calls, Setting(strategy="entity", epsilon=1.0)).guarantees
    assert found["token"].epsilon == pytest.approx(1)
    assert found["utterance"].epsilon == pytest.approx(2)
    assert found["user"].epsilon == pytest.approx(4)
    assert found["user"].relation is Relation.REPLACE_ONE


def test_an_utterance_is_composed_exactly_by_brute_force() -> None:
    """Two types, one kernel each: delta(epsilon) by summing over all outputs."""
    p, delta = 0.7, 0.05
    found = stated(
        [call("who", "where")],
        Setting(strategy="entity", p=p),
        delta=delta,
    ).guarantees["utterance"]

    def row(size: int, value: int) -> list[float]:
        return [p / size + (1 - p) * (place == value) for place in range(size)]

    def delta_of(epsilon: float) -> float:
        mine = [a * b for a, b in itertools.product(row(4, 0), row(2, 0))]
        other = [a * b for a, b in itertools.product(row(4, 1), row(2, 1))]
        return sum(max(0.0, a - math.exp(epsilon) * b) for a, b in zip(mine, other, strict=True))

    assert delta_of(found.epsilon) <= delta + 1e-12
    assert delta_of(found.epsilon - 1e-6) > delta


def test_the_vectors_of_exact_composition(shared_data: Path) -> None:
    vectors = json.loads((shared_data.parent / "vectors" / "deid.json").read_text())
    for case in vectors["composition_exact"]:
        size = round(1 / case["pi_min"])
        lists = {"PER": uniform([f"v{place}" for place in range(size)])}
        found = stated(
            [call(*["who"] * case["tokens"])],
            Setting(strategy="entity", p=case["p"]),
            lists,
            delta=case["delta"],
        )
        assert found.guarantees["utterance"].epsilon == pytest.approx(case["epsilon"], abs=1e-4)


@pytest.mark.parametrize("strategy", ["redact", "typed", "named"])
def test_placeholders_are_nothing_or_everything(strategy: str) -> None:
    always = stated([call("who")], Setting(strategy=strategy))
    assert always.guarantees["utterance"].epsilon == 0
    mostly = stated([call("who")], Setting(strategy=strategy, p=0.9))
    assert not mostly.guarantees["token"].holds
    assert "as it is" in mostly.guarantees["token"].reasons[0]
    assert mostly.types["PER"].claimed is not None
    assert mostly.types["PER"].claimed.epsilon < 0.2  # what the paper prints


def test_surrogates_from_the_same_corpus_give_no_guarantee() -> None:
    lists = {"PER": from_corpus(["anna", "ben", "ben"])}
    found = stated([call("who")], Setting(strategy="entity"), lists)
    assert not found.guarantees["token"].holds
    assert "0.632" in found.guarantees["token"].reasons[0]


def test_a_private_histogram_is_paid_for() -> None:
    cost = {"epsilon": 2.0, "delta": 1e-6}
    origin = SurrogateSource.DP_HISTOGRAM
    lists = {
        "PER": Surrogates(("anna", "ben"), (1.0, 1.0), origin, "x", cost),
        "LOC": Surrogates(("rome", "oslo"), (1.0, 1.0), origin, "x", cost),
    }
    found = stated([call("who", "where")], Setting(epsilon=1.0), lists).guarantees
    assert found["token"].epsilon == pytest.approx(3)
    assert found["token"].delta == pytest.approx(1e-6)
    assert found["utterance"].epsilon == pytest.approx(6)
    assert found["utterance"].delta == pytest.approx(2e-6)


def test_consistency_is_infinite_but_for_renaming() -> None:
    found = stated([call("who")], Setting(strategy="consistent"))
    assert not found.guarantees["token"].holds
    assert found.renaming is not None
    assert found.renaming.epsilon == 0
    assert any("equal" in sentence for sentence in found.renaming.assumptions)


def test_recall_makes_the_statement_honest() -> None:
    calls = [Utterance(tokens=("call", "anna"), slots=("O", "B-who"), user="u1")] * 300
    people = Gazetteer({"PER": ["anna"]})
    tested = evaluate(people, calls, LABELS)
    deid = Deidentifier(
        detector=people,
        setting=Setting(p=1.0),
        resources=Resources(surrogates=LISTS),
        evaluation=tested,
    )
    list(deid.release_all(calls[:1]))
    found = deid.statement()
    assert found.guarantees["token"].epsilon == 0
    assert not found.adjusted["token"].holds
    assert "below 0.0123" in found.adjusted["token"].reasons[-1]  # 1 - 0.025 ** (1 / 300)
    assert "PER 0.0123" in found.recall
    assert any("misses" in sentence for sentence in found.guarantees["token"].not_covered)


def test_the_evaluation_of_another_detector_is_refused() -> None:
    calls = [Utterance(tokens=("call", "anna"), slots=("O", "B-who"))]
    tested = evaluate(Gazetteer({"PER": ["anna"]}), calls, LABELS)
    with pytest.raises(InvalidInput, match="evaluation of patterns"):
        Deidentifier(detector="patterns", evaluation=tested)
    wary = evaluate(detector("tagger", caution=0.9), calls, LABELS)
    with pytest.raises(InvalidInput, match=r"caution 0\.9"):
        Deidentifier(detector="tagger", evaluation=wary)


def test_a_type_that_was_never_evaluated_has_no_recall() -> None:
    calls = [Utterance(tokens=("call", "anna"), slots=("O", "B-who"), user="u1")]
    people = Gazetteer({"PER": ["anna"], "LOC": ["rome"]})
    deid = Deidentifier(
        detector=people,
        setting=Setting(p=1.0),
        resources=Resources(surrogates=LISTS),
        evaluation=evaluate(people, calls, LABELS),
    )
    deid.release("anna in rome", "u1")
    assert not deid.statement().adjusted["token"].holds


def test_without_users_nothing_is_said_to_one() -> None:
    found = stated([call("who", user=""), call("who")], Setting(epsilon=1.0))
    assert "user" not in found.guarantees
    assert "some utterances name no user" in found.notes[0]


def test_a_seed_is_stamped() -> None:
    found = stated([call("who")], Setting(epsilon=1.0), source=NoiseSource.seeded(7))
    assert any("seeded" in sentence for sentence in found.guarantees["token"].assumptions)


def test_types_without_a_list_cost_nothing_and_are_named() -> None:
    found = stated([call("what", "who")], Setting(epsilon=2.0))
    assert found.types["TEXT"].guarantee.epsilon == 0
    assert found.types["PER"].guarantee.epsilon == pytest.approx(2)
    assert found.guarantees["utterance"].epsilon == pytest.approx(2)


def test_people_can_read_it() -> None:
    lines = stated([call("who")], Setting(epsilon=2.0)).lines()
    assert lines[0] == "  PER: 1 replaced, epsilon 2 a token (claimed: 2)"
    assert lines[1].startswith("Replacing any one token")
    assert "Not covered:" in lines


def test_the_fact_comes_back_from_json_and_checks_itself() -> None:
    fact = ReplacedValues(
        unit=Unit.UTTERANCE,
        types=("PER", "LOC"),
        counts=(2, 0),
        replace_probabilities=(0.5, 1.0),
        smallest_probabilities=(0.1, 0.2),
        epsilons=(-1.0, 1.0),
        recalls=(1.0, 1.0),
    )
    assert fact_from_json(json.loads(json.dumps(fact.to_json()))) == fact
    assert len(fact.losses(Relation.REPLACE_ONE)) == 1
    assert fact.objections(Relation.ADD_OR_REMOVE)
    with pytest.raises(InvalidInput, match="one for each type"):
        ReplacedValues(
            unit=Unit.TOKEN,
            types=("PER",),
            counts=(),
            replace_probabilities=(),
            smallest_probabilities=(),
            epsilons=(),
            recalls=(),
        )
