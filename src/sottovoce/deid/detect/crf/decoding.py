"""Decoding with the weights of a CRFsuite model, without CRFsuite.

The labels are those that CRFsuite finds; many sentences are decoded at once.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.deid.detect.crf.features import EDGE, FAR_EDGE, Lists, features_of
from sottovoce.errors import InvalidInput

Scores = NDArray[np.float64]

_HEADER = struct.Struct("<4sI4s9I")
_CHUNK = 12  # bytes before the features: a name, the size, the number of features
_NAMES = struct.Struct("<4s5I")
_VERSION = 100
_FEATURE = np.dtype([("type", "<u4"), ("source", "<u4"), ("target", "<u4"), ("weight", "<f8")])


@dataclass(frozen=True, eq=False)
class Weights:
    """`states[attributes[a], y]` for an attribute at a word of label y, `transitions[y, next]`."""

    labels: tuple[str, ...]
    attributes: dict[str, int]
    states: Scores
    transitions: Scores


def read_weights(model: bytes) -> Weights:
    """Read the weights from the bytes of a CRFsuite model; any other file is refused.

    The file has a header, a list of features with one weight each, and two tables of names: labels
    and attributes. Every integer is little-endian and has 32 bits. A feature of type 0 belongs to
    an attribute and a label, one of type 1 to two consecutive labels.
    """
    try:
        magic, size, kind, version, *rest = _HEADER.unpack_from(model)
        if (magic, kind, version) != (b"lCRF", b"FOMC", _VERSION) or size != len(model):
            raise ValueError(f"{magic!r} of {size} bytes, version {version}")
        _, label_count, attribute_count, at_features, at_labels, at_attributes, *_ = rest
        labels = _names(model, at_labels, label_count)
        attributes = _names(model, at_attributes, attribute_count)
        count: int = struct.unpack_from("<4sII", model, at_features)[2]
        found = np.frombuffer(model, _FEATURE, count, at_features + _CHUNK)
        states = np.zeros((attribute_count, label_count))
        transitions = np.zeros((label_count, label_count))
        for table, number in ((states, 0), (transitions, 1)):
            chosen: Any = found[found["type"] == number]
            table[chosen["source"], chosen["target"]] = chosen["weight"]
    except (struct.error, ValueError, IndexError) as problem:
        raise InvalidInput(f"Expected a model of CRFsuite, got {problem}.") from problem
    if not np.isfinite(states).all() or not np.isfinite(transitions).all():
        raise InvalidInput("Expected finite weights in a model, got others.")
    return Weights(
        tuple(labels), {name: place for place, name in enumerate(attributes)}, states, transitions
    )


def rounded(model: bytes, step: float = 1 / 128) -> bytes:
    """The model with weights that are multiples of a step: the file then packs several times
    smaller, and small weights are gone."""
    read_weights(model)
    at_features: int = _HEADER.unpack_from(model)[7]
    count: int = struct.unpack_from("<4sII", model, at_features)[2]
    altered = bytearray(model)
    found: Any = np.frombuffer(altered, _FEATURE, count, at_features + _CHUNK)
    found["weight"] = np.round(found["weight"] / step) * step
    return bytes(altered)


def _names(model: bytes, start: int, count: int) -> list[str]:
    """The names of a table by their numbers; an array at its end says where each one stands."""
    magic, _, _, _, size, offset = _NAMES.unpack_from(model, start)
    if magic != b"CQDB" or size < count:
        raise ValueError(f"a table of {size} names, {count} of them expected")
    places = np.frombuffer(model, "<u4", count, start + offset).tolist()
    names = []
    for place in places:
        _, length = struct.unpack_from("<II", model, start + place)
        begin = start + place + 8
        names.append(model[begin : begin + length - 1].decode())
    return names


Places = NDArray[np.intp]

_FEW = 4  # ways into a label; more of them take as long as all


@dataclass(frozen=True, eq=False)
class Steps:
    """The words of sentences in the order of decoding: all first words, all second words, ...

    Sentences are decoded side by side, longest first, one word per step, so the sentences that are
    long enough for a step are a slice of a table. This is many times faster than one sentence at a
    time.

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
    """The likeliest labels of every sentence (Viterbi); rows are words in decoding order."""
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
                # Every row is there: see `Emissions`.
                np.take(last, rows, axis=0, out=one, mode="clip")
                one += weights
                mine = ways[: len(rows)]
                np.maximum(mine, one, out=mine)
            found[self.few] = ways
        return found


def chances(emissions: Scores, transitions: Scores, steps: Steps) -> Scores:
    """The probability of every label at every word (forward-backward), in the same order."""
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


_MOST_KEPT = 20_000  # words; then the memory starts afresh, so that it stays bounded
_BLOCK = 8_192
_PADDING = ("\0far", "\0near")
"""Stand for the edges; no word begins like them."""
_BEFORE, _AFTER = _PADDING, _PADDING[::-1]


class Emissions:
    """How well every label fits every word of a sentence, by the weights of a model.

    What a word contributes to a label depends only on the word and its distance. So its weights are
    added up once for each of five distances and kept; the score at a position is then a sum of five
    rows of a table.
    """

    def __init__(self, weights: Weights, lists_of: Callable[[str], Lists] = features_of) -> None:
        self._weights = weights
        self._lists_of = lists_of
        self._known: dict[str, int] = {}
        self._tables: Scores
        self._forget()

    def of(self, sentences: Sequence[Sequence[str]], order: Places | None = None) -> Scores:
        """One row a word, in the order of the text, or in this one."""
        words: list[str] = []
        for sentence in sentences:
            words += _BEFORE
            words += sentence
            words += _AFTER
        sizes = np.array([len(sentence) for sentence in sentences])
        # Every sentence has two words before it, and four for each sentence that went before.
        wanted = np.arange(sizes.sum()) + np.repeat(4 * np.arange(len(sizes)) + 2, sizes)
        if order is not None:
            wanted = wanted[order]
        found = np.empty((len(wanted), len(self._weights.labels)))
        for begin in range(0, len(wanted), _BLOCK):
            block = wanted[begin : begin + _BLOCK]
            first, last = int(block.min()) - 2, int(block.max()) + 3
            rows = np.array(self._rows(words[first:last]), dtype=np.intp)
            self._add_up(rows, block - first, found[begin : begin + _BLOCK])
        return found

    def _rows(self, words: Sequence[str]) -> list[int]:
        if len(self._known) > _MOST_KEPT:
            self._forget()
        known = self._known
        try:
            return [known[word] for word in words]
        except KeyError:
            for word in words:
                if word not in known:
                    self._learn(word, self._lists_of(word))
        return [known[word] for word in words]

    def _add_up(self, rows: Places, places: Places, into: Scores) -> None:
        np.take(self._tables[0], rows[places], axis=0, out=into, mode="clip")
        one = np.empty_like(into)
        for table, distance in zip(self._tables[1:], (-1, 1, -2, 2), strict=True):
            # Every row is there; to "clip" spares numpy the copy that it would make to check that.
            np.take(table, rows[places + distance], axis=0, out=one, mode="clip")
            into += one

    def _learn(self, word: str, lists: Lists) -> None:
        row = self._known[word] = len(self._known)
        if row == self._tables.shape[1]:
            self._tables = np.concatenate([self._tables, np.zeros_like(self._tables)], axis=1)
        attributes = self._weights.attributes
        for table, features in zip(self._tables, lists, strict=True):
            places = [attributes[name] for name in features if name in attributes]
            table[row] = self._weights.states[places].sum(axis=0)

    def _forget(self) -> None:
        self._known = {}
        self._tables = np.zeros((5, 1024, len(self._weights.labels)))
        for word, lists in zip(_PADDING, (FAR_EDGE, EDGE), strict=True):
            self._learn(word, lists)
