"""A personal model on the device: what one person said lately, mixed into any background.

p'(w|v,h) = (1-c) ((1-a) p_s(w|v,h) + a n(w)/n) + c n(v,w)/n(v), with v the previous word, n the
decayed counts of the person, a = words n / (n + trust) and c = pairs n(v) / (n(v) + trust). p_s is
the background, with everybody's words (q_bar, which has no sentence ends: those keep p) and pairs
mixed in where they are known. Personal words are any words, also those that the background does not
know: `<unk>` stands for `unseen` words, and each has its share of it. Counts halve every
`half_life` utterances, because people repeat themselves within minutes. Bias lists (contacts,
titles) add a bonus for every word of a listed phrase that is there in full.

What counts is the text that the background chose, or the user's correction, several times. All of
it stays on the device. Only text from before the utterance is used.

The result for a hypothesis is its gain, the sum of ln p'(w) - ln p(w), by class of words: frequent
ones, other ones, and those unknown to the background. `trusting` decides how much of it to believe.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sottovoce import _validate
from sottovoce.personalize.federated.pairs import SharedPairs
from sottovoce.personalize.lm.ngram.model import END, START
from sottovoce.personalize.lm.vocabulary import Vector, Vocabulary

CLASSES = ("frequent words", "other words", "unknown words")
Gains = NDArray[np.float64]
"""Hypotheses x classes."""


@dataclass(frozen=True, kw_only=True)
class CacheSettings:
    """Weights of the personal model; see the module for their meaning."""

    words: float = 0.2
    pairs: float = 0.4
    shared: float = 0.2
    word_trust: float = 20.0
    pair_trust: float = 5.0
    half_life: float = 10.0
    unseen: int = 20_000
    frequent: int = 300
    correction: float = 3.0
    boost: float = 2.0

    def __post_init__(self) -> None:
        for name in ("words", "pairs", "shared"):
            _validate.between(name, getattr(self, name), 0, 0.999)
        for name in ("word_trust", "pair_trust", "half_life", "unseen", "correction"):
            _validate.positive(name, getattr(self, name))
        _validate.not_negative("boost", self.boost)


class BiasList:
    """Words and phrases that a person is likely to say: contacts, titles, playlists.

    >>> bias = BiasList(["Maria Callas", "mum"])
    >>> bias.matched("play maria callas now".split())
    [False, True, True, False]
    >>> bias.matched("play maria now".split())
    [False, False, False]
    """

    def __init__(self, phrases: Iterable[str] = ()) -> None:
        self._by_first: dict[str, list[tuple[str, ...]]] = defaultdict(list)
        self.words: set[str] = set()
        for phrase in phrases:
            words = tuple(phrase.lower().split())
            if words and words not in self._by_first[words[0]]:
                self._by_first[words[0]].append(words)
                self.words.update(words)

    def __bool__(self) -> bool:
        return bool(self._by_first)

    def matched(self, sentence: Sequence[str]) -> list[bool]:
        """For every word, whether it belongs to a listed phrase that is there in full."""
        found = [False] * len(sentence)
        lower = tuple(word.lower() for word in sentence)
        for start, first in enumerate(lower):
            for phrase in self._by_first.get(first, ()):
                if lower[start : start + len(phrase)] == phrase:
                    found[start : start + len(phrase)] = [True] * len(phrase)
        return found


class PersonalModel:
    """The decayed counts of one person, and the gain of mixing them into a background.

    >>> words = Vocabulary(("call", "mum", "mom", "<unk>"), [0.4, 0.2, 0.2, 0.2])
    >>> model = PersonalModel(words)
    >>> model.add(["call", "mum"])
    >>> plain = np.log([0.4, 0.2, 0.5])
    >>> mum, mom = model.gains([["call", "mum"], ["call", "mom"]], [plain, plain]).sum(axis=1)
    >>> bool(mum > 0 > mom)
    True
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        settings: CacheSettings | None = None,
        *,
        everybody: Vector | None = None,
        pairs: SharedPairs | None = None,
        bias: BiasList | None = None,
    ) -> None:
        self._vocabulary, self.settings = vocabulary, settings or CacheSettings()
        self._everybody, self._shared_pairs = everybody, pairs
        self.bias = bias or BiasList()
        # New counts are inflated instead of decaying all the old ones.
        self._unit = 1.0
        self._words: dict[str, float] = defaultdict(float)
        self._pairs: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        self._starts: dict[str, float] = defaultdict(float)
        self._total = 0.0

    def add(self, sentence: Sequence[str], *, corrected: bool = False) -> None:
        """Count one utterance; a correction by the user counts several times."""
        self._unit *= 2 ** (1 / self.settings.half_life)
        if self._unit > 1e100:
            self._rescale()
        mass = self._unit * (self.settings.correction if corrected else 1.0)
        for before, word in pairwise((START, *sentence, END)):
            self._pairs[before][word] += mass
            self._starts[before] += mass
            self._words[word] += mass
            self._total += mass

    def gains(self, sentences: Sequence[Sequence[str]], log_p: Sequence[Vector]) -> Gains:
        """The gain of every sentence by class; `log_p` are the background's, with the end."""
        known: dict[tuple[str, ...], Gains] = {}
        rows = []
        for sentence, plain in zip(sentences, log_p, strict=True):
            words = tuple(sentence)
            if words not in known:
                known[words] = self._gain(words, plain)
            rows.append(known[words])
        return np.array(rows).reshape(len(rows), len(CLASSES))

    def _gain(self, sentence: tuple[str, ...], plain: Vector) -> Gains:
        found = np.zeros(len(CLASSES))
        matched = self.bias.matched(sentence) if self.bias else ()
        for place, (before, word) in enumerate(pairwise((START, *sentence, END))):
            kind = self._class(word)
            p = math.exp(plain[place])
            if kind == 2:
                p /= self.settings.unseen
            found[kind] += math.log(max(self._mixed(p, before, word), 1e-300) / max(p, 1e-300))
            if matched and place < len(matched) and matched[place]:
                found[kind] += self.settings.boost
        return found

    def _mixed(self, p: float, before: str, word: str) -> float:
        settings, unit = self.settings, self._unit
        place = self._vocabulary.index.get(word)
        if self._everybody is not None and place is not None and word != END:
            p += settings.shared * (float(self._everybody[place]) - p)
        if self._shared_pairs is not None and (weight := self._shared_pairs.weight(before)) > 0:
            p += weight * (self._shared_pairs.probability(before, word) - p)
        if self._total > 0:
            heard = self._total / unit
            weight = settings.words * heard / (heard + settings.word_trust)
            p += weight * (self._words.get(word, 0.0) / self._total - p)
        if (begun := self._starts.get(before, 0.0)) > 0:
            heard = begun / unit
            weight = settings.pairs * heard / (heard + settings.pair_trust)
            p += weight * (self._pairs[before].get(word, 0.0) / begun - p)
        return p

    def _class(self, word: str) -> int:
        if word == END:
            return 0
        place = self._vocabulary.index.get(word)
        if place is None:
            return 2
        # Vocabularies are sorted by frequency.
        return 0 if place < self.settings.frequent else 1

    def _rescale(self) -> None:
        factor = 1 / self._unit
        self._unit = 1.0
        self._total *= factor
        tables: list[dict[str, float]] = [self._words, self._starts, *self._pairs.values()]
        for table in tables:
            for word in table:
                table[word] *= factor


def read_bias(lines: Iterable[str]) -> tuple[BiasList, Mapping[str, BiasList]]:
    """Lines `phrase`, for everybody, or `client<tab>phrase`."""
    common: list[str] = []
    own: dict[str, list[str]] = defaultdict(list)
    for line in lines:
        client, tab, phrase = line.strip().rpartition("\t")
        if phrase.strip():
            (own[client] if tab else common).append(phrase)
    return BiasList(common), {
        client: BiasList([*common, *phrases]) for client, phrases in own.items()
    }
