"""LiRA and RMIA against loops, and in a world where the right answer is known."""

from typing import NamedTuple

import numpy as np
import pytest
from scipy.stats import norm

from sottovoce.audit._checks import Flags, Scores
from sottovoce.audit.attacks import (
    ReferenceScores,
    lira,
    lira_offline,
    loss_attack,
    membership_attacks,
    rmia,
)
from sottovoce.audit.attacks.score_attacks import ENOUGH_MODELS
from sottovoce.audit.result import strongest
from sottovoce.audit.roc import auc
from sottovoce.audit.scoring import log_odds
from sottovoce.errors import InvalidInput


class World(NamedTuple):
    """Records of unlike difficulty; a model that saw one is surer of it by `leak`."""

    target: Scores
    members: Flags
    references: ReferenceScores


def world(leak: float, models: int, records: int = 2000, seed: int = 0) -> World:
    rng = np.random.default_rng(seed)
    difficulty = rng.normal(0, 3, records)
    order = rng.random((models + 1, records)).argsort(axis=0).argsort(axis=0)
    included = np.vstack([rng.random(records) < 0.5, order[1:] % 2 == 0])
    included[1:3] = [np.arange(records) % 2 == 0, np.arange(records) % 2 == 1]
    odds = difficulty + leak * included + rng.normal(0, 1, included.shape)
    log_p = -np.logaddexp(0, -odds)
    return World(log_p[0], included[0], ReferenceScores(log_p[1:], included[1:]))


def area(scores: Scores, members: Flags) -> float:
    return auc(scores[members], scores[~members])


@pytest.mark.parametrize("models", [4, 8, 2 * ENOUGH_MODELS + 40])
def test_lira_equals_a_loop(models: int) -> None:
    target, _, references = world(1.0, models, records=40)
    odds = log_odds(references.scores)
    inside = [odds[references.included[:, j], j] for j in range(40)]
    outside = [odds[~references.included[:, j], j] for j in range(40)]

    def spread(groups: list[Scores], j: int) -> float:
        if min(map(len, groups)) >= ENOUGH_MODELS:
            return float(np.std(groups[j], ddof=1))
        residuals = np.concatenate([group - group.mean() for group in groups])
        return float(np.sqrt((residuals**2).sum() / (len(residuals) - len(groups))))

    for j in range(40):
        found = log_odds(target)[j]
        ratio = norm.logpdf(found, inside[j].mean(), spread(inside, j)) - norm.logpdf(
            found, outside[j].mean(), spread(outside, j)
        )
        assert lira(target, references)[j] == pytest.approx(ratio, abs=1e-9)
        deviation = (found - outside[j].mean()) / spread(outside, j)
        assert lira_offline(target, references)[j] == pytest.approx(deviation, abs=1e-9)


@pytest.mark.parametrize("offline", [False, True])
@pytest.mark.parametrize("gamma", [1.0, 2.0])
def test_rmia_equals_a_loop(offline: bool, gamma: float) -> None:
    target, members, references = world(1.0, 4, records=40)
    p, by_model = np.exp(target), np.exp(references.scores)
    ratios = []
    for j in range(40):
        inside = by_model[references.included[:, j], j].mean()
        outside = by_model[~references.included[:, j], j].mean()
        mean = ((1.3 * outside) + 0.7) / 2 if offline else (inside + outside) / 2
        ratios.append(p[j] / mean)
    others = np.array(ratios)[~members]
    expected = [np.mean(ratio / others >= gamma * (1 - 1e-12)) for ratio in ratios]
    found = rmia(target, references, population=~members, gamma=gamma, offline=offline)
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("models", [2, 4, 8])
def test_references_find_what_the_loss_hides(models: int) -> None:
    target, members, references = world(2.0, models)
    plain = area(loss_attack(target), members)
    for attack in (lira, lira_offline, rmia):
        assert area(attack(target, references), members) > plain + 0.05


def test_where_nothing_leaks_nothing_is_found() -> None:
    """2,000 records: the AUC of noise has a standard deviation of 0.013; four are allowed."""
    target, members, references = world(0.0, 8)
    for attack in (lira, lira_offline, rmia):
        assert abs(area(attack(target, references), members) - 0.5) < 0.052


def test_all_attacks_on_one_world() -> None:
    target, members, references = world(2.0, 8)
    inside, outside = np.flatnonzero(members).tolist(), np.flatnonzero(~members).tolist()
    order = inside + outside
    arranged = ReferenceScores(references.scores[:, order], references.included[:, order])
    shadow = (np.zeros(len(inside)), np.zeros(len(outside)))
    outcomes = membership_attacks(
        lambda records: target[list(records)],
        inside,
        outside,
        references=arranged,
        others={"shadow": shadow},
    )
    by_name = {outcome.attack: outcome for outcome in outcomes}
    assert sorted(by_name) == ["LiRA, offline", "LiRA, online", "RMIA", "loss threshold", "shadow"]
    assert by_name["LiRA, online"].auc == area(lira(target, references), members)
    assert strongest(outcomes).attack.startswith("LiRA")
    assert by_name["shadow"].auc == 0.5
    assert {outcome.confidence for outcome in outcomes} == {1 - 0.05 / 5}


def test_models_that_agree_exactly_do_not_divide_by_zero() -> None:
    scores = np.full((4, 3), -0.5)
    included = np.array([[True] * 3, [False] * 3, [True] * 3, [False] * 3])
    found = lira(np.full(3, -0.5), ReferenceScores(scores, included))
    assert found.tolist() == [0, 0, 0]


@pytest.mark.parametrize("attack", [lira, rmia])
def test_a_record_that_no_model_missed(attack: object) -> None:
    references = ReferenceScores(np.full((2, 2), -1.0), np.array([[True, True], [True, False]]))
    with pytest.raises(InvalidInput, match="got 1 records without one of the two"):
        attack([-1.0, -1.0], references)  # type: ignore[operator]


def test_bad_input() -> None:
    target, _, references = world(1.0, 4, records=10)
    with pytest.raises(InvalidInput, match="Expected 10 numbers in the log-probabilities, got 9"):
        lira(target[:9], references)
    with pytest.raises(InvalidInput, match="Expected gamma > 0, got 0"):
        rmia(target, references, gamma=0.0)
    with pytest.raises(InvalidInput, match="Expected at least one record in the population"):
        rmia(target, references, population=np.zeros(10, dtype=bool))
