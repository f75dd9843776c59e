"""Scores of a model on labelled utterances, with confidence intervals."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sottovoce.nlu.metrics.scores import DISPLAY_NAMES


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
    """Scores by name: ser (semantic error rate), intent_accuracy, slot_f1, exact_match.

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
