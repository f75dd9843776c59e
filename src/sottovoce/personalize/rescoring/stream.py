"""Personalised scoring in the order of time: every utterance is scored by what came before it.

A client's cache hears an utterance after it was scored, by the ranks of the *first* pass: if the
personalised choice fed the cache, removing one utterance could change all that follow.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from sottovoce import _validate
from sottovoce.personalize.federated.cache import ClientCache
from sottovoce.personalize.federated.counting import Counting
from sottovoce.personalize.federated.pairs import SharedPairs
from sottovoce.personalize.lm.language_model import LanguageModel
from sottovoce.personalize.lm.smoothing import Dirichlet, Smoothing
from sottovoce.personalize.lm.vocabulary import UNKNOWN, Vector
from sottovoce.personalize.nbest.lists import NBest, by_client
from sottovoce.personalize.rescoring.scores import Adaptation


@dataclass(frozen=True, kw_only=True)
class Personalisation:
    """How the factors of a client are made.

    With `trust` a word is believed by how often it was heard: its log factor lies between the one
    it would have without the person (g without q_i) and its own, n / (n + trust) of the way.
    `pairs` that everybody says are mixed into the background before it is adapted.
    """

    adaptation: Adaptation = field(default_factory=Adaptation)
    counting: Counting = field(default_factory=Counting)
    smoothing: Smoothing = field(default_factory=Dirichlet)
    trust: float | None = None
    pairs: SharedPairs | None = None

    def __post_init__(self) -> None:
        if self.trust is not None:
            _validate.positive("trust", self.trust)


def personal_factors(
    lists: Iterable[NBest],
    model: LanguageModel,
    settings: Personalisation,
    everybody: Vector | Callable[[NBest], Vector] | None = None,
) -> Iterable[tuple[NBest, Vector]]:
    """Every list with the log factors that its client had when it was said.

    `everybody` is q_bar, or a function of the utterance where q_bar changes over time; without it
    the background stands in.
    """
    words = model.vocabulary
    for mine in by_client(lists).values():
        cache = ClientCache(words, settings.counting)
        for each in mine:
            shared = everybody(each) if callable(everybody) else everybody
            factors = client_factors(cache, settings, shared)
            yield each, factors
            cache.add(each)


def client_factors(
    cache: ClientCache, settings: Personalisation, everybody: Vector | None = None
) -> Vector:
    """The log factors of one client as it is now; without `everybody` the background stands in."""
    words = cache.vocabulary
    q_bar = words.unigram if everybody is None else everybody
    personal = cache.distribution(settings.smoothing)
    factors = settings.adaptation.log_factors(words.unigram, q_bar, personal)
    if settings.trust is not None:
        # Had this person never been heard, the background would stand in for q_i.
        before = settings.adaptation.log_factors(words.unigram, q_bar, words.unigram)
        factors = shrunk(before, factors, cache.personal(), settings.trust)
    # Unknown words are many: that somebody used one does not make the others likely.
    factors[words.index[UNKNOWN]] = 0.0
    return factors


def shrunk(before: Vector, after: Vector, counts: Vector, trust: float) -> Vector:
    """Log factors moved from `before` to `after` as far as a count is to be trusted.

    >>> shrunk(np.zeros(3), np.full(3, 2.0), np.array([0.0, 1.0, 3.0]), 1.0).tolist()
    [0.0, 1.0, 1.5]
    """
    weight = counts / (counts + trust)
    moved: Vector = before + weight * (after - before)
    return moved


def background_scores(lists: Iterable[NBest], model: LanguageModel) -> dict[str, list[float]]:
    """ln p of every hypothesis under the background model."""
    return {each.id: model.score([h.words for h in each.hypotheses]) for each in lists}


def adapted_scores(
    factors: Iterable[tuple[NBest, Vector]], model: LanguageModel, *, normalise: bool = True
) -> dict[str, list[float]]:
    """ln p of every hypothesis under the model as it was adapted for its client."""
    return {
        each.id: model.score([h.words for h in each.hypotheses], log_factors, normalise=normalise)
        for each, log_factors in factors
    }


def factor_sums(
    factors: Iterable[tuple[NBest, Vector]], model: LanguageModel
) -> Mapping[str, list[float]]:
    """The sum of log factors over the words of every hypothesis.

    With the paper's shortcut the adapted score is the background score plus this, so many powers
    can be tried for the price of one.
    """
    words = model.vocabulary
    return {
        each.id: [float(np.sum(log_factors[words.encode(h.words)])) for h in each.hypotheses]
        for each, log_factors in factors
    }
