"""What everybody says, q_bar: by rounds, from other speakers, over the words that occur."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from sottovoce.personalize.counting import Counting
from sottovoce.personalize.nbest import NBest, by_client
from sottovoce.personalize.vocabulary import UNKNOWN, Vector, Vocabulary

QBar = Vector | Callable[[NBest], Vector] | None


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
