"""The forward-backward algorithm of a linear chain, for a whole batch.

    alpha_t(j) = x_t(j) sum_i alpha_{t-1}(i) e(i, j)
    beta_t(i) = sum_j e(i, j) x_{t+1}(j) beta_{t+1}(j)

with x = exp(emission) and e = exp(transition), so that a step is one matrix product. Every alpha is
scaled to sum to one (by s_t) and beta by the same factors, so that alpha_t beta_t are the
posteriors. Sentences are sorted by decreasing length: the active ones at step t are the first rows,
and padding is never read.

Small numbers may underflow. The possible error is bounded afterwards, and sentences where it may
exceed the tolerance are recomputed in log space, in float64.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

# Tolerated relative error per word from underflow in the sum over all sequences.
_TOLERANCE = 1e-14


@dataclass(frozen=True, eq=False)
class Layout:
    """The non-empty sentences, in order of decreasing length."""

    order: Tensor
    """[rows] indices in the batch."""
    lengths: Tensor
    """[rows]"""
    running: tuple[int, ...]
    """Number of sentences longer than t, for each t."""

    @classmethod
    def of(cls, mask: Tensor) -> "Layout":
        """
        >>> layout = Layout.of(torch.tensor([[True, False], [True, True], [False, False]]))
        >>> layout.order.tolist(), layout.running
        ([1, 0], (2, 1))
        """
        lengths, order = mask.sum(1).sort(descending=True, stable=True)
        rows = int((lengths > 0).sum())
        lengths, order = lengths[:rows], order[:rows]
        words = int(lengths[0]) if rows else 0
        return cls(order, lengths, tuple(mask.sum(0)[:words].tolist()))

    @property
    def rows(self) -> int:
        return len(self.order)

    @property
    def words(self) -> int:
        return len(self.running)

    def sort(self, x: Tensor) -> Tensor:
        """[batch, words, ...] -> [words, rows, ...], truncated to the longest; a copy."""
        turned = x[:, : self.words].transpose(0, 1)
        if self.same_length and self.rows == len(x):
            return turned.clone(memory_format=torch.contiguous_format)
        return turned.index_select(1, self.order)

    def restore(self, x: Tensor, shape: torch.Size) -> Tensor:
        """[words, rows, ...] -> [batch, words, ...], zero on padding."""
        if self.same_length and x.shape[:2] == (shape[1], shape[0]):
            return x.transpose(0, 1)
        whole = x.new_zeros(shape)
        whole[self.order, : self.words] = x.transpose(0, 1)
        return whole

    def steps(self, x: Tensor) -> list[Tensor]:
        """[words, rows, ...] -> for each word, a view of the active rows."""
        return [
            step if n == len(step) else step[:n]
            for step, n in zip(x.unbind(), self.running, strict=True)
        ]

    def stack(self, steps: list[Tensor]) -> Tensor:
        """[n, 1] values of the active rows, for each word -> [words, rows], one on padding."""
        if self.same_length:
            return torch.cat(steps, 1).t()
        whole = steps[0].new_ones(self.words, self.rows)
        whole[self.mask()] = torch.cat(steps).flatten()
        return whole

    def spread(self, x: Tensor, batch: int) -> Tensor:
        """[rows, ...] -> [batch, ...], zero for empty sentences."""
        if self.same_length and self.rows == batch:
            return x
        whole = x.new_zeros(batch, *x.shape[1:])
        whole[self.order] = x
        return whole

    @property
    def same_length(self) -> bool:
        """Whether all sentences have the same length."""
        return self.running[-1] == self.rows

    @property
    def ends(self) -> int | tuple[Tensor, Tensor]:
        """Index of the last word of each sentence, in [words, rows, ...]."""
        if self.same_length:
            return -1
        return self.lengths - 1, torch.arange(self.rows, device=self.lengths.device)

    def mask(self) -> Tensor:
        """[words, rows]"""
        return torch.arange(self.words, device=self.order.device)[:, None] < self.lengths


@dataclass(frozen=True, eq=False)
class _Exact:
    """Results of the sentences that were recomputed in log space."""

    rows: Tensor
    posteriors: Tensor
    pairs: Tensor


@dataclass(frozen=True, eq=False)
class Chain:
    """Results of both passes; [words, rows, tags] unless stated otherwise."""

    peaks: Tensor
    """[words, rows] largest score of each word; `peak` is the largest transition."""
    peak: Tensor
    log_sums: Tensor
    """[rows] log of the sum over all sequences, minus the peaks; float64."""
    alphas: Tensor
    betas: Tensor
    flows: Tensor
    """x beta / s: the backward message into each word."""
    weights: Tensor
    """[tags, tags] e(i, j)."""
    exact: _Exact | None = None

    def posteriors(self) -> Tensor:
        """Probability of each tag at each word; zero on padding."""
        found = self.alphas * self.betas
        if self.exact is not None:
            found[:, self.exact.rows] = self.exact.posteriors.to(found.dtype)
        return found

    def pairs(self) -> Tensor:
        """[rows, tags, tags] expected number of each transition in each sentence."""
        found = torch.bmm(self.alphas[:-1].permute(1, 2, 0), self.flows[1:].transpose(0, 1)).mul_(
            self.weights
        )
        if self.exact is not None:
            found[self.exact.rows] = self.exact.pairs.to(found.dtype)
        return found

    def sum_of_pairs(self, factors: Tensor) -> Tensor:
        """[tags, tags] the sum of `pairs`, each sentence weighted by its factor."""
        weighted = self.flows[1:] * factors[:, None]
        total = torch.mm(self.alphas[:-1].flatten(0, 1).t(), weighted.flatten(0, 1))
        total *= self.weights
        if self.exact is not None:
            chosen = factors[self.exact.rows].to(self.exact.pairs.dtype)
            total += torch.einsum("n,nij->ij", chosen, self.exact.pairs).to(total.dtype)
        return total


def forward_backward(scores: Tensor, transitions: Tensor, layout: Layout) -> Chain:
    """Both passes. `scores` [words, rows, tags] include start and end; see `Layout.sort`."""
    peak = transitions.amax()
    weights = (transitions - peak).exp_()
    peaks = scores.amax(-1)
    x = (scores - peaks[..., None]).exp_()
    if not layout.same_length:
        x.masked_fill_(~layout.mask()[..., None], 0)
    alphas, betas = torch.zeros_like(x), torch.zeros_like(x)
    x_by_word, alpha_by_word = layout.steps(x), layout.steps(alphas)
    sums = [x_by_word[0].sum(1, keepdim=True)]
    torch.div(x_by_word[0], sums[0], out=alpha_by_word[0])
    for t in range(1, layout.words):
        n, alpha = layout.running[t], alpha_by_word[t]
        torch.mm(alpha_by_word[t - 1][:n], weights, out=alpha)
        alpha *= x_by_word[t]
        sums.append(alpha.sum(1, keepdim=True))
        alpha /= sums[t]
    betas[layout.ends] = 1
    scales = layout.stack(sums)
    x /= scales[..., None]
    back = weights.t().contiguous()
    beta_by_word = layout.steps(betas)
    for t in range(layout.words - 1, 0, -1):
        n, flow = layout.running[t], x_by_word[t]
        flow *= beta_by_word[t]
        torch.mm(flow, back, out=beta_by_word[t - 1][:n])
    chain = Chain(peaks, peak, scales.double().log_().sum(0), alphas, betas, x, weights)
    # A number below `tiny` that alpha loses is divided by s and multiplied by beta (and likewise
    # for x). The comparison is negated so that nan counts as underflow too.
    tolerated = _TOLERANCE / torch.finfo(x.dtype).tiny
    if bool(betas.amax() < tolerated * scales.amin()):
        return chain
    lost = ~(betas.amax((0, 2)) < tolerated * scales.amin(0))
    return _recomputed(chain, lost.nonzero().flatten(), scores, transitions, layout)


def _recomputed(
    chain: Chain, lost: Tensor, scores: Tensor, transitions: Tensor, layout: Layout
) -> Chain:
    """The chain with these sentences recomputed in log space."""
    if len(lost) == 0:
        return chain
    totals, posteriors, pairs = _forward_backward_log(
        scores[:, lost], transitions, layout.lengths[lost]
    )
    for tensor in (chain.alphas, chain.betas, chain.flows):
        tensor[:, lost] = 0
    totals -= torch.where(layout.mask(), chain.peaks, 0)[:, lost].double().sum(0)
    chain.log_sums[lost] = totals - (layout.lengths[lost] - 1) * chain.peak.double()
    return replace(chain, exact=_Exact(lost, posteriors, pairs))


def _forward_backward_log(
    scores: Tensor, transitions: Tensor, lengths: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Log partition functions [rows], posteriors and expected transitions, in log space."""
    words, rows, tags = scores.shape
    scores, transitions = scores.double(), transitions.double()
    running = torch.arange(words, device=scores.device)[:, None] < lengths
    scores = torch.where(running[..., None], scores, 0)
    alphas, betas = torch.empty_like(scores), torch.zeros_like(scores)
    alphas[0] = scores[0]
    for t in range(1, words):
        arrived = (alphas[t - 1, :, :, None] + transitions).logsumexp(1) + scores[t]
        alphas[t] = torch.where(running[t, :, None], arrived, alphas[t - 1])
    totals = alphas[-1].logsumexp(-1)
    pairs = scores.new_zeros(rows, tags, tags)
    for t in range(words - 1, 0, -1):
        ahead = transitions + (scores[t] + betas[t])[:, None]
        betas[t - 1] = torch.where(running[t, :, None], ahead.logsumexp(2), 0)
        pair = (alphas[t - 1, :, :, None] + ahead - totals[:, None, None]).exp_()
        pairs += torch.where(running[t, :, None, None], pair, 0)
    posteriors = (alphas + betas - totals[:, None]).exp_()
    return totals, torch.where(running[..., None], posteriors, 0), pairs
