"""Batches for tests of the CRF, and the plain way: every sequence of tags, one by one."""

import itertools

import torch
from hypothesis import strategies as st
from torch import Tensor

from sottovoce.nlu.crf.linear_chain import Crf

lengths = st.lists(st.integers(0, 6), min_size=1, max_size=5)
few_tags = st.integers(1, 5)


def random_crf(tags: int, scale: float = 1.0, dtype: torch.dtype = torch.float32) -> Crf:
    crf = Crf(tags).to(dtype)
    for parameter in crf.parameters():
        torch.nn.init.normal_(parameter, std=scale)
    return crf


def random_batch(
    lengths: list[int], tags: int, *, scale: float = 1.0, padding: int = 1
) -> tuple[Tensor, Tensor, Tensor]:
    """Emissions, tags and mask; what stands on padding is poison."""
    mask = torch.arange(max(lengths) + padding) < torch.tensor(lengths)[:, None]
    emissions = torch.randn(*mask.shape, tags) * scale
    emissions[~mask] = torch.nan
    gold = torch.randint(tags, mask.shape).masked_fill(~mask, -100)
    return emissions, gold, mask


def every_path(crf: Crf, emissions: Tensor) -> tuple[list[tuple[int, ...]], Tensor]:
    """All sequences of tags for one sentence [words, tags], with their scores in float64."""
    words, tags = emissions.shape
    paths = list(itertools.product(range(tags), repeat=words))
    tried = torch.tensor(paths, dtype=torch.long)
    start, end, moves = (p.double() for p in (crf.start, crf.end, crf.transitions))
    scores = emissions.double()[torch.arange(words), tried].sum(1)
    scores = scores + moves[tried[:, :-1], tried[:, 1:]].sum(1)
    if words:
        scores = scores + start[tried[:, 0]] + end[tried[:, -1]]
    return paths, scores


def plain_losses(crf: Crf, emissions: Tensor, gold: Tensor, mask: Tensor) -> Tensor:
    """[batch] by enumeration."""
    losses = []
    for sentence, tags, n in zip(emissions, gold, mask.sum(1).tolist(), strict=True):
        paths, scores = every_path(crf, sentence[:n])
        losses.append(scores.logsumexp(0) - scores[paths.index(tuple(tags[:n].tolist()))])
    return torch.stack(losses)


def log_domain_losses(crf: Crf, emissions: Tensor, gold: Tensor) -> Tensor:
    """[batch] by the textbook recursion with logarithms, for sentences of one length."""
    words = torch.arange(emissions.shape[1])
    alpha = crf.start + emissions[:, 0]
    for t in words[1:]:
        alpha = (alpha[:, :, None] + crf.transitions).logsumexp(1) + emissions[:, t]
    own = emissions.gather(2, gold[..., None]).sum((1, 2))
    own = own + crf.start[gold[:, 0]] + crf.end[gold[:, -1]]
    own = own + crf.transitions[gold[:, :-1], gold[:, 1:]].sum(1)
    return (alpha + crf.end).logsumexp(1) - own
