"""What rescoring has achieved: errors of every system by client, on all words and on rare ones.

Names and rare words are what users notice, and a small part of all words: their errors (the entity
word error rate) are reported beside the rest.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sottovoce.personalize.lm.vocabulary import Vocabulary
from sottovoce.personalize.nbest.lists import NBest
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

FREQUENT = 2000
"""Words of a vocabulary beyond this rank are rare."""

Errors = dict[str, WordErrors]


@dataclass(frozen=True)
class Outcome:
    """The chosen texts, and the errors of every system by client."""

    texts: dict[str, str]
    first_pass: Errors
    background: Errors
    adapted: Errors
    oracle: Errors
    rare: WordErrors
    other: WordErrors
    rare_before: WordErrors
    other_before: WordErrors

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
            "rare_words": _pair(self.rare_before, self.rare),
            "other_words": _pair(self.other_before, self.other),
        }


def rare_words(words: Vocabulary, listed: Collection[str] = ()) -> Callable[[str], bool]:
    """Whether a word is rare in public text, unknown, or on a list of the user's."""
    # Vocabularies are sorted by frequency.
    return lambda word: word in listed or words.index.get(word, len(words)) >= FREQUENT


def measure(
    lists: Sequence[NBest],
    before: Mapping[str, str],
    after: Mapping[str, str],
    is_rare: Callable[[str], bool],
) -> Outcome:
    """Count the errors of the texts chosen by the background (`before`) and adapted (`after`)."""
    errors: dict[str, Errors] = {name: {} for name in ("first", "before", "after", "oracle")}
    halves = [WordErrors()] * 4
    for each in lists:
        reference, client = reference_of(each), each.client or each.id
        _add(errors["first"], client, word_errors(reference, each.best.text))
        _add(errors["before"], client, word_errors(reference, before[each.id]))
        _add(errors["after"], client, word_errors(reference, after[each.id]))
        _add(errors["oracle"], client, oracle(each))
        parts = (
            *split_errors(reference, before[each.id], is_rare),
            *split_errors(reference, after[each.id], is_rare),
        )
        halves = [half + part for half, part in zip(halves, parts, strict=True)]
    return Outcome(
        {each.id: after[each.id] for each in lists},
        errors["first"],
        errors["before"],
        errors["after"],
        errors["oracle"],
        rare=halves[2],
        other=halves[3],
        rare_before=halves[0],
        other_before=halves[1],
    )


def total(errors: Errors) -> WordErrors:
    return sum(errors.values(), WordErrors())


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
