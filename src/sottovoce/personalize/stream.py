"""Personalised scoring in the order of time: every utterance is scored by what came before it.

A client's cache hears an utterance after it was scored, by the ranks of the *first* pass: if the
personalised choice fed the cache, removing one utterance could change all that follow.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from sottovoce.personalize.adaptation import Adaptation
from sottovoce.personalize.cache import ClientCache
from sottovoce.personalize.counting import Counting
from sottovoce.personalize.language_model import LanguageModel
from sottovoce.personalize.nbest import NBest, by_client
from sottovoce.personalize.smoothing import Dirichlet, Smoothing
from sottovoce.personalize.vocabulary import UNKNOWN, Vector


@dataclass(frozen=True, kw_only=True)
class Personalisation:
    """How the factors of a client are made."""

    adaptation: Adaptation = field(default_factory=Adaptation)
    counting: Counting = field(default_factory=Counting)
    smoothing: Smoothing = field(default_factory=Dirichlet)


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
            q_bar = words.unigram if shared is None else shared
            personal = cache.distribution(settings.smoothing)
            factors = settings.adaptation.log_factors(words.unigram, q_bar, personal)
            # Unknown words are many: that somebody used one does not make the others likely.
            factors[words.index[UNKNOWN]] = 0.0
            yield each, factors
            cache.add(each)


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
