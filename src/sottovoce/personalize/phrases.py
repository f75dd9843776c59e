"""Beyond single words: a personal cache of word pairs, backed off to the adapted model.

After "call" one person says "mum" and another "doctor brown". The cache keeps the weighted pairs of
one client by first-pass rank and mixes them into any model, word by word:
p'(w|h) = (1 - g) p(w|h) + g n(v, w) / n(v), with v the word before w and
g = strength n(v) / (n(v) + trust), so that a history heard once moves little. Pairs never leave
the device; nothing of them is federated.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from sottovoce import _validate
from sottovoce.personalize.counting import Counting
from sottovoce.personalize.nbest import NBest
from sottovoce.personalize.ngram.model import END, START, NGramModel
from sottovoce.personalize.vocabulary import Vector


class PhraseCache:
    """Weighted word pairs of one client.

    >>> from sottovoce.personalize.nbest import Hypothesis
    >>> cache = PhraseCache(Counting())
    >>> cache.add(NBest("u", (Hypothesis("call mum"),)))
    >>> cache.probability("call", "mum"), cache.weight("call"), cache.weight("dad")
    (1.0, 0.125, 0.0)
    """

    def __init__(self, counting: Counting, *, strength: float = 0.5, trust: float = 3.0) -> None:
        self.counting = counting
        self.strength = _validate.between("strength", strength, 0, 0.999)
        self.trust = _validate.positive("trust", trust)
        self._pairs: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        self._totals: dict[str, float] = defaultdict(float)

    def add(self, heard: NBest) -> None:
        """Count the pairs of one utterance, start and end included."""
        kept = heard.hypotheses[: self.counting.nbest]
        weights = self.counting.weights(len(kept)) / self.counting.unit
        for hypothesis, weight in zip(kept, weights.tolist(), strict=True):
            said = [START, *hypothesis.words[: self.counting.max_words], END]
            for before, word in pairwise(said):
                self._pairs[before][word] += weight
                self._totals[before] += weight

    def probability(self, before: str, word: str) -> float:
        """How often this client went on with `word`; 0 if `before` was never heard."""
        if before not in self._pairs:
            return 0.0
        return self._pairs[before].get(word, 0.0) / self._totals[before]

    def weight(self, before: str) -> float:
        """How far the cache is believed after this word."""
        total = self._totals.get(before, 0.0)
        return self.strength * total / (total + self.trust)

    def score(
        self,
        sentences: Sequence[Sequence[str]],
        model: NGramModel,
        log_factors: Vector | None = None,
        *,
        normalise: bool = True,
    ) -> list[float]:
        """ln p' of every sentence with its end, the cache mixed into the adapted model."""
        log_p, owners = model.score_words(sentences, log_factors, normalise=normalise)
        places = np.zeros(len(sentences), dtype=np.int64)
        totals = [0.0] * len(sentences)
        said = [[START, *sentence, END] for sentence in sentences]
        for owner, value in zip(owners.tolist(), log_p.tolist(), strict=True):
            before, word = said[owner][places[owner] : places[owner] + 2]
            places[owner] += 1
            weight = self.weight(before)
            mixed = (1 - weight) * math.exp(value) + weight * self.probability(before, word)
            totals[owner] += math.log(mixed) if mixed > 0 else value
        return totals
