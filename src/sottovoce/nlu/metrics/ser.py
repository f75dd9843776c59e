"""Semantic error rate: SER = (S + I + D) / (C + S + D), pooled over the corpus.

The items of an utterance are its intent and its slots, each with name and value; so the
denominator is the slots of the reference and one more an utterance. SER can exceed 1. Items are
aligned by edit distance (Su et al. 2018); matching slots by their names is the known variant.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from rapidfuzz.distance import Levenshtein

from sottovoce import _validate
from sottovoce.nlu.metrics.spans import slot_spans

Alignment = Literal["levenshtein", "names"]
ALIGNMENTS = ("levenshtein", "names")

INTENT = ""
"""The name of the item that is the intent: no slot is called so."""


class Item(NamedTuple):
    """One thing that was understood."""

    name: str
    value: str


def items_of(intent: str, tokens: Sequence[str], slots: Sequence[str]) -> list[Item]:
    """The intent, then the slots in the order of the words.

    >>> items_of("call", ("ring", "my", "mum"), ("O", "B-who", "I-who"))
    [Item(name='', value='call'), Item(name='who', value='my mum')]
    """
    spans = slot_spans(slots)
    return [
        Item(INTENT, intent),
        *(Item(kind, " ".join(tokens[start:end])) for start, end, kind in spans),
    ]


@dataclass(frozen=True, slots=True)
class SemanticErrors:
    """Counts that can be added up.

    >>> errors = SemanticErrors(correct=1, substitutions=1, insertions=2, deletions=2)
    >>> errors.rate
    1.25
    """

    correct: int = 0
    substitutions: int = 0
    insertions: int = 0
    deletions: int = 0

    @property
    def count(self) -> int:
        return self.substitutions + self.insertions + self.deletions

    @property
    def items(self) -> int:
        """Of the reference."""
        return self.correct + self.substitutions + self.deletions

    @property
    def rate(self) -> float:
        return self.count / self.items if self.items else 0.0

    def __add__(self, other: "SemanticErrors") -> "SemanticErrors":
        return SemanticErrors(
            self.correct + other.correct,
            self.substitutions + other.substitutions,
            self.insertions + other.insertions,
            self.deletions + other.deletions,
        )


def semantic_errors(
    reference: Sequence[Item], hypothesis: Sequence[Item], alignment: Alignment = "levenshtein"
) -> SemanticErrors:
    """The errors of one utterance; see `items_of`.

    >>> right = [Item("", "play"), Item("song", "two steps behind"), Item("artist", "def leppard")]
    >>> semantic_errors(right, [Item("", "play"), Item("song", "two steps"), right[2]])
    SemanticErrors(correct=2, substitutions=1, insertions=0, deletions=0)
    """
    _validate.one_of("alignment", alignment, ALIGNMENTS)
    if reference == hypothesis:
        return SemanticErrors(correct=len(reference))
    if alignment == "names":
        return _by_name(reference, hypothesis)
    kinds = Counter(edit.tag for edit in Levenshtein.editops(reference, hypothesis))
    wrong, lost = kinds["replace"], kinds["delete"]
    return SemanticErrors(len(reference) - wrong - lost, wrong, kinds["insert"], lost)


def _by_name(reference: Sequence[Item], hypothesis: Sequence[Item]) -> SemanticErrors:
    """Items meet those of their own name, equal values first."""
    there: defaultdict[str, Counter[str]] = defaultdict(Counter)
    given: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for items, side in (reference, there), (hypothesis, given):
        for name, value in items:
            side[name][value] += 1
    total = SemanticErrors()
    for name in there | given:
        wanted, found = there[name], given[name]
        correct = (wanted & found).total()
        left, surplus = wanted.total() - correct, found.total() - correct
        wrong = min(left, surplus)
        total += SemanticErrors(correct, wrong, surplus - wrong, left - wrong)
    return total
