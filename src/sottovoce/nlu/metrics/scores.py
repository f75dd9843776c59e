"""Scores of a model on a corpus: the four standard ones, and registered metrics.

Every score is a ratio of sums of counts per utterance, so confidence intervals (`bootstrap`) need
only the counts.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce._registry import Registry
from sottovoce.corpora import Utterance
from sottovoce.errors import InvalidInput
from sottovoce.nlu.metrics.ser import Alignment, items_of, semantic_errors, slot_spans

DISPLAY_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "ser": "semantic error rate",
        "intent_accuracy": "intent accuracy",
        "slot_f1": "slot F1",
        "exact_match": "exact match",
    }
)
"""JSON key of each standard score -> its name in tables."""

# A metric compares the reference and the hypothesis of one utterance and returns a numerator and a
# denominator; the score of a corpus is the ratio of their sums.
Metric = Callable[[Utterance, Utterance], tuple[float, float]]

METRICS: Registry[Metric] = Registry(
    "metric",
    {
        "slot_precision": "sottovoce.nlu.metrics.ser:slot_precision",
        "slot_recall": "sottovoce.nlu.metrics.ser:slot_recall",
    },
    group="sottovoce.metrics",
    reserved=tuple(DISPLAY_NAMES),
)


@dataclass(frozen=True)
class Scores:
    """Fractions; SER may exceed 1."""

    ser: float
    intent_accuracy: float
    slot_f1: float
    exact_match: float

    def to_json(self) -> dict[str, float]:
        return asdict(self)


NAMES = tuple(each.name for each in fields(Scores))
COLUMNS = ("utterances", "errors", "items", "intents", "spans", "both", "exact")


@dataclass(frozen=True, eq=False)
class Counts:
    """One row per utterance, in the order of COLUMNS; `spans` counts reference and hypothesis.

    `further` holds numerator and denominator per utterance of each additional metric.
    """

    rows: NDArray[np.int64]
    further: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rows)

    def scores(self) -> Scores:
        values = ratios(self.rows.sum(0, keepdims=True))
        return Scores(*(float(value) for value in values[0]))

    def to_json(self) -> dict[str, float]:
        """The four scores and those of the additional metrics."""
        further = {name: float(share(rows.sum(0))) for name, rows in self.further.items()}
        return {**self.scores().to_json(), **further}


def share(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """[..., 2] sums of numerators and denominators -> [...] scores; 0 / 0 is 0."""
    above, below = sums[..., 0], sums[..., 1]
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)


def ratios(sums: NDArray[np.int64]) -> NDArray[np.float64]:
    """[n, columns] sums of counts -> [n, 4] scores, in the order of NAMES."""
    utterances, errors, items, intents, spans, both, exact = sums.T
    return np.stack(
        [
            errors / np.maximum(items, 1),
            intents / np.maximum(utterances, 1),
            2 * both / np.maximum(spans, 1),
            exact / np.maximum(utterances, 1),
        ],
        axis=1,
    )


def count(
    reference: Sequence[Utterance],
    hypothesis: Sequence[Utterance],
    alignment: Alignment = "levenshtein",
    metrics: Sequence[str] = (),
) -> Counts:
    """Compare utterances pairwise; both sequences must have the same words in the same order.

    `metrics` names additional metrics in `METRICS`.
    """
    further = {name: METRICS.get(name) for name in metrics}
    if len(reference) != len(hypothesis):
        raise InvalidInput(
            f"Expected as many hypotheses as the {len(reference):,} utterances of the reference, "
            f"got {len(hypothesis):,}."
        )
    rows = np.empty((len(reference), len(COLUMNS)), dtype=np.int64)
    for number, (right, guess) in enumerate(zip(reference, hypothesis, strict=True)):
        rows[number] = _row(right, guess, number, alignment)
    pairs = list(zip(reference, hypothesis, strict=True))
    return Counts(
        rows,
        {
            name: np.array([_pair(name, metric(*pair)) for pair in pairs]).reshape(-1, 2)
            for name, metric in further.items()
        },
    )


def _pair(name: str, found: tuple[float, float]) -> tuple[float, float]:
    above, below = map(float, found)
    if not (math.isfinite(above) and 0 <= below < math.inf):
        raise InvalidInput(
            f"Expected a numerator and a denominator >= 0 from the metric {name}, got {found}."
        )
    return above, below


def _row(right: Utterance, guess: Utterance, number: int, alignment: Alignment) -> tuple[int, ...]:
    if right.tokens != guess.tokens:
        raise InvalidInput(
            "Expected the same words in reference and hypothesis, got different words in "
            f"utterance {number + 1:,}."
        )
    wanted, found = slot_spans(right.slots), slot_spans(guess.slots)
    intent = right.intent == guess.intent
    both = len(wanted) if wanted == found else len(set(wanted).intersection(found))
    exact = intent and wanted == found
    spans = len(wanted) + len(found)
    if exact:
        return 1, 0, len(wanted) + 1, 1, spans, both, 1
    errors = semantic_errors(
        items_of(right.intent, right.tokens, right.slots),
        items_of(guess.intent, guess.tokens, guess.slots),
        alignment,
    )
    return 1, errors.count, errors.items, int(intent), spans, both, 0


def score(
    reference: Sequence[Utterance],
    hypothesis: Sequence[Utterance],
    alignment: Alignment = "levenshtein",
) -> Scores:
    """The four scores.

    >>> right = Utterance(tokens=("call", "mum"), slots=("O", "B-who"), intent="call")
    >>> guess = Utterance(tokens=("call", "mum"), slots=("O", "O"), intent="call")
    >>> score([right, right], [right, guess])
    Scores(ser=0.25, intent_accuracy=1.0, slot_f1=0.6666666666666666, exact_match=0.5)
    """
    return count(reference, hypothesis, alignment).scores()


def relative_change(value: float, baseline: float) -> float:
    """(value - baseline) / baseline; infinite if only the baseline is 0.

    >>> relative_change(0.3125, baseline=0.25)
    0.25
    >>> relative_change(0.0, baseline=0.0), relative_change(0.1, baseline=0.0)
    (0.0, inf)
    """
    if value == baseline:
        return 0.0
    if baseline == 0:
        return math.copysign(math.inf, value)
    return (value - baseline) / baseline


@dataclass(frozen=True, slots=True)
class Score:
    """A fraction with its 95 % bootstrap interval."""

    value: float
    low: float
    high: float

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        return f"{100 * self.value:.1f} % ({100 * self.low:.1f} - {100 * self.high:.1f})"


class Evaluation(Mapping[str, Score]):
    """Scores with intervals: ser (semantic error rate), intent_accuracy, slot_f1, exact_match.

    >>> found = Evaluation({"ser": {"value": 0.25, "low": 0.2, "high": 0.31}})
    >>> found["ser"].value
    0.25
    >>> print(found)
    semantic error rate 25.0 % (20.0 - 31.0)
    """

    def __init__(self, scores: Mapping[str, Mapping[str, float]]) -> None:
        self._scores = {name: Score(**found) for name, found in scores.items()}

    def __getitem__(self, name: str) -> Score:
        return self._scores[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._scores)

    def __len__(self) -> int:
        return len(self._scores)

    def __repr__(self) -> str:
        return f"Evaluation({self.to_json()})"

    def __str__(self) -> str:
        width = max(len(DISPLAY_NAMES.get(name, name)) for name in self)
        return "\n".join(
            f"{DISPLAY_NAMES.get(name, name):{width}} {score}" for name, score in self.items()
        )

    def to_json(self) -> dict[str, Any]:
        """The form stored in run.json."""
        return {
            name: {"value": score.value, "low": score.low, "high": score.high}
            for name, score in self.items()
        }
