"""Word pairs shared with noise: "flights from" rather than "flights form".

Single words tell what people talk about, pairs how they phrase it, and a few hundred pairs cover
most of a domain. They are counted and released like words (`Counting(order=2)`, `ReleasePlan`,
`Server`), over a vocabulary of pairs. All pairs of a large vocabulary would drown in noise, so the
words are selected from an earlier release of single words, at no extra cost, and a released pair is
kept only above a threshold (`simplex.keep`).

The kept pairs are mixed into any background: p'(w|h) = (1 - g) p(w|h) + g q(v, w) / q(v), with v
the previous word, q(v) the share of kept pairs that begin with v, and g = strength n(v) / (n(v) +
trust) with n(v) the count behind that share. After a word that begins no kept pair, nothing
changes.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.personalize.federated.marginals import Marginals
from sottovoce.personalize.lm.mixture import WordByWord, WordModel, along
from sottovoce.personalize.lm.ngram.model import END, START, Ints
from sottovoce.personalize.lm.vocabulary import UNKNOWN, Vector, Vocabulary

# Assumed words per sentence, each with one start and one end.
_SENTENCE = 10


def pair_vocabulary(words: Vocabulary, q_bar: Vector, size: int) -> Vocabulary:
    """All pairs of the `size` most probable words of q_bar, and of sentence starts and ends.

    The background probability of a pair is u(v) u(w), as if words were independent.

    >>> words = Vocabulary(("call", "mum", "dad", "<unk>"), [0.4, 0.2, 0.2, 0.2])
    >>> pair_vocabulary(words, np.array([0.6, 0.1, 0.3, 0.0]), 2).words[:4]
    ('<s> call', '<s> dad', '<s> </s>', 'call call')
    """
    if not 1 <= size < len(words):
        raise InvalidInput(
            f"Expected 1 to {len(words) - 1} words to make pairs of, got {size}: lower the size."
        )
    if q_bar.shape != words.unigram.shape:
        raise InvalidInput(f"Expected {len(words)} probabilities, got {len(q_bar)}.")
    ranked = sorted(range(len(words)), key=lambda place: (-q_bar[place], place))
    places = [place for place in ranked if place != words.index[UNKNOWN]][:size]
    kept = [words.words[place] for place in places]
    likely = np.append(words.unigram[places], 1 / _SENTENCE)
    # The start comes first in rows, the end last in columns.
    mass = np.outer(np.roll(likely, 1), likely).ravel()
    pairs = [f"{before} {word}" for before in (START, *kept) for word in (*kept, END)]
    return Vocabulary((*pairs, UNKNOWN), np.append(mass / (2 * mass.sum()), 0.5))


class SharedPairs:
    """The kept pairs of a release.

    >>> shares = {"<s> call": 0.4, "call mum": 0.3, "call dad": 0.1, "<unk>": 0.2}
    >>> released = Marginals(tuple(shares), np.array(list(shares.values())), mass=100.0)
    >>> pairs = SharedPairs(released, strength=0.5)
    >>> pairs.kept, round(pairs.probability("call", "mum"), 3), round(pairs.weight("call"), 3)
    (3, 0.75, 0.4)
    """

    def __init__(self, released: Marginals, *, strength: float = 0.6, trust: float = 10.0) -> None:
        self.strength = _validate.between("strength", strength, 0, 0.999)
        self.trust = _validate.positive("trust", trust)
        # Without a mass, trust the shares fully.
        self._mass = np.inf if released.mass is None else released.mass
        self.about = released.about
        self._after: dict[str, dict[str, float]] = defaultdict(dict)
        for pair, share in zip(released.words, released.q_bar.tolist(), strict=True):
            if share > 0 and pair != UNKNOWN:
                before, word = _split(pair)
                self._after[before][word] = share
        self._starts = {before: sum(after.values()) for before, after in self._after.items()}

    @property
    def kept(self) -> int:
        """The number of pairs. Not `__len__`: an empty release is not falsy."""
        return sum(map(len, self._after.values()))

    def probability(self, before: str, word: str) -> float:
        """The probability of `word` after `before` among the kept pairs."""
        if before not in self._starts:
            return 0.0
        return self._after[before].get(word, 0.0) / self._starts[before]

    def weight(self, before: str) -> float:
        """The mixture weight of the pairs after this word."""
        if before not in self._starts:
            return 0.0
        # As n / (n + trust), where n may be infinite.
        return self.strength / (1 + self.trust / max(self._mass * self._starts[before], 1e-12))

    def mixed(self, sentences: Sequence[Sequence[str]], probabilities: Vector) -> Vector:
        """Probabilities of all words and sentence ends, with the pairs mixed in."""
        found: Vector = probabilities.copy()
        for place, (before, word) in enumerate(_events(sentences)):
            if before in self._starts:
                found[place] += self.weight(before) * (
                    self.probability(before, word) - found[place]
                )
        return found

    def over(self, model: WordModel) -> "PairedLM":
        """The model with these pairs mixed in."""
        return PairedLM(model, self)

    def raised(self, before: str, words: Vocabulary, log_factors: Vector) -> float:
        """Sum over w of q(w | before) times the factor of w, which is 1 for the end."""
        after = self._after[before]
        followers = [word for word in after if word != END]
        factors = np.exp(log_factors[words.encode(followers)])
        shares = np.array([after[word] for word in followers])
        return float(factors @ shares + after.get(END, 0.0)) / self._starts[before]


class PairedLM(WordByWord):
    """A background model with shared pairs mixed in; adaptation normalises the mixture exactly."""

    def __init__(self, model: WordModel, pairs: SharedPairs) -> None:
        if not hasattr(model, "score_words"):
            raise InvalidInput(
                "Expected an n-gram or a Transformer of `lm train` to mix pairs into, got a model "
                "without scores per word: train one."
            )
        self.model, self.pairs = model, pairs

    @property
    def vocabulary(self) -> Vocabulary:
        return self.model.vocabulary

    def score_words(
        self,
        sentences: Sequence[Sequence[str]],
        log_factors: Vector | None = None,
        *,
        normalise: bool = True,
    ) -> tuple[Vector, Ints]:
        """ln p of every word and sentence end in order, and the sentence each belongs to."""
        plain, owners = self.model.score_words(sentences)
        mixed = self.pairs.mixed(sentences, np.exp(plain))
        # If both probabilities are 0, keep the model's log probability.
        values = np.where(mixed > 0, np.log(np.maximum(mixed, np.finfo(float).tiny)), plain)
        if log_factors is None:
            return values, owners
        raised = along(sentences, self.vocabulary, log_factors)
        values += raised
        if normalise:
            exact, _ = self.model.score_words(sentences, log_factors, normalise=True)
            of_model = np.exp(plain + raised - exact)
            values -= np.log(self._constants(sentences, log_factors, of_model))
        return values, owners

    def _constants(
        self, sentences: Sequence[Sequence[str]], log_factors: Vector, of_model: Vector
    ) -> Vector:
        """Z(h) of the mixture from Z(h) of the model: both are sums over all words."""
        found, known = of_model.copy(), dict[str, float]()
        for place, (before, _) in enumerate(_events(sentences)):
            weight = self.pairs.weight(before)
            if weight > 0:
                if before not in known:
                    known[before] = self.pairs.raised(before, self.vocabulary, log_factors)
                found[place] += weight * (known[before] - found[place])
        return found


def _events(sentences: Sequence[Sequence[str]]) -> Iterator[tuple[str, str]]:
    """Every word and sentence end with the preceding word."""
    for sentence in sentences:
        yield from pairwise((START, *sentence, END))


def _split(pair: str) -> tuple[str, str]:
    match pair.split(" "):
        case [before, word]:
            return before, word
    raise InvalidInput(f"Expected a pair of words in a release of pairs, got {pair!r}.")
