import numpy as np
import pytest
from scipy.optimize import minimize

from sottovoce.audit.attacks import ShadowAttack, sorted_features
from sottovoce.audit.attacks.shadow import Logistic
from sottovoce.audit.roc import auc
from sottovoce.errors import InvalidInput


def test_logistic_regression_reaches_the_optimum() -> None:
    rng = np.random.default_rng(2)
    features = rng.normal(3, 2, (200, 3))
    labels = rng.random(200) < 1 / (1 + np.exp(-(features[:, 0] - 3)))
    model = Logistic.fit(features, labels)
    scaled = (features - features.mean(axis=0)) / features.std(axis=0)

    def loss(w: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
        odds = w[0] + scaled @ w[1:]
        return float(np.logaddexp(0, np.where(labels, -odds, odds)).sum() + (w[1:] ** 2).sum() / 2)

    best = minimize(loss, np.zeros(4), tol=1e-10)
    assert model.weights == pytest.approx(best.x, abs=1e-4)
    assert model.log_odds(features) == pytest.approx(best.x[0] + scaled @ best.x[1:], abs=1e-3)


def test_logistic_regression_survives_separation_and_constants() -> None:
    features = np.array([[0.0, 1.0], [1.0, 1.0], [5.0, 1.0], [6.0, 1.0]])
    model = Logistic.fit(features, np.array([False, False, True, True]))
    assert np.isfinite(model.weights).all()
    assert ((model.log_odds(features) > 0) == [False, False, True, True]).all()


def test_features_do_not_depend_on_the_order_of_labels_or_tokens() -> None:
    intents = [[0.1, 0.7, 0.2], [0.5, 0.25, 0.25]]
    slots = [[[0.9, 0.1], [0.3, 0.7]], [[0.6, 0.4]]]
    shuffled = [[[0.7, 0.3], [0.1, 0.9]], [[0.4, 0.6]]]
    first = sorted_features(intents, slots)
    again = sorted_features([row[::-1] for row in intents], shuffled)
    assert first == pytest.approx(again)
    assert first.shape == (2, 3 + 8)


def test_corpora_with_unlike_labels_give_the_same_columns() -> None:
    few = sorted_features([[0.6, 0.4]], [[[0.5, 0.5]] * 20])
    many = sorted_features([[0.05] * 20], [[[0.05] * 20]])
    assert few.shape == many.shape
    assert np.isfinite(few).all()


def confident(rng: np.random.Generator, size: int, sure: float, labels: int) -> list[list[float]]:
    """Softmax outputs whose best score rises with `sure`."""
    odds = rng.normal(0, 1, (size, labels))
    odds[:, 0] += sure
    p = np.exp(odds) / np.exp(odds).sum(axis=1, keepdims=True)
    return p.tolist()  # type: ignore[no-any-return]


def test_what_a_shadow_teaches_carries_over_to_another_corpus() -> None:
    rng = np.random.default_rng(4)
    attack = ShadowAttack.fit(
        sorted_features(confident(rng, 500, 5.0, labels=7)),
        sorted_features(confident(rng, 500, 3.0, labels=7)),
    )
    members = attack.score(sorted_features(confident(rng, 500, 5.0, labels=18)))
    non_members = attack.score(sorted_features(confident(rng, 500, 3.0, labels=18)))
    assert auc(members, non_members) > 0.8


@pytest.mark.parametrize(
    ("intents", "slots", "message"),
    [
        ([[1.5, -0.5]], None, "Expected the intent scores as probabilities from 0 to 1"),
        ([0.5], None, "Expected the intent scores as a table of numbers"),
        ([[0.5, 0.5]], [], "Expected slot scores of 1 records, as of the intents, got 0"),
        ([[0.5, 0.5]], [[0.5]], "Expected the slot scores of a record as a table"),
        ([[0.5, np.nan]], None, "Expected the intent scores without NaN"),
    ],
)
def test_bad_features(intents: object, slots: object, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        sorted_features(intents, slots)  # type: ignore[arg-type]


def test_bad_widths_and_shapes() -> None:
    with pytest.raises(InvalidInput, match="Expected intent_width >= 1, got 0"):
        sorted_features([[1.0]], intent_width=0)
    with pytest.raises(InvalidInput, match="Expected slot_width >= 1, got 0"):
        sorted_features([[1.0]], slot_width=0)
    with pytest.raises(InvalidInput, match="Expected 2 columns in the shadow non-members'"):
        ShadowAttack.fit([[1.0, 2.0]], [[1.0]])
    attack = ShadowAttack.fit([[1.0, 2.0]], [[0.0, 1.0]])
    with pytest.raises(InvalidInput, match="Expected 2 columns in the features, got 1"):
        attack.score([[1.0]])
