"""Exact gradient norms of every group, and their weighted sum, in one backward pass.

For a batch with losses L_1 ... L_B and a partition into groups, with g_g = sum_{i in g} dL_i/dW,
a `BookKeeper` computes ||g_g||^2 for every g, then adds sum_g w_g g_g to the gradients. While it
records, layers run as custom autograd functions that keep inputs and output gradients. The plain
weight gradients are never computed; the weighted sum replaces them at the same cost (book-keeping:
Bu, Wang, Zha, Karypis 2023).

Rules assume that the first dimension of a layer's input is the examples. A time-major tensor, rows
in another order, position numbers without a batch dimension, or a loss that compares examples would
give wrong norms without an error in shapes. The gradients reveal it: with the losses of every
second group only, the gradients of the other groups must be exactly zero in every layer.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence
from torch.utils.hooks import RemovableHandle

from sottovoce.errors import InvalidInput
from sottovoce.training.checks.forms import Form, Forms, Input
from sottovoce.training.checks.ownership import HIDDEN_GRAPH, refuse_hidden_graph
from sottovoce.training.clipping.coverage import Coverage, Recorded, why_never
from sottovoce.training.clipping.totals import ClippedSums
from sottovoce.training.layers.following import Following
from sottovoce.training.records.grouping import Grouping, norm_dtype
from sottovoce.training.records.tape import Tape, TrackedParameter


def check_independence(tape: Tape, losses: Tensor, layer_names: tuple[str, ...]) -> bool:
    """Run one more backward pass, for half of the groups that have examples.

    Return False if there are fewer than two such groups, so that nothing can be checked yet.
    """
    present = torch.unique(tape.grouping.labels)
    chosen, others = present[::2], present[1::2]
    if len(others) == 0:
        return False
    with tape.probe():
        half = losses[torch.isin(tape.grouping.labels, chosen)]
        half.sum().backward(retain_graph=True, inputs=tape.leaves)  # type: ignore[no-untyped-call]
        norms = tape.squared_norms()[:, others]
    touched = torch.isfinite(norms) & (norms > 0)
    if not bool(touched.any()):
        return True
    layers = [name for name, rows in zip(layer_names, touched, strict=True) if bool(rows.any())]
    raise InvalidInput(
        "Expected the loss of an example to depend on that example alone, got gradients of other "
        f"examples in {', '.join(layers)}. Either the first dimension of the inputs of these "
        "layers is not the examples (time first, another order, or position numbers without a "
        "batch dimension: add one), or the model or the loss compares examples."
    )


class BookKeeper:
    """Records the forward and backward pass of a model inside a `record` block.

    The model is not wrapped: its keys stay the same, and outside the block it runs unchanged.

    >>> model = nn.Linear(2, 1, bias=False)
    >>> keeper = BookKeeper(model)
    >>> with keeper.record():
    ...     keeper.backward(model(torch.tensor([[3.0, 4.0], [0.0, 1.0]])).squeeze(1))
    >>> keeper.squared_norms()
    tensor([25.0000,  1.0000])
    >>> keeper.accumulate(torch.tensor([0.2, 1.0]))
    >>> model.weight.grad
    tensor([[0.6000, 1.8000]])
    """

    def __init__(self, model: nn.Module) -> None:
        """Raise `UnsupportedLayer` if a trainable parameter has no exact rule."""
        self._model = model
        self._coverage = Coverage.of(model)
        self._tape: Tape | None = None
        self._recording = False
        self._independent = False
        self._detached = False
        self._forms = Forms()
        self._inputs: list[Input] = []

    @property
    def layer_names(self) -> tuple[str, ...]:
        """The modules that hold trainable parameters, in the order of the rows of norms."""
        return self._coverage.layer_names

    @property
    def layers_of_parameters(self) -> list[int]:
        """The row of norms of every trainable parameter, in the model's order."""
        return [entry.layer for entry in self._coverage.tracked.values()]

    @property
    def form(self) -> Form:
        """The layers of the last pass and the form of their inputs, and the modes it began with."""
        return self._forms.of(self._inputs)

    @contextmanager
    def record(self, groups: Tensor | None = None, count: int | None = None) -> Iterator[None]:
        """Record the forward and backward pass inside this block.

        `groups[i]` is the group of example i; without it every example is its own group. `count` is
        the number of groups, some of which may be empty. With neither, the number of examples is
        the first dimension of the first tensor that the model is called with.
        """
        self._check_ready()
        tracked = self._coverage.tracked
        device = next((a.parameter.device for a in tracked.values()), torch.device("cpu"))
        tape = self._tape = Tape(tracked, len(self.layer_names), device)
        with ExitStack() as undo:
            if groups is not None:
                tape.group(Grouping.of(groups.to(device), count))
            elif count is not None:
                tape.group(Grouping.singletons(count, device))
            else:
                count_examples = partial(_count_examples, tape, device)
                hook = self._model.register_forward_pre_hook(count_examples, with_kwargs=True)
                undo.callback(hook.remove)
            for entry in tracked.values():
                guard = _guard(entry)
                undo.callback(guard.remove)
            following = Following(tape, self._model)
            for recorded in self._coverage.recorded:
                forward = _recording_forward(recorded, tape, following)
                vars(recorded.module)["forward"] = forward
                undo.callback(vars(recorded.module).pop, "forward")
            undo.enter_context(following.watching())
            self._recording = True
            try:
                yield
            finally:
                self._recording = False
                tape.open = False
                self._inputs = tape.inputs

    def backward(self, losses: Tensor) -> None:
        """`losses.sum().backward()`, after a check of the losses.

        The first time, an additional pass checks that no example affects another.
        """
        tape = self._tape
        if tape is None or not self._recording:
            raise InvalidInput("Expected backward inside keeper.record(), got it outside.")
        if not tape.knows_examples and losses.dim() == 1:
            tape.group(Grouping.singletons(len(losses), losses.device))
        if losses.shape != (tape.grouping.examples,):
            raise InvalidInput(
                f"Expected one loss for each of {tape.grouping.examples} examples, got losses of "
                f"shape {list(losses.shape)}: use reduction='none', and the mean over words only."
            )
        tape.touched = True
        if not losses.requires_grad:
            return
        if not self._independent:
            refuse_hidden_graph(losses)
            self._independent = check_independence(tape, losses, self.layer_names)
        backward_to(losses.sum(), tape.leaves)

    def squared_norms(self) -> Tensor:
        """[count] the squared norm of each group's gradient over all parameters.

        Rounded up: it may be too large by a few millionths, but not too small.
        """
        return self.squared_norms_by_layer().sum(0)

    def squared_norms_by_layer(self) -> Tensor:
        """[layers, count], rows in the order of `layer_names`."""
        return self._recorded().squared_norms()

    def squares_by_layer(self, gradients: Sequence[Tensor]) -> Tensor:
        """[layers, 1] the squared norms of one materialised gradient."""
        norms = torch.stack(torch._foreach_norm(list(gradients)))
        squares = norms.new_zeros(len(self.layer_names), dtype=norm_dtype(norms))
        rows = torch.tensor(self.layers_of_parameters, device=norms.device)
        return squares.index_add_(0, rows, norms.to(squares.dtype) ** 2).unsqueeze(1)

    @torch.no_grad()
    def accumulate(self, weights: Tensor, into: ClippedSums | None = None) -> None:
        """Add sum_g weights[g] * g_g to the sums (or to `p.grad`), and free the records.

        `weights` is [count], or [layers, count] for separate weights per layer. A group whose norm
        is not finite is excluded, whatever its weight.
        """
        tape = self._recorded()
        norms = tape.squared_norms()
        fits = weights.shape in (norms.shape, norms.shape[1:])
        if not fits or not bool(weights.isfinite().all()):
            raise InvalidInput(
                f"Expected finite weights of shape {list(norms.shape[1:])} or {list(norms.shape)}, "
                f"got shape {list(weights.shape)}."
            )
        sums = ClippedSums() if into is None else into
        tape.add_weighted_sums(weights.to(norms.device), norms.isfinite().all(0), sums)
        if into is None:
            for entry in self._coverage.tracked.values():
                _add_gradient(entry.parameter, sums.of(entry.parameter))
        self.forget()

    def forget(self) -> None:
        """Free the records of the last pass."""
        if self._tape is not None:
            self._tape.forget()
        self._tape = None

    def detach(self) -> None:
        """Remove all hooks from the model, permanently."""
        self.forget()
        self._detached = True

    def _recorded(self) -> Tape:
        tape = self._tape
        if tape is None or not (tape.touched or tape.has_no_examples):
            raise InvalidInput("Expected a backward pass inside keeper.record(), got none.")
        return tape

    def _check_ready(self) -> None:
        if self._detached or self._recording:
            state = "was detached" if self._detached else "is recording already"
            raise InvalidInput(f"Expected a keeper that can record, got one that {state}.")
        changed = [
            name
            for name, parameter in self._model.named_parameters()
            if parameter.requires_grad != (id(parameter) in self._coverage.tracked)
        ]
        if changed:
            raise InvalidInput(
                "Expected the parameters that were trainable when the BookKeeper was created, got "
                f"changes in {', '.join(changed)}: create a new one."
            )
        modes = []
        for name, module in self._model.named_modules():  # modules may be new
            modes.append((id(module), module.training))
            reason = why_never(module)
            if reason is not None:
                raise InvalidInput(f"Expected an unchanged model, got {name}: {reason}.")
        if tuple(modes) != self._forms.modes:
            self._forms = Forms(tuple(modes))


def backward_to(total: Tensor, leaves: Sequence[Tensor]) -> None:
    """A backward pass for these leaves only; nothing else gets a raw gradient."""
    try:
        total.backward(inputs=list(leaves))  # type: ignore[no-untyped-call]
    except RuntimeError as problem:
        if "use_reentrant" in str(problem):
            raise InvalidInput(HIDDEN_GRAPH) from problem
        raise


def _add_gradient(parameter: nn.Parameter, total: Tensor) -> None:
    total = total.to(parameter.dtype)
    parameter.grad = total if parameter.grad is None else parameter.grad.add_(total)


def _recording_forward(recorded: Recorded, tape: Tape, following: Following) -> Callable[..., Any]:
    """The rule in place of a module's forward; a nested call by the rule runs the original."""
    module, rule = recorded.module, recorded.rule
    plain = module.forward
    running = False

    def forward(*args: Any, **kwargs: Any) -> Any:
        nonlocal running
        if running or not torch.is_grad_enabled():
            return plain(*args, **kwargs)
        if torch.is_autocast_enabled(tape.device.type):
            raise InvalidInput(
                "Expected a single precision inside keeper.record(), got torch.autocast: convert "
                "the model instead, with model.to(torch.bfloat16)."
            )
        running, tape.module = True, recorded.name or "the model"
        try:
            run = partial(rule.forward, module, tape)
            return following.run(module, run, plain, args, kwargs)
        finally:
            running = False

    return forward


def _guard(tracked: TrackedParameter) -> RemovableHandle:
    """Raise if autograd reaches a parameter directly: its norm would be wrong."""

    def refuse(_: Tensor) -> None:
        raise InvalidInput(
            f"Expected {tracked.name} to be used by its own module only, got another use that no "
            "rule covers (a function of the parameter, or a penalty in the loss): call the "
            "module, or register a rule for the module that uses it "
            "(sottovoce.training.layers.rule_for)."
        )

    handle: RemovableHandle = tracked.parameter.register_hook(refuse)  # type: ignore[no-untyped-call]
    return handle


def _count_examples(
    tape: Tape, device: torch.device, _: nn.Module, args: Any, kwargs: dict[str, Any]
) -> None:
    if tape.knows_examples:
        return
    for value in (*args, *kwargs.values()):
        if isinstance(value, PackedSequence):
            tape.group(Grouping.singletons(int(value.batch_sizes[0]), device))
            return
        if isinstance(value, Tensor) and value.dim():
            tape.group(Grouping.singletons(len(value), device))
            return
