"""KenLM n-gram models, as ARPA or in KenLM's binary format (needs the extra `kenlm`).

KenLM stores millions of n-grams in little memory but does not list its vocabulary. So the adaptable
words and u(w) come from a public vocabulary; other words get the factor of `<unk>`. The hypotheses
of a list are scored as one prefix tree, with one KenLM query per node.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sottovoce.errors import InvalidInput
from sottovoce.personalize.lm.ngram.model import END
from sottovoce.personalize.lm.vocabulary import UNKNOWN, Vector, Vocabulary

MAGIC = b"mmap lm http://kheafield.com/code"
_LN_10 = math.log(10)


def is_binary(path: Path | str) -> bool:
    """Whether a file is a model in KenLM's binary format."""
    with Path(path).open("rb") as stream:
        return stream.read(len(MAGIC)) == MAGIC


class KenLM:
    """A KenLM model, over the words of a public vocabulary."""

    def __init__(self, path: Path | str, vocabulary: Vocabulary) -> None:
        try:
            import kenlm  # type: ignore[import-not-found, unused-ignore]
        except ImportError as problem:
            raise InvalidInput(
                f"Expected KenLM for {path}, not installed: pip install 'sottovoce[kenlm]'."
            ) from problem
        self._kenlm: Any = kenlm
        settings = kenlm.Config()
        settings.show_progress = False
        try:
            self.model = kenlm.Model(str(path), settings)
        except (OSError, RuntimeError) as problem:
            raise InvalidInput(f"Expected a KenLM model in {path}, but {problem}.") from problem
        self.vocabulary = vocabulary

    def score(
        self,
        sentences: Sequence[Sequence[str]],
        log_factors: Vector | None = None,
        *,
        normalise: bool = True,
    ) -> list[float]:
        """ln p of every sentence including its end, querying each distinct prefix once.

        Exact normalisation queries KenLM for every word of the vocabulary after every prefix.
        """
        if log_factors is not None and len(log_factors) != len(self.vocabulary):
            raise InvalidInput(
                f"Expected {len(self.vocabulary)} log factors, got {len(log_factors)}."
            )
        index, unknown = self.vocabulary.index, self.vocabulary.index[UNKNOWN]
        children: dict[tuple[int, str], int] = {}
        states, sums = [self._start()], [0.0]
        constants: dict[int, float] = {}

        def step(node: int, word: str) -> float:
            """Adapted ln p of the word after a node; the end keeps a factor of 1."""
            after = self._kenlm.State()
            value = float(self.model.BaseScore(states[node], word, after)) * _LN_10
            if log_factors is not None:
                if word != END:
                    value += float(log_factors[index.get(word, unknown)])
                if normalise:
                    if node not in constants:
                        constants[node] = self._log_constant(states[node], log_factors)
                    value -= constants[node]
            children[node, word] = len(states)
            states.append(after)
            sums.append(sums[node] + value)
            return sums[-1]

        totals = []
        for sentence in sentences:
            node = 0
            for word in (*sentence, END):
                if (node, word) not in children:
                    step(node, word)
                node = children[node, word]
            totals.append(sums[node])
        return totals

    def _start(self) -> Any:
        state = self._kenlm.State()
        self.model.BeginSentenceWrite(state)
        return state

    def _log_constant(self, state: Any, log_factors: Vector) -> float:
        """ln Z(h), Z = f_unk + (1 - f_unk) p(end) + sum over the vocabulary of (f - f_unk) p.

        The remaining mass, neither the end nor in the vocabulary, has the factor f_unk.
        """
        after, ask = self._kenlm.State(), self.model.BaseScore
        factors = np.exp(np.asarray(log_factors, dtype=np.float64))
        rest = float(factors[self.vocabulary.index[UNKNOWN]])
        total = rest + (1 - rest) * 10 ** float(ask(state, END, after))
        # Words that KenLM does not know map to its <unk>, which is part of the rest.
        places = [
            place
            for place in np.flatnonzero(factors != rest).tolist()
            if self.vocabulary.words[place] in self.model
        ]
        words = self.vocabulary.words
        p = np.array([ask(state, words[place], after) for place in places], dtype=np.float64)
        return math.log(total + float((factors[places] - rest) @ 10**p))
