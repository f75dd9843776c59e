"""Masked-language-model pretraining on public text, as the paper did for its small BERT.

15 % of the pieces are predicted; of these, 80 % are masked, 10 % are replaced by a random piece,
and 10 % are left unchanged.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.nlu.encoders.bert import Bert
from sottovoce.nlu.pretraining.loop import LoopOptions, Pretrained, bucket_by_length, run

PREDICTED, MASKED, REPLACED = 0.15, 0.8, 0.1
MASKS = ("[MASK]", "<mask>")


@dataclass(frozen=True, kw_only=True)
class MaskedPlan:
    """`passes` over the lines, each truncated to `longest` pieces; the fraction `held_out` of the
    lines is used for validation."""

    passes: int = 3
    batch_size: int = 64
    learning_rate: float = 5e-4
    longest: int = 64
    held_out: float = 0.01
    seed: int = 0

    def __post_init__(self) -> None:
        _validate.parse_fields(self)
        for name in ("passes", "batch_size"):
            _validate.at_least_one(name, getattr(self, name))
        _validate.positive("learning_rate", self.learning_rate)
        _validate.between("held_out", self.held_out, 0, 0.5)
        if self.longest < 4:
            raise InvalidInput(f"Expected longest >= 4, got {self.longest}.")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class MaskedResult:
    """Result of masked pretraining, and the loss on held-out lines."""

    pretrained: Pretrained
    valid_loss: float | None
    valid_lines: int


def pretrain_masked(
    encoder: Bert,
    lines: Sequence[str],
    plan: MaskedPlan | None = None,
    loop: LoopOptions | None = None,
) -> MaskedResult:
    """Train the encoder in place on lines of public text."""
    plan = plan or MaskedPlan()
    torch.manual_seed(plan.seed)
    model = _MaskedModel(encoder)
    longest = min(plan.longest, encoder.pieces.positions)
    rows = [row for line in lines if len(row := _pieces(encoder, line, longest)) > 2]
    draws = random.Random(plan.seed)
    draws.shuffle(rows)
    kept = round(plan.held_out * len(rows))
    held_out, rows = rows[:kept], rows[kept:]
    if not rows:
        raise InvalidInput("Expected text to learn from, got none.")
    batches = [
        batch
        for _ in range(plan.passes)
        for batch in bucket_by_length([len(row) for row in rows], plan.batch_size, draws)
    ]

    def loss_of(step: int) -> Tensor:
        generator = torch.Generator().manual_seed(plan.seed + step)
        return model.loss([rows[number] for number in batches[step]], generator)

    pretrained = run(model, [(model, plan.learning_rate)], loss_of, len(batches), loop)
    valid = None if pretrained.stopped else _measure(model, held_out, plan)
    return MaskedResult(pretrained=pretrained, valid_loss=valid, valid_lines=len(held_out))


class _MaskedModel(nn.Module):
    """An encoder with a language-modelling head, tied to the input embeddings."""

    def __init__(self, encoder: Bert) -> None:
        super().__init__()
        self.encoder = encoder
        table = encoder.network.get_input_embeddings()  # type: ignore[operator]
        pieces, width = table.weight.shape
        hidden = int(encoder.network.config.hidden_size)  # type: ignore[union-attr, arg-type]
        if width != hidden:
            raise InvalidInput(
                "Expected an encoder whose embeddings are as wide as its layers, got "
                f"{width} and {hidden}."
            )
        tokenizer = encoder.pieces.tokenizer
        found = [tokenizer.token_to_id(mask) for mask in MASKS]
        if all(number is None for number in found):
            raise InvalidInput("Expected a tokeniser with the token [MASK], got one without it.")
        self.mask: int = next(number for number in found if number is not None)
        self.change = nn.Sequential(nn.Linear(hidden, hidden), nn.GELU(), nn.LayerNorm(hidden))
        self.bias = nn.Parameter(torch.zeros(pieces))

    def loss(self, rows: Sequence[Sequence[int]], generator: torch.Generator) -> Tensor:
        """Mean loss of the predicted pieces."""
        marks = self.encoder.pieces.marks
        longest = max(len(row) for row in rows)
        pieces = torch.full((len(rows), longest), marks.padding)
        for number, row in enumerate(rows):
            pieces[number, : len(row)] = torch.tensor(row)
        lengths = torch.tensor([len(row) for row in rows])
        there = torch.arange(longest) < lengths[:, None]
        inside = there & (pieces != marks.start) & (pieces != marks.end)
        asked = inside & (torch.rand(pieces.shape, generator=generator) < PREDICTED)
        if not asked.any():
            asked[0, 1] = True
        shown = self._corrupt(pieces, asked, generator)
        network = self.encoder.network
        states = network(input_ids=shown, attention_mask=there.long()).last_hidden_state
        table = network.get_input_embeddings().weight  # type: ignore[operator]
        scores = functional.linear(self.change(states[asked]), table, self.bias)
        return functional.cross_entropy(scores, pieces[asked])

    def _corrupt(self, pieces: Tensor, asked: Tensor, generator: torch.Generator) -> Tensor:
        draws = torch.rand(pieces.shape, generator=generator)
        others = torch.randint(len(self.bias), pieces.shape, generator=generator)
        shown = torch.where(asked & (draws < MASKED), self.mask, pieces)
        return torch.where(asked & (draws >= MASKED) & (draws < MASKED + REPLACED), others, shown)


def _pieces(encoder: Bert, line: str, longest: int) -> list[int]:
    marks = encoder.pieces.marks
    inside: list[int] = encoder.pieces.tokenizer.encode(line, add_special_tokens=False).ids
    return [marks.start, *inside[: longest - 2], marks.end]


@torch.no_grad()
def _measure(model: _MaskedModel, rows: Sequence[Sequence[int]], plan: MaskedPlan) -> float | None:
    """Mean loss on held-out lines, with the same masks each time."""
    if not rows:
        return None
    model.eval()
    generator = torch.Generator().manual_seed(plan.seed)
    starts = range(0, len(rows), plan.batch_size)
    losses = [model.loss(rows[at : at + plan.batch_size], generator) for at in starts]
    mean = float(torch.stack(losses).mean())
    return mean if math.isfinite(mean) else None
