"""Second-pass totals: one formula, its weights, and tuning them on a development part.

total = acoustic A + scale ((1 - mix) L1 + mix L2) + bonus n + unknown o, where A is the acoustic
score (or the first pass's total where that is all there is), L1 the first pass's language model, L2
the second one, n the number of words and o the number of those that the second model does not know:
for it they are all one word, which is likelier than any of them. `per_word` multiplies A by n, for
tools that divided by length.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.personalize.nbest import Hypothesis, NBest
from sottovoce.personalize.vocabulary import Vector, Vocabulary
from sottovoce.personalize.wer import reference_of, word_errors

Scores = Mapping[str, Sequence[float]]


@dataclass(frozen=True, kw_only=True)
class Weights:
    """What each part of the total counts.

    >>> weights = Weights(mix=0.5)
    >>> weights.total(Hypothesis("remote design", am=-6.75, lm=-3.25), -3.75)
    -10.25
    """

    acoustic: float = 1.0
    scale: float = 1.0
    mix: float = 0.5
    bonus: float = 0.0
    per_word: bool = False
    unknown: float = 0.0

    def __post_init__(self) -> None:
        _validate.not_negative("acoustic", self.acoustic)
        _validate.not_negative("scale", self.scale)
        _validate.probability("mix", self.mix)
        _validate.between("bonus", self.bonus, -1e3, 1e3)
        _validate.between("unknown", self.unknown, -1e3, 1e3)

    def total(self, hypothesis: Hypothesis, second: float, unknown: int = 0) -> float:
        length = len(hypothesis.words)
        heard = acoustic_of(hypothesis) * (length if self.per_word else 1)
        language = (1 - self.mix) * (hypothesis.lm or 0.0) + self.mix * second
        words = self.bonus * length + self.unknown * unknown
        return self.acoustic * heard + self.scale * language + words

    def choose(
        self, heard: NBest, second: Sequence[float], vocabulary: Vocabulary | None = None
    ) -> Hypothesis:
        """The best hypothesis; the first pass decides ties."""
        if len(second) != len(heard.hypotheses):
            raise InvalidInput(
                f"Expected {len(heard.hypotheses)} scores for {heard.id!r}, got {len(second)}."
            )
        if not heard.hypotheses:
            return heard.best
        totals = [
            self.total(h, s, unknown_words(h, vocabulary))
            for h, s in zip(heard.hypotheses, second, strict=True)
        ]
        return heard.hypotheses[int(np.argmax(totals))]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Weights":
        try:
            return cls(**data)
        except TypeError as problem:
            raise InvalidInput(f"Expected weights for rescoring, but {problem}.") from problem


def acoustic_of(hypothesis: Hypothesis) -> float:
    """The acoustic score, or the total where nothing else is known."""
    if hypothesis.am is not None:
        return hypothesis.am
    return hypothesis.score or 0.0


def unknown_words(hypothesis: Hypothesis, vocabulary: Vocabulary | None) -> int:
    """How many words the vocabulary lacks; none where there is no vocabulary."""
    if vocabulary is None:
        return 0
    return sum(word not in vocabulary.index for word in hypothesis.words)


class ScoreTable:
    """The parts of the totals of many lists as padded arrays, with the errors of every choice.

    Trying out one set of weights is then a handful of array operations.
    """

    def __init__(
        self, lists: Iterable[NBest], second: Scores, vocabulary: Vocabulary | None = None
    ) -> None:
        kept = [each for each in lists if each.hypotheses]
        if not kept:
            raise InvalidInput("Expected N-best lists to tune weights on, got none.")
        shape = (len(kept), max(len(each.hypotheses) for each in kept))
        self.acoustic, self.first, self.second = (np.zeros(shape) for _ in range(3))
        self.words, self.unknown = np.zeros(shape), np.zeros(shape)
        self.absent = np.ones(shape, dtype=np.bool_)
        self.errors = np.zeros(shape, dtype=np.int64)
        for row, each in enumerate(kept):
            size = len(each.hypotheses)
            self.absent[row, :size] = False
            self.acoustic[row, :size] = [acoustic_of(h) for h in each.hypotheses]
            self.first[row, :size] = [h.lm or 0.0 for h in each.hypotheses]
            self.second[row, :size] = second[each.id]
            self.words[row, :size] = [len(h.words) for h in each.hypotheses]
            self.unknown[row, :size] = [unknown_words(h, vocabulary) for h in each.hypotheses]
            reference = reference_of(each)
            known: dict[str, int] = {}
            for place, hypothesis in enumerate(each.hypotheses):
                if hypothesis.text not in known:
                    known[hypothesis.text] = word_errors(reference, hypothesis.text).count
                self.errors[row, place] = known[hypothesis.text]

    def replaced(self, second: Vector) -> "ScoreTable":
        """The same lists with other scores of the second language model."""
        table = object.__new__(ScoreTable)
        table.__dict__.update(self.__dict__, second=second)
        return table

    def picks(self, weights: Weights) -> np.ndarray:
        heard = self.acoustic * self.words if weights.per_word else self.acoustic
        language = (1 - weights.mix) * self.first + weights.mix * self.second
        words = weights.bonus * self.words + weights.unknown * self.unknown
        total = weights.acoustic * heard + weights.scale * language + words
        choice: np.ndarray = np.where(self.absent, -np.inf, total).argmax(axis=1)
        return choice

    def count(self, weights: Weights) -> int:
        """Word errors of the choices that these weights make."""
        picks = self.picks(weights)
        return int(self.errors[np.arange(len(picks)), picks].sum())


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Values to try for every weight; the mix stays as given where there is no first-pass lm."""

    scale: tuple[float, ...] = (
        0.0, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.35, 0.5, 0.75, 1.0,
    )  # fmt: skip
    mix: tuple[float, ...] = (0.25, 0.5, 0.75, 1.0)
    bonus: tuple[float, ...] = (
        0.0, -0.01, 0.01, -0.02, 0.02, -0.05, 0.05, -0.1, 0.1, -0.2, 0.2, -0.35, 0.35, -0.5, 0.5,
        -1.0, 1.0, -2.0, 2.0,
    )  # fmt: skip
    per_word: tuple[bool, ...] = (False, True)
    unknown: tuple[float, ...] = (0.0, -0.2, -0.8)

    def weights(self, table: ScoreTable) -> Iterator[Weights]:
        """All weights that can make a difference for this table."""
        # Without a first-pass model the mix only rescales the second one.
        mixes = self.mix if table.first.any() else (1.0,)
        unknowns = self.unknown if table.unknown.any() else (0.0,)
        for unknown, scale, mix, bonus, per_word in product(
            unknowns, self.scale, mixes, self.bonus, self.per_word
        ):
            yield Weights(scale=scale, mix=mix, bonus=bonus, per_word=per_word, unknown=unknown)


def tune(
    tables: Mapping[float, ScoreTable], grid: Grid | None = None
) -> tuple[float, Weights, int]:
    """The power and weights with the fewest word errors; `tables` has the scores of each power.

    Ties go to the earliest in the grid, that is to the smallest weight of the language model.
    """
    grid = grid or Grid()
    if not tables:
        raise InvalidInput("Expected scores for at least one power, got none.")
    best: tuple[int, float, Weights] | None = None
    for power, table in tables.items():
        for weights in grid.weights(table):
            errors = table.count(weights)
            if best is None or errors < best[0]:
                best = (errors, power, weights)
    assert best is not None
    errors, power, weights = best
    return power, replace(weights), errors
