from collections.abc import Sequence
from pathlib import Path

import pytest

from sottovoce.audit import (
    Attack,
    AuditResult,
    CanaryPairs,
    Candidates,
    LeftOut,
    TextCanaries,
    audit_model,
    text_canaries,
)
from sottovoce.audit.scoring import ScoringFunction
from sottovoce.corpora import Utterance
from sottovoce.errors import InvalidInput
from sottovoce.privacy.guarantee import Guarantee, Relation, Unit
from sottovoce.privacy.noise import NoiseSource

WORDS = [f"word{i}" for i in range(40)]


def spoken(prefix: str) -> tuple[Utterance, ...]:
    return tuple(Utterance(tokens=(f"{prefix}{i}",), slots=("O",)) for i in range(30))


TRIED = Candidates(members=spoken("m"), non_members=spoken("n"), left_out=LeftOut(in_training=2))


def knows(records: Sequence[Utterance]) -> ScoringFunction[Utterance]:
    """A model that knows its training data by heart, and finds long texts a little harder."""
    known = {record.text for record in records}

    def score(asked: Sequence[Utterance]) -> list[float]:
        return [-0.1 - (each.text not in known) - len(each.text) / 100 for each in asked]

    return score


def train(records: Sequence[Utterance], index: int) -> ScoringFunction[Utterance]:
    return knows(records)


def canaries(count: int = 200) -> TextCanaries:
    source = NoiseSource.seeded(2)
    return text_canaries(count, vocabulary=WORDS, intents=["call", "play"], source=source)


def guarantee(relation: Relation = Relation.ADD_OR_REMOVE) -> Guarantee:
    return Guarantee(
        epsilon=1.0, delta=1e-5, unit=Unit.EXAMPLE, relation=relation, accountant="PLD"
    )


def test_everything_at_once(tmp_path: Path) -> None:
    planted = canaries()
    told: list[int] = []
    result = audit_model(
        knows([*TRIED.members, *planted.chosen()]),
        TRIED,
        train=train,
        models=2,
        folder=tmp_path / "references",
        shadow=lambda asked: [float(each.text.startswith("m")) for each in asked],
        canaries=planted,
        guarantee=guarantee(),
        source=NoiseSource.seeded(1),
        progress=told.append,
    )
    assert [outcome.attack for outcome in result.attacks] == [
        "loss threshold", "LiRA, online", "LiRA, offline", "RMIA", "shadow",
    ]  # fmt: skip
    assert told == [1, 2]
    assert result.notes == ()
    assert result.left_out.in_training == 2
    assert result.lower_bound is not None
    assert result.lower_bound.delta == 1e-5
    assert len(result.defects()) == 1
    result.write(tmp_path)
    assert AuditResult.read(tmp_path) == result


def test_what_cannot_run_is_noted() -> None:
    result = audit_model(knows(TRIED.members), TRIED)
    assert [outcome.attack for outcome in result.attacks] == ["loss threshold"]
    assert [note.split(" did")[0] for note in result.notes] == ["shadow", "lira", "rmia", "one-run"]


@pytest.mark.parametrize("attack", [Attack.SHADOW, Attack.LIRA, Attack.RMIA, Attack.ONE_RUN])
def test_what_was_asked_for_and_cannot_run_is_refused(attack: Attack) -> None:
    with pytest.raises(InvalidInput, match=f"Expected the inputs of the attack {attack}, but no "):
        audit_model(knows(TRIED.members), TRIED, attacks=[attack])


def test_only_what_was_asked_for_runs() -> None:
    rmia = audit_model(
        knows(TRIED.members), TRIED, attacks=[Attack.RMIA], train=train, models=2,
        canaries=canaries(), delta=1e-5, source=NoiseSource.seeded(1),
    )  # fmt: skip
    assert [outcome.attack for outcome in rmia.attacks] == ["loss threshold", "RMIA"]
    assert rmia.bounds == ()
    assert rmia.notes == ()


def test_pairs_speak_of_replacing() -> None:
    pairs = CanaryPairs.of(canaries())
    result = audit_model(
        knows([*TRIED.members, *pairs.chosen()]),
        TRIED,
        canaries=pairs,
        guarantee=guarantee(Relation.REPLACE_ONE),
    )
    assert len(result.defects()) == 1
    alone = audit_model(
        knows(TRIED.members), TRIED, canaries=canaries(), guarantee=guarantee(Relation.REPLACE_ONE)
    )
    assert alone.defects() == []
    assert len(alone.not_compared()) == 1


def test_a_bound_needs_a_delta() -> None:
    with pytest.raises(InvalidInput, match="Expected a delta or a guarantee for the one-run audit"):
        audit_model(knows(TRIED.members), TRIED, canaries=canaries())
    found = audit_model(knows(TRIED.members), TRIED, canaries=canaries(), delta=0.0)
    assert found.bounds[0].delta == 0
