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
from sottovoce.personalize.rescoring.scores import Adaptation, Scores, ScoreTable, Weights
from sottovoce.personalize.rescoring.stream import (
    Personalisation,
    adapted_scores,
    background_scores,
    personal_factors,
)
from sottovoce.personalize.rescoring.tuning import tune
from sottovoce.personalize.rescoring.wer import (
    Interval,
    WordErrors,
    change_interval,
    oracle,
    rate_interval,
    reference_of,
    split_errors,
    word_errors,
)
from sottovoce.privacy.sampling import SamplingKey

POWERS = (0.0, 0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0)

Everybody = Vector | Callable[[NBest], Vector] | None
Errors = dict[str, WordErrors]


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


@dataclass(frozen=True)
class Outcome:
    """The chosen texts, and the errors of every system by client."""

    texts: dict[str, str]
    first_pass: Errors
    background: Errors
    adapted: Errors
    oracle: Errors
    raised: WordErrors
    rest: WordErrors
    raised_before: WordErrors
    rest_before: WordErrors

    def to_json(self) -> dict[str, Any]:
        """Rates in percent with 95 % intervals over clients."""
        return {
            "clients": len(self.first_pass),
            "utterances": len(self.texts),
            "words": total(self.first_pass).words,
            "first_pass": _rate(self.first_pass),
            "background": _rate(self.background),
            "adapted": _rate(self.adapted),
            "oracle": _rate(self.oracle),
            "change_from_background": _change(self.background, self.adapted),
            "change_from_first_pass": _change(self.first_pass, self.adapted),
            "raised_words": _pair(self.raised_before, self.raised),
            "other_words": _pair(self.rest_before, self.rest),
        }


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
    errors: dict[str, Errors] = {name: {} for name in ("first", "plain", "adapted", "oracle")}
    texts = {}
    words = model.vocabulary
    halves = [WordErrors()] * 4
    for each in lists:
        reference, client = reference_of(each), each.client or each.id
        before = tuned.background.choose(each, plain[each.id], words).text
        after = texts[each.id] = tuned.adapted.choose(each, adapted[each.id], words).text
        _add(errors["first"], client, word_errors(reference, each.best.text))
        _add(errors["plain"], client, word_errors(reference, before))
        _add(errors["adapted"], client, word_errors(reference, after))
        _add(errors["oracle"], client, oracle(each))
        raised = _raised(model, factors[each.id])
        parts = (*split_errors(reference, before, raised), *split_errors(reference, after, raised))
        halves = [half + part for half, part in zip(halves, parts, strict=True)]
    return Outcome(
        texts,
        errors["first"],
        errors["plain"],
        errors["adapted"],
        errors["oracle"],
        raised=halves[2],
        rest=halves[3],
        raised_before=halves[0],
        rest_before=halves[1],
    )


def total(errors: Errors) -> WordErrors:
    return sum(errors.values(), WordErrors())


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


def _raised(model: LanguageModel, factors: Vector) -> Callable[[str], bool]:
    index = model.vocabulary.index
    return lambda word: word in index and bool(factors[index[word]] > 0)


def _add(errors: Errors, client: str, more: WordErrors) -> None:
    errors[client] = errors.get(client, WordErrors()) + more


def _rate(errors: Errors) -> dict[str, Any]:
    interval = rate_interval(list(errors.values()))
    return {"wer": _percent(total(errors).rate), "interval": _percents(interval)}


def _change(before: Errors, after: Errors) -> dict[str, Any]:
    base, new = total(before).count, total(after).count
    interval = change_interval(list(before.values()), [after[client] for client in before])
    return {"relative": _percent((new - base) / max(base, 1)), "interval": _percents(interval)}


def _pair(before: WordErrors, after: WordErrors) -> dict[str, Any]:
    return {
        "words": after.words,
        "background_errors": before.count,
        "adapted_errors": after.count,
    }


def _percents(interval: Interval) -> list[float]:
    return [_percent(interval.low), _percent(interval.high)]


def _percent(rate: float) -> float:
    return round(100 * rate, 3)
