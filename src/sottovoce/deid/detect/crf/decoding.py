"""The best labels of many sentences at once, and how sure they are: Viterbi, forward and backward.

Sentences go side by side, longest first, one step a word; at every step those that are long enough
are a slice of a table. The labels are those of CRFsuite, many times faster than one by one.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sottovoce.deid.detect.crf.weights import Scores

Places = NDArray[np.intp]

_FEW = 4  # ways into a label; more of them take as long as all


@dataclass(frozen=True, eq=False)
class Steps:
    """The words of sentences in the order of decoding: all first words, all second words, ...

    `order[k]` is the place, in the sentences one after the other, of the word decoded k-th.

    >>> Steps.of([1, 3]).order.tolist(), Steps.of([1, 3]).counts
    ([1, 0, 2, 3], [2, 1, 1])
    """

    order: Places
    counts: list[int]

    @classmethod
    def of(cls, lengths: list[int]) -> "Steps":
        sizes = np.array(lengths, dtype=np.intp)
        firsts = (np.cumsum(sizes) - sizes)[np.argsort(-sizes, kind="stable")]
        # How many sentences have a first word, a second word, ...
        counts = np.cumsum(np.bincount(sizes)[:0:-1])[::-1].tolist()
        order = np.concatenate([firsts[:count] + step for step, count in enumerate(counts)])
        return cls(order, counts)

    @cached_property
    def slices(self) -> list[slice]:
        """The words of each step."""
        ends = np.cumsum(self.counts).tolist()
        return [slice(end - count, end) for end, count in zip(ends, self.counts, strict=True)]


def best_labels(emissions: Scores, transitions: Scores, steps: Steps) -> Places:
    """The labels of the likeliest sequence of every sentence; rows are words in decoding order."""
    moves = _Moves.of(transitions)
    # A block a step, labels first: sums over sentences are then long, and stay in the cache.
    blocks = [emissions[here].T.copy() for here in steps.slices]
    # One piece of memory for all steps: asking for it anew would take longer than the sums.
    space = np.empty(len(transitions) * max(len(moves.full), 1) * steps.counts[0])
    for last, block in pairwise(blocks):
        block += moves.best(np.ascontiguousarray(last[:, : block.shape[1]]), space)
    labels = np.empty(len(emissions), dtype=np.intp)
    following = labels[:0]
    for here, block in zip(reversed(steps.slices), reversed(blocks), strict=True):
        block[:, : len(following)] += transitions[:, following]
        following = labels[here] = block.argmax(axis=0)
    return labels


@dataclass(frozen=True, eq=False)
class _Moves:
    """Transitions, sorted into labels that many lead to and labels that few lead to.

    Most weights are 0, for training leaves out what it can. Into a label without negative weights
    the best way is the best of all, or one of those with a positive weight; where these are few, to
    look at all others would be most of the work.
    """

    full: Places
    weights: Scores
    few: Places
    nearest: tuple[tuple[Places, Scores], ...]
    """For the first of the few, the second, ...: where the best ways come from, and by how much."""

    @classmethod
    def of(cls, transitions: Scores) -> "_Moves":
        ways = (transitions > 0).sum(axis=0)
        simple = (transitions.min(axis=0) >= 0) & (ways <= _FEW)
        full, few = np.flatnonzero(~simple), np.flatnonzero(simple)
        few = few[np.argsort(-ways[few], kind="stable")]
        ranked = np.argsort(-transitions[:, few], axis=0, kind="stable")
        nearest = []
        for rank in range(int(ways[few].max(initial=0))):
            own = few[ways[few] > rank]
            rows = ranked[rank, : len(own)]
            nearest.append((rows, transitions[rows, own][:, None]))
        return cls(full, transitions[:, full, None], few, tuple(nearest))

    def best(self, last: Scores, space: Scores) -> Scores:
        """The best score of a way into every label, from the scores of the labels before."""
        found = np.empty(last.shape)
        count = last.shape[1]
        if len(self.full):
            sums = space[: self.weights.size * count].reshape(*self.weights.shape[:2], count)
            np.add(last[:, None], self.weights, out=sums)
            found[self.full] = np.maximum.reduce(sums, axis=0)
        if len(self.few):
            ways = np.empty((len(self.few), count))
            ways[:] = np.maximum.reduce(last, axis=0)
            for rows, weights in self.nearest:
                one = space[: len(rows) * count].reshape(len(rows), count)
                # Every row is there: see `emissions`.
                np.take(last, rows, axis=0, out=one, mode="clip")
                one += weights
                mine = ways[: len(rows)]
                np.maximum(mine, one, out=mine)
            found[self.few] = ways
        return found


def chances(emissions: Scores, transitions: Scores, steps: Steps) -> Scores:
    """The probability of every label at every word, in the same order."""
    # The largest score becomes 1, so that nothing overflows; the factor cancels out.
    local = np.exp(emissions - emissions.max(axis=1, keepdims=True))
    moves = np.exp(transitions - transitions.max())
    forward, backward = np.empty_like(local), np.ones_like(local)
    last = forward[:0]
    for number, here in enumerate(steps.slices):
        found = local[here]
        if number:
            found = found * (last[: len(found)] @ moves)
        last = forward[here] = found / found.sum(axis=1, keepdims=True)
    behind = last[:0]
    for here in reversed(steps.slices):
        told = backward[here]
        if len(behind):
            told[: len(behind)] = behind @ moves.T
            told /= told.sum(axis=1, keepdims=True)
        behind = told * local[here]
    both = forward * backward
    shares: Scores = both / both.sum(axis=1, keepdims=True)
    return shares
