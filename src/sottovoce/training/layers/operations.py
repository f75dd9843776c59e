"""Rules for torch operations on a batch and on parameters outside of modules that have rules.

`weight * hidden` in any RMSNorm, `F.linear(x, self.weight)`, learned positions that are added: each
is recorded by what it computes, whatever the class around it. An operation without a rule here runs
`by_slices`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional

from sottovoce.errors import InvalidInput
from sottovoce.training.layers.linear import linear, lookup
from sottovoce.training.layers.per_example import copies, own_rows
from sottovoce.training.layers.ragged import examples_of, label, padded
from sottovoce.training.layers.registry import apply
from sottovoce.training.records.tape import Tape, record_outer_product


@dataclass(frozen=True)
class Use:
    """An operation that uses a parameter or derived value together with examples."""

    tape: Tape
    shared: Callable[[object], bool]
    """Whether an argument is a parameter or a derived value."""
    batched: Callable[[object], bool]
    """Whether an argument is a tensor that belongs to the examples."""
    derive: Callable[..., Tensor]
    """A function of parameters and derived values alone."""
    refuse: Callable[[], InvalidInput]


Operation = Callable[..., Any]
"""Called with a `Use` and the arguments; NotImplemented where it does not apply."""
OPERATIONS: dict[Any, Operation] = {}


def operation_for(*functions: Any) -> Callable[[Operation], Operation]:
    def register(operation: Operation) -> Operation:
        OPERATIONS.update(dict.fromkeys(functions, operation))
        return operation

    return register


def _by_rows(use: Use, x: Tensor, run: Callable[[Tensor], Any]) -> Any:
    owners = examples_of(x)
    if owners is None:
        return run(x)
    return padded(run, x, owners, use.tape.grouping.examples)


@operation_for(functional.linear)
def _linear(use: Use, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    if weight.dim() != 2 or not use.batched(input) or use.batched(weight) or use.batched(bias):
        return NotImplemented
    return _by_rows(use, input, lambda x: linear(use.tape, x, weight, bias))


class _Product(Function):
    """x @ W: the gradient of W [d, p] is that of a linear layer with the factors exchanged."""

    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, anchor: Tensor, tape: Tape, weights: tuple[Tensor]
    ) -> Tensor:
        ctx.save_for_backward(inputs)
        (weight,) = weights
        ctx.tape, ctx.weight = tape, weight
        return inputs @ weight

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradients: Tensor) -> tuple[Tensor | None, ...]:
        (inputs,) = ctx.saved_tensors
        tape: Tape = ctx.tape
        record_outer_product(tape, ctx.weight, (), tape.rows(gradients), tape.rows(inputs))
        upstream = gradients @ ctx.weight.t() if ctx.needs_input_grad[0] else None
        return upstream, None, None, None


@operation_for(torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.mm, Tensor.mm)
def _matmul(use: Use, x: Tensor, weight: Tensor) -> Any:
    if not use.batched(x) or not use.shared(weight) or weight.dim() != 2 or x.dim() < 2:
        return NotImplemented

    def product(rows: Tensor) -> Any:
        return apply(_Product, use.tape.batched(rows), use.tape.anchor, use.tape, (weight,))

    return _by_rows(use, x, product)


@operation_for(torch.addmm, Tensor.addmm)
def _addmm(use: Use, added: Tensor, x: Tensor, weight: Tensor, **factors: float) -> Any:
    if any(factor != 1 for factor in factors.values()):
        return NotImplemented
    if not use.shared(weight) or added.dim() != 1:
        if use.shared(weight) or use.batched(weight):
            return NotImplemented
        product = x @ weight
    else:
        product = _matmul(use, x, weight)
    if product is NotImplemented:
        return NotImplemented
    return elementwise(torch.add, use, product, added) if use.shared(added) else product + added


@operation_for(functional.grouped_mm, torch._grouped_mm)
def _grouped_mm(
    use: Use, x: Tensor, weight: Tensor, *, offs: Tensor | None = None, **options: Any
) -> Any:
    """Experts: rows up to offs[e] are multiplied by matrix e."""
    owners = examples_of(x)
    given = any(option is not None for option in options.values())
    if owners is None or offs is None or given or not use.shared(weight) or weight.dim() != 3:
        return NotImplemented
    ends = offs.tolist()
    products = []
    for expert, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        matrix = use.derive(Tensor.__getitem__, weight, expert)
        products.append(_matmul(use, label(x[start:end], owners[start:end]), matrix))
    rest = x.new_zeros(len(x) - ends[-1], weight.shape[2])
    return label(torch.cat([*products, rest]), owners)


@operation_for(functional.embedding)
def _embedding(
    use: Use,
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,  # noqa: ARG001 (of max_norm)
    scale_grad_by_freq: bool = False,
    sparse: bool = False,  # noqa: ARG001 (the form of a gradient that is not computed)
) -> Any:
    if max_norm is not None or scale_grad_by_freq or not use.batched(input):
        return NotImplemented
    if padding_idx is not None and padding_idx < 0:
        padding_idx += len(weight)
    return _by_rows(use, input, lambda ids: lookup(use.tape, ids, weight, padding_idx))


@operation_for(functional.layer_norm)
def _layer_norm(
    use: Use,
    input: Tensor,
    normalized_shape: Any,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Any:
    outputs = functional.layer_norm(input, normalized_shape, None, None, eps)
    return _scaled(use, input, outputs, weight, bias)


@operation_for(functional.rms_norm)
def _rms_norm(
    use: Use,
    input: Tensor,
    normalized_shape: Any,
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Any:
    outputs = functional.rms_norm(input, normalized_shape, None, eps)
    return _scaled(use, input, outputs, weight, None)


def _scaled(
    use: Use, like: Tensor, outputs: Tensor, weight: Tensor | None, bias: Tensor | None
) -> Any:
    owners = examples_of(like)
    if owners is not None:
        label(outputs, owners)
    for function, value in ((torch.mul, weight), (torch.add, bias)):
        if value is not None:
            shared = use.shared(value)
            outputs = (
                elementwise(function, use, outputs, value) if shared else function(outputs, value)
            )
    return outputs


@operation_for(functional.prelu, torch.prelu, Tensor.prelu)
def _prelu(use: Use, input: Tensor, weight: Tensor) -> Any:
    if not use.shared(weight) or not use.batched(input) or input.dim() < 2:
        return NotImplemented
    slopes = weight.numel(), *[1] * (input.dim() - 2)
    own = copies(use.tape, weight, (len(input), *slopes), examples_of(input))
    return torch.where(input > 0, input, own * input)


@operation_for(functional.scaled_dot_product_attention)
def _attention(
    use: Use,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """A learned bias of the scores (relative positions), the same for all examples."""
    if attn_mask is None or not use.shared(attn_mask) or not use.batched(query):
        return NotImplemented
    shape = (1,) * (query.dim() - attn_mask.dim()) + tuple(attn_mask.shape)
    if use.shared(key) or use.shared(value) or shape[0] != 1 or query.dim() < 3:
        return NotImplemented
    own = copies(use.tape, attn_mask, (len(query), *shape[1:]))
    return functional.scaled_dot_product_attention(query, key, value, own, *args, **kwargs)


@operation_for(torch.cat, torch.concat, torch.concatenate)
def _cat(use: Use, tensors: Any, dim: int = 0) -> Any:
    sizes = {len(t) for t in tensors}
    if dim in (0, -tensors[0].dim()) or len(sizes) > 1:
        return NotImplemented
    return torch.cat([own_rows(use.tape, t) if use.shared(t) else t for t in tensors], dim)


_NAMES = (
    "add", "sub", "subtract", "mul", "multiply", "div", "divide", "true_divide", "rsub", "pow",
    "maximum", "minimum", "where", "addcmul", "addcdiv", "lerp", "masked_fill", "atan2",
)  # fmt: skip
_OPERATORS = ("add", "radd", "iadd", "sub", "rsub", "isub", "mul", "rmul", "imul", "truediv")
_MORE_OPERATORS = ("rtruediv", "itruediv", "div", "rdiv", "idiv", "pow", "rpow")
ELEMENTWISE = {
    found
    for owner in (torch, Tensor)
    for name in (
        *_NAMES,
        *(f"{name}_" for name in _NAMES),
        *(f"__{name}__" for name in (*_OPERATORS, *_MORE_OPERATORS)),
    )
    if (found := getattr(owner, name, None)) is not None
}


def elementwise(function: Any, use: Use, *args: Any, **kwargs: Any) -> Any:
    """Broadcasting: every example gets a copy of the values, aligned to the right."""
    given = [a for a in (*args, *kwargs.values()) if isinstance(a, Tensor)]
    rank = max(a.dim() for a in given)
    batch = [a for a in given if use.batched(a) and a.dim() == rank]
    first = max((len(a) for a in batch), default=None)
    examples = use.tape.grouping.examples
    owners = next((o for a in batch if (o := examples_of(a)) is not None), None)
    if rank == 0 or first is None or len({len(a) for a in batch}) > 1:
        return NotImplemented
    if owners is None and (first % examples if examples else first):
        return NotImplemented

    def fit(value: Any) -> Any:
        if not use.shared(value):
            return value
        shape = (1,) * (rank - value.dim()) + tuple(value.shape)
        if shape[0] == 1:
            return copies(use.tape, value, (first, *shape[1:]), owners)
        if shape[0] != first or owners is not None:
            raise use.refuse()
        return own_rows(use.tape, value)

    outputs = function(*map(fit, args), **{name: fit(value) for name, value in kwargs.items()})
    return outputs if owners is None else label(outputs, owners)
