"""Everything that training releases is protected: the optimiser's parameters, and nothing else.

What an optimiser moves must be clipped and noised, so its parameters are exactly the trainable ones
of the model. What a checkpoint holds beside them is released as well: buffers must stay as they
were, unless somebody declares them public by name. And only the training itself takes a step.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from sottovoce.errors import InvalidInput


class Ownership:
    """Watches a model and its optimiser from the first step to the last."""

    def __init__(
        self, model: nn.Module, optimizer: Optimizer, public_buffers: Collection[str] = ()
    ) -> None:
        self._model, self._optimizer = model, optimizer
        self._trainable = {id(p) for p in model.parameters() if p.requires_grad}
        known = {name for name, _ in _saved_buffers(model)}
        for name in public_buffers:
            if name not in known:
                raise InvalidInput(
                    f"Expected public_buffers to be names of buffers, got {name!r}; the model has "
                    f"{', '.join(sorted(known)) or 'none'}."
                )
        self._public = frozenset(public_buffers)
        self._buffers = {
            name: (buffer, buffer._version, buffer.detach().clone())
            for name, buffer in _saved_buffers(model)
            if name not in self._public
        }
        self._taking = False
        self._hook = optimizer.register_step_pre_hook(self._refuse_step)
        self.check()

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
        if any(p.grad is not None for p in self._model.parameters() if id(p) in self._trainable):
            raise InvalidInput(
                "Expected gradients from step.backward(losses) only, got others in p.grad: leave "
                "out loss.backward() and whatever else computes gradients in the loop."
            )

    def check_buffers(self, *, values: bool = False) -> None:
        """Nothing that is saved beside the parameters has changed; with `values`, look inside."""
        now = dict(_saved_buffers(self._model))
        changed = [name for name in now if name not in self._buffers | dict.fromkeys(self._public)]
        for name, (buffer, version, value) in self._buffers.items():
            present = now.get(name)
            same = present is buffer and buffer._version == version
            if present is None or not ((same and not values) or _equal(present, value)):
                changed.append(name)
        if changed:
            raise InvalidInput(
                "Expected buffers that stay as they were, because a checkpoint releases them, got "
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


def foreign_leaf(losses: Tensor, parameters: Sequence[nn.Parameter]) -> None:
    """Refuse losses that also train something outside of the model.

    Rules of recorded layers take the place of parameters in the graph, so what autograd would reach
    is either one of the parameters, or a tensor that gets a raw gradient.
    """
    own = {id(p) for p in parameters}
    waiting, seen = [losses.grad_fn], {losses.grad_fn}
    while waiting:
        node = waiting.pop()
        if node is None:
            continue
        leaf = getattr(node, "variable", None)
        # A scalar without a name of its own is the anchor of a tape (see `records.tape`).
        if isinstance(leaf, Tensor) and id(leaf) not in own and leaf.dim():
            raise InvalidInput(
                "Expected losses that depend on trainable parameters of the model only, got one of "
                f"shape {list(leaf.shape)} outside of it: its gradient would be neither clipped "
                "nor noised. Put it into the model, or detach it."
            )
        for following, _ in node.next_functions:
            if following not in seen:
                seen.add(following)
                waiting.append(following)


def _saved_buffers(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """The buffers that a state_dict holds."""
    for prefix, module in model.named_modules():
        for name, buffer in module._buffers.items():
            if buffer is not None and name not in module._non_persistent_buffers_set:
                yield f"{prefix}.{name}".lstrip("."), buffer


def _equal(now: Tensor, then: Tensor) -> bool:
    alike = now.shape == then.shape and now.dtype == then.dtype
    return alike and torch.equal(torch.nan_to_num(now), torch.nan_to_num(then.to(now.device)))


def _few(items: Sequence[object], most: int = 5) -> str:
    shown = ", ".join(map(str, items[:most]))
    return shown if len(items) <= most else f"{shown} and {len(items) - most} more"
