"""Viterbi decoding, tag marginals and the log partition function.

Given the names of the tags, decoding returns valid BIO only: I-x follows B-x or I-x. It can also
be restricted to allowed tags per utterance, for example those of a known intent.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from sottovoce.errors import InvalidInput
from sottovoce.nlu.crf.chain import Layout, forward_backward
from sottovoce.nlu.crf.linear_chain import Crf, bio_constraints, checked_mask, with_boundaries


class Decoded(NamedTuple):
    """The best path of each sentence, and its score."""

    tags: list[list[int]]
    scores: Tensor
    """[batch] score of the path; minus `log_partition` it is the log-probability."""


@torch.no_grad()
def decode(
    crf: Crf,
    emissions: Tensor,
    mask: Tensor | None = None,
    allowed: Tensor | None = None,
    tags: Sequence[str] | None = None,
) -> Decoded:
    """The best paths; `allowed` is [batch, tags], and `tags` are the names of the tags, in BIO.

    >>> crf, emissions = Crf(3), torch.tensor([[[0.0, 1.0, 2.0], [0.0, 0.0, 3.0]]])
    >>> decode(crf, emissions).tags, decode(crf, emissions, tags=("O", "B-a", "I-a")).tags
    ([[2, 2]], [[1, 2]])
    """
    mask = checked_mask(crf, emissions, mask)
    layout = Layout.of(mask)
    paths: list[list[int]] = [[] for _ in emissions]
    if layout.rows == 0:
        return Decoded(paths, emissions.new_zeros(len(emissions)))
    start, end, transitions = crf.weights()
    if tags is not None:
        first, following = bio_constraints(tags)
        if len(tags) != crf.tags:
            raise InvalidInput(f"Expected the names of {crf.tags} tags, got {len(tags)}.")
        start = start.masked_fill(~first.to(start.device), -math.inf)
        transitions = transitions.masked_fill(~following.to(start.device), -math.inf)
    scores = with_boundaries(emissions, start, end, layout)
    if allowed is not None:
        if allowed.shape != (len(emissions), crf.tags) or allowed.dtype != torch.bool:
            raise InvalidInput(
                f"Expected allowed tags of bool and shape {[len(emissions), crf.tags]}, got "
                f"{allowed.dtype} and {list(allowed.shape)}."
            )
        scores.masked_fill_(~allowed[layout.order], -math.inf)
    transitions = transitions.to(scores.dtype)
    best = _best_scores(scores, transitions, layout)
    if bool((best == -math.inf).any()):
        raise InvalidInput("Expected every sentence to have a sequence of allowed tags, got none.")
    for path, row in zip(_trace(scores, transitions, layout), layout.order.tolist(), strict=True):
        paths[row] = path
    return Decoded(paths, layout.spread(best, len(emissions)))


def _best_scores(scores: Tensor, transitions: Tensor, layout: Layout) -> Tensor:
    """[rows] best scores; in place, `scores` become those of the best path to each word and tag."""
    into = transitions.t().contiguous()
    for t in range(1, layout.words):
        n = layout.running[t]
        scores[t, :n] += (scores[t - 1, :n, None] + into).amax(-1)
    return scores[layout.ends].amax(-1)


def _trace(scores: Tensor, transitions: Tensor, layout: Layout) -> list[list[int]]:
    """Trace back from the best last tag. The same sums are computed again, so the maxima agree."""
    into = transitions.t().contiguous()
    current = scores[layout.ends].argmax(-1)
    path = current.new_zeros(layout.words, layout.rows)
    for t in range(layout.words - 1, 0, -1):
        n = layout.running[t]
        path[t, :n] = current[:n]
        current[:n] = (scores[t - 1, :n] + into[current[:n]]).argmax(-1)
    path[0] = current
    rows = path.t().tolist()
    return [row[:length] for row, length in zip(rows, layout.lengths.tolist(), strict=True)]


@torch.no_grad()
def marginals(crf: Crf, emissions: Tensor, mask: Tensor | None = None) -> Tensor:
    """[batch, words, tags] probability of each tag at each word; zero on padding.

    >>> marginals(Crf(2), torch.tensor([[[0.0, 0.0], [9.0, 0.0]]])).round(decimals=2)
    tensor([[[0.5000, 0.5000],
             [1.0000, 0.0000]]])
    """
    layout = Layout.of(checked_mask(crf, emissions, mask))
    if layout.rows == 0:
        return torch.zeros_like(emissions)
    start, end, transitions = crf.weights()
    scores = with_boundaries(emissions, start, end, layout)
    posteriors = forward_backward(scores, transitions.to(scores.dtype), layout).posteriors()
    return layout.restore(posteriors, emissions.shape)


@torch.no_grad()
def log_partition(crf: Crf, emissions: Tensor, mask: Tensor | None = None) -> Tensor:
    """[batch] log of the sum over all sequences.

    >>> log_partition(Crf(2), torch.zeros(1, 3, 2)).exp()
    tensor([8.])
    """
    layout = Layout.of(checked_mask(crf, emissions, mask))
    if layout.rows == 0:
        return emissions.new_zeros(len(emissions))
    start, end, transitions = crf.weights()
    scores = with_boundaries(emissions, start, end, layout)
    chain = forward_backward(scores, transitions.to(scores.dtype), layout)
    peaks = torch.where(layout.mask(), chain.peaks, 0).double().sum(0)
    sums = chain.log_sums + peaks + (layout.lengths - 1) * chain.peak.double()
    return layout.spread(sums.to(scores.dtype), len(emissions))
