"""Common code of LSTM and GRU: layers, directions, and sequences of different lengths.

A direction runs over time-major tensors [steps, sequences, width] in place, forwards or backwards.
Padding does not change the state, so a packed batch runs as a padded one, and the state after the
last step is the state after the last real step, in both directions.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from sottovoce.errors import InvalidInput
from sottovoce.training.records.tape import Tape, record_outer_product

States = tuple[Tensor, ...]


@dataclass(frozen=True)
class Direction:
    """One direction of one layer: its parameters and its order of steps."""

    tape: Tape
    weight_ih: Tensor
    weight_hh: Tensor
    bias_ih: Tensor | None
    bias_hh: Tensor | None
    backwards: bool
    padding: Tensor | None
    """[steps, sequences, 1], True in padding."""

    def steps(self, count: int) -> range:
        return range(count - 1, -1, -1) if self.backwards else range(count)

    def before(self, step: int) -> int:
        """The index of the state before a step; there is one more state than steps."""
        return step + 1 if self.backwards else step

    def after(self, step: int) -> int:
        return step if self.backwards else step + 1

    def every_state_before(self, states: Tensor) -> Tensor:
        return states[1:] if self.backwards else states[:-1]

    def every_state_after(self, states: Tensor) -> Tensor:
        return states[:-1] if self.backwards else states[1:]

    def record(
        self, weight: Tensor, biases: tuple[Tensor | None, ...], a: Tensor, b: Tensor
    ) -> None:
        rows = (self.tape.rows(x.transpose(0, 1)) for x in (a, b))
        record_outer_product(self.tape, weight, biases, *rows)


RunDirection = Callable[[Direction, Tensor, States], tuple[Tensor, States]]


def run_layers(
    module: nn.RNNBase,
    tape: Tape,
    inputs: Tensor | PackedSequence,
    states: States,
    run: RunDirection,
) -> tuple[Any, States]:
    """The outputs, packed like the inputs, and the states after the last step."""
    steps, padding, restore = _unpack(module, tape, inputs)
    ways = 2 if module.bidirectional else 1
    finals = []
    for layer in range(module.num_layers):
        if layer and module.dropout:
            steps = functional.dropout(steps, module.dropout, module.training)
        outputs = []
        for way in range(ways):
            direction = _direction(module, tape, layer, bool(way), padding)
            initial = tuple(state[layer * ways + way] for state in states)
            output, final = run(direction, steps, initial)
            outputs.append(output)
            finals.append(final)
        steps = outputs[0] if ways == 1 else torch.cat(outputs, -1)
    return restore(steps), tuple(torch.stack(state) for state in zip(*finals, strict=True))


def no_states(module: nn.RNNBase, inputs: Tensor | PackedSequence) -> Tensor:
    """The default state before the first step: zeros."""
    ways = 2 if module.bidirectional else 1
    if isinstance(inputs, PackedSequence):
        data, sequences = inputs.data, int(inputs.batch_sizes[0])
    else:
        data, sequences = inputs, inputs.shape[0 if module.batch_first else 1]
    return data.new_zeros(module.num_layers * ways, sequences, module.hidden_size)


def _direction(
    module: nn.RNNBase, tape: Tape, layer: int, backwards: bool, padding: Tensor | None
) -> Direction:
    suffix = f"l{layer}_reverse" if backwards else f"l{layer}"
    return Direction(
        tape=tape,
        weight_ih=getattr(module, f"weight_ih_{suffix}"),
        weight_hh=getattr(module, f"weight_hh_{suffix}"),
        bias_ih=getattr(module, f"bias_ih_{suffix}", None),
        bias_hh=getattr(module, f"bias_hh_{suffix}", None),
        backwards=backwards,
        padding=padding,
    )


def _unpack(
    module: nn.RNNBase, tape: Tape, inputs: Tensor | PackedSequence
) -> tuple[Tensor, Tensor | None, Callable[[Tensor], Any]]:
    """Time-major steps, their padding mask, and a function that packs outputs again."""
    if isinstance(inputs, PackedSequence):
        steps, lengths = pad_packed_sequence(inputs)
        tape.batched(steps.transpose(0, 1))
        ended = torch.arange(len(steps)).unsqueeze(1) >= lengths
        padding = ended.unsqueeze(2).to(steps.device) if bool(ended.any()) else None
        return steps, padding, lambda outputs: _pack_like(inputs, outputs, lengths)
    if inputs.dim() != 3:
        raise InvalidInput(
            f"Expected a batch of sequences (three dimensions) as input of {tape.module}, "
            f"got shape {list(inputs.shape)}."
        )
    if module.batch_first:
        steps = tape.batched(inputs).transpose(0, 1).contiguous()
        return steps, None, lambda outputs: outputs.transpose(0, 1)
    return tape.batched(inputs.transpose(0, 1)).transpose(0, 1), None, lambda outputs: outputs


def _pack_like(packed: PackedSequence, padded: Tensor, lengths: Tensor) -> PackedSequence:
    if packed.sorted_indices is not None:
        padded = padded.index_select(1, packed.sorted_indices)
        lengths = lengths[packed.sorted_indices.cpu()]
    data, batch_sizes = torch._VF._pack_padded_sequence(padded, lengths, False)
    return PackedSequence(data, batch_sizes, packed.sorted_indices, packed.unsorted_indices)
