"""What everybody says, words (q_bar) and pairs: by rounds, or from other speakers."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from sottovoce.personalize.federated.counting import Counting, pairs_of
from sottovoce.personalize.federated.marginals import Marginals
from sottovoce.personalize.lm.vocabulary import UNKNOWN, Vector, Vocabulary
from sottovoce.personalize.nbest.lists import NBest, by_client

QBar = Vector | Callable[[NBest], Vector] | None
Pairs = Marginals | Callable[[NBest], Marginals] | None


@dataclass(frozen=True, eq=False)
class Told:
    """What devices are told: how often words are said, and pairs of them."""

    words: QBar = None
    pairs: Pairs = None


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
    group = _groups(lists, rounds)
    counts, bars = start.copy(), []
    for number in range(rounds + 1):
        bars.append(counts / counts.sum() if counts.sum() > 0 else words.unigram)
        counts = counts + counts_of((e for e in lists if group[e.id] == number), words, counting)
    return lambda each: bars[group[each.id]]


def pairs_by_rounds(
    lists: Sequence[NBest], counting: Counting, rounds: int, start: Counter[str] | None = None
) -> Callable[[NBest], Marginals]:
    """Pairs in the same rounds."""
    group, counts, bars = _groups(lists, rounds), Counter(start or {}), list[Marginals]()
    for number in range(rounds + 1):
        bars.append(_shares(counts))
        counts += pair_counts((e for e in lists if group[e.id] == number), counting)
    return lambda each: bars[group[each.id]]


def pair_counts(lists: Iterable[NBest], counting: Counting) -> Counter[str]:
    """Pairs without a vocabulary: where there is no noise, only what was said needs a count."""
    counts: Counter[str] = Counter()
    for each in lists:
        kept = each.hypotheses[: counting.nbest]
        weights = counting.weights(len(kept)) / counting.unit
        for hypothesis, weight in zip(kept, weights.tolist(), strict=True):
            for pair in pairs_of(hypothesis.words):
                counts[pair] += weight
    return counts


def _shares(counts: Counter[str]) -> Marginals:
    mass = float(counts.total())
    shares = np.array([*counts.values(), 0.0]) / mass if mass else np.ones(1)
    return Marginals((*counts, UNKNOWN), shares, mass=mass)


def _groups(lists: Sequence[NBest], rounds: int) -> dict[str, int]:
    """The round before which every utterance was said, each client's in the order of time."""
    return {
        each.id: place * (rounds + 1) // len(mine)
        for mine in by_client(lists).values()
        for place, each in enumerate(mine)
    }


def halves(lists: Sequence[NBest], told_by: Callable[[list[NBest], list[NBest]], Told]) -> Told:
    """For tuning: each half of the clients is told what the other half said.

    `told_by(told, others)` makes what the clients `told` hear from what `others` said.
    """
    first = set(sorted(by_client(lists))[::2])
    parts = [[e for e in lists if (e.client in first) is inside] for inside in (True, False)]
    bars = [told_by(parts[0], parts[1]), told_by(parts[1], parts[0])]

    def words(each: NBest) -> Vector:
        found = bars[0 if each.client in first else 1].words
        assert found is not None
        return found(each) if callable(found) else found

    def pairs(each: NBest) -> Marginals:
        found = bars[0 if each.client in first else 1].pairs
        assert found is not None
        return found(each) if callable(found) else found

    return Told(words, pairs)
