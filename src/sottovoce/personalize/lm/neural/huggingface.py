"""Any Hugging Face causal language model as background (needs the extra `bert`).

Such a model predicts word pieces. The hypotheses of a list form one prefix tree of pieces, scored
in one pass under an ancestor mask. A word gets its factor once, however many pieces it has: ln p' =
sum of ln p(piece | before) + sum over words of (ln factor(word) - ln Z(before)).

Z(h) = 1 + sum of (factor(w) - 1) p(w|h) runs over single-piece words. Multi-piece words are left
out: their probability after every prefix would take one pass each, and they carry little mass. So
normalisation is exact for the former and approximate for the latter.

For generation, adding ln factor to the logits *is* exact normalisation: the softmax divides by
Z(h). Tokens that are not whole words of the vocabulary keep their logits. `generate` accepts any
callable, so transformers is not needed here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sottovoce.errors import InvalidInput
from sottovoce.personalize.lm.neural.model import PrefixTree
from sottovoce.personalize.lm.neural.tuning import load_causal
from sottovoce.personalize.lm.vocabulary import UNKNOWN, Vector, Vocabulary

# Rounding tolerance between tree and single-sentence scores.
_TOLERANCE = 1e-2


@dataclass(frozen=True)
class Pieces:
    """A sentence in word pieces; `starts` are the indices where words begin."""

    ids: list[int]
    starts: list[int]
    words: list[int]


class HuggingFaceLM:
    """A causal model with its tokenizer, over the words of a public vocabulary."""

    def __init__(self, model: Any, tokenizer: Any, vocabulary: Vocabulary) -> None:
        self.model, self.tokenizer, self.vocabulary = model.eval(), tokenizer, vocabulary
        if not getattr(tokenizer, "is_fast", False):
            raise InvalidInput("Expected a fast tokenizer (with offset mapping), got a slow one.")
        self.end = tokenizer.eos_token_id
        if self.end is None:
            raise InvalidInput("Expected a tokenizer with an end-of-text token, got none.")
        start = tokenizer.bos_token_id
        self.start = self.end if start is None else start
        self.longest = int(getattr(model.config, "max_position_embeddings", None) or 1024)
        # Single-piece words: at the start of a sentence, and after another word.
        self.alone = self._single_pieces("")
        self.after = self._single_pieces(" ")
        self.tree_works = self._compare()

    @classmethod
    def load(cls, folder: Path | str, vocabulary: Vocabulary) -> "HuggingFaceLM":
        """Load a model or an adapter from a folder; see `load_causal`."""
        model, tokenizer = load_causal(folder)
        return cls(model, tokenizer, vocabulary)

    def score(
        self,
        sentences: Sequence[Sequence[str]],
        log_factors: Vector | None = None,
        *,
        normalise: bool = True,
    ) -> list[float]:
        """ln p of every sentence including its end, in one pass if tree masks work."""
        if log_factors is not None and len(log_factors) != len(self.vocabulary):
            raise InvalidInput(
                f"Expected {len(self.vocabulary)} log factors, got {len(log_factors)}."
            )
        if self.tree_works:
            return self.score_tree(sentences, log_factors, normalise=normalise)
        return [
            value
            for sentence in sentences
            for value in self.score_tree([sentence], log_factors, normalise=normalise)
        ]

    @torch.inference_mode()
    def score_tree(
        self,
        sentences: Sequence[Sequence[str]],
        log_factors: Vector | None = None,
        *,
        normalise: bool = True,
    ) -> list[float]:
        if not sentences:
            return []
        encoded = [self.pieces(sentence) for sentence in sentences]
        tree = PrefixTree.of([each.ids for each in encoded], self.start)
        scores = self._log_softmax(tree)
        path = [0.0]
        words, parents = tree.words.tolist(), tree.parents.tolist()
        steps = scores[parents[1:], words[1:]].double().tolist()
        for step, parent in zip(steps, parents[1:], strict=True):
            path.append(path[parent] + step)
        ends = scores[:, self.end].double().tolist()
        totals = [path[leaf] + ends[leaf] for leaf in tree.leaves]
        if log_factors is None:
            return totals
        factors = np.asarray(log_factors, dtype=np.float64)
        totals = [
            total + float(factors[each.words].sum())
            for total, each in zip(totals, encoded, strict=True)
        ]
        if not normalise:
            return totals
        constants = [self._log_constants(scores, factors, at) for at in (self.alone, self.after)]
        for place, (each, leaf) in enumerate(zip(encoded, tree.leaves, strict=True)):
            nodes = _before(each, leaf, parents)
            totals[place] -= sum(constants[0 if node == 0 else 1][node] for node in nodes)
        return totals

    def pieces(self, sentence: Sequence[str]) -> Pieces:
        """The pieces of a sentence, which of them begin a word, and the ids of its words."""
        found = self.tokenizer(
            " ".join(sentence), add_special_tokens=False, return_offsets_mapping=True
        )
        # A piece that is only the space before a word belongs to that word.
        ends = np.cumsum([len(word) + 1 for word in sentence]) - 1
        ids: list[int] = []
        starts: list[int] = []
        last = -1
        for piece, (_, end) in zip(found["input_ids"], found["offset_mapping"], strict=True):
            if len(ids) == self.longest - 1:
                break
            word = int(np.searchsorted(ends, end))
            if word != last:
                starts.append(len(ids))
                last = word
            ids.append(int(piece))
        return Pieces(ids, starts, self.vocabulary.encode(sentence).tolist())

    def _log_softmax(self, tree: PrefixTree) -> Tensor:
        words, depths = torch.from_numpy(tree.words)[None], torch.from_numpy(tree.depths)[None]
        if len(tree.leaves) == 1:
            # Every causal model supports a single sentence.
            plain: Tensor = self.model(input_ids=words, use_cache=False).logits[0].float()
            return plain.log_softmax(dim=-1)
        seen = torch.from_numpy(tree.ancestors())[None, None]
        mask = torch.zeros(seen.shape).masked_fill(~seen, torch.finfo(torch.float32).min)
        out = self.model(input_ids=words, attention_mask=mask, position_ids=depths, use_cache=False)
        scores: Tensor = out.logits[0].float().log_softmax(dim=-1)
        return scores

    def _log_constants(
        self, scores: Tensor, factors: Vector, single: tuple[NDArray[np.int64], Tensor]
    ) -> list[float]:
        """ln Z after every node of the tree."""
        places, ids = single
        raised = torch.from_numpy(np.expm1(factors[places]))
        total = 1 + scores[:, ids].double().exp() @ raised
        constants: list[float] = total.log().tolist()
        return constants

    def _single_pieces(self, before: str) -> tuple[NDArray[np.int64], Tensor]:
        """The words that are one piece after `before`, and their pieces."""
        words = [before + word for word in self.vocabulary.words]
        found = self.tokenizer(words, add_special_tokens=False)["input_ids"]
        kept = {
            ids[0]: place
            for place, ids in enumerate(found)
            if len(ids) == 1 and self.vocabulary.words[place] != UNKNOWN
        }
        return np.array(list(kept.values()), dtype=np.int64), torch.tensor(list(kept))

    def _compare(self) -> bool:
        """Whether the model respects an ancestor mask; some have custom attention."""
        words = [word for word in self.vocabulary.words if word != UNKNOWN][:4]
        sentences = [words[:2], words[:1] + words[2:], words[1:]]
        joint = self.score_tree(sentences)
        alone = [self.score_tree([sentence])[0] for sentence in sentences]
        return bool(np.allclose(joint, alone, atol=_TOLERANCE))


def _before(sentence: Pieces, leaf: int, parents: list[int]) -> list[int]:
    """The nodes after which a word of the sentence begins, and the last one, before its end."""
    line = [leaf]
    while parents[line[-1]] >= 0:
        line.append(parents[line[-1]])
    line.reverse()
    return [line[start] for start in sentence.starts] + [leaf]


class MarginalLogits:
    """A logits processor that adds the log factors of words to their tokens.

    >>> words = Vocabulary(("call", "mum", "<unk>"), [0.4, 0.4, 0.2])
    >>> raise_mum = MarginalLogits(words, [0.0, 2.0, 0.0], tokens={"mum": 1})
    >>> raise_mum(torch.zeros(1, 1, dtype=torch.long), torch.zeros(1, 3)).tolist()
    [[0.0, 2.0, 0.0]]
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        log_factors: Vector | Sequence[float],
        tokens: Mapping[str, int],
    ) -> None:
        """`tokens` maps every single-token word to its token id."""
        if len(log_factors) != len(vocabulary):
            raise InvalidInput(f"Expected {len(vocabulary)} log factors, got {len(log_factors)}.")
        known = [(tokens[word], float(factor)) for word, factor in zip(
            vocabulary.words, log_factors, strict=True) if word in tokens and word != UNKNOWN
        ]  # fmt: skip
        if not known:
            raise InvalidInput("Expected tokens for words of the vocabulary, got none.")
        self.places = torch.tensor([place for place, _ in known])
        self.factors = torch.tensor([factor for _, factor in known])

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        if int(self.places.max()) >= scores.shape[-1]:
            raise InvalidInput(
                f"Expected tokens below {scores.shape[-1]}, got {int(self.places.max())}."
            )
        raised = scores.clone()
        places = self.places.to(scores.device)
        raised[..., places] += self.factors.to(scores.device, scores.dtype)
        return raised
