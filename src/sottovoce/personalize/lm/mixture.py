"""Mixture of background models: p(w|h) = sum_i share_i p_i(w|h), word by word.

The models may have different vocabularies. The mixture has that of the first; a word that another
model lacks gets its share, by u(w), of that model's probability of unknown words. So the mixture is
again a distribution, and exact normalisation carries over: Z(h) = sum_i share_i Z_i(h).
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol, cast

import numpy as np

from sottovoce.errors import InvalidInput
from sottovoce.personalize.lm.language_model import LanguageModel
from sottovoce.personalize.lm.ngram.model import Ints
from sottovoce.personalize.lm.vocabulary import UNKNOWN, Vector, Vocabulary, distribution


class WordModel(Protocol):
    """A language model with a score per word."""

    @property
    def vocabulary(self) -> Vocabulary: ...

    def score_words(
        self,
        sentences: Sequence[Sequence[str]],
        log_factors: Vector | None = None,
        *,
        normalise: bool = True,
    ) -> tuple[Vector, Ints]: ...


class WordByWord(ABC):
    """A model that scores sentences as sums of word scores."""

    @abstractmethod
    def score_words(
        self,
        sentences: Sequence[Sequence[str]],
        log_factors: Vector | None = None,
        *,
        normalise: bool = True,
    ) -> tuple[Vector, Ints]:
        """ln p of every word and sentence end in order, and the sentence each belongs to."""

    def score(
        self,
        sentences: Sequence[Sequence[str]],
        log_factors: Vector | None = None,
        *,
        normalise: bool = True,
    ) -> list[float]:
        """ln p of every sentence including its end; factors are over `vocabulary`."""
        values, owners = self.score_words(sentences, log_factors, normalise=normalise)
        return [float(total) for total in np.bincount(owners, values, minlength=len(sentences))]


class MixedLM(WordByWord):
    """A mixture with the given shares, uniform by default.

    >>> from sottovoce.personalize.lm.ngram.training import train_ngram
    >>> words = Vocabulary.from_text(["call mum", "call dad"], size=9)
    >>> models = [train_ngram([line], words, order=1) for line in ("call mum", "call dad")]
    >>> mixed = MixedLM(models, [0.75, 0.25])
    >>> mum, dad = mixed.score([["mum"], ["dad"]])
    >>> mum > dad
    True
    """

    def __init__(self, models: Sequence[WordModel], shares: Sequence[float] | None = None) -> None:
        if not models:
            raise InvalidInput("Expected models to mix, got none.")
        uniform = np.full(len(models), 1 / len(models))
        self.models = tuple(models)
        self.shares = distribution(uniform if shares is None else shares, len(models))
        self.vocabulary = models[0].vocabulary
        self._known = [_WordMap(self.vocabulary, model.vocabulary) for model in models]

    def score_words(
        self,
        sentences: Sequence[Sequence[str]],
        log_factors: Vector | None = None,
        *,
        normalise: bool = True,
    ) -> tuple[Vector, Ints]:
        """ln p of every word and sentence end in order, and the sentence each belongs to."""
        plain, owners = self._by_model(sentences)
        with np.errstate(divide="ignore"):
            values: Vector = np.log(self.shares @ np.exp(plain))
        if log_factors is None:
            return values, owners
        values += along(sentences, self.vocabulary, log_factors)
        if normalise:
            values -= np.log(self.shares @ np.exp(self._constants(sentences, log_factors)))
        return values, owners

    def fitted(self, lines: Sequence[str], steps: int = 50) -> "MixedLM":
        """The maximum-likelihood shares on public text (expectation maximisation)."""
        plain, _ = self._by_model([line.split() for line in lines])
        if not plain.size:
            raise InvalidInput("Expected text to fit the shares to, got none.")
        likely = np.exp(plain)
        shares = self.shares
        for _ in range(steps):
            parts = shares[:, None] * likely
            shares = (parts / parts.sum(axis=0)).mean(axis=1)
        return MixedLM(self.models, (shares / shares.sum()).tolist())

    def _by_model(self, sentences: Sequence[Sequence[str]]) -> tuple[Vector, Ints]:
        """ln p of every word under each model, with models along the first axis."""
        rows, owners = [], np.zeros(0, dtype=np.int64)
        for model, known in zip(self.models, self._known, strict=True):
            values, owners = model.score_words(sentences)
            rows.append(values + along(sentences, self.vocabulary, known.log_parts, len(values)))
        return np.stack(rows), owners

    def _constants(self, sentences: Sequence[Sequence[str]], log_factors: Vector) -> Vector:
        """ln Z_i(h) of every model: its unnormalised adapted scores minus the normalised ones."""
        rows = []
        for model, known in zip(self.models, self._known, strict=True):
            own = known.factors(log_factors)
            raised, _ = model.score_words(sentences, own, normalise=False)
            exact, _ = model.score_words(sentences, own, normalise=True)
            rows.append(raised - exact)
        return np.stack(rows)


def mixed(models: Sequence[LanguageModel]) -> LanguageModel:
    """A single model unchanged, or several in uniform shares; those need scores per word."""
    if len(models) == 1:
        return models[0]
    word_models = [cast(WordModel, model) for model in models if hasattr(model, "score_words")]
    if len(word_models) < len(models):
        raise InvalidInput("Expected n-grams or Transformers of `lm train` to mix, got others.")
    return MixedLM(word_models)


class _WordMap:
    """Maps the words of the mixture to those of one of its models."""

    def __init__(self, wide: Vocabulary, own: Vocabulary) -> None:
        self.places = own.encode(wide.words)
        unknown = own.index[UNKNOWN]
        lacking = self.places == unknown
        # A word that the model lacks gets this share of its unknown-word probability.
        parts = np.where(lacking, wide.unigram / wide.unigram[lacking].sum(), 1.0)
        self.log_parts: Vector = np.log(parts)
        self._unknown, self._lacking, self._size = unknown, lacking, len(own)

    def factors(self, log_factors: Vector) -> Vector:
        """Factors of the model's words; its unknown word gets the mean of those it stands for.

        Words that only this model has are outside the mixture, and keep a factor of 1.
        """
        if len(log_factors) != len(self.places):
            raise InvalidInput(f"Expected {len(self.places)} log factors, got {len(log_factors)}.")
        own = np.zeros(self._size)
        own[self.places] = log_factors
        shared = np.exp((self.log_parts + log_factors)[self._lacking]).sum()
        own[self._unknown] = np.log(shared)
        return own


def along(
    sentences: Sequence[Sequence[str]], words: Vocabulary, values: Vector, length: int | None = None
) -> Vector:
    """The value of every word, and 0 for every sentence end."""
    found = [np.append(values[words.encode(each)], 0.0) for each in sentences]
    along: Vector = np.concatenate(found) if found else np.zeros(0)
    if length is not None and len(along) != length:
        raise InvalidInput(
            "Expected sentences within the length limit of every model, got longer ones."
        )
    return along
