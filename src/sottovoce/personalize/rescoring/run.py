"""End-to-end rescoring: tune on a development part, rescore the rest, count the errors.

Weights are tuned on clients that are not evaluated. Three systems are compared on the others: the
first pass, the background model, and the background model adapted to each client.
"""

import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.personalize.lm.language_model import LanguageModel
from sottovoce.personalize.lm.mixture import WordModel
from sottovoce.personalize.lm.vocabulary import Vector
from sottovoce.personalize.nbest.lists import NBest
from sottovoce.personalize.rescoring.outcome import Outcome, measure, rare_words
from sottovoce.personalize.rescoring.scores import Adaptation, Scores, ScoreTable, Weights
from sottovoce.personalize.rescoring.stream import (
    Personalisation,
    adapted_scores,
    background_scores,
    personal_factors,
)
from sottovoce.personalize.rescoring.tuning import tune
from sottovoce.privacy.sampling import SamplingKey

POWERS = (0.0, 0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0)

Everybody = Vector | Callable[[NBest], Vector] | None


@dataclass(frozen=True)
class Tuned:
    """Weights for the background model, and for the adapted model with its power."""

    background: Weights
    adapted: Weights
    power: float

    def to_json(self) -> dict[str, Any]:
        return {
            "background": self.background.to_json(),
            "adapted": self.adapted.to_json(),
            "power": self.power,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Tuned":
        try:
            return cls(
                Weights.from_json(data["background"]),
                Weights.from_json(data["adapted"]),
                float(data["power"]),
            )
        except (KeyError, TypeError) as problem:
            raise InvalidInput(f"Expected tuned weights, but {problem!r}.") from problem


def split_clients(
    lists: Sequence[NBest], share: float, key: SamplingKey | None = None
) -> tuple[list[NBest], list[NBest]]:
    """A development part with this share of the clients, and the rest.

    All utterances of a client are in the same part. The order in which clients are taken depends on
    their names only.

    >>> lists = [NBest(f"u{i}", (), client=f"c{i % 10}") for i in range(40)]
    >>> [len({each.client for each in part}) for part in split_clients(lists, 0.3)]
    [3, 7]
    """
    _validate.rate("dev_share", share)
    names = sorted({each.client or each.id for each in lists})
    count = max(1, round(share * len(names)))
    if count >= len(names):
        raise InvalidInput(
            f"Expected clients on both sides of a development share of {share:g}, got {count} of "
            f"{len(names)} clients in it."
        )
    secret = (key or SamplingKey.from_seed(0)).secret
    chosen = set(
        sorted(names, key=lambda name: hmac.digest(secret, name.encode(), "sha256"))[:count]
    )
    inside = [each for each in lists if (each.client or each.id) in chosen]
    outside = [each for each in lists if (each.client or each.id) not in chosen]
    return inside, outside


def tune_weights(
    lists: Sequence[NBest],
    model: LanguageModel,
    settings: Personalisation,
    everybody: Everybody = None,
    *,
    powers: Sequence[float] = POWERS,
) -> Tuned:
    """The weights and the power with the fewest expected errors on these lists."""
    plain = background_scores(lists, model)
    words = model.vocabulary
    _, background, _ = tune({0.0: ScoreTable(lists, plain, words)})
    shared = _with_pairs(model, settings)
    known = plain if shared is model else background_scores(lists, shared)
    tables = {
        power: ScoreTable(
            lists, _scores(lists, shared, settings, everybody, power) if power else known, words
        )
        for power in powers
    }
    power, adapted, _ = tune(tables)
    return Tuned(background, adapted, power)


def choose(
    lists: Sequence[NBest],
    model: LanguageModel,
    settings: Personalisation,
    tuned: Tuned,
    everybody: Everybody = None,
) -> dict[str, str]:
    """The text chosen for every utterance; references are not needed."""
    factors = personal_factors(lists, model, _with_power(settings, tuned.power), everybody)
    adapted = adapted_scores(
        factors, _with_pairs(model, settings), normalise=settings.adaptation.normalise
    )
    words = model.vocabulary
    return {each.id: tuned.adapted.choose(each, adapted[each.id], words).text for each in lists}


def rescore(
    lists: Sequence[NBest],
    model: LanguageModel,
    settings: Personalisation,
    tuned: Tuned,
    everybody: Everybody = None,
) -> Outcome:
    """Choose a hypothesis for every utterance and count the errors."""
    plain = background_scores(lists, model)
    chosen = _with_power(settings, tuned.power)
    factors = dict(_by_id(lists, model, chosen, everybody))
    adapted = adapted_scores(
        [(each, factors[each.id]) for each in lists],
        _with_pairs(model, settings),
        normalise=settings.adaptation.normalise,
    )
    words = model.vocabulary
    return measure(
        lists,
        {each.id: tuned.background.choose(each, plain[each.id], words).text for each in lists},
        {each.id: tuned.adapted.choose(each, adapted[each.id], words).text for each in lists},
        rare_words(words),
    )


def _scores(
    lists: Sequence[NBest],
    model: LanguageModel,
    settings: Personalisation,
    everybody: Everybody,
    power: float,
) -> Scores:
    factors = personal_factors(lists, model, _with_power(settings, power), everybody)
    return adapted_scores(factors, model, normalise=settings.adaptation.normalise)


def _with_pairs(model: LanguageModel, settings: Personalisation) -> LanguageModel:
    """The model to adapt: the background, with shared pairs mixed in if there are any."""
    return model if settings.pairs is None else settings.pairs.over(cast(WordModel, model))


def _by_id(
    lists: Sequence[NBest], model: LanguageModel, settings: Personalisation, everybody: Everybody
) -> list[tuple[str, Vector]]:
    # float32 halves the memory of thousands of vectors over a large vocabulary.
    found = personal_factors(lists, model, settings, everybody)
    return [(each.id, factors.astype(np.float32)) for each, factors in found]


def _with_power(settings: Personalisation, power: float) -> Personalisation:
    adaptation: Adaptation = replace(settings.adaptation, power=power)
    return replace(settings, adaptation=adaptation)
