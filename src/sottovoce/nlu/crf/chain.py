"""Sums over all tag sequences of a linear chain, forward and backward, for a batch at once.

    alpha_t(j) = x_t(j) sum_i alpha_{t-1}(i) e(i, j)
    beta_t(i) = sum_j e(i, j) x_{t+1}(j) beta_{t+1}(j)

with x = exp(emission) and e = exp(transition), so that a step is one matrix product. Every alpha is
scaled to sum to one (by s_t) and beta with it, so that alpha_t beta_t are the posteriors. Sentences
are sorted, longest first: those that still run are the first rows, and padding is never touched.

Numbers below the smallest of the format are lost on the way. How much that can matter is known
afterwards, and a sentence for which it can is computed again with logarithms, in float64.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

# What underflow may change of a sum over all sequences, word by word.
_LOSS = 1e-14


@dataclass(frozen=True, eq=False)
class Layout:
    """The sentences that have words, longest first."""

    order: Tensor
    """[rows] their places in the batch."""
    lengths: Tensor
    """[rows]"""
    running: tuple[int, ...]
    """How many sentences are longer than t, for every t."""

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
        """[batch, words, ...] -> [words, rows, ...], cut behind the longest; a copy."""
        turned = x[:, : self.words].transpose(0, 1)
        if self.even and self.rows == len(x):
            return turned.clone(memory_format=torch.contiguous_format)
        return turned.index_select(1, self.order)

    def restore(self, x: Tensor, shape: torch.Size) -> Tensor:
        """[words, rows, ...] -> [batch, words, ...], zero where there was nothing."""
        if self.even and x.shape[:2] == (shape[1], shape[0]):
            return x.transpose(0, 1)
        whole = x.new_zeros(shape)
        whole[self.order, : self.words] = x.transpose(0, 1)
        return whole

    def steps(self, x: Tensor) -> list[Tensor]:
        """[words, rows, ...] -> for each word, a view of the rows that still run."""
        return [
            step if n == len(step) else step[:n]
            for step, n in zip(x.unbind(), self.running, strict=True)
        ]

    def stack(self, steps: list[Tensor]) -> Tensor:
        """[n, 1] of those that run, for each word -> [words, rows], one where nothing runs."""
        if self.even:
            return torch.cat(steps, 1).t()
        whole = steps[0].new_ones(self.words, self.rows)
        whole[self.mask()] = torch.cat(steps).flatten()
        return whole

    def spread(self, x: Tensor, batch: int) -> Tensor:
        """[rows, ...] -> [batch, ...], zero for sentences without words."""
        if self.even and self.rows == batch:
            return x
        whole = x.new_zeros(batch, *x.shape[1:])
        whole[self.order] = x
        return whole

    @property
    def even(self) -> bool:
        """Whether all are equally long."""
        return self.running[-1] == self.rows

    @property
    def ends(self) -> int | tuple[Tensor, Tensor]:
        """The index of the last word of each, in [words, rows, ...]."""
        if self.even:
            return -1
        return self.lengths - 1, torch.arange(self.rows, device=self.lengths.device)

    def mask(self) -> Tensor:
        """[words, rows]"""
        return torch.arange(self.words, device=self.order.device)[:, None] < self.lengths


@dataclass(frozen=True, eq=False)
class _Exact:
    """The sentences for which the fast sums would not do."""

    rows: Tensor
    posteriors: Tensor
    pairs: Tensor


@dataclass(frozen=True, eq=False)
class Chain:
    """What is known of all sequences of all sentences, [words, rows, tags] unless said."""

    peaks: Tensor
    """[words, rows] the largest score of each word, and `peak` the largest transition."""
    peak: Tensor
    log_sums: Tensor
    """[rows] log of the sum over all sequences, less these peaks along the way; float64."""
    alphas: Tensor
    betas: Tensor
    flows: Tensor
    """x beta / s: what comes back into a word from behind."""
    weights: Tensor
    """[tags, tags] e(i, j)."""
    exact: _Exact | None = None

    def posteriors(self) -> Tensor:
        """The probability of each tag at each word; zero on padding."""
        found = self.alphas * self.betas
        if self.exact is not None:
            found[:, self.exact.rows] = self.exact.posteriors.to(found.dtype)
        return found

    def pairs(self) -> Tensor:
        """[rows, tags, tags] how often each transition is expected in each sentence."""
        found = torch.bmm(self.alphas[:-1].permute(1, 2, 0), self.flows[1:].transpose(0, 1)).mul_(
            self.weights
        )
        if self.exact is not None:
            found[self.exact.rows] = self.exact.pairs.to(found.dtype)
        return found

    def sum_of_pairs(self, factors: Tensor) -> Tensor:
        """[tags, tags] the same, every sentence times its factor, added up."""
        weighted = self.flows[1:] * factors[:, None]
        total = torch.mm(self.alphas[:-1].flatten(0, 1).t(), weighted.flatten(0, 1))
        total *= self.weights
        if self.exact is not None:
            chosen = factors[self.exact.rows].to(self.exact.pairs.dtype)
            total += torch.einsum("n,nij->ij", chosen, self.exact.pairs).to(total.dtype)
        return total


def run(scores: Tensor, transitions: Tensor, layout: Layout) -> Chain:
    """Both passes. `scores` [words, rows, tags] hold start and end already; see `Layout.sort`."""
    peak = transitions.amax()
    weights = (transitions - peak).exp_()
    peaks = scores.amax(-1)
    x = (scores - peaks[..., None]).exp_()
    if not layout.even:
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
    # A number below `tiny` is lost from alpha, divided by s and met by beta (or from x, the other
    # way around). Written so that nan is a loss too.
    tolerated = _LOSS / torch.finfo(x.dtype).tiny
    if bool(betas.amax() < tolerated * scales.amin()):
        return chain
    lost = ~(betas.amax((0, 2)) < tolerated * scales.amin(0))
    return _mended(chain, lost.nonzero().flatten(), scores, transitions, layout)


def _mended(
    chain: Chain, lost: Tensor, scores: Tensor, transitions: Tensor, layout: Layout
) -> Chain:
    """The chain with some sentences computed again."""
    if len(lost) == 0:
        return chain
    totals, posteriors, pairs = _run_exactly(scores[:, lost], transitions, layout.lengths[lost])
    for tensor in (chain.alphas, chain.betas, chain.flows):
        tensor[:, lost] = 0
    totals -= torch.where(layout.mask(), chain.peaks, 0)[:, lost].double().sum(0)
    chain.log_sums[lost] = totals - (layout.lengths[lost] - 1) * chain.peak.double()
    return replace(chain, exact=_Exact(lost, posteriors, pairs))


def _run_exactly(
    scores: Tensor, transitions: Tensor, lengths: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Log of the sums [rows], posteriors and expected transitions, all with logarithms."""
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
