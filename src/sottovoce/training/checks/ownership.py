"""Check that training releases only protected values.

What an optimiser updates must be clipped and noised, so its parameters must be exactly the
trainable parameters of the model. A checkpoint also releases buffers: they must not change, unless
they are declared public by name. And only the training itself may call the optimiser.
"""

import math
import pickle
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from sottovoce.errors import InvalidInput

HIDDEN_GRAPH = (
    "Expected non-reentrant checkpointing, whose graph can be checked, got torch.utils.checkpoint "
    "with use_reentrant=True: set use_reentrant=False."
)
EXTRA = "_extra_state"
INPUT = "_sottovoce_input"
"""An attribute of tensors of the batch that were made to require gradients within a pass."""
BYTES, WIDE = torch.uint8, torch.float64
# Buffers up to this size are compared at every step, larger ones only when they are saved.
SMALL = 1 << 14


class Ownership:
    """Watches a model and its optimiser from the first step to the last."""

    def __init__(
        self, model: nn.Module, optimizer: Optimizer, public_buffers: Collection[str] = ()
    ) -> None:
        self._model, self._optimizer = model, optimizer
        self._trained = [p for p in model.parameters() if p.requires_grad]
        self._trainable = {id(p) for p in self._trained}
        known = {name for name, _ in _saved(model)}
        for name in public_buffers:
            if name not in known:
                raise InvalidInput(
                    "Expected public_buffers to be names of buffers or frozen parameters, got "
                    f"{name!r}; the model has "
                    f"{', '.join(sorted(known)) or 'none'}."
                )
        self._public = frozenset(public_buffers)
        self.accept_buffers()
        self._weights: list[tuple[int, int]] = []
        self._after_step: list[tuple[int, int]] | None = None
        self._taking = False
        self._hook = optimizer.register_step_pre_hook(self._refuse_step)
        self.check()

    def accept_buffers(self) -> None:
        """Take the current buffers (when training begins or resumes) as the reference."""
        self._after_step = None
        self._buffers = {
            name: (buffer, buffer._version, _fingerprint(buffer))
            for name, buffer in _saved(self._model)
            if name not in self._public
        }

    def begin_step(self) -> None:
        self._weights = self._versions()

    @property
    def changed_between_steps(self) -> bool:
        """Whether the weights are not as the last step left them."""
        return self._after_step is not None and self._after_step != self._versions()

    def check_weights(self) -> None:
        """Raise if the weights changed within a step."""
        if self._weights != self._versions():
            raise InvalidInput(
                "Expected weights that only the training changes, got changes within a step: "
                "remove other optimisers, hooks that take steps, and any other code that writes to "
                "parameters in the loop. These changes had neither clipping nor noise."
            )

    def _versions(self) -> list[tuple[int, int]]:
        return [(p._version, p.data_ptr()) for p in self._trained]

    def check(self) -> None:
        """Before a step: same trainable parameters, and the optimiser has exactly these."""
        named = dict(self._model.named_parameters())
        changed = [n for n, p in named.items() if p.requires_grad != (id(p) in self._trainable)]
        if changed or not self._trainable <= {id(p) for p in named.values()}:
            raise InvalidInput(
                "Expected the parameters that were trainable when training began, got changes in "
                f"{', '.join(changed) or 'the model'}: start a new PrivateTraining with the "
                "same ledger."
            )
        moved = {id(p): p for group in self._optimizer.param_groups for p in group["params"]}
        foreign = [list(p.shape) for key, p in moved.items() if key not in self._trainable]
        if foreign:
            raise InvalidInput(
                "Expected an optimiser of the model's trainable parameters only, got "
                f"{len(foreign)} others, of shapes {_few(foreign)}: they would be updated by "
                "gradients without clipping and noise. Put all trained modules into one model, and "
                "leave out frozen parameters."
            )
        missing = [n for n, p in named.items() if p.requires_grad and id(p) not in moved]
        if missing:
            raise InvalidInput(
                "Expected an optimiser of all trainable parameters, got one without "
                f"{_few(missing)}: add them, or freeze them with requires_grad_(False)."
            )

    def check_gradients(self) -> None:
        """Before noise: all gradients come from `step.backward`."""
        refuse_gradients(self._trained)

    def check_buffers(self, *, values: bool = False) -> None:
        """Raise if buffers or frozen parameters changed; with `values`, compare large ones too."""
        now = dict(_saved(self._model))
        changed = [name for name in now if name not in self._buffers | dict.fromkeys(self._public)]
        for name, (buffer, version, value) in self._buffers.items():
            present = now.get(name)
            same = present is buffer and buffer._version == version
            # Writes through .data or numpy do not change the version, so compare values if small.
            trusted = same and not values and buffer.numel() > SMALL
            if present is None or not (trusted or _fingerprint(present) == value):
                changed.append(name)
        if changed:
            raise InvalidInput(
                "Expected unchanged buffers and frozen parameters, because a checkpoint releases "
                f"them, got changes in {_few(changed)}: they may depend on private examples, "
                "without noise. Do not change them during training, make them non-persistent, or "
                "name them in public_buffers if they hold nothing private."
            )

    @contextmanager
    def taking(self) -> Iterator[None]:
        """A context in which the optimiser may take its step."""
        self._taking = True
        try:
            yield
        finally:
            self._taking = False
            self._after_step = self._versions()

    def release(self) -> None:
        """End of training: allow calls of optimizer.step() again."""
        self._hook.remove()

    def _refuse_step(self, *_: Any) -> None:
        if not self._taking:
            raise InvalidInput(
                "Expected the training to call optimizer.step() itself, got a call from the loop: "
                "remove it. The step is taken after its last piece; to use the optimiser "
                "otherwise, close() the training first."
            )


def refuse_gradients(parameters: Iterable[nn.Parameter]) -> None:
    if any(parameter.grad is not None for parameter in parameters):
        raise InvalidInput(
            "Expected gradients from step.backward(losses) only, got others in p.grad: remove "
            "loss.backward() and any other code that computes gradients in the loop."
        )


def foreign_leaf(losses: Tensor, parameters: Sequence[nn.Parameter]) -> None:
    """Raise if the losses would also train something outside the model.

    Recorded layers replace their parameters in the graph, so every leaf that autograd reaches is
    either one of the parameters or a tensor that would get a raw gradient.
    """
    own = {id(p) for p in parameters}
    for node in _graph(losses):
        leaf = getattr(node, "variable", None)
        # An unnamed scalar is the anchor of a tape (see `records.tape`).
        if getattr(leaf, INPUT, False) and not isinstance(leaf, nn.Parameter):
            continue
        if isinstance(leaf, Tensor) and id(leaf) not in own and leaf.dim():
            raise InvalidInput(
                "Expected losses that depend on trainable parameters of the model only, got one of "
                f"shape {list(leaf.shape)} that is outside the model, or was frozen when training "
                "began: its gradient would have neither clipping nor noise. Add it to the model "
                "before training, or detach it."
            )


def refuse_hidden_graph(losses: Tensor) -> None:
    """Raise for checkpointing that builds its graph during backward, where it cannot be checked."""
    if any(node.name() == "CheckpointFunctionBackward" for node in _graph(losses)):
        raise InvalidInput(HIDDEN_GRAPH)


def _graph(losses: Tensor) -> Iterator[Any]:
    """The nodes that a backward pass would visit."""
    waiting: list[Any] = [losses.grad_fn]
    seen = {losses.grad_fn}
    while waiting:
        node = waiting.pop()
        if node is None:
            continue
        yield node
        for following, _ in node.next_functions:
            if following not in seen:
                seen.add(following)
                waiting.append(following)


def _saved(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """What a state_dict holds besides the trainable parameters: buffers and frozen parameters."""
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            yield name, parameter
    for prefix, module in model.named_modules():
        if type(module).get_extra_state is not nn.Module.get_extra_state:
            text = pickle.dumps(module.get_extra_state())
            yield f"{prefix}.{EXTRA}".lstrip("."), torch.frombuffer(bytearray(text), dtype=BYTES)
        for name, buffer in module._buffers.items():
            if buffer is not None and name not in module._non_persistent_buffers_set:
                yield f"{prefix}.{name}".lstrip("."), buffer


def _fingerprint(tensor: Tensor) -> tuple[object, ...]:
    """A cheap checksum that changes with accidental writes; not collision-resistant."""
    kind = tensor.dtype, tuple(tensor.shape)
    values = tensor.detach().flatten()
    if values.is_complex():
        values = torch.view_as_real(values).flatten()
    if values.numel() <= SMALL:
        return *kind, values.cpu().view(BYTES).numpy().tobytes()
    total, weighted = _sums(values)
    if not (math.isfinite(total) and math.isfinite(weighted)):
        total, weighted = _sums(values.nan_to_num())
    return *kind, total, weighted


def _sums(values: Tensor, width: int = 1009) -> tuple[float, float]:
    """The sum of a vector, and its sum weighted by the place modulo `width`, in one pass."""
    whole = len(values) // width * width
    columns = values[:whole].view(-1, width).sum(0, dtype=WIDE)
    columns[: len(values) - whole] += values[whole:].to(WIDE)
    places = torch.arange(1, width + 1, device=values.device, dtype=WIDE)
    return float(columns.sum()), float(columns @ places)


def _few(items: Sequence[object], most: int = 5) -> str:
    shown = ", ".join(map(str, items[:most]))
    return shown if len(items) <= most else f"{shown} and {len(items) - most} more"
