"""The best labels of many sentences at once, and how sure they are: Viterbi, forward and backward.

Sentences go side by side, longest first, one step a word; at every step those that are long enough
are a slice of a table. The labels are those of CRFsuite, many times faster than one by one.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sottovoce.deid.detect.weights import Scores

Places = NDArray[np.intp]


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
        ends = np.cumsum(sizes)
        steps = np.arange(ends[-1]) - np.repeat(ends - sizes, sizes)
        longest_first = np.empty(len(sizes), dtype=np.intp)
        longest_first[np.argsort(-sizes, kind="stable")] = np.arange(len(sizes))
        order = np.lexsort((np.repeat(longest_first, sizes), steps))
        return cls(order, np.bincount(steps).tolist())

    @cached_property
    def slices(self) -> list[slice]:
        """The words of each step."""
        ends = np.cumsum(self.counts).tolist()
        return [slice(end - count, end) for end, count in zip(ends, self.counts, strict=True)]


def best_labels(emissions: Scores, transitions: Scores, steps: Steps) -> Places:
    """The labels of the likeliest sequence of every sentence; rows are words in decoding order."""
    moves = _Moves.of(transitions)
    # Labels first: sums over sentences are then long.
    across = np.ascontiguousarray(emissions[:, moves.order].T)
    last = across[:, steps.slices[0]]
    # One piece of memory for all steps: asking for it anew would take longer than the sums.
    widest = max(steps.counts[1:], default=0)
    space = np.empty((len(across), moves.full.shape[1], widest))
    for here, count in zip(steps.slices[1:], steps.counts[1:], strict=True):
        best = moves.best(last[:, :count], space[:, :, :count])
        last = across[:, here]
        last += best
    scores = np.ascontiguousarray(across[np.argsort(moves.order)].T)
    into = np.ascontiguousarray(transitions.T)
    labels = np.empty(len(emissions), dtype=np.intp)
    following = labels[:0]
    for here in reversed(steps.slices):
        told = scores[here]
        told[: len(following)] += into[following]
        following = labels[here] = told.argmax(axis=1)
    return labels


@dataclass(frozen=True, eq=False)
class _Moves:
    """Transitions, sorted into labels that many lead to and labels that one or two lead to.

    Most weights are 0, for training leaves out what it can. Into a label without negative weights
    and with two positive ones at most, the best way is one of these two or the best of all; to look
    at all others would be most of the work.
    """

    order: Places
    full: Scores
    nearest: tuple[tuple[Places, Scores], ...]

    @classmethod
    def of(cls, transitions: Scores) -> "_Moves":
        few = (transitions.min(axis=0) >= 0) & ((transitions > 0).sum(axis=0) <= 2)
        many, simple = np.flatnonzero(~few), np.flatnonzero(few)
        order = np.concatenate([many, simple])
        sorted_ = transitions[np.ix_(order, order)]
        rest = sorted_[:, len(many) :]
        ranked = np.argsort(-rest, axis=0, kind="stable")[:2]
        nearest = [(rows, np.take_along_axis(rest, rows[None], 0).T) for rows in ranked]
        return cls(order, sorted_[:, : len(many), None], tuple(nearest) if len(simple) else ())

    def best(self, last: Scores, space: Scores) -> Scores:
        """The best score of a way into every label, from the scores of the labels before."""
        found = np.empty(last.shape)
        count = space.shape[1]
        if count:
            np.add(last[:, None], self.full, out=space)
            np.maximum.reduce(space, axis=0, out=found[:count])
        if self.nearest:
            simple = found[count:]
            simple[:] = np.maximum.reduce(last, axis=0)
            for rows, weights in self.nearest:
                np.maximum(simple, last[rows] + weights, out=simple)
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
