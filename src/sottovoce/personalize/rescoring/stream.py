"""Personalised scoring in time order: every utterance is scored with the preceding ones only.

A client's cache counts an utterance after it was scored, by its *first-pass* ranks: if personalised
results fed the cache, removing one utterance could change all later ones.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from sottovoce import _validate
from sottovoce.personalize.federated.cache import ClientCache
from sottovoce.personalize.federated.counting import Counting
from sottovoce.personalize.federated.pairs import SharedPairs
from sottovoce.personalize.lm.language_model import LanguageModel
from sottovoce.personalize.lm.vocabulary import UNKNOWN, Dirichlet, Smoothing, Vector
from sottovoce.personalize.nbest.lists import NBest, by_client
from sottovoce.personalize.rescoring.scores import Adaptation


@dataclass(frozen=True, kw_only=True)
class Personalisation:
    """How the factors of a client are computed.

    `trust` is the count at which a word gets half its personal weight: its log factor lies n / (n +
    trust) of the way from the factor without personal counts (g without q_i) to the personal one.
    Shared `pairs` are mixed into the background before it is adapted.
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
    """Every list with the log factors that its client had at that time.

    `everybody` is q_bar, or a function of the utterance if q_bar changes over time; the default is
    the background.
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
    """The current log factors of one client; the default for `everybody` is the background."""
    words = cache.vocabulary
    q_bar = words.unigram if everybody is None else everybody
    personal = cache.distribution(settings.smoothing)
    factors = settings.adaptation.log_factors(words.unigram, q_bar, personal)
    if settings.trust is not None:
        # Without personal counts, q_i is the background.
        before = settings.adaptation.log_factors(words.unigram, q_bar, words.unigram)
        factors = shrunk(before, factors, cache.personal(), settings.trust)
    # <unk> stands for many words: using one does not make the others likely.
    factors[words.index[UNKNOWN]] = 0.0
    return factors


def shrunk(before: Vector, after: Vector, counts: Vector, trust: float) -> Vector:
    """Interpolate log factors from `before` to `after` by n / (n + trust).

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
    """ln p of every hypothesis under the model adapted to its client."""
    return {
        each.id: model.score([h.words for h in each.hypotheses], log_factors, normalise=normalise)
        for each, log_factors in factors
    }


def factor_sums(
    factors: Iterable[tuple[NBest, Vector]], model: LanguageModel
) -> Mapping[str, list[float]]:
    """The sum of log factors over the words of every hypothesis.

    With the paper's shortcut the adapted score is the background score plus this sum, so many
    powers can be tried for the cost of one.
    """
    words = model.vocabulary
    return {
        each.id: [float(np.sum(log_factors[words.encode(h.words)])) for h in each.hypotheses]
        for each, log_factors in factors
    }
