"""The four scores of a model on a corpus, from counts that were taken utterance by utterance.

Counting is done once; every score is a ratio of sums of counts, so intervals (`bootstrap`) need no
second look at the utterances.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields

import numpy as np
from numpy.typing import NDArray

from sottovoce.corpora import Utterance
from sottovoce.errors import InvalidInput
from sottovoce.nlu.metrics.ser import Alignment, items_of, semantic_errors
from sottovoce.nlu.metrics.spans import slot_spans


@dataclass(frozen=True)
class Scores:
    """Fractions; SER may exceed 1."""

    ser: float
    intent_accuracy: float
    slot_f1: float
    exact_match: float

    def to_json(self) -> dict[str, float]:
        return asdict(self)


NAMES = tuple(field.name for field in fields(Scores))
COLUMNS = ("utterances", "errors", "items", "intents", "spans", "both", "exact")


@dataclass(frozen=True, eq=False)
class Counts:
    """A row an utterance, in the order of COLUMNS: `spans` are those of both sides together."""

    rows: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.rows)

    def scores(self) -> Scores:
        values = ratios(self.rows.sum(0, keepdims=True))
        return Scores(*(float(value) for value in values[0]))


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
) -> Counts:
    """Compare utterance by utterance; both must be the same words in the same order."""
    if len(reference) != len(hypothesis):
        raise InvalidInput(
            f"Expected as many hypotheses as the {len(reference):,} utterances of the reference, "
            f"got {len(hypothesis):,}."
        )
    rows = np.empty((len(reference), len(COLUMNS)), dtype=np.int64)
    for number, (right, guess) in enumerate(zip(reference, hypothesis, strict=True)):
        rows[number] = _row(right, guess, number, alignment)
    return Counts(rows)


def _row(right: Utterance, guess: Utterance, number: int, alignment: Alignment) -> tuple[int, ...]:
    if right.tokens != guess.tokens:
        raise InvalidInput(
            f"Expected the same words in both, got {' '.join(right.tokens)!r} and "
            f"{' '.join(guess.tokens)!r} as utterance {number + 1:,}."
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
    """All four.

    >>> right = Utterance(tokens=("call", "mum"), slots=("O", "B-who"), intent="call")
    >>> guess = Utterance(tokens=("call", "mum"), slots=("O", "O"), intent="call")
    >>> score([right, right], [right, guess])
    Scores(ser=0.25, intent_accuracy=1.0, slot_f1=0.6666666666666666, exact_match=0.5)
    """
    return count(reference, hypothesis, alignment).scores()
