"""Word pieces of words, with the alignment back to words.

Every word has at least one piece ([UNK] if the tokeniser returns none). An utterance with more
pieces than the model has positions is split into windows that overlap by half, and the vector of a
word comes from the window with the most context around it.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from sottovoce.errors import InvalidInput
from sottovoce.nlu.encoders.base import Prepared, check_words, padded, prefix_mask

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_CACHED_WORDS = 100_000


@dataclass(frozen=True, kw_only=True)
class SpecialTokens:
    """Ids of the special tokens."""

    start: int
    end: int
    unknown: int
    padding: int


class Pieces:
    """A tokeniser, and the layout of its pieces in windows."""

    def __init__(self, tokenizer: "Tokenizer", marks: SpecialTokens, positions: int) -> None:
        if positions < 3:
            raise InvalidInput(f"Expected at least 3 positions for pieces, got {positions}.")
        self.tokenizer, self.marks, self.positions = tokenizer, marks, positions
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self._known: dict[str, list[int]] = {}
        # Byte-level tokenisers encode the first word of a text differently from later ones.
        inside, first = self._encode("a a")[-1:], self._encode("a")[-1:]
        self._blank = " " if inside != first and inside == self._encode(" a")[-1:] else ""

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def of_word(self, word: str) -> list[int]:
        """The pieces of one word: at least one, and at most as many as fit into a window."""
        found = self._known.get(word)
        if found is None:
            encoded = self._encode(self._blank + word) or [self.marks.unknown]
            found = encoded[: self.positions - 2]
            if len(self._known) < _CACHED_WORDS:
                self._known[word] = found
        return found

    def prepare(self, tokens: Sequence[str]) -> Prepared:
        """`pieces` [windows, longest], `lengths` [windows], and for each word its `window`, the
        position of its first piece (`first`) and its number of pieces (`count`)."""
        check_words(tokens)
        words = [self.of_word(token) for token in tokens]
        sizes = [len(word) for word in words]
        windows = split_windows(sizes, self.positions - 2)
        rows, first = [], []
        for begin, end in windows:
            inside = [piece for word in words[begin:end] for piece in word]
            rows.append(torch.tensor([self.marks.start, *inside, self.marks.end]))
        chosen = best_windows(sizes, windows)
        for word, window in enumerate(chosen):
            first.append(1 + sum(sizes[windows[window][0] : word]))
        return {
            "pieces": padded(rows, self.marks.padding),
            "lengths": torch.tensor([len(row) for row in rows]),
            "window": torch.tensor(chosen),
            "first": torch.tensor(first),
            "count": torch.tensor(sizes),
        }

    def collate(self, prepared: Sequence[Prepared]) -> dict[str, Tensor]:
        """Windows of one utterance are adjacent, padded to the largest number of windows."""
        windows = max(len(one["lengths"]) for one in prepared)
        longest = max(int(one["lengths"].max()) for one in prepared)
        shape = (len(prepared), windows, longest)
        pieces = torch.full(shape, self.marks.padding, dtype=torch.int64)
        # An empty window attends to its first position: softmax needs at least one.
        lengths = torch.ones(shape[:2], dtype=torch.int64)
        for row, one in enumerate(prepared):
            own = one["pieces"]
            pieces[row, : own.shape[0], : own.shape[1]] = own
            lengths[row, : own.shape[0]] = one["lengths"]
        first = [one["first"] + longest * one["window"] for one in prepared]
        return {
            "pieces": pieces,
            "attention": prefix_mask(lengths.flatten(), longest).view(shape),
            "first": padded(first),
            "count": padded([one["count"] for one in prepared]),
        }

    def to_json(self) -> dict[str, Any]:
        return {"marks": asdict(self.marks), "positions": self.positions}

    def file(self) -> bytes:
        """The tokeniser in the form of tokenizer.json."""
        text: str = self.tokenizer.to_str()
        return text.encode()


def split_windows(sizes: Sequence[int], capacity: int) -> list[tuple[int, int]]:
    """Ranges of words whose pieces fit into a window; neighbours overlap by up to half.

    >>> split_windows([1, 1, 1], 8), split_windows([1] * 6, 4), split_windows([9, 1], 4)
    ([(0, 3)], [(0, 4), (2, 6)], [(0, 1), (1, 2)])
    """
    windows = []
    begin = 0
    while True:
        end, used = begin, 0
        while end < len(sizes) and (used + sizes[end] <= capacity or end == begin):
            used += sizes[end]
            end += 1
        windows.append((begin, end))
        if end == len(sizes):
            return windows
        following, shared = end, 0
        # The next window must end after this one.
        most = min(capacity // 2, capacity - sizes[end])
        while following - 1 > begin and shared + sizes[following - 1] <= most:
            following -= 1
            shared += sizes[following]
        begin = following


def best_windows(sizes: Sequence[int], windows: Sequence[tuple[int, int]]) -> list[int]:
    """For each word, the window in which it is farthest from the nearer edge.

    >>> best_windows([1] * 6, [(0, 4), (2, 6)])
    [0, 0, 0, 1, 1, 1]
    """
    if len(windows) == 1:
        return [0] * len(sizes)
    before = [0]
    for size in sizes:
        before.append(before[-1] + size)
    best = [(-1, 0)] * len(sizes)
    for number, (begin, end) in enumerate(windows):
        for word in range(begin, end):
            # The edges of the utterance cut off no context.
            left = before[word] - before[begin] if begin else before[-1]
            right = before[end] - before[word + 1] if end < len(sizes) else before[-1]
            if min(left, right) > best[word][0]:
                best[word] = (min(left, right), number)
    return [number for _, number in best]
