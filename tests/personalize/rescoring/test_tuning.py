"""Tuning by expected errors: what matters gets a weight, what does not gets none."""

import numpy as np
import pytest

from sottovoce.errors import InvalidInput
from sottovoce.personalize.lm.vocabulary import Vocabulary
from sottovoce.personalize.nbest.lists import Hypothesis, NBest
from sottovoce.personalize.rescoring.scores import ScoreTable
from sottovoce.personalize.rescoring.tuning import bagged, expected_errors, least_errors, tune


def heard(i: int, *rows: tuple[str, float], reference: str = "call mum") -> NBest:
    return NBest(f"u{i}", tuple(Hypothesis(text, am=am) for text, am in rows), reference, "ann")


def pairs(count: int = 40) -> list[NBest]:
    return [heard(i, ("call mom", -1.0), ("call mum", -1.1)) for i in range(count)]


def test_a_second_model_that_knows_is_followed() -> None:
    lists = pairs()
    right = ScoreTable(lists, {each.id: [-5.0, -1.0] for each in lists})
    wrong = ScoreTable(lists, {each.id: [-1.0, -5.0] for each in lists})
    power, weights, errors = tune({0.0: right})
    assert (power, errors) == (0.0, 0)
    assert weights.scale > 0
    assert all(weights.choose(each, [-5.0, -1.0]).text == "call mum" for each in lists)
    assert tune({0.0: wrong, 2.0: right})[0] == 2.0
    # A wrong model does not get a negative weight.
    assert tune({0.0: wrong})[1].scale == 0
    assert wrong.replaced(right.second).count(weights) == 0


def test_summed_scores_need_their_average() -> None:
    """Short hypotheses have the higher sums, long ones the higher averages."""
    rng = np.random.default_rng(0)
    lists = []
    for i in range(60):
        words = int(rng.integers(4, 12))
        text = " ".join(["yes"] * words)
        # Each word costs 0.5; the short hypothesis misses most, which shows in its average.
        lists.append(
            heard(i, ("yes", -1.5), (text, -0.5 * words - rng.uniform(0, 0.5)), reference=text)
        )
    table = ScoreTable(lists, {each.id: [0.0, 0.0] for each in lists})
    _, weights, errors = tune({0.0: table})
    assert errors == 0
    assert weights.average > 0 or weights.bonus > 0


def test_unknown_words_cost_what_they_are_worth() -> None:
    lists = [heard(i, ("call zyx", -1.0), ("call mum", -1.1)) for i in range(40)]
    known = Vocabulary.from_text(["call mum"], size=9)
    table = ScoreTable(lists, {each.id: [0.0, 0.0] for each in lists}, known)
    _, weights, errors = tune({1.0: table})
    assert errors == 0
    assert weights.unknown < 0
    # Only the acoustic score varies, so only it has a weight.
    plain = tune({1.0: ScoreTable(lists, {each.id: [0.0, 0.0] for each in lists})})[1]
    assert (plain.unknown, plain.bonus, plain.scale) == (0.0, 0.0, 0.0)


def test_hesitations_that_transcripts_keep_are_kept() -> None:
    lists = [
        heard(i, ("call mum", -1.0), ("um call mum", -1.4), reference="um call mum")
        for i in range(20)
    ]
    # An extra word is not always right, so the word bonus cannot help.
    lists += [heard(100 + i, ("call mum", -1.0), ("call mum now", -1.4)) for i in range(20)]
    _, weights, errors = tune({0.0: ScoreTable(lists, {each.id: [0.0, 0.0] for each in lists})})
    assert errors == 0
    assert weights.hesitation > 0


def test_the_penalty_limits_overfitting_to_few_lists() -> None:
    lists = pairs(1)
    table = ScoreTable(lists, {each.id: [-5.0, -1.0] for each in lists})
    parts = table.parts()
    free = least_errors(parts, table.errors, table.absent, penalty=1e-6)
    pulled = least_errors(parts, table.errors, table.absent, penalty=1.0)
    assert np.linalg.norm(pulled.weights) < np.linalg.norm(free.weights)


def test_the_gradient_is_that_of_the_expected_errors() -> None:
    rng = np.random.default_rng(3)
    units, errors = rng.normal(size=(6, 4, 7)), rng.integers(0, 5, size=(6, 4))
    absent = np.zeros((6, 4), dtype=np.bool_)
    absent[2, 2:] = True
    point, step = rng.normal(size=7), 1e-6
    _, slope = expected_errors(point, units, errors, absent, 0.5)
    for place in range(7):
        moved = np.eye(7)[place] * step
        high, _ = expected_errors(point + moved, units, errors, absent, 0.5)
        low, _ = expected_errors(point - moved, units, errors, absent, 0.5)
        assert slope[place] == pytest.approx((high - low) / (2 * step), abs=1e-5)


def test_bad_input() -> None:
    with pytest.raises(InvalidInput, match="at least one power"):
        tune({})


def noisy_lists(seed: int, clients: int = 12) -> ScoreTable:
    """The second model is right slightly more often than not, by client."""
    rng = np.random.default_rng(seed)
    lists, scores = [], {}
    for client in range(clients):
        knows = rng.uniform(-1, 2)
        for turn in range(6):
            name = f"{client}-{turn}"
            rows = (
                Hypothesis("call mom", am=rng.normal()),
                Hypothesis("call mum", am=rng.normal()),
            )
            lists.append(NBest(name, rows, "call mum", f"c{client}", turn))
            scores[name] = [0.0, knows + rng.normal()]
    return ScoreTable(lists, scores)


def test_the_weights_of_one_client_need_no_average() -> None:
    table = noisy_lists(0, clients=1)
    given = (table.parts(), table.errors, table.absent)
    assert bagged(*given, table.clients) == pytest.approx(least_errors(*given).weights)


def test_averaged_weights_depend_less_on_who_was_drawn() -> None:
    plain, averaged = [], []
    for seed in range(12):
        table = noisy_lists(seed)
        given = (table.parts(), table.errors, table.absent)
        plain.append(least_errors(*given).weights[[0, 3]])
        averaged.append(bagged(*given, table.clients)[[0, 3]])
    # Only proportions matter.
    spread = [np.std([np.arctan2(*each) for each in found]) for found in (plain, averaged)]
    assert spread[1] < spread[0]
