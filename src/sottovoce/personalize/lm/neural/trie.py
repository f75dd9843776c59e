"""One-pass scoring of all hypotheses of a list: their prefix tree under an ancestor mask.

Hypotheses of one utterance share most of their words. Each distinct prefix becomes one node at its
depth; a node attends only to its ancestors, so its state depends only on the prefix. The softmax
over the vocabulary, which dominates the cost, is computed once per node.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from sottovoce.personalize.lm.neural.model import TransformerLM
from sottovoce.personalize.lm.vocabulary import Vector

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class PrefixTree:
    """Nodes in order of creation; node 0 is the start of every sentence."""

    words: NDArray[np.int64]
    parents: NDArray[np.int64]
    depths: NDArray[np.int64]
    leaves: list[int]

    @classmethod
    def of(cls, sentences: Sequence[Sequence[int]], start: int) -> "PrefixTree":
        """The tree of encoded sentences; `leaves` holds the last node of each.

        >>> tree = PrefixTree.of([[5, 7], [5, 8], [5]], start=9)
        >>> tree.words.tolist(), tree.parents.tolist(), tree.leaves
        ([9, 5, 7, 8], [-1, 0, 1, 1], [2, 3, 1])
        """
        words, parents, depths = [start], [-1], [0]
        children: dict[tuple[int, int], int] = {}
        leaves = []
        for sentence in sentences:
            node = 0
            for word in sentence:
                child = children.get((node, word))
                if child is None:
                    child = children[node, word] = len(words)
                    words.append(word)
                    parents.append(node)
                    depths.append(depths[node] + 1)
                node = child
            leaves.append(node)
        as_ints = [np.array(column, dtype=np.int64) for column in (words, parents, depths)]
        return cls(as_ints[0], as_ints[1], as_ints[2], leaves)

    def path(self, leaf: int) -> list[int]:
        """The nodes from below the root down to a leaf.

        >>> PrefixTree.of([[5, 7], [5, 8]], start=9).path(3)
        [1, 3]
        """
        nodes = []
        while leaf > 0:
            nodes.append(leaf)
            leaf = int(self.parents[leaf])
        return nodes[::-1]

    def ancestors(self) -> NDArray[np.bool_]:
        """Row i marks node i and its ancestors."""
        size = len(self.words)
        mask = np.zeros((size, size), dtype=np.bool_)
        for node, parent in enumerate(self.parents.tolist()):
            if parent >= 0:
                mask[node] = mask[parent]
            mask[node, node] = True
        return mask


def score_tree(
    model: TransformerLM,
    sentences: Sequence[Sequence[str]],
    log_factors: Vector | None = None,
    *,
    normalise: bool = True,
) -> list[float]:
    """ln p of every sentence including its end, adapted if there are factors."""
    values, owners = score_tree_words(model, sentences, log_factors, normalise=normalise)
    return [float(total) for total in np.bincount(owners, values, minlength=len(sentences))]


@torch.inference_mode()
def score_tree_words(
    model: TransformerLM,
    sentences: Sequence[Sequence[str]],
    log_factors: Vector | None = None,
    *,
    normalise: bool = True,
) -> tuple[Vector, Ints]:
    """ln p of every word and sentence end in order, and the sentence each belongs to.

    Exact normalisation is free: ln Z is the difference of two log-sum-exps over the same logits,
    and only the adapted one is needed.
    """
    if not sentences:
        return np.zeros(0), np.zeros(0, dtype=np.int64)
    model.eval()
    tree = PrefixTree.of([model.encode(each) for each in sentences], model.boundary)
    mask = torch.from_numpy(tree.ancestors())[None, None]
    words, parents, depths = map(torch.from_numpy, (tree.words, tree.parents, tree.depths))
    states = model.states(words[None], depths[None], mask)[0]
    scores = model.logits(states)
    plain = scores.logsumexp(dim=1) if log_factors is None or not normalise else None
    if log_factors is not None:
        # In place: the nodes x words matrix dominates memory.
        scores += model.factors(log_factors)
    totals = scores.logsumexp(dim=1) if plain is None else plain
    # The log probability of each node after its parent, and of an end after each node.
    steps = (scores[parents, words] - totals[parents]).double().numpy()
    ends = (scores[:, model.boundary] - totals).double().numpy()
    values: list[float] = []
    owners: list[int] = []
    for owner, leaf in enumerate(tree.leaves):
        path = tree.path(leaf)
        values += [*steps[path].tolist(), float(ends[leaf])]
        owners += [owner] * (len(path) + 1)
    return np.array(values), np.array(owners, dtype=np.int64)


@torch.inference_mode()
def score_one_by_one(
    model: TransformerLM,
    sentences: Sequence[Sequence[str]],
    log_factors: Vector | None = None,
    *,
    normalise: bool = True,
) -> list[float]:
    """Reference implementation with one pass per sentence, for tests and benchmarks."""
    model.eval()
    factors = model.factors(log_factors)
    totals = []
    for sentence in sentences:
        ids = torch.tensor([[model.boundary, *model.encode(sentence)]])
        positions = torch.arange(ids.shape[1])[None]
        scores = model.logits(model.states(ids, positions))[0].log_softmax(dim=-1) + factors
        if normalise:
            scores = scores.log_softmax(dim=-1)
        targets = torch.cat([ids[0, 1:], torch.tensor([model.boundary])])
        totals.append(float(scores.gather(1, targets[:, None]).double().sum()))
    return totals
