"""Everything that training releases is protected: the optimiser's parameters, and nothing else.

What an optimiser moves must be clipped and noised, so its parameters are exactly the trainable ones
of the model. What a checkpoint holds beside them is released as well: buffers must stay as they
were, unless somebody declares them public by name. And only the training itself takes a step.
"""

import pickle
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from sottovoce.errors import InvalidInput

HIDDEN_GRAPH = (
    "Expected checkpointing that shows what it computes, got torch.utils.checkpoint with "
    "use_reentrant=True: set use_reentrant=False."
)
EXTRA = "_extra_state"
BYTES, WIDE = torch.uint8, torch.float64
# Buffers of at most so many numbers are compared at every step, larger ones when they are saved.
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
        self._taking = False
        self._hook = optimizer.register_step_pre_hook(self._refuse_step)
        self.check()

    def accept_buffers(self) -> None:
        """The buffers as they are now (when training begins or resumes) are the ones to keep."""
        self._buffers = {
            name: (buffer, buffer._version, _fingerprint(buffer))
            for name, buffer in _saved(self._model)
            if name not in self._public
        }

    def begin_step(self) -> None:
        self._weights = self._versions()

    def check_weights(self) -> None:
        """Within a step nothing has moved the weights."""
        if self._weights != self._versions():
            raise InvalidInput(
                "Expected weights that nobody but the training moves, got changes inside of a "
                "step: leave out other optimisers, hooks that take steps, and whatever else writes "
                "to parameters in the loop. What moved them had neither clipping nor noise."
            )

    def _versions(self) -> list[tuple[int, int]]:
        return [(p._version, p.data_ptr()) for p in self._trained]

    def check(self) -> None:
        """Before a step: the same parameters are trainable, and the optimiser moves just these."""
        named = dict(self._model.named_parameters())
        changed = [n for n, p in named.items() if p.requires_grad != (id(p) in self._trainable)]
        if changed or not self._trainable <= {id(p) for p in named.values()}:
            raise InvalidInput(
                "Expected the parameters that were trainable when training began, got changes in "
                f"{', '.join(changed) or 'the model'}: start a new PrivateTraining, on the same "
                "ledger."
            )
        moved = {id(p): p for group in self._optimizer.param_groups for p in group["params"]}
        foreign = [list(p.shape) for key, p in moved.items() if key not in self._trainable]
        if foreign:
            raise InvalidInput(
                "Expected an optimiser of the model's trainable parameters only, got "
                f"{len(foreign)} others, of shapes {_few(foreign)}: they would be moved by "
                "gradients that are neither clipped nor noised. Put all modules that are trained "
                "into one model, and leave frozen parameters out."
            )
        missing = [n for n, p in named.items() if p.requires_grad and id(p) not in moved]
        if missing:
            raise InvalidInput(
                "Expected an optimiser of all trainable parameters, got one without "
                f"{_few(missing)}: add them, or freeze them with requires_grad_(False)."
            )

    def check_gradients(self) -> None:
        """Before noise: no gradient has come from anywhere but `step.backward`."""
        refuse_gradients(self._trained)

    def check_buffers(self, *, values: bool = False) -> None:
        """Nothing that is saved beside the parameters has changed; with `values`, look inside."""
        now = dict(_saved(self._model))
        changed = [name for name in now if name not in self._buffers | dict.fromkeys(self._public)]
        for name, (buffer, version, value) in self._buffers.items():
            present = now.get(name)
            same = present is buffer and buffer._version == version
            # Writes through .data or numpy leave no trace in the version: small ones are compared.
            trusted = same and not values and buffer.numel() > SMALL
            if present is None or not (trusted or _fingerprint(present) == value):
                changed.append(name)
        if changed:
            raise InvalidInput(
                "Expected buffers and frozen parameters that stay as they were, because a "
                "checkpoint releases them, got "
                f"changes in {_few(changed)}: private examples may be in them, without noise. "
                "Leave them alone while training, make them non-persistent, or name them in "
                "public_buffers if they hold nothing private."
            )

    @contextmanager
    def taking(self) -> Iterator[None]:
        """The optimiser may take its step in here."""
        self._taking = True
        try:
            yield
        finally:
            self._taking = False

    def release(self) -> None:
        """Training is over: the optimiser belongs to its owner again."""
        self._hook.remove()

    def _refuse_step(self, *_: Any) -> None:
        if not self._taking:
            raise InvalidInput(
                "Expected the training to call optimizer.step() itself, got a call from the loop: "
                "leave it out. A step is taken when its pieces have gone through; for other uses "
                "of the optimiser, close() the training first."
            )


def refuse_gradients(parameters: Iterable[nn.Parameter]) -> None:
    if any(parameter.grad is not None for parameter in parameters):
        raise InvalidInput(
            "Expected gradients from step.backward(losses) only, got others in p.grad: leave "
            "out loss.backward() and whatever else computes gradients in the loop."
        )


def foreign_leaf(losses: Tensor, parameters: Sequence[nn.Parameter]) -> None:
    """Refuse losses that also train something outside of the model.

    Rules of recorded layers take the place of parameters in the graph, so what autograd would reach
    is either one of the parameters, or a tensor that gets a raw gradient.
    """
    own = {id(p) for p in parameters}
    for node in _graph(losses):
        leaf = getattr(node, "variable", None)
        # A scalar without a name of its own is the anchor of a tape (see `records.tape`).
        if isinstance(leaf, Tensor) and id(leaf) not in own and leaf.dim():
            raise InvalidInput(
                "Expected losses that depend on trainable parameters of the model only, got one of "
                f"shape {list(leaf.shape)} that is outside of it, or was frozen when training "
                "began: its gradient would be neither clipped nor noised. Put it into the model "
                "beforehand, or detach it."
            )


def refuse_hidden_graph(losses: Tensor) -> None:
    """Refuse checkpointing that makes its graph during the backward pass, where nobody sees it."""
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
    """What a state_dict holds beside the trainable parameters: buffers, and what is frozen."""
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
    """Whatever was written into a tensor shows in this, short of somebody who works at it."""
    kind = tensor.dtype, tuple(tensor.shape)
    values = tensor.detach().flatten()
    if values.is_complex():
        values = torch.view_as_real(values).flatten()
    if values.numel() <= SMALL:
        return *kind, values.cpu().view(BYTES).numpy().tobytes()
    if values.is_floating_point():
        values = values.nan_to_num()
    places = torch.arange(1, len(values) + 1, device=values.device) % 1009
    return *kind, float(values.sum(dtype=WIDE)), float((values * places).sum(dtype=WIDE))


def _few(items: Sequence[object], most: int = 5) -> str:
    shown = ", ".join(map(str, items[:most]))
    return shown if len(items) <= most else f"{shown} and {len(items) - most} more"
