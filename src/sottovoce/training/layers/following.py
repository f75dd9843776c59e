"""Follows parameters through code that has no rule, operation by operation.

While a keeper records, every torch operation on a trainable parameter comes here. Computed from
parameters and constants alone, its result is another value that all examples share
(`records.derived`). Where it meets examples, it is recorded by the rule of the operation. Nothing
depends on the class of the module, so code that nobody has seen before is recorded exactly, or
refused.

What is constant is known from where it comes from: buffers and frozen parameters of the model,
`torch.arange` and the like, and what is computed from these. All else belongs to the examples if
its first dimension allows it, and so does whatever the training loop itself makes with a first
dimension of the examples: `model(torch.ones(n, 1))`. A mistake here costs speed or a refusal, not
correctness: the independence check and the neighbour check compare with plain gradients.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from sottovoce.errors import InvalidInput
from sottovoce.training.checks.ownership import INPUT
from sottovoce.training.layers.operations import ELEMENTWISE, OPERATIONS, Use, elementwise
from sottovoce.training.layers.packed import (
    CHANGING_ROWS,
    label_packed,
    owners_after,
    run_packed,
)
from sottovoce.training.layers.per_example import own_rows
from sottovoce.training.layers.ragged import examples_of, label, padded
from sottovoce.training.layers.slices import by_slices
from sottovoce.training.records.derived import Derived
from sottovoce.training.records.tape import Tape

_CONSTANT = "_sottovoce_constant"
_FACTORIES = {
    torch.arange, torch.zeros, torch.ones, torch.full, torch.eye, torch.empty, torch.linspace,
}  # fmt: skip
# These read or change the parameter itself, not its value.
_ITSELF = {"__set__", "backward", "requires_grad_", "register_hook", "retain_grad", "is_shared"}
# A second tensor gives these only a shape or a type.
_LIKE = {"expand_as", "view_as", "reshape_as", "type_as", "to", "zeros_like", "ones_like"}
# A batch that asks for gradients of its own, as some models make their inputs do, is no parameter.
_ASKING = {Tensor.requires_grad.__set__, Tensor.requires_grad_}  # type: ignore[attr-defined]
_REPEATING = {"expand", "expand_as", "repeat", "tile", "broadcast_to"}


class Following(TorchFunctionMode):
    """Active while a tape records; outside, operations run as usual."""

    def __init__(self, tape: Tape, model: nn.Module) -> None:
        super().__init__()
        self._tape = tape
        kept = (*model.buffers(), *(p for p in model.parameters() if not p.requires_grad))
        self._constants = {id(tensor): tensor for tensor in kept}
        # What a loop calls: the model or one of its parts.
        self._entries = (model, *model.children())
        self._depth = 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Follow operations, and know those of the model from those of the loop around it."""
        with ExitStack() as undo:
            for module in self._entries:
                enter = module.register_forward_pre_hook(self._enter, with_kwargs=True)
                undo.callback(enter.remove)
                leave = module.register_forward_hook(self._leave, always_call=True)
                undo.callback(leave.remove)
            undo.enter_context(self)
            yield

    def _enter(self, _: nn.Module, args: Any, kwargs: Any) -> None:
        if not self._depth and self._tape.knows_examples:
            given = [value for value in tree_leaves((args, kwargs)) if isinstance(value, Tensor)]
            for place, tensor in enumerate(given):
                # Beside other inputs, a list of numbers may be positions. Where it meets these,
                # the dimensions tell.
                numbers = place and tensor.dim() == 1 and not tensor.is_floating_point()
                if not numbers and not self._is_constant(tensor):
                    vars(tensor).pop(_CONSTANT, None)
            for value in (*args, *kwargs.values()):
                if isinstance(value, PackedSequence) and examples_of(value.data) is None:
                    label_packed(value, None, self._tape.grouping.examples)
        self._depth += 1

    def _leave(self, *_: Any) -> None:
        self._depth = max(0, self._depth - 1)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not torch.is_grad_enabled():  # such as the backward passes of rules
            return func(*args, **kwargs)
        tensors = list(_tensors(args, kwargs))
        if func in _ASKING:
            setattr(args[0], INPUT, True)
        if any(map(self.is_shared, tensors)):
            return self._use(func, args, kwargs, tensors)
        outputs = func(*args, **kwargs)
        self._note(func, args, kwargs, tensors, outputs)
        return outputs

    def run(
        self,
        module: nn.Module,
        rule: Callable[..., Any],
        plain: Callable[..., Any],
        args: Any,
        kwargs: Any,
    ) -> Any:
        """A module with a rule: as it is where no example goes in, and padded for picked rows."""
        tensors = list(_tensors(args, kwargs))
        if tensors and all(self.is_shared(x) or self._is_constant(x) for x in tensors):
            outputs = plain(*args, **kwargs)
            if isinstance(outputs, Tensor) and outputs in self._tape.derived:
                again = partial(self._again, rule, args, kwargs)
                if all(self._has_examples(x) and not self.is_shared(x) for x in tensors):
                    self._tape.derived.add(replace(self._tape.derived[outputs], again=again))
            return outputs
        if any(map(self.is_shared, tensors)):
            second = isinstance(module, nn.RNNBase) or getattr(module, "batch_first", True) is False
            args, kwargs = _mapped(partial(self._own, int(second)), (args, kwargs))
        if args and isinstance(args[0], PackedSequence) and isinstance(module, nn.RNNBase):
            with torch._C.DisableTorchFunction():
                return run_packed(rule, self._tape.grouping.examples, *args, **kwargs)
        owners = examples_of(tensors[0]) if tensors else None
        if owners is None:
            with torch._C.DisableTorchFunction():
                return rule(*args, **kwargs)
        if len(tensors) > 1 or not args or args[0] is not tensors[0]:
            raise InvalidInput(
                f"Expected one input of picked rows in {self._tape.module}, got {len(tensors)}: "
                "register a rule for it (sottovoce.training.layers.rule_for)."
            )
        examples = self._tape.grouping.examples
        return padded(lambda x: rule(x, *args[1:], **kwargs), args[0], owners, examples)

    def _again(self, rule: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        with torch._C.DisableTorchFunction():
            return rule(*args, **kwargs)

    def _own(self, dim: int, value: Any) -> Any:
        """A shared value among the inputs of a rule, such as learned queries or first states."""
        if not isinstance(value, Tensor) or not self.is_shared(value) or value.dim() <= dim:
            return value
        if value.shape[dim] != self._tape.grouping.examples:
            return value
        if not dim:
            return own_rows(self._tape, value)
        moved = self._derive(Tensor.transpose, "transpose", (value, 0, dim), {})
        return own_rows(self._tape, moved).transpose(0, dim)

    def is_shared(self, value: object) -> bool:
        return value in self._tape.derived or (
            isinstance(value, nn.Parameter) and self._tape.name_of(value) is not None
        )

    def is_batched(self, value: object) -> bool:
        """Whether a tensor belongs to the examples."""
        if not isinstance(value, Tensor) or self.is_shared(value) or self._is_constant(value):
            return False
        if value.requires_grad or examples_of(value) is not None:
            return True
        examples = self._tape.grouping.examples
        return value.dim() > 0 and (len(value) % examples == 0 if examples else len(value) == 0)

    def _is_constant(self, tensor: Tensor) -> bool:
        if id(tensor) in self._constants:
            return True
        marked: bool = getattr(tensor, _CONSTANT, False)
        return marked and (self._depth > 0 or not self._has_examples(tensor))

    def _has_examples(self, tensor: Tensor) -> bool:
        tape = self._tape
        return tensor.dim() > 0 and tape.knows_examples and len(tensor) == tape.grouping.examples

    def _note(self, func: Any, args: Any, kwargs: Any, tensors: list[Tensor], outputs: Any) -> None:
        """Mark what was computed from constants, and whose rows were picked."""
        constant = all(map(self._is_constant, tensors)) if tensors else func in _FACTORIES
        name = getattr(func, "__name__", "")
        if name == "__setitem__" or (name.endswith("_") and not name.endswith("__")):
            changed = args[0] if args else next(iter(tensors), None)  # `nn.init` names its tensor
            if changed is not None and (not constant or name == "__setitem__"):
                vars(changed).pop(_CONSTANT, None)
            return
        if constant:
            if name not in _REPEATING:  # repeated for every example, it belongs to them
                for output in _tensors((outputs,), {}):
                    setattr(output, _CONSTANT, True)
            return
        if self._tape.knows_examples and tensors:
            self._label(func, args, kwargs, tensors, outputs)

    def _label(
        self, func: Any, args: Any, kwargs: Any, tensors: list[Tensor], outputs: Any
    ) -> None:
        """Carry along whose rows they are."""
        owners = next((o for t in tensors if (o := examples_of(t)) is not None), None)
        if func in CHANGING_ROWS:
            x, inside = tensors[0], self._depth > 0
            # Rows that a loop picks from its data are the examples themselves.
            rows = x.requires_grad or (inside and self._has_examples(x))
            examples = self._tape.grouping.examples
            owners = owners_after(func, args, kwargs, outputs, examples, rows=rows, inside=inside)
        if owners is not None:
            for output in _tensors((outputs,), {}):
                label(output, owners)

    def _use(self, func: Any, args: Any, kwargs: Any, tensors: list[Tensor]) -> Any:
        name = getattr(func, "__name__", "")
        if name in _ITSELF:
            return func(*args, **kwargs)
        if name in _LIKE or not any(map(self.is_batched, tensors)):
            return self._derive(func, name, args, kwargs)
        tiled = {
            id(t): own_rows(self._tape, t)
            for t in tensors
            if t in self._tape.derived and self._tape.derived[t].tiles is not None
        }
        if tiled:
            # Repeated for every example, each example has its own rows of it.
            args, kwargs = _mapped(lambda x: tiled.get(id(x), x), (args, kwargs))
            with self:
                return func(*args, **kwargs)
        use = Use(
            self._tape,
            self.is_shared,
            self.is_batched,
            lambda func, *args: self._derive(func, "", args, {}),
            lambda: self._refusal(name, tensors),
        )
        outputs: Any = NotImplemented
        if func in ELEMENTWISE:
            if name.endswith("_") and self.is_shared(args[0]):  # in place: no longer shared
                raise use.refuse()
            outputs = elementwise(func, use, *args, **kwargs)
        elif func in OPERATIONS:
            outputs = OPERATIONS[func](use, *args, **kwargs)
        return self._slice(func, args, kwargs, use) if outputs is NotImplemented else outputs

    def _derive(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        """An operation on what all examples share."""
        derived = self._tape.derived
        sources: dict[int, nn.Parameter] = {}

        def copy(value: Any) -> Any:
            if value in derived:
                sources.update((id(p), p) for p in derived[value].parameters)
            elif isinstance(value, nn.Parameter) and self.is_shared(value):
                sources[id(value)] = value
                return derived.copy_of(value)
            return value

        outputs = func(*_mapped(copy, args), **_mapped(copy, kwargs))
        for output in _tensors((outputs,), {}):
            if not output.requires_grad:
                setattr(output, _CONSTANT, True)
            elif output not in derived:
                rows = _rows_of(*args, **kwargs) if func is functional.embedding else None
                tiles = self._tiles(func, name, args, kwargs, output)
                derived.add(Derived(output, tuple(sources.values()), rows, tiles))
        original = derived.original_of(outputs) if isinstance(outputs, Tensor) else None
        return outputs if original is None else original

    def _tiles(self, func: Any, name: str, args: Any, kwargs: Any, output: Tensor) -> Any:
        """The value that the output repeats along the first dimension, once for each example."""
        derived, examples = self._tape.derived, self._tape.grouping.examples
        value = args[0] if args else None
        if not isinstance(value, Tensor) or not output.dim() or not examples:
            return None
        if name in _REPEATING:
            if value.dim() < output.dim() and value.shape == output.shape[1:]:
                return value if len(output) == examples else None
            same = value.dim() == output.dim() and value.shape[1:] == output.shape[1:]
            return value if same and len(output) == examples * len(value) else None
        tile = derived[value].tiles if value in derived else None
        if tile is None or tile.dim() != value.dim() or len(output) != len(value):
            return None
        # Repeated first and then transposed or cast is transposed or cast first and then repeated.
        tile = self._derive(func, name, (tile, *args[1:]), kwargs)
        repeated = tile.repeat(examples, *[1] * (tile.dim() - 1))
        return tile if torch.equal(repeated, output) else None

    def _slice(self, func: Any, args: Any, kwargs: Any, use: Use) -> Any:
        shared: dict[int, Tensor] = {}
        batch: dict[int, Tensor] = {}
        examples = self._tape.grouping.examples
        for tensor in _tensors(args, kwargs):
            if self.is_shared(tensor):
                shared[id(tensor)] = tensor
            elif self.is_batched(tensor):
                picked_rows = examples_of(tensor) is not None
                if picked_rows or not tensor.dim() or len(tensor) % max(examples, 1):
                    raise use.refuse()
                batch[id(tensor)] = tensor

        def operation(values: Any, rows: Any) -> Any:
            now = dict(zip((*shared, *batch), (*values, *rows), strict=True))

            def current(value: Any) -> Any:
                return now.get(id(value), value)

            return func(*_mapped(current, args), **_mapped(current, kwargs))

        return by_slices(
            self._tape, operation, use.refuse, list(shared.values()), list(batch.values())
        )

    def _refusal(self, name: str, tensors: list[Tensor]) -> InvalidInput:
        names = [name for tensor in tensors for name in self._names(tensor)]
        shapes = ", ".join(str(list(tensor.shape)) for tensor in tensors[:5])
        return InvalidInput(
            f"Expected uses of {', '.join(dict.fromkeys(names[:5]))} in which the examples are the "
            f"first dimension, got {name} of tensors of shapes {shapes}. Put the examples first, "
            "register a rule for the module (sottovoce.training.layers.rule_for, or "
            "one_by_one(its class) to run it on one example at a time), or use method='textbook', "
            "which needs no rules."
        )

    def _names(self, value: Tensor) -> list[str]:
        derived = self._tape.derived
        parameters = derived[value].parameters if value in derived else (value,)
        return [name for p in parameters if (name := self._tape.name_of(p)) is not None]


def _rows_of(
    input: Tensor, weight: Tensor, padding_idx: int | None = None, *options: Any, **more: Any
) -> tuple[nn.Parameter, Tensor, int | None] | None:
    """How to find the rows that `functional.embedding` looked up, without its other options."""
    changed = any(
        (*options[:1], *options[2:3], more.get("max_norm"), more.get("scale_grad_by_freq"))
    )
    if changed or not isinstance(weight, nn.Parameter):
        return None
    if padding_idx is not None and padding_idx < 0:
        padding_idx += len(weight)
    return weight, input, padding_idx


def _tensors(args: Any, kwargs: Any) -> Iterator[Tensor]:
    for value in (*args, *kwargs.values()) if kwargs else args:
        if isinstance(value, Tensor):
            yield value
        elif type(value) in (list, tuple) or (isinstance(value, tuple) and value):
            yield from _tensors(value, {})


def _mapped(function: Callable[[Any], Any], values: Any) -> Any:
    if isinstance(values, dict):
        return {name: _mapped(function, value) for name, value in values.items()}
    if type(values) in (list, tuple):
        return type(values)(_mapped(function, value) for value in values)
    return function(values)
