"""A personal n-gram cache, interpolated with the adapted model.

After "call" one person says "mum" and another "doctor brown". The cache holds the weighted n-grams
of one client, by first-pass rank, and mixes them into any model, word by word, shortest histories
first: p_k(w|h) = (1 - g) p_{k-1}(w|h) + g n(v, w) / n(v), with v the last k words of h, p_0 the
model and g = strength n(v) / (n(v) + trust), so that a history counted once has little effect and
an unseen one none. Phrases never leave the device; they are not federated.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from sottovoce import _validate
from sottovoce.personalize.federated.counting import Counting
from sottovoce.personalize.lm.mixture import WordModel
from sottovoce.personalize.lm.ngram.model import END, START
from sottovoce.personalize.lm.vocabulary import Vector
from sottovoce.personalize.nbest.lists import NBest

History = tuple[str, ...]


class PhraseCache:
    """Weighted phrases of one client, of up to `order` words.

    >>> from sottovoce.personalize.nbest.lists import Hypothesis
    >>> cache = PhraseCache(Counting())
    >>> cache.add(NBest("u", (Hypothesis("call mum"),)))
    >>> cache.probability(("call",), "mum"), cache.weight(("call",)), cache.weight(("dad",))
    (1.0, 0.125, 0.0)
    """

    def __init__(
        self, counting: Counting, *, order: int = 2, strength: float = 0.5, trust: float = 3.0
    ) -> None:
        self.counting = counting
        self.order = _validate.at_least_one("order", order)
        self.strength = _validate.between("strength", strength, 0, 0.999)
        self.trust = _validate.positive("trust", trust)
        self._after: dict[History, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        self._totals: dict[History, float] = defaultdict(float)

    def add(self, nbest: NBest) -> None:
        """Count the phrases of one utterance, including start and end."""
        kept = nbest.hypotheses[: self.counting.nbest]
        weights = self.counting.weights(len(kept)) / self.counting.unit
        for hypothesis, weight in zip(kept, weights.tolist(), strict=True):
            for histories, word in self._events(hypothesis.words[: self.counting.max_words]):
                for history in histories:
                    self._after[history][word] += weight
                    self._totals[history] += weight

    def probability(self, history: History, word: str) -> float:
        """The probability of `word` after `history` for this client; 0 if `history` is unseen."""
        if history not in self._after:
            return 0.0
        return self._after[history].get(word, 0.0) / self._totals[history]

    def weight(self, history: History) -> float:
        """The mixture weight of the cache after this history."""
        total = self._totals.get(history, 0.0)
        return self.strength * total / (total + self.trust)

    def score(
        self,
        sentences: Sequence[Sequence[str]],
        model: WordModel,
        log_factors: Vector | None = None,
        *,
        normalise: bool = True,
    ) -> list[float]:
        """ln p of every sentence including its end, with the cache mixed into the adapted model."""
        log_p, owners = model.score_words(sentences, log_factors, normalise=normalise)
        mixed = self.mixed(sentences, np.exp(log_p))
        # If both probabilities are 0, keep the model's log probability.
        values = np.where(mixed > 0, np.log(np.maximum(mixed, np.finfo(float).tiny)), log_p)
        return [float(total) for total in np.bincount(owners, values, minlength=len(sentences))]

    def mixed(self, sentences: Sequence[Sequence[str]], probabilities: Vector) -> Vector:
        """Probabilities of all words and sentence ends in order, with the cache mixed in."""
        events = (event for sentence in sentences for event in self._events(sentence))
        found: Vector = probabilities.copy()
        for place, (histories, word) in enumerate(events):
            for history in histories:
                weight = self.weight(history)
                found[place] += weight * (self.probability(history, word) - found[place])
        return found

    def _events(self, sentence: Sequence[str]) -> Iterator[tuple[list[History], str]]:
        """Every word and the end, with the preceding histories, shortest first."""
        words = (START, *sentence, END)
        for place in range(1, len(words)):
            longest = min(self.order - 1, place)
            yield [words[place - k : place] for k in range(1, longest + 1)], words[place]
