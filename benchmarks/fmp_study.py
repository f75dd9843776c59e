"""Tune on some speakers, evaluate on others: the machinery under the tables (see fmp_tables.py).

Weights, the power lambda and the set-up are chosen by word errors on speakers who are not
evaluated. Where nobody else was recorded, every speaker is evaluated with what the others chose.
Adaptation uses the paper's shortcut, so that a grid of powers costs one pass.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from sottovoce.personalize.adaptation import Adaptation
from sottovoce.personalize.counting import Counting
from sottovoce.personalize.language_model import LanguageModel
from sottovoce.personalize.nbest import NBest, by_client
from sottovoce.personalize.ngram.model import NGramModel
from sottovoce.personalize.phrases import PhraseCache
from sottovoce.personalize.scores import Grid, ScoreTable, Weights
from sottovoce.personalize.stream import (
    Personalisation,
    background_scores,
    factor_sums,
    personal_factors,
)
from sottovoce.personalize.vocabulary import UNKNOWN, Vector, Vocabulary
from sottovoce.personalize.wer import (
    WordErrors,
    change_interval,
    oracle,
    pooled,
    reference_of,
    word_errors,
)

POWERS = (0.0, 1.0, 2.0, 4.0, 6.0, 10.0)
GRID = Grid(
    scale=(0.0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.2, 0.35),
    mix=(1.0,),
    bonus=(0.0, 0.05, -0.1, 0.1, 0.2, 0.35, -0.5, 0.5, 1.0),
    unknown=(0.0, -0.1, -0.2, -0.4, -0.8, -1.6),
)
RULE = Counting(sigma=1.0, nbest=20)
FOLDS = 5

QBar = Vector | Callable[[NBest], Vector] | None
Tables = Mapping[float, ScoreTable]


@dataclass(frozen=True, kw_only=True)
class Setup:
    """One way to personalise."""

    alpha: float = 0.5
    beta: float = 0.25
    trust: float | None = None
    counting: Counting = field(default=RULE)
    pairs: bool = False

    def __str__(self) -> str:
        pairs = ", word pairs" if self.pairs else ""
        trust = "all" if self.trust is None else f"{self.trust:g}"
        return (
            f"alpha={self.alpha:g}, beta={self.beta:g}, trust={trust}, "
            f"sigma={self.counting.sigma:g}{pairs}"
        )


class Part:
    """The lists of some speakers with their background scores.

    Where all hypotheses have as many errors there is nothing to choose: those are counted once.
    """

    def __init__(self, lists: Sequence[NBest], model: LanguageModel, small: Vocabulary) -> None:
        self.lists, self.model, self.small = lists, model, small
        self.names = sorted({str(each.client) for each in lists})
        place = {name: number for number, name in enumerate(self.names)}
        self.words, self.settled = np.zeros(len(self.names)), np.zeros(len(self.names))
        self.open: list[NBest] = []
        for each in lists:
            reference, client = reference_of(each), place[str(each.client)]
            self.words[client] += len(reference.split())
            # A recogniser that heard nothing has missed every word.
            texts = {h.text for h in each.hypotheses} or {""}
            errors = {word_errors(reference, text).count for text in texts}
            if len(errors) > 1:
                self.open.append(each)
            else:
                self.settled[client] += errors.pop()
        self.table = ScoreTable(self.open, background_scores(self.open, model), model.vocabulary)
        self.clients = np.array([place[str(each.client)] for each in self.open])

    def tables(self, setup: Setup, q_bar: QBar) -> Tables:
        """Adapted scores for every power."""
        settings = Personalisation(
            adaptation=Adaptation(alpha=setup.alpha, beta=setup.beta, power=1.0),
            counting=setup.counting,
            trust=setup.trust,
        )
        table = self.table
        if setup.pairs:
            mixed = phrase_scores(self.lists, self.model, setup.counting)
            table = ScoreTable(self.open, mixed, self.model.vocabulary)
        narrow = cast(LanguageModel, SimpleNamespace(vocabulary=self.small))
        asked = {each.id for each in self.open}
        factors = personal_factors(self.lists, narrow, settings, q_bar)
        sums = factor_sums((pair for pair in factors if pair[0].id in asked), narrow)
        padded = np.zeros_like(table.second)
        for place, each in enumerate(self.open):
            padded[place, : len(each.hypotheses)] = sums[each.id]
        return {power: table.replaced(table.second + power * padded) for power in POWERS}

    def errors(self, table: ScoreTable, weights: Weights) -> NDArray[np.float64]:
        """Word errors of every speaker."""
        picks = table.picks(weights)
        counts = table.errors[np.arange(len(picks)), picks]
        return self.settled + np.bincount(self.clients, counts, minlength=len(self.names))


class Study:
    """What is tuned on and what is evaluated; without `test` everybody is tuned on the others."""

    def __init__(
        self, dev: Sequence[NBest], test: Sequence[NBest] | None, model: LanguageModel
    ) -> None:
        self.words = model.vocabulary
        self.small = narrowed(model.vocabulary, [*dev, *(test or ())])
        self.dev = Part(dev, model, self.small)
        self.test = Part(test, model, self.small) if test is not None else self.dev
        self.base, _, _ = self._evaluate([{0.0: self.dev.table}], [{0.0: self.test.table}])

    def baselines(self) -> dict[str, Any]:
        lists = self.test.lists
        first = pooled((reference_of(each), each.best.text) for each in lists)
        best = sum((oracle(each) for each in lists), WordErrors())
        return {
            "clients": len(self.test.names), "utterances": len(lists),
            "first_pass": _percent(first.rate), "background": self._wer(self.base),
            "oracle": _percent(best.rate),
        }  # fmt: skip

    def row(self, setup: Setup, q_dev: QBar = None, q_test: QBar = None) -> dict[str, Any]:
        """Tune with the q_bar of the development part, evaluate with the other."""
        dev = self.dev.tables(setup, q_dev)
        test = dev if self.alone else self.test.tables(setup, q_test)
        return self._told(*self._evaluate([dev], [test]))

    def choice(self, setups: Sequence[Setup], q_dev: Sequence[QBar]) -> dict[str, Any]:
        """Without a test part: every speaker gets the set-up, too, that the others choose."""
        assert self.alone
        found = [self.dev.tables(*each) for each in zip(setups, q_dev, strict=True)]
        return self._told(*self._evaluate(found, found))

    @property
    def alone(self) -> bool:
        return self.test is self.dev

    def _told(self, after: NDArray[np.float64], power: float, tuned: float) -> dict[str, Any]:
        found = change_interval(self._booked(self.base), self._booked(after))
        return {
            "wer": self._wer(after), "power": power, "on_other_speakers": tuned,
            "change": _percent(after.sum() / self.base.sum() - 1, 1),
            "interval": [_percent(found.low, 1), _percent(found.high, 1)],
        }  # fmt: skip

    def _evaluate(
        self, dev: Sequence[Tables], test: Sequence[Tables]
    ) -> tuple[NDArray[np.float64], float, float]:
        """Errors of every evaluated speaker, the power, and what cross-validation promised.

        The promise is the word error rate of development speakers, each fold of them with the
        weights that the other folds chose.
        """
        tried = [
            (place, power, weights)
            for place, tables in enumerate(dev)
            for power, table in tables.items()
            for weights in GRID.weights(table)
        ]
        errors = np.stack([self.dev.errors(dev[i][power], weights) for i, power, weights in tried])
        total = errors.sum(axis=1)
        groups = np.arange(len(self.dev.names))
        if not self.alone:
            groups = groups % FOLDS
        held = np.zeros(len(groups))
        powers = []
        for group in range(groups.max() + 1):
            out = groups == group
            best = int((total - errors[:, out].sum(axis=1)).argmin())
            held[out] = errors[best, out]
            powers.append(tried[best][1])
        promised = _percent(held.sum() / self.dev.words.sum())
        if self.alone:
            return held, float(np.median(powers)), promised
        place, power, weights = tried[int(total.argmin())]
        return self.test.errors(test[place][power], weights), power, promised

    def _wer(self, errors: NDArray[np.float64]) -> float:
        return _percent(errors.sum() / self.test.words.sum())

    def _booked(self, errors: NDArray[np.float64]) -> list[WordErrors]:
        # The kind of error does not matter here, so all of them are booked as substitutions.
        pairs = zip(errors.tolist(), self.test.words.tolist(), strict=True)
        return [WordErrors(int(count), words=int(words)) for count, words in pairs]


def narrowed(words: Vocabulary, lists: Iterable[NBest]) -> Vocabulary:
    """The words that occur in the lists; all others become one unknown word.

    No factor of another word is ever asked for, so nothing changes but the time it takes.
    """
    said = {word for each in lists for h in each.hypotheses for word in h.words}
    kept = [word for word in words.words if word in said and word != UNKNOWN]
    values = words.unigram[[words.index[word] for word in kept]]
    return Vocabulary((*kept, UNKNOWN), np.append(values, 1 - values.sum()))


def narrow_distribution(q: Vector, words: Vocabulary, small: Vocabulary) -> Vector:
    """A distribution over all words as one over the words that occur."""
    values = q[[words.index[word] for word in small.words[:-1]]]
    return np.append(values, max(0.0, 1 - values.sum()))


def phrase_scores(
    lists: Sequence[NBest], model: LanguageModel, counting: Counting
) -> dict[str, list[float]]:
    """The background with each client's own word pairs mixed in, in the order of time."""
    assert isinstance(model, NGramModel)
    scores = {}
    for mine in by_client(lists).values():
        cache = PhraseCache(counting, strength=0.3)
        for each in mine:
            scores[each.id] = cache.score([h.words for h in each.hypotheses], model)
            cache.add(each)
    return scores


def counts_of(lists: Iterable[NBest], words: Vocabulary, counting: Counting) -> Vector:
    total = np.zeros(len(words))
    for each in lists:
        places, added = counting.count(each, words)
        total[places] += added
    return total


def by_rounds(
    lists: Sequence[NBest], words: Vocabulary, counting: Counting, rounds: int, start: Vector
) -> Callable[[NBest], Vector]:
    """q_bar as the paper has it: utterances in rounds + 1 groups, each told by those before."""
    group = {
        each.id: place * (rounds + 1) // len(mine)
        for mine in by_client(lists).values()
        for place, each in enumerate(mine)
    }
    counts, bars = start.copy(), []
    for number in range(rounds + 1):
        bars.append(counts / counts.sum() if counts.sum() > 0 else words.unigram)
        counts = counts + counts_of((e for e in lists if group[e.id] == number), words, counting)
    return lambda each: bars[group[each.id]]


def halves(
    lists: Sequence[NBest], q_of: Callable[[list[NBest], list[NBest]], QBar]
) -> Callable[[NBest], Vector]:
    """q_bar for tuning: each half of the clients is told what the other half said.

    `q_of(told, others)` makes the q_bar of the clients `told` from what `others` said.
    """
    first = set(sorted(by_client(lists))[::2])
    parts = [[e for e in lists if (e.client in first) is inside] for inside in (True, False)]
    bars = [q_of(parts[0], parts[1]), q_of(parts[1], parts[0])]

    def q_bar(each: NBest) -> Vector:
        found = bars[0 if each.client in first else 1]
        assert found is not None
        return found(each) if callable(found) else found

    return q_bar


def _percent(rate: float, digits: int = 2) -> float:
    return round(100 * float(rate), digits)
