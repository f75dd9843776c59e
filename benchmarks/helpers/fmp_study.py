"""Tune on some speakers, evaluate on others: the machinery under the tables (see fmp_tables.py).

Weights, the power lambda and the set-up are chosen by expected word errors on speakers who are not
evaluated. Where nobody else was recorded, every speaker is evaluated with what the others chose.
Adaptation uses the paper's shortcut: the sum of log factors is then one more part of the total, and
lambda is its weight against that of the language model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from helpers.fmp_qbar import Pairs, QBar, Told, narrowed
from helpers.phrases import PhraseCache
from sottovoce.personalize.federated.counting import Counting
from sottovoce.personalize.federated.pairs import SharedPairs
from sottovoce.personalize.lm.language_model import LanguageModel
from sottovoce.personalize.lm.mixture import WordModel
from sottovoce.personalize.lm.vocabulary import Vector, Vocabulary
from sottovoce.personalize.nbest.lists import NBest, by_client
from sottovoce.personalize.rescoring.scores import Adaptation, ScoreTable
from sottovoce.personalize.rescoring.stream import Personalisation, factor_sums, personal_factors
from sottovoce.personalize.rescoring.tuning import LEAST, Fit, bagged, least_errors
from sottovoce.personalize.rescoring.wer import (
    WordErrors,
    change_interval,
    oracle,
    pooled,
    reference_of,
    word_errors,
)

RULE = Counting(sigma=1.0, nbest=20)
FOLDS = 5
NOTHING = Told()

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Setup:
    """One way to personalise; `phrases` is the order of the personal phrases.

    `pairs` is how far pairs that everybody says are believed, from 0 to 1.
    """

    alpha: float = 0.5
    beta: float = 0.25
    trust: float | None = None
    counting: Counting = field(default=RULE)
    phrases: int = 1
    pairs: float = 0.0

    def __str__(self) -> str:
        phrases = f", phrases of {self.phrases}" if self.phrases > 1 else ""
        trust = "all" if self.trust is None else f"{self.trust:g}"
        pairs = f", pairs {self.pairs:g}" if self.pairs else ""
        return (
            f"alpha={self.alpha:g}, beta={self.beta:g}, trust={trust}, "
            f"sigma={self.counting.sigma:g}{phrases}{pairs}"
        )


class Part:
    """The lists of some speakers with their background scores.

    `divided` says that the recogniser divided its scores by length. Where all hypotheses have as
    many errors there is nothing to choose: those are counted once.
    """

    def __init__(
        self, lists: Sequence[NBest], model: WordModel, small: Vocabulary, *, divided: bool
    ) -> None:
        self.lists, self.small, self.divided = lists, small, divided
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
        # Probabilities are kept apart, for phrases to be mixed in later.
        self.apart, scores = {}, {}
        for each in self.open:
            values, owners = model.score_words([h.words for h in each.hypotheses])
            self.apart[each.id] = np.exp(values)
            scores[each.id] = np.bincount(owners, values).tolist()
        self.table = ScoreTable(self.open, scores, model.vocabulary)
        self.clients = np.array([place[str(each.client)] for each in self.open])
        self._phrases: dict[tuple[Counting, int], Array] = {}
        self._known: dict[tuple[Setup, int], tuple[Array, QBar]] = {}

    def parts(self, setup: Setup | None = None, told: Told = NOTHING) -> Array:
        """What the weights multiply; with a set-up, the sums of log factors come last."""
        if setup is None:
            return self.table.parts(per_word=self.divided)
        table = self.table
        if setup.phrases > 1:
            table = table.replaced(self._with_phrases(setup.counting, setup.phrases))
        if setup.pairs:
            assert setup.phrases == 1
            table = table.replaced(self._with_pairs(told.pairs, setup.pairs))
        sums = self._sums(replace(setup, phrases=1, pairs=0.0), told.words)
        return np.append(table.parts(per_word=self.divided), sums[..., None], axis=-1)

    def _with_phrases(self, counting: Counting, order: int) -> Array:
        if (counting, order) not in self._phrases:
            mixed = phrase_scores(self.lists, self.apart, counting, order)
            self._phrases[counting, order] = self._padded(mixed)
        return self._phrases[counting, order]

    def _with_pairs(self, pairs: Pairs, strength: float) -> Array:
        scores, known = {}, dict[int, SharedPairs]()
        for each in self.open:
            found = pairs(each) if callable(pairs) else pairs
            assert found is not None
            if id(found) not in known:
                known[id(found)] = SharedPairs(found, strength=strength)
            said = [h.words for h in each.hypotheses]
            mixed = known[id(found)].mixed(said, self.apart[each.id])
            scores[each.id] = np.bincount(owners_of(said), np.log(mixed)).tolist()
        return self._padded(scores)

    def _sums(self, setup: Setup, q_bar: QBar) -> Array:
        """Sums of log factors; `q_bar` is kept beside them, so that its identity stays its own."""
        key = (setup, id(q_bar))
        if key not in self._known:
            settings = Personalisation(
                adaptation=Adaptation(alpha=setup.alpha, beta=setup.beta, power=1.0),
                counting=setup.counting,
                trust=setup.trust,
            )
            narrow = cast(LanguageModel, SimpleNamespace(vocabulary=self.small))
            factors = personal_factors(self.lists, narrow, settings, q_bar)
            asked = (pair for pair in factors if pair[0].id in self.apart)
            self._known[key] = (self._padded(factor_sums(asked, narrow)), q_bar)
        return self._known[key][0]

    def _padded(self, values: Mapping[str, Sequence[float]]) -> Array:
        padded = np.zeros_like(self.table.second)
        for place, each in enumerate(self.open):
            padded[place, : len(each.hypotheses)] = values[each.id]
        return padded

    def fit(self, parts: Array, clients: NDArray[np.bool_]) -> Fit:
        """Weights from the lists of some clients."""
        rows = clients[self.clients]
        return least_errors(
            parts[rows], self.table.errors[rows], self.table.absent[rows], _least(parts)
        )

    def steady(self, parts: Array, clients: NDArray[np.bool_]) -> Vector:
        """The same, averaged over draws of these clients."""
        rows, table = clients[self.clients], self.table
        return bagged(
            parts[rows], table.errors[rows], table.absent[rows], self.clients[rows], _least(parts)
        )

    def errors(self, parts: Array, weights: Vector) -> Array:
        """Word errors of every speaker."""
        picks = np.where(self.table.absent, -np.inf, parts @ weights).argmax(axis=1)
        counts = self.table.errors[np.arange(len(picks)), picks]
        return self.settled + np.bincount(self.clients, counts, minlength=len(self.names))


class Study:
    """What is tuned on and what is evaluated; without `test` everybody is tuned on the others.

    `untouched` are evaluated speakers whom nobody looked at when the method was made.
    """

    def __init__(
        self,
        dev: Sequence[NBest],
        test: Sequence[NBest] | None,
        model: WordModel,
        *,
        divided: bool = False,
        untouched: frozenset[str] = frozenset(),
    ) -> None:
        self.words = model.vocabulary
        self.small = narrowed(model.vocabulary, [*dev, *(test or ())])
        self.dev = Part(dev, model, self.small, divided=divided)
        self.test = self.dev
        if test is not None:
            self.test = Part(test, model, self.small, divided=divided)
        self.untouched = np.array([name in untouched for name in self.test.names])
        self.base, _, _ = self._evaluate([self.dev.parts()], [self.test.parts()])

    def baselines(self) -> dict[str, Any]:
        lists = self.test.lists
        first = pooled((reference_of(each), each.best.text) for each in lists)
        best = sum((oracle(each) for each in lists), WordErrors())
        return {
            "clients": len(self.test.names), "utterances": len(lists),
            "first_pass": _percent(first.rate), "background": self._wer(self.base),
            "oracle": _percent(best.rate), **self._half(self.base),
        }  # fmt: skip

    def row(self, setup: Setup, dev: Told = NOTHING, test: Told = NOTHING) -> dict[str, Any]:
        """Tune with what the development part was told, evaluate with what the other was."""
        tuned = self.dev.parts(setup, dev)
        evaluated = tuned if self.alone else self.test.parts(setup, test)
        return self._told(*self._evaluate([tuned], [evaluated]))

    def choice(self, setups: Sequence[Setup], told: Sequence[Told]) -> dict[str, Any]:
        """Without a test part: every speaker gets the set-up, too, that the others choose."""
        assert self.alone
        found = [self.dev.parts(*each) for each in zip(setups, told, strict=True)]
        return self._told(*self._evaluate(found, found))

    @property
    def alone(self) -> bool:
        return self.test is self.dev

    def _told(self, after: Array, power: float, tuned: float) -> dict[str, Any]:
        found = change_interval(self._booked(self.base), self._booked(after))
        return {
            "wer": self._wer(after),
            # Where the language model counts nothing, no power can be named.
            "power": round(power, 1) if np.isfinite(power) else None,
            "on_other_speakers": tuned,
            "change": _percent(after.sum() / self.base.sum() - 1, 1),
            "interval": [_percent(found.low, 1), _percent(found.high, 1)],
            **self._half(after),
        }  # fmt: skip

    def _evaluate(self, dev: Sequence[Array], test: Sequence[Array]) -> tuple[Array, float, float]:
        """Errors of every evaluated speaker, the power, and what cross-validation promised.

        The promise is the word error rate of development speakers, each fold of them with the
        weights that the other folds chose.
        """
        groups = np.arange(len(self.dev.names))
        if not self.alone:
            groups = groups % FOLDS
        held, powers = np.zeros(len(groups)), []
        for group in range(groups.max() + 1):
            out = groups == group
            place, weights = self._fitted(dev, ~out)
            held[out] = self.dev.errors(dev[place], weights)[out]
            powers.append(_power(weights))
        promised = _percent(held.sum() / self.dev.words.sum())
        if self.alone:
            return held, float(np.median(powers)), promised
        place, weights = self._fitted(dev, groups >= 0)
        return self.test.errors(test[place], weights), _power(weights), promised

    def _fitted(
        self, candidates: Sequence[Array], clients: NDArray[np.bool_]
    ) -> tuple[int, Vector]:
        """The candidate that some clients expect the fewest errors of, and its weights."""
        best = 0
        if len(candidates) > 1:
            fits = [self.dev.fit(parts, clients) for parts in candidates]
            best = min(range(len(fits)), key=lambda place: fits[place].expected)
        return best, self.dev.steady(candidates[best], clients)

    def _wer(self, errors: Array) -> float:
        return _percent(errors.sum() / self.test.words.sum())

    def _half(self, errors: Array) -> dict[str, float]:
        """The rate of those speakers alone whom nobody looked at, where there are such."""
        if not self.untouched.any():
            return {}
        rate = errors[self.untouched].sum() / self.test.words[self.untouched].sum()
        return {"untouched": _percent(rate)}

    def _booked(self, errors: Array) -> list[WordErrors]:
        # The kind of error does not matter here, so all of them are booked as substitutions.
        pairs = zip(errors.tolist(), self.test.words.tolist(), strict=True)
        return [WordErrors(int(count), words=int(words)) for count, words in pairs]


def phrase_scores(
    lists: Sequence[NBest], apart: Mapping[str, Vector], counting: Counting, order: int
) -> dict[str, list[float]]:
    """The background with each client's own phrases mixed in, in the order of time.

    `apart` has the background's probability of every word of the hypotheses that are asked for.
    """
    scores = {}
    for mine in by_client(lists).values():
        cache = PhraseCache(counting, order=order, strength=0.3)
        for each in mine:
            if each.id in apart:
                said = [h.words for h in each.hypotheses]
                mixed = np.log(cache.mixed(said, apart[each.id]))
                scores[each.id] = np.bincount(owners_of(said), mixed).tolist()
            cache.add(each)
    return scores


def _least(parts: Array) -> tuple[float, ...]:
    # A factor is never used against its word.
    return LEAST if parts.shape[-1] == len(LEAST) else (*LEAST, 0.0)


def owners_of(sentences: Sequence[Sequence[str]]) -> NDArray[np.int64]:
    """Whose every word and end is, sentence after sentence."""
    return np.repeat(np.arange(len(sentences)), [len(words) + 1 for words in sentences])


def _power(weights: Vector) -> float:
    """Lambda: the weight of the factors against that of the language model."""
    if len(weights) == len(LEAST):
        return 0.0
    language, factors = float(weights[3]), float(weights[-1])
    return factors / language if language > 0 else float("inf") if factors > 0 else 0.0


def _percent(rate: float, digits: int = 2) -> float:
    return round(100 * float(rate), digits)
