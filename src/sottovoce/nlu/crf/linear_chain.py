"""Linear-chain CRF: negative log-likelihood of tag sequences, with per-example gradients.

    -log p(y | x) = log sum_{y'} exp(score(y')) - score(y)
    score(y) = start(y_1) + sum_t emission_t(y_t) + sum_t transition(y_{t-1}, y_t) + end(y_T)

The gradient is expected minus observed counts of tags and transitions, for each sentence. They
come from one forward-backward pass (`chain`), so exact per-example clipping costs little more: the
rule below records the gradients of each sentence on the tape.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from sottovoce.corpora import OUTSIDE
from sottovoce.errors import InvalidInput
from sottovoce.nlu.crf.chain import Chain, Layout, forward_backward
from sottovoce.training.layers.registry import apply, rule_for
from sottovoce.training.records.grouping import norm_dtype
from sottovoce.training.records.records import Instantiated
from sottovoce.training.records.tape import Tape

IMPOSSIBLE = -1e4
"""Score of forbidden tags: its exponential underflows to zero, and float32 sums stay accurate."""


class Crf(nn.Module):
    """Transition scores of a linear-chain CRF, initialised to zero.

    >>> crf = Crf(3)
    >>> emissions, tags = torch.zeros(2, 4, 3), torch.zeros(2, 4, dtype=torch.long)
    >>> mask = torch.tensor([[True] * 4, [True, False, False, False]])
    >>> crf(emissions, tags, mask).detach()         # 81 sequences are equally likely, and 3
    tensor([4.3944, 1.0986])
    """

    never_first: Tensor
    never_next: Tensor

    def __init__(self, tags: int, names: Sequence[str] | None = None) -> None:
        """With the `names` of the tags, sequences that are not valid BIO are forbidden."""
        super().__init__()
        if tags < 1:
            raise InvalidInput(f"Expected at least one tag, got {tags}.")
        first, following = bio_constraints(names or [OUTSIDE] * tags)
        if len(first) != tags:
            raise InvalidInput(f"Expected the names of {tags} tags, got {len(first)}.")
        self.register_buffer("never_first", ~first, persistent=False)
        self.register_buffer("never_next", ~following, persistent=False)
        self.transitions = nn.Parameter(torch.zeros(tags, tags))
        self.start = nn.Parameter(torch.zeros(tags))
        self.end = nn.Parameter(torch.zeros(tags))

    @property
    def tags(self) -> int:
        return len(self.start)

    def weights(self) -> tuple[Tensor, Tensor, Tensor]:
        """Start, end and transition scores, with forbidden ones set to IMPOSSIBLE."""
        return (
            self.start.masked_fill(self.never_first, IMPOSSIBLE),
            self.end,
            self.transitions.masked_fill(self.never_next, IMPOSSIBLE),
        )

    def forward(self, emissions: Tensor, tags: Tensor, mask: Tensor | None = None) -> Tensor:
        """[batch] the negative log-likelihood of each sentence, summed over its words.

        `emissions` [batch, words, tags], `tags` and `mask` [batch, words]. Padding is on the
        right; its emissions and tags are ignored. An empty sentence gives 0.
        """
        mask = checked_mask(self, emissions, mask)
        gold = _checked_tags(self, tags, mask)
        layout = Layout.of(mask)
        if layout.rows == 0:
            return _nothing(emissions)
        losses: Tensor = apply(_Likelihood, emissions, *self.weights(), gold, layout)
        return losses

    def extra_repr(self) -> str:
        return str(self.tags)


@rule_for(Crf)
def crf_rule(
    module: Crf, tape: Tape, emissions: Tensor, tags: Tensor, mask: Tensor | None = None
) -> Tensor:
    emissions, tags = tape.batched(emissions), tape.batched(tags)
    mask = checked_mask(module, emissions, None if mask is None else tape.batched(mask))
    gold = _checked_tags(module, tags, mask)
    layout = Layout.of(mask)
    if layout.rows == 0:
        return _nothing(emissions)
    losses: Tensor = apply(_Recorded, emissions, tape.anchor, tape, module, gold, layout)
    return losses


def bio_constraints(tags: Sequence[str]) -> tuple[Tensor, Tensor]:
    """[tags] tags allowed at the start, and [tags, tags] allowed transitions.

    >>> first, following = bio_constraints(("O", "B-a", "I-a", "I-b"))
    >>> first.tolist(), following[:, 2].tolist(), following[:, 3].tolist()
    ([True, True, False, False], [False, True, True, False], [False, False, False, True])
    """
    inside = [tag.removeprefix("I-") if tag.startswith("I-") else None for tag in tags]
    first = torch.tensor([kind is None for kind in inside], dtype=torch.bool)
    following = torch.tensor(
        [
            [kind is None or before in (f"B-{kind}", f"I-{kind}") for kind in inside]
            for before in tags
        ],
        dtype=torch.bool,
    )
    return first, following


def checked_mask(crf: Crf, emissions: Tensor, mask: Tensor | None) -> Tensor:
    """The mask, all true by default; a mask with gaps is refused."""
    if emissions.dim() != 3 or emissions.shape[2] != crf.tags:
        raise InvalidInput(
            f"Expected emissions of shape [batch, words, {crf.tags}], got {list(emissions.shape)}."
        )
    if mask is None:
        return torch.ones(emissions.shape[:2], dtype=torch.bool, device=emissions.device)
    if mask.shape != emissions.shape[:2] or mask.dtype != torch.bool:
        raise InvalidInput(
            f"Expected a mask of bool and shape {list(emissions.shape[:2])}, got {mask.dtype} and "
            f"{list(mask.shape)}."
        )
    if bool((mask[:, 1:] > mask[:, :-1]).any()):
        raise InvalidInput("Expected padding on the right only, got a mask with words after it.")
    return mask


def with_boundaries(emissions: Tensor, start: Tensor, end: Tensor, layout: Layout) -> Tensor:
    """[words, rows, tags] scores in at least float32, with start and end scores added."""
    scores = layout.sort(emissions.detach()).to(norm_dtype(emissions))
    scores[0] += start
    scores[layout.ends] += end
    return scores


def _checked_tags(crf: Crf, tags: Tensor, mask: Tensor) -> Tensor:
    if tags.shape != mask.shape or tags.dtype != torch.int64:
        raise InvalidInput(
            f"Expected tags of int64 and shape {list(mask.shape)}, got {tags.dtype} and "
            f"{list(tags.shape)}."
        )
    gold = tags.masked_fill(~mask, 0)
    if gold.numel() and not 0 <= int(gold.min()) <= int(gold.max()) < crf.tags:
        wrong = gold[(gold < 0) | (gold >= crf.tags)][0]
        raise InvalidInput(f"Expected tags from 0 to {crf.tags - 1}, got {int(wrong)}.")
    return gold


def _nothing(emissions: Tensor) -> Tensor:
    """Differentiable zeros, for a batch without words."""
    return emissions[:, :0].sum((1, 2), dtype=norm_dtype(emissions))


@dataclass(frozen=True, eq=False)
class _Sweep:
    """State of one batch after the forward pass."""

    chain: Chain
    layout: Layout
    gold: Tensor
    """[words, rows]"""
    real: Tensor
    """[words, rows] 1 for words, 0 for padding."""
    steps: Tensor
    """[words - 1, rows] flat indices of the gold transitions."""
    shape: torch.Size
    dtype: torch.dtype

    @classmethod
    def over(
        cls,
        emissions: Tensor,
        parameters: tuple[Tensor, Tensor, Tensor],
        tags: Tensor,
        layout: Layout,
    ) -> "tuple[_Sweep, Tensor]":
        """The state, and the losses."""
        start, end, transitions = (parameter.detach() for parameter in parameters)
        scores = with_boundaries(emissions, start, end, layout)
        transitions = transitions.to(scores.dtype)
        chain = forward_backward(scores, transitions, layout)
        gold, mask = layout.sort(tags), layout.mask()
        steps = gold[:-1] * scores.shape[2] + gold[1:]
        # Scores are relative to the peaks, to avoid cancellation of large numbers.
        own = scores.gather(2, gold[..., None]).squeeze(-1) - chain.peaks
        moves = transitions.flatten()[steps] - chain.peak
        total = torch.where(mask, own, 0).double().sum(0)
        total += torch.where(mask[1:], moves, 0).double().sum(0)
        losses = scores.new_zeros(len(emissions))
        losses[layout.order] = (chain.log_sums - total).to(losses.dtype)
        real = mask.to(scores.dtype)
        return cls(chain, layout, gold, real, steps, emissions.shape, emissions.dtype), losses

    def by_word(self, factors: Tensor) -> Tensor:
        """[words, rows, tags] expected minus gold tags, each sentence times its factor."""
        found = self.chain.posteriors()
        found.scatter_add_(2, self.gold[..., None], -self.real[..., None])
        return found.mul_(factors[:, None])

    def upstream(self, by_word: Tensor) -> Tensor:
        return self.layout.restore(by_word, self.shape).to(self.dtype)

    def by_transition(self, factors: Tensor) -> Tensor:
        """[rows, tags, tags] expected minus gold transitions, each sentence times its factor."""
        found = self.chain.pairs()
        found.flatten(1).scatter_add_(1, self.steps.t(), -self.real[1:].t())
        return found.mul_(factors[:, None, None])

    def all_transitions(self, factors: Tensor) -> Tensor:
        """[tags, tags] the sum of `by_transition` over sentences, without materialising it."""
        found = self.chain.sum_of_pairs(factors)
        found.view(-1).index_add_(0, self.steps.flatten(), (self.real[1:] * -factors).flatten())
        return found


class _Likelihood(Function):
    @staticmethod
    def forward(
        ctx: Any,
        emissions: Tensor,
        start: Tensor,
        end: Tensor,
        transitions: Tensor,
        tags: Tensor,
        layout: Layout,
    ) -> Tensor:
        ctx.sweep, losses = _Sweep.over(emissions, (start, end, transitions), tags, layout)
        ctx.kept = transitions.dtype
        return losses

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor | None, ...]:
        sweep: _Sweep = ctx.sweep
        factors = outer[sweep.layout.order]
        by_word = sweep.by_word(factors)
        found = (by_word[0].sum(0), by_word[sweep.layout.ends].sum(0))
        moves = sweep.all_transitions(factors).to(ctx.kept) if ctx.needs_input_grad[3] else None
        return sweep.upstream(by_word), *(x.to(ctx.kept) for x in found), moves, None, None


class _Recorded(Function):
    @staticmethod
    def forward(
        ctx: Any,
        emissions: Tensor,
        anchor: Tensor,
        tape: Tape,
        crf: Crf,
        tags: Tensor,
        layout: Layout,
    ) -> Tensor:
        ctx.sweep, losses = _Sweep.over(emissions, crf.weights(), tags, layout)
        ctx.tape, ctx.crf = tape, crf
        return losses

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor | None, ...]:
        sweep: _Sweep = ctx.sweep
        crf: Crf = ctx.crf
        tape: Tape = ctx.tape
        factors = outer[sweep.layout.order]
        by_word = sweep.by_word(factors)
        if crf.start.requires_grad:
            _record(tape, crf.start, sweep, by_word[0])
        if crf.end.requires_grad:
            _record(tape, crf.end, sweep, by_word[sweep.layout.ends])
        if crf.transitions.requires_grad:
            _record(tape, crf.transitions, sweep, sweep.by_transition(factors))
        return sweep.upstream(by_word), *[None] * 5


def _record(tape: Tape, parameter: Tensor, sweep: _Sweep, by_row: Tensor) -> None:
    """Record gradients per example; an example may have several sentences."""
    by_example = sweep.layout.spread(by_row, sweep.shape[0])
    examples = tape.grouping.examples
    if len(by_example) != examples:
        by_example = by_example.view(examples, -1, *by_example.shape[1:]).sum(1)
    tape.add((parameter,), Instantiated(tape.grouping.sums(by_example)))
