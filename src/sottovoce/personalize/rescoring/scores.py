"""Second-pass scores: one formula and its weights.

total = acoustic A + average A / n + scale ((1 - mix) L1 + mix L2) + bonus n + unknown o +
hesitation z, where A is the acoustic score (or the first-pass total if nothing else is known), L1
the first-pass language model, L2 the second one, n the number of words, o the number of words
unknown to the second model (which sees them all as one word, likelier than any of them) and z the
number of hesitations ("um"), which some recognisers drop and some transcripts keep. Summed scores
favour short hypotheses, so their average is a feature too. `per_word` is for tools that divide by
length: their score is the average, and A is n times it. `tuning` finds the weights.

g_i = (1 - alpha - beta) u + alpha q_bar + beta q_i, and the factor of a word is (g_i / u)^lambda.
The adapted model is p(w|h) (g_i/u)^lambda / Z(h). The paper omits Z; it is cheap to compute, so
exact normalisation is the default (`normalised`) and the paper's variant is `shortcut`.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.personalize.lm.vocabulary import Vector, Vocabulary
from sottovoce.personalize.nbest.lists import Hypothesis, NBest
from sottovoce.personalize.rescoring.wer import reference_of, word_errors

# Weights of shared marginals and of personal counts, unless given.
ALPHA, BETA = 0.5, 0.45
BETA_ALONE = 0.9  # without shared marginals
SIGMA = 1.0  # width of the rank kernel in rescoring


@dataclass(frozen=True, kw_only=True)
class Adaptation:
    """Mixture weights of the background, shared and personal distributions.

    `clip` bounds the absolute log factor, so that no single word dominates a sentence.

    >>> u = np.array([0.5, 0.5])
    >>> personal = np.array([0.9, 0.1])
    >>> factor = Adaptation(alpha=0.0, beta=0.5, power=1.0).log_factors(u, u, personal)
    >>> np.exp(factor).round(3).tolist()
    [1.4, 0.6]
    """

    alpha: float = 0.5
    beta: float = 0.25
    power: float = 0.5
    clip: float | None = None
    normalise: bool = True

    def __post_init__(self) -> None:
        _validate.probability("alpha", self.alpha)
        _validate.probability("beta", self.beta)
        _validate.not_negative("power", self.power)
        if self.alpha + self.beta > 1 + 1e-12:
            raise InvalidInput(f"Expected alpha + beta <= 1, got {self.alpha:g} + {self.beta:g}.")
        if self.clip is not None:
            _validate.positive("clip", self.clip)

    @classmethod
    def usual(
        cls, *, shared: bool, alpha: float | None = None, beta: float | None = None, **rest: Any
    ) -> Self:
        """Weights for rescoring with or without shared marginals; given ones are kept.

        >>> Adaptation.usual(shared=False).beta, Adaptation.usual(shared=True, beta=0.1).beta
        (0.9, 0.1)
        """
        return cls(
            alpha=(ALPHA if shared else 0.0) if alpha is None else alpha,
            beta=(BETA if shared else BETA_ALONE) if beta is None else beta,
            **rest,
        )

    def mixture(self, background: Vector, everybody: Vector, personal: Vector) -> Vector:
        """g_i of equation 2."""
        rest = max(0.0, 1 - self.alpha - self.beta)
        mixed: Vector = rest * background + self.alpha * everybody + self.beta * personal
        return mixed

    def log_factors(self, background: Vector, everybody: Vector, personal: Vector) -> Vector:
        """lambda ln(g_i / u) for every word."""
        mixed = self.mixture(background, everybody, personal)
        # Avoid log 0 for words without mass.
        tiny = np.finfo(np.float64).tiny
        factors: Vector = self.power * (np.log(np.maximum(mixed, tiny)) - np.log(background))
        return factors if self.clip is None else np.clip(factors, -self.clip, self.clip)


def shortcut(log_probabilities: Vector, log_factors: Vector) -> Vector:
    """The paper's unnormalised scores, ln p(w|h) + ln factor(w)."""
    return log_probabilities + log_factors


def normalised(log_probabilities: Vector, log_factors: Vector) -> Vector:
    """The adapted distribution: the shortcut minus ln Z(h), along the last axis.

    >>> adapted = normalised(np.log([0.5, 0.5]), np.log([3.0, 1.0]))
    >>> np.exp(adapted).round(3).tolist()
    [0.75, 0.25]
    """
    raised = log_probabilities + log_factors
    adapted: Vector = raised - logsumexp(raised, axis=-1, keepdims=True)
    return adapted


Scores = Mapping[str, Sequence[float]]

HESITATIONS = frozenset(
    (
        "ah",
        "eh",
        "er",
        "erm",
        "hm",
        "hmm",
        "mhm",
        "mm",
        "mm-hmm",
        "mmm",
        "uh",
        "uh-huh",
        "um",
        "umm",
    )
)


@dataclass(frozen=True, kw_only=True)
class Weights:
    """The weight of each part of the total score.

    >>> weights = Weights(mix=0.5)
    >>> weights.total(Hypothesis("remote design", am=-6.75, lm=-3.25), -3.75)
    -10.25
    """

    acoustic: float = 1.0
    average: float = 0.0
    scale: float = 1.0
    mix: float = 0.5
    bonus: float = 0.0
    per_word: bool = False
    unknown: float = 0.0
    hesitation: float = 0.0

    def __post_init__(self) -> None:
        _validate.not_negative("acoustic", self.acoustic)
        _validate.not_negative("average", self.average)
        _validate.not_negative("scale", self.scale)
        _validate.probability("mix", self.mix)
        _validate.between("bonus", self.bonus, -1e3, 1e3)
        _validate.between("unknown", self.unknown, -1e3, 1e3)
        _validate.between("hesitation", self.hesitation, -1e3, 1e3)

    def total(
        self,
        hypothesis: Hypothesis,
        second: float,
        unknown: int = 0,
        acoustic: float | None = None,
    ) -> float:
        """The total score; `acoustic` is the hypothesis's own score unless given."""
        length = len(hypothesis.words)
        given = acoustic_of(hypothesis) if acoustic is None else acoustic
        summed, mean = (given * length, given) if self.per_word else (given, given / max(length, 1))
        language = (1 - self.mix) * (hypothesis.lm or 0.0) + self.mix * second
        words = self.bonus * length + self.unknown * unknown
        words += self.hesitation * hesitations(hypothesis)
        return self.acoustic * summed + self.average * mean + self.scale * language + words

    def choose(
        self, nbest: NBest, second: Sequence[float], vocabulary: Vocabulary | None = None
    ) -> Hypothesis:
        """The best hypothesis; the first pass decides ties."""
        if len(second) != len(nbest.hypotheses):
            raise InvalidInput(
                f"Expected {len(nbest.hypotheses)} scores for {nbest.id!r}, got {len(second)}."
            )
        if not nbest.hypotheses:
            return nbest.best
        return nbest.hypotheses[int(np.argmax(self.totals(nbest, second, vocabulary)))]

    def totals(
        self, nbest: NBest, second: Sequence[float], vocabulary: Vocabulary | None = None
    ) -> list[float]:
        """The total score of every hypothesis."""
        given = acoustic_scores(nbest)
        return [
            self.total(h, s, unknown_words(h, vocabulary), a)
            for h, s, a in zip(nbest.hypotheses, second, given, strict=True)
        ]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Weights":
        try:
            return cls(**data)
        except TypeError as problem:
            raise InvalidInput(f"Expected weights for rescoring, but {problem}.") from problem


def acoustic_of(hypothesis: Hypothesis) -> float:
    """The acoustic score, or the total if nothing else is known."""
    if hypothesis.am is not None:
        return hypothesis.am
    return hypothesis.score or 0.0


def acoustic_scores(nbest: NBest) -> list[float]:
    """The acoustic score of every hypothesis; without any scores, -ln(rank).

    The order of a list is evidence too, and the only one that some recognisers give. A score that
    is missing between others is the best of the others for the first rank, else the worst.

    >>> acoustic_scores(NBest("u", (Hypothesis("call mum"), Hypothesis("call mom"))))
    [-0.0, -0.693...]
    """
    scored = [h for h in nbest.hypotheses if h.am is not None or h.score is not None]
    if not scored:
        return [-math.log(rank) for rank in range(1, len(nbest.hypotheses) + 1)]
    known = [acoustic_of(h) for h in scored]
    fill = [max(known)] + [min(known)] * (len(nbest.hypotheses) - 1)
    return [
        other if h.am is None and h.score is None else acoustic_of(h)
        for h, other in zip(nbest.hypotheses, fill, strict=True)
    ]


def unknown_words(hypothesis: Hypothesis, vocabulary: Vocabulary | None) -> int:
    """The number of out-of-vocabulary words; 0 without a vocabulary."""
    if vocabulary is None:
        return 0
    return sum(word not in vocabulary.index for word in hypothesis.words)


def hesitations(hypothesis: Hypothesis) -> int:
    """The number of hesitation words.

    >>> hesitations(Hypothesis("um call uh mum"))
    2
    """
    return sum(word in HESITATIONS for word in hypothesis.words)


class ScoreTable:
    """The score parts of many lists as padded arrays, with the errors of every hypothesis.

    Evaluating one set of weights then takes a few array operations.
    """

    def __init__(
        self, lists: Iterable[NBest], second: Scores, vocabulary: Vocabulary | None = None
    ) -> None:
        kept = [each for each in lists if each.hypotheses]
        if not kept:
            raise InvalidInput("Expected N-best lists to tune weights on, got none.")
        _, self.clients = np.unique([each.client or each.id for each in kept], return_inverse=True)
        shape = (len(kept), max(len(each.hypotheses) for each in kept))
        self.acoustic, self.first, self.second = (np.zeros(shape) for _ in range(3))
        self.words, self.unknown, self.hesitations = (np.zeros(shape) for _ in range(3))
        self.absent = np.ones(shape, dtype=np.bool_)
        self.errors = np.zeros(shape, dtype=np.int64)
        for row, each in enumerate(kept):
            size = len(each.hypotheses)
            self.absent[row, :size] = False
            self.acoustic[row, :size] = acoustic_scores(each)
            self.first[row, :size] = [h.lm or 0.0 for h in each.hypotheses]
            self.second[row, :size] = second[each.id]
            self.words[row, :size] = [len(h.words) for h in each.hypotheses]
            self.unknown[row, :size] = [unknown_words(h, vocabulary) for h in each.hypotheses]
            self.hesitations[row, :size] = [hesitations(h) for h in each.hypotheses]
            reference = reference_of(each)
            known: dict[str, int] = {}
            for place, hypothesis in enumerate(each.hypotheses):
                if hypothesis.text not in known:
                    known[hypothesis.text] = word_errors(reference, hypothesis.text).count
                self.errors[row, place] = known[hypothesis.text]

    def replaced(self, second: Vector) -> "ScoreTable":
        """The same lists with other second-pass language model scores."""
        table = object.__new__(ScoreTable)
        table.__dict__.update(self.__dict__, second=second)
        return table

    def parts(self, *, per_word: bool = False) -> NDArray[np.float64]:
        """The features to weight: A, A / n, L1, L2, n, o and z along the last axis."""
        if per_word:
            summed, mean = self.acoustic * self.words, self.acoustic
        else:
            summed, mean = self.acoustic, self.acoustic / np.maximum(self.words, 1)
        rest = (self.first, self.second, self.words, self.unknown, self.hesitations)
        return np.stack([summed, mean, *rest], axis=-1)

    def picks(self, weights: Weights) -> np.ndarray:
        first, second = weights.scale * (1 - weights.mix), weights.scale * weights.mix
        words = (weights.bonus, weights.unknown, weights.hesitation)
        each = np.array([weights.acoustic, weights.average, first, second, *words])
        total = self.parts(per_word=weights.per_word) @ each
        choice: np.ndarray = np.where(self.absent, -np.inf, total).argmax(axis=1)
        return choice

    def count(self, weights: Weights) -> int:
        """Word errors of the hypotheses that these weights choose."""
        picks = self.picks(weights)
        return int(self.errors[np.arange(len(picks)), picks].sum())
