"""Canary pairs: the coin decides which of two canaries is included.

A guarantee under replace-one (shuffled or fixed batches) does not cover adding a record, so
canaries that are in or out cannot refute it. In a pair, one canary replaces the other, the size of
the training data is the same either way, and the bound holds under replace-one.
"""

from dataclasses import dataclass
from typing import ClassVar

from sottovoce.audit._checks import Flags, Scores
from sottovoce.audit.canaries.text import TextCanaries
from sottovoce.audit.scoring import ScoringFunction, log_probabilities
from sottovoce.corpora import Utterance
from sottovoce.errors import InvalidInput
from sottovoce.privacy.guarantee import Relation


@dataclass(frozen=True, eq=False)
class CanaryPairs:
    """Two canaries per coin: heads includes the first, tails the second.

    >>> from sottovoce.audit.canaries import text_canaries
    >>> from sottovoce.privacy.noise import NoiseSource
    >>> pairs = CanaryPairs.of(text_canaries(100, vocabulary=["a", "b", "c", "d"], length=10,
    ...                                      intents=["x", "y"], source=NoiseSource()))
    >>> len(pairs.chosen()), pairs.included.shape, str(pairs.relation)
    (50, (50,), 'replace-one')
    """

    first: tuple[Utterance, ...]
    second: tuple[Utterance, ...]
    included: Flags

    relation: ClassVar[Relation] = Relation.REPLACE_ONE

    @classmethod
    def of(cls, canaries: TextCanaries) -> "CanaryPairs":
        """Pair the canaries; the coin of the first of each pair decides for both."""
        if len(canaries.utterances) % 2:
            raise InvalidInput(
                f"Expected an even number of canaries to pair up, got {len(canaries.utterances)}."
            )
        return cls(
            canaries.utterances[::2], canaries.utterances[1::2], canaries.included[::2].copy()
        )

    def chosen(self) -> list[Utterance]:
        """The canaries to train on, one of each pair."""
        return [
            heads if coin else tails
            for heads, tails, coin in zip(
                self.first, self.second, self.included.tolist(), strict=True
            )
        ]

    def scores(self, score: ScoringFunction[Utterance]) -> Scores:
        """Log-probability of the first canary of each pair minus that of the second."""
        heads = log_probabilities(score(self.first), len(self.first))
        tails = log_probabilities(score(self.second), len(self.second))
        return heads - tails
