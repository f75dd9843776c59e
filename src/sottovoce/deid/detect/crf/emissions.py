"""How well every label fits every word: a sum of what the word and its neighbours bring along.

What a word contributes to a label depends on the word and on how far away it stands, on nothing
else. So its weights are added up once, for each of five distances, and kept; the score of a place
in a text is then a sum of five rows of a table.
"""

from collections.abc import Callable, Sequence

import numpy as np

from sottovoce.deid.detect.crf.decoding import Places
from sottovoce.deid.detect.crf.features import EDGE, FAR_EDGE, Lists, features_of
from sottovoce.deid.detect.crf.weights import Scores, Weights

_MOST_KEPT = 20_000  # words; then the memory starts afresh, so that it stays bounded
_BLOCK = 8_192
_PADDING = ("\0far", "\0near")
"""Stand for the edges; no word begins like them."""
_BEFORE, _AFTER = _PADDING, _PADDING[::-1]


class Emissions:
    """The scores of words in sentences, by the weights of a model."""

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
