"""A word-level Transformer language model, which scores all hypotheses of a list in one pass."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.personalize.lm.vocabulary import UNKNOWN, Vector, Vocabulary


@dataclass(frozen=True, kw_only=True)
class TransformerShape:
    """The sizes of the network, by default those of the paper (section 3.2)."""

    embedding: int = 256
    feed_forward: int = 1024
    blocks: int = 3
    heads: int = 4
    dropout: float = 0.1
    longest: int = 256

    def __post_init__(self) -> None:
        for name in ("embedding", "feed_forward", "blocks", "heads", "longest"):
            _validate.at_least_one(name, getattr(self, name))
        _validate.between("dropout", self.dropout, 0, 0.9)
        if self.embedding % self.heads:
            raise InvalidInput(
                f"Expected an embedding divisible by {self.heads} heads, got {self.embedding}."
            )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class Block(nn.Module):
    """A pre-norm Transformer block."""

    def __init__(self, shape: TransformerShape) -> None:
        super().__init__()
        self.heads, self.dropout = shape.heads, shape.dropout
        self.before_attention = nn.LayerNorm(shape.embedding)
        self.queries_keys_values = nn.Linear(shape.embedding, 3 * shape.embedding)
        self.attended = nn.Linear(shape.embedding, shape.embedding)
        self.before_feeding = nn.LayerNorm(shape.embedding)
        self.wide = nn.Linear(shape.embedding, shape.feed_forward)
        self.narrow = nn.Linear(shape.feed_forward, shape.embedding)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        batch, length, width = x.shape
        packed = self.queries_keys_values(self.before_attention(x))
        query, key, value = packed.view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        dropout = self.dropout if self.training else 0.0
        mixed = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, dropout_p=dropout, is_causal=mask is None
        )
        mixed = self.attended(mixed.transpose(1, 2).reshape(batch, length, width))
        x = x + functional.dropout(mixed, self.dropout, self.training)
        fed = self.narrow(functional.gelu(self.wide(self.before_feeding(x))))
        return x + functional.dropout(fed, self.dropout, self.training)


class TransformerLM(nn.Module):
    """Predicts the next word; id V of a vocabulary of V words marks both start and end.

    Input and output embeddings are tied. `vocabulary` is the one the model was built for.

    Positions and attention mask are arguments, so that one pass can score a sentence, a padded
    batch or a prefix tree.
    """

    def __init__(self, vocabulary: Vocabulary, shape: TransformerShape | None = None) -> None:
        super().__init__()
        self.vocabulary, self.shape = vocabulary, shape or TransformerShape()
        self.boundary = len(vocabulary)
        self.unknown = vocabulary.index[UNKNOWN]
        width = self.shape.embedding
        self.embed = nn.Embedding(len(vocabulary) + 1, width)
        nn.init.normal_(self.embed.weight, std=width**-0.5)
        self.blocks = nn.ModuleList(Block(self.shape) for _ in range(self.shape.blocks))
        self.last = nn.LayerNorm(width)
        self.output_bias = nn.Parameter(torch.zeros(len(vocabulary) + 1))
        self.register_buffer("waves", _waves(self.shape.longest, width), persistent=False)

    def states(self, ids: Tensor, positions: Tensor, mask: Tensor | None = None) -> Tensor:
        """The last hidden states; no mask means causal."""
        waves = self.get_buffer("waves")
        x = self.embed(ids) * math.sqrt(self.shape.embedding) + waves[positions]
        x = functional.dropout(x, self.shape.dropout, self.training)
        for block in self.blocks:
            x = block(x, mask)
        normal: Tensor = self.last(x)
        return normal

    def logits(self, states: Tensor) -> Tensor:
        return functional.linear(states, self.embed.weight, self.output_bias)

    def encode(self, words: Sequence[str]) -> list[int]:
        """The ids of a sentence, truncated to the model's maximum length."""
        index = self.vocabulary.index
        kept = words[: self.shape.longest - 1]
        return [index.get(word, self.unknown) for word in kept]

    def factors(self, log_factors: Vector | None) -> Tensor:
        """Log factors of all outputs; the sentence end keeps a factor of 1."""
        device = self.output_bias.device
        full = torch.zeros(len(self.vocabulary) + 1, device=device)
        if log_factors is not None:
            if len(log_factors) != len(self.vocabulary):
                raise InvalidInput(
                    f"Expected {len(self.vocabulary)} log factors, got {len(log_factors)}."
                )
            full[:-1] = torch.as_tensor(log_factors, dtype=full.dtype, device=device)
        return full

    def score(
        self,
        sentences: Sequence[Sequence[str]],
        log_factors: Vector | None = None,
        *,
        normalise: bool = True,
    ) -> list[float]:
        """ln p of every sentence including its end, in one pass over their prefix tree."""

        return score_tree(self, sentences, log_factors, normalise=normalise)

    def score_words(
        self,
        sentences: Sequence[Sequence[str]],
        log_factors: Vector | None = None,
        *,
        normalise: bool = True,
    ) -> tuple[Vector, NDArray[np.int64]]:
        """ln p of every word and sentence end in order, and the sentence each belongs to."""

        return score_tree_words(self, sentences, log_factors, normalise=normalise)


def _waves(longest: int, width: int) -> Tensor:
    """Sinusoidal position encodings."""
    places = torch.arange(longest)[:, None]
    rates = torch.exp(torch.arange(0, width, 2) * (-math.log(10_000.0) / width))
    waves = torch.zeros(longest, width)
    waves[:, 0::2] = torch.sin(places * rates)
    waves[:, 1::2] = torch.cos(places * rates[: width // 2])
    return waves


Ints = NDArray[np.int64]


@dataclass(frozen=True)
class PrefixTree:
    """The prefix tree of sentences, in order of creation; node 0 is the start of every sentence.

    Hypotheses of one utterance share most of their words. Each distinct prefix becomes one node at
    its depth; a node attends only to its ancestors, so its state depends only on the prefix. The
    softmax over the vocabulary, which dominates the cost, is computed once per node.
    """

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
