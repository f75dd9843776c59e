"""LSTM and GRU with custom backward passes: torch's do not expose the gradients of the gates."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from sottovoce.errors import InvalidInput
from sottovoce.training.kernel.backends import Repeated, times
from sottovoce.training.kernel.lstm import backward_steps, forward_steps
from sottovoce.training.layers.registry import apply, rule_for
from sottovoce.training.records.tape import Tape, record_outer_product

States = tuple[Tensor, ...]


@dataclass(frozen=True)
class Direction:
    """One direction of one layer: its parameters and its order of steps.

    It runs over time-major tensors [steps, sequences, width] in place, forwards or backwards.
    Padding does not change the state, so a packed batch runs as a padded one, and the state after
    the last step is the state after the last real step, in both directions.
    """

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


class _LSTM(Function):
    """One direction of an LSTM.

        i, f, o = sigmoid, g = tanh of W_ih x_t + b_ih + W_hh h_{t-1} + b_hh
        c_t = f c_{t-1} + i g,    h_t = o tanh(c_t)

    All steps are rows of W_ih (inputs x_t) and of W_hh (inputs h_{t-1}), with the same gradient:
    that of the gates before activation. In padding i = o = 0 and f = 1, so that c does not change;
    h is copied.
    """

    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, h_0: Tensor, c_0: Tensor, anchor: Tensor, way: Direction
    ) -> tuple[Tensor, Tensor, Tensor]:
        steps, sequences, _ = inputs.shape
        size = h_0.shape[-1]
        gates = _rows_times(inputs, way.weight_ih.t(), _sum(way.bias_ih, way.bias_hh))
        if way.padding is not None:
            i, f, _, o = gates.chunk(4, -1)
            for gate, value in (i, -math.inf), (f, math.inf), (o, -math.inf):
                gate.masked_fill_(way.padding, value)
            carried = way.padding.to(gates.dtype)
        recurrent = Repeated(way.weight_hh.t(), sequences, steps)
        hidden = h_0.new_empty(steps + 1, sequences, size)
        cells = torch.empty_like(hidden)
        squashed = h_0.new_empty(steps, sequences, size)
        start = steps if way.backwards else 0
        hidden[start], cells[start] = h_0, c_0
        make_step = forward_steps(gates, hidden, cells, squashed)
        for t in way.steps(steps):
            before, after = way.before(t), way.after(t)
            recurrent.add_to(gates[t], hidden[before])
            make_step(t, before, after)
            if way.padding is not None:
                hidden[after].addcmul_(carried[t], hidden[before])
        ctx.save_for_backward(inputs, gates, hidden, cells, squashed)
        ctx.way = way
        end = steps - start
        return way.every_state_after(hidden), hidden[end].clone(), cells[end].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outer: Tensor, h_n: Tensor, c_n: Tensor) -> tuple[Tensor | None, ...]:
        inputs, gates, hidden, cells, squashed = ctx.saved_tensors
        way: Direction = ctx.way
        carried = None if way.padding is None else way.padding.to(gates.dtype)
        gradients = torch.empty_like(gates)
        dh, dc = (x.clone(memory_format=torch.contiguous_format) for x in (h_n, c_n))
        recurrent = Repeated(way.weight_hh, gates.shape[1], len(inputs))
        make_step = backward_steps(gates, cells, squashed, outer, gradients)
        for t in reversed(way.steps(len(inputs))):
            make_step(t, way.before(t), dh, dc)
            later, dh = dh, recurrent.of(gradients[t])
            if carried is not None:
                dh.addcmul_(carried[t], later)
        way.record(way.weight_ih, (way.bias_ih, way.bias_hh), inputs, gradients)
        way.record(way.weight_hh, (), way.every_state_before(hidden), gradients)
        upstream = _rows_times(gradients, way.weight_ih) if ctx.needs_input_grad[0] else None
        return upstream, dh, dc, None, None


def _rows_times(x: Tensor, matrix: Tensor, added: Tensor | None = None) -> Tensor:
    """x @ matrix + added, for all steps at once."""
    return times(x.flatten(0, 1), matrix, added).view(*x.shape[:2], matrix.shape[1])


def _sum(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    return None if first is None or second is None else first + second


def _run_lstm(way: Direction, steps: Tensor, states: States) -> tuple[Tensor, States]:
    outputs, *final = apply(_LSTM, steps, *states, way.tape.anchor, way)
    return outputs, tuple(final)


def lstm_rule(
    module: nn.LSTM,
    tape: Tape,
    input: Tensor | PackedSequence,
    hx: tuple[Tensor, Tensor] | None = None,
) -> tuple[Any, tuple[Tensor, ...]]:
    states = (no_states(module, input),) * 2 if hx is None else hx
    return run_layers(module, tape, input, states, _run_lstm)


aten = torch.ops.aten


class _GRU(Function):
    """One direction of a GRU.

        r, z = sigmoid of W_ih x_t + b_ih + W_hh h_{t-1} + b_hh
        n = tanh(W_in x_t + b_in + r (W_hn h_{t-1} + b_hn)),    h_t = (1 - z) n + z h_{t-1}

    The reset gate r multiplies only one of the two products, so W_ih and W_hh receive different
    gradients. In padding z = 1, and the state does not change.
    """

    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, h_0: Tensor, anchor: Tensor, way: Direction
    ) -> tuple[Tensor, Tensor]:
        steps, sequences, _ = inputs.shape
        size = h_0.shape[-1]
        gates = functional.linear(inputs, way.weight_ih, way.bias_ih)
        if way.padding is not None:
            gates[..., size : 2 * size].masked_fill_(way.padding, math.inf)
        recurrent = way.weight_hh.t().contiguous()
        hidden = h_0.new_empty(steps + 1, sequences, size)
        products = h_0.new_empty(steps, sequences, size)
        start = steps if way.backwards else 0
        hidden[start] = h_0
        for t in way.steps(steps):
            state = hidden[way.before(t)]
            product = torch.mm(state, recurrent)
            if way.bias_hh is not None:
                product += way.bias_hh
            gates[t, :, : 2 * size].add_(product[:, : 2 * size]).sigmoid_()
            r, z, n = gates[t].chunk(3, 1)
            products[t] = product[:, 2 * size :]
            n.addcmul_(r, products[t]).tanh_()
            torch.lerp(n, state, z, out=hidden[way.after(t)])
        ctx.save_for_backward(inputs, gates, hidden, products)
        ctx.way = way
        return way.every_state_after(hidden), hidden[steps - start].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outer: Tensor, h_n: Tensor) -> tuple[Tensor | None, ...]:
        inputs, gates, hidden, products = ctx.saved_tensors
        way: Direction = ctx.way
        from_inputs, from_state = torch.empty_like(gates), torch.empty_like(gates)
        dh = h_n
        for t in reversed(way.steps(len(inputs))):
            dh = dh + outer[t]
            r, z, n = gates[t].chunk(3, 1)
            dr, dz, dn = from_inputs[t].chunk(3, 1)
            aten.tanh_backward.grad_input(dh - dh * z, n, grad_input=dn)
            aten.sigmoid_backward.grad_input(dh * (hidden[way.before(t)] - n), z, grad_input=dz)
            aten.sigmoid_backward.grad_input(dn * products[t], r, grad_input=dr)
            from_state[t] = from_inputs[t]
            from_state[t].chunk(3, 1)[2].mul_(r)
            dh = torch.addmm(dh * z, from_state[t], way.weight_hh)
        way.record(way.weight_ih, (way.bias_ih,), inputs, from_inputs)
        way.record(way.weight_hh, (way.bias_hh,), way.every_state_before(hidden), from_state)
        upstream = from_inputs @ way.weight_ih if ctx.needs_input_grad[0] else None
        return upstream, dh, None, None


def _run_gru(way: Direction, steps: Tensor, states: States) -> tuple[Tensor, States]:
    outputs, final = apply(_GRU, steps, *states, way.tape.anchor, way)
    return outputs, (final,)


@rule_for(nn.GRU)
def gru_rule(
    module: nn.GRU, tape: Tape, input: Tensor | PackedSequence, hx: Tensor | None = None
) -> tuple[Any, Tensor]:
    initial = no_states(module, input) if hx is None else hx
    outputs, (final,) = run_layers(module, tape, input, (initial,), _run_gru)
    return outputs, final
