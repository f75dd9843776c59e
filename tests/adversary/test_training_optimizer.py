"""Nothing moves the weights but the training: what is applied has been clipped, noised and paid.

Each attack is a habit or a trick with optimisers, gradients and steps. What is measured is what an
outsider has: the weights, the statement and the ledger.
"""

import copy
import os
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import SGD, Optimizer

from sottovoce.errors import InvalidInput, SottovoceError
from sottovoce.training import LayerScales, Plan, PrivateTraining
from sottovoce.training.checks.neighbours import NeighbourCheck
from sottovoce.training.checks.ownership import Ownership
from sottovoce.training.noise import TensorNoise
from sottovoce.training.step import Step

SIZE = 16
GENERATOR = torch.Generator().manual_seed(3)
X = torch.randn(SIZE, 4, generator=GENERATOR)
Y = torch.randint(0, 2, (SIZE,), generator=GENERATOR)
METHODS = ("dp-sgd", "textbook", "edp-sgd")


def plan(method: str = "dp-sgd", **settings: object) -> Plan:
    given = {"population": SIZE, "batch_size": SIZE, "epochs": 3, "delta": 1e-5, **settings}
    return Plan(method=method, **given)  # type: ignore[arg-type]


def two_layers() -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))


def losses_of(model: nn.Module, batch: Tensor) -> Tensor:
    return functional.cross_entropy(model(X[batch]), Y[batch], reduction="none")


def begin(
    model: nn.Module, method: str = "dp-sgd", optimizer: Optimizer | None = None, **settings: object
) -> PrivateTraining:
    optimizer = optimizer or SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    return PrivateTraining(plan(method, **settings), model, optimizer, owners=SIZE)


Habit = Callable[[PrivateTraining, nn.Module, Tensor], None]


def run(training: PrivateTraining, habit: Habit | None = None) -> PrivateTraining:
    """The documented loop, with something more in it."""
    for step in training.steps():
        for batch in step:
            step.backward(losses_of(training.model, batch))
            if habit is not None:
                habit(training, training.model, batch)
    return training


@pytest.fixture
def unprotected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin of most tests here: nobody watches the optimiser and the weights."""
    for name in ("check", "check_weights", "check_gradients"):
        monkeypatch.setattr(Ownership, name, lambda self: None)
    monkeypatch.setattr(Ownership, "_refuse_step", lambda self, *_: None)
    monkeypatch.setattr(NeighbourCheck, "trials", lambda self: iter(()))
    monkeypatch.setattr("sottovoce.training.clipping.gradients.refuse_gradients", lambda _: None)


# ---- Habits in the loop ------------------------------------------------------------------------


def calls_step(training: PrivateTraining, model: nn.Module, batch: Tensor) -> None:
    training.optimizer.step()


def calls_step_of_the_class(training: PrivateTraining, model: nn.Module, batch: Tensor) -> None:
    type(training.optimizer).step(training.optimizer)


def calls_backward(training: PrivateTraining, model: nn.Module, batch: Tensor) -> None:
    with torch.enable_grad():
        for parameter in model.parameters():
            loss = losses_of(model, batch).sum()
            (gradient,) = torch.autograd.grad(loss, [parameter], allow_unused=True)
            parameter.grad = gradient if gradient is not None else torch.ones_like(parameter)
            break


def another_optimizer(training: PrivateTraining, model: nn.Module, batch: Tensor) -> None:
    other = SGD(model.parameters(), lr=0.1)
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, float(X[batch].sum()))
    other.step()
    other.zero_grad()


def writes_weights(training: PrivateTraining, model: nn.Module, batch: Tensor) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(X[batch].mean())


def writes_weights_behind_autograd(
    training: PrivateTraining, model: nn.Module, batch: Tensor
) -> None:
    for parameter in model.parameters():
        parameter.data += X[batch].mean()


HABITS: list[Habit] = [
    calls_step, calls_step_of_the_class, calls_backward, another_optimizer, writes_weights,
    writes_weights_behind_autograd,
]  # fmt: skip


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("habit", HABITS)
def test_a_loop_that_moves_weights_by_itself_is_refused(habit: Habit, method: str) -> None:
    training = begin(two_layers(), method)
    with pytest.raises(SottovoceError, match=r"Expected (the training|gradients|weights|uses)"):
        run(training, habit)
    # Whoever ignores the error and goes on gets no statement for raw weights.
    assert training.step == 0


@pytest.mark.usefixtures("unprotected")
@pytest.mark.parametrize("habit", [another_optimizer, writes_weights])
def test_unprotected_raw_data_is_in_weights_that_claim_to_be_private(
    habit: Habit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TensorNoise, "add", lambda self, tensors, stds: None)
    weights = []
    for method in (None, habit):
        model = two_layers()
        assert run(begin(model), method).guarantee().holds
        weights.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    assert float((weights[0] - weights[1]).norm()) > 0.1


def test_weights_moved_inside_of_a_step_void_what_was_said_before() -> None:
    training = begin(two_layers())
    steps = training.steps()
    for batch in (first := next(steps)):
        first.backward(losses_of(training.model, batch))
    assert training.guarantee().holds
    second = next(steps)

    def work() -> None:
        for batch in second:
            second.backward(losses_of(training.model, batch))
            writes_weights(training, training.model, batch)

    with pytest.raises(SottovoceError, match="Expected weights"):
        work()
    assert not training.guarantee().holds
    assert not training.ledger().guarantee(1e-5).holds


@pytest.mark.parametrize("method", METHODS)
def test_an_optimizer_in_the_backward_pass_gets_no_raw_gradient(method: str) -> None:
    """The recipe to save memory: a hook that takes a step as soon as a gradient is there."""
    model = two_layers()
    training = begin(model, method)
    raw: list[Tensor] = []
    for parameter in model.parameters():
        inner = SGD([parameter], lr=1.0)

        def apply(p: Tensor, inner: SGD = inner) -> None:
            assert p.grad is not None
            raw.append(p.grad.clone())
            inner.step()

        parameter.register_post_accumulate_grad_hook(apply)  # type: ignore[no-untyped-call]
    if method == "dp-sgd":
        run(training)
        assert not raw  # book-keeping never makes such a gradient
    else:
        with pytest.raises(SottovoceError, match="Expected weights"):
            run(training)
        assert not training.guarantee().holds


def test_hooks_of_the_optimizer_see_noise_already(monkeypatch: pytest.MonkeyPatch) -> None:
    def first_gradient() -> Tensor:
        model = two_layers()
        optimizer = SGD(model.parameters(), lr=0.1)
        seen: list[Tensor] = []
        hook = lambda *_: seen.append(model[0].weight.grad.clone())  # type: ignore[union-attr,operator]  # noqa: E731
        optimizer.register_step_pre_hook(hook)
        run(begin(model, optimizer=optimizer))
        return seen[0]

    assert not torch.equal(first_gradient(), first_gradient())
    # The twin: without noise the same gradient every time.
    monkeypatch.setattr(TensorNoise, "add", lambda self, tensors, stds: None)
    assert torch.equal(first_gradient(), first_gradient())


# ---- Whose parameters --------------------------------------------------------------------------


class Inner(Optimizer):
    """An optimiser that steps others."""

    def __init__(self, params: Iterator[nn.Parameter], others: list[Optimizer]) -> None:
        super().__init__(params, {})
        self.others = others

    def step(self, closure: object = None) -> None:  # type: ignore[override]
        for each in self.others:
            each.step()


def foreign_before(model: nn.Module, head: nn.Module) -> Optimizer:
    return SGD([*model.parameters(), *head.parameters()], lr=0.1)


def foreign_later(model: nn.Module, head: nn.Module) -> Optimizer:
    return SGD(model.parameters(), lr=0.1)


def foreign_inside(model: nn.Module, head: nn.Module) -> Optimizer:
    others: list[Optimizer] = [SGD(model.parameters(), lr=0.1), SGD(head.parameters(), lr=0.1)]
    return Inner(model.parameters(), others)


def _train_with_head(
    make: Callable[[nn.Module, nn.Module], Optimizer], method: str
) -> tuple[PrivateTraining, float]:
    """A model with a head outside of it; how far the head moved."""
    model, head = two_layers(), nn.Linear(2, 2)
    before = head.weight.detach().clone()
    optimizer = make(model, head)
    training = begin(model, method, optimizer)
    for step in training.steps():
        for batch in step:
            if make is foreign_later and len(optimizer.param_groups) == 1:
                optimizer.add_param_group({"params": list(head.parameters())})
            scores = head(model(X[batch]))
            step.backward(functional.cross_entropy(scores, Y[batch], reduction="none"))
    return training, float((head.weight - before).abs().sum().detach())


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("make", [foreign_before, foreign_later, foreign_inside])
def test_parameters_outside_of_the_model_are_refused(
    make: Callable[[nn.Module, nn.Module], Optimizer], method: str
) -> None:
    with pytest.raises(SottovoceError, match=r"outside the model|parameters only"):
        _train_with_head(make, method)


@pytest.mark.usefixtures("unprotected")
@pytest.mark.parametrize("method", METHODS)
def test_even_unprotected_they_get_no_gradient(method: str) -> None:
    """The backward pass ends at the model's own parameters, so there is nothing raw to apply."""
    training, moved = _train_with_head(foreign_inside, method)
    assert training.guarantee().holds
    assert moved == 0


@pytest.mark.usefixtures("unprotected")
def test_unprotected_a_plain_backward_pass_would_train_them_raw(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "sottovoce.training.clipping.gradients.backward_to", lambda total, leaves: total.backward()
    )
    training, moved = _train_with_head(foreign_inside, "textbook")
    assert training.guarantee().holds
    assert moved > 0.01


def test_an_optimizer_of_some_parameters_is_refused() -> None:
    model = two_layers()
    with pytest.raises(SottovoceError, match=r"without 2\.weight, 2\.bias"):
        begin(model, optimizer=SGD(model[0].parameters(), lr=0.1))


@pytest.mark.parametrize("method", METHODS)
def test_unfreezing_later_is_refused(method: str) -> None:
    model = two_layers()
    model[0].requires_grad_(False)
    training = begin(model, method)

    def unfreeze(training: PrivateTraining, _: nn.Module, batch: Tensor) -> None:
        model[0].requires_grad_(True)

    with pytest.raises(SottovoceError, match=r"0\.weight|was frozen"):
        run(training, unfreeze)


@pytest.mark.parametrize("method", METHODS)
def test_a_module_put_in_later_is_refused(method: str) -> None:
    model = two_layers()
    training = begin(model, method)

    def exchange(training: PrivateTraining, _: nn.Module, batch: Tensor) -> None:
        model[2] = nn.Linear(3, 2)

    with pytest.raises(SottovoceError, match="Expected"):
        run(training, exchange)


# ---- One payment, one release ------------------------------------------------------------------


def test_a_scheduler_is_no_foreign_step() -> None:
    model = two_layers()
    optimizer = SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    training = begin(model, optimizer=optimizer)
    for step in training.steps():
        for batch in step:
            step.backward(losses_of(model, batch))
        scheduler.step()
    assert training.guarantee().holds


@pytest.mark.parametrize("method", METHODS)
def test_a_step_is_worked_through_once(method: str) -> None:
    training = begin(two_layers(), method)
    for step in training.steps():
        for batch in step:
            step.backward(losses_of(training.model, batch))
        with pytest.raises(SottovoceError, match="one loop over the pieces"):
            next(iter(step))
        with pytest.raises(SottovoceError, match="one backward"):
            step.backward(torch.zeros(1))


def test_the_steps_of_two_loops_are_paid_for_twice_and_one_is_refused() -> None:
    training = begin(two_layers())
    first, second = next(training.steps()), next(training.steps())
    for batch in second:
        second.backward(losses_of(training.model, batch))

    def work(step: Step) -> None:
        for batch in step:
            step.backward(losses_of(training.model, batch))

    for parameter in training.model.parameters():
        parameter.grad = None
    with pytest.raises(SottovoceError, match="Expected the current step"):
        work(first)
    with pytest.raises(SottovoceError):
        work(copy.copy(first))
    assert sum(entry.count for entry in training.ledger().entries) == 2


def _interrupted_epochs(times: int) -> tuple[PrivateTraining, list[Tensor]]:
    """Shuffled batches, and an optimiser whose hook stops the loop after every release."""
    model = two_layers()
    optimizer = SGD(model.parameters(), lr=0.0)
    released: list[Tensor] = []
    batches: list[Tensor] = []

    def stop(*_: object) -> None:
        released.append(batches[0])
        raise KeyboardInterrupt

    optimizer.register_step_post_hook(stop)
    training = PrivateTraining(
        plan(sampling="shuffle", batch_size=4, epochs=10), model, optimizer, owners=SIZE
    )
    for _ in range(times):
        batches.clear()
        try:
            for step in training.steps():
                for batch in step:
                    batches.append(batch)
                    step.backward(losses_of(model, batch))
        except KeyboardInterrupt:
            pass
    return training, released


def test_a_batch_is_not_released_again_after_an_interruption() -> None:
    """A shuffled epoch is paid for once, because every example is in one batch of it."""
    training, released = _interrupted_epochs(4)
    assert len({int(example) for batch in released for example in batch}) == SIZE
    assert training.step == 4


def test_if_a_step_counted_after_its_release_a_batch_would_be_used_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    honest = PrivateTraining._noise_of_step

    def too_late(self: PrivateTraining, name: str = "step") -> TensorNoise:
        self._step -= name == "step"
        return honest(self, name)

    monkeypatch.setattr(PrivateTraining, "_noise_of_step", too_late)
    monkeypatch.setattr(NeighbourCheck, "trials", lambda self: iter(()))
    training, released = _interrupted_epochs(4)
    assert training.step == 0
    assert len(released) == 4
    assert len({int(example) for batch in released for example in batch}) == 4


def test_the_number_of_a_step_cannot_be_set_back() -> None:
    """With shuffled batches, the same batch again would be in the same epoch, paid for already."""
    step = next(begin(two_layers()).steps())
    for name in ("number", "size", "finished"):
        with pytest.raises(AttributeError):
            setattr(step, name, 0)


def test_a_plan_that_is_changed_after_payment_is_refused() -> None:
    training = begin(two_layers())
    steps = training.steps()
    step = next(steps)
    object.__setattr__(training.plan, "batch_size", 10**9)

    def work() -> None:
        for batch in step:
            step.backward(losses_of(training.model, batch))

    with pytest.raises(SottovoceError, match="plan that training began with"):
        work()


def test_a_subclass_of_plan_is_refused() -> None:
    class Cheap(Plan):
        @property
        def divisor(self) -> int:
            return 10**9

    model = two_layers()
    cheap = Cheap(population=SIZE, batch_size=SIZE, epochs=1, delta=1e-5)
    with pytest.raises(SottovoceError, match="Expected a Plan, got Cheap"):
        PrivateTraining(cheap, model, SGD(model.parameters(), lr=0.1), owners=SIZE)


def test_a_decay_is_asked_once() -> None:
    answers = iter([1.0, 1.0, 1.0, 1e-6, 1e-6, 1e-6])
    chosen = plan(decay=lambda epoch: next(answers))
    assert chosen.decay == (1.0, 1.0, 1.0)
    assert chosen.noise_multiplier_of(2) == 1.0


def test_scales_cannot_be_changed_after_payment(monkeypatch: pytest.MonkeyPatch) -> None:
    model = two_layers()
    alpha = [1.0, 1.0]
    scales = LayerScales(("0", "2"), alpha, (0, 0, 1, 1))  # type: ignore[arg-type]
    alpha[:] = [1e9, 1e9]  # nothing would be clipped any more
    assert scales.alpha == (1.0, 1.0)
    chosen = plan("edp-sgd", alpha_source="public")
    training = PrivateTraining(
        chosen, model, SGD(model.parameters(), lr=0.1), owners=SIZE, scales=scales
    )
    assert run(training).guarantee().holds


def test_scales_that_are_not_those_of_the_shapes_are_refused() -> None:
    model = two_layers()
    optimizer = SGD(model.parameters(), lr=0.1)
    private = LayerScales.from_public(model, lambda: losses_of(model, torch.arange(SIZE)).sum())
    chosen = plan("edp-sgd", alpha_source="shapes")
    with pytest.raises(SottovoceError, match="follow from the model's shapes"):
        PrivateTraining(chosen, model, optimizer, owners=SIZE, scales=private)
    honest = LayerScales.from_shapes(model)
    PrivateTraining(chosen, model, optimizer, owners=SIZE, scales=honest)


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_training_has_no_copies(how: Callable[[object], object]) -> None:
    with pytest.raises(SottovoceError, match="attempt to copy"):
        how(begin(two_layers()))


@pytest.mark.parametrize("settings", [{}, {"method": "edp-sgd", "alpha_source": "dp"}])
def test_a_paid_step_is_not_finished_in_a_fork(settings: dict[str, str]) -> None:
    training = begin(two_layers(), **settings)  # type: ignore[arg-type]
    step = next(training.steps())
    for batch in step:
        step.backward(losses_of(training.model, batch))
        child = os.fork()
        if child == 0:  # as multiprocessing would
            status = 1
            try:
                for rest in step:
                    step.backward(losses_of(training.model, rest))
            except SottovoceError:
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        break


def stepping_between(training: PrivateTraining, model: nn.Module, x: Tensor, y: Tensor) -> None:
    """After every private step, a second optimiser takes one on the raw gradient."""
    other = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in training.steps():
        for batch in step:
            losses = functional.cross_entropy(model(x[batch]), y[batch], reduction="none")
            step.backward(losses)
        other.zero_grad()
        functional.cross_entropy(model(x), y).backward()  # type: ignore[no-untyped-call]
        other.step()
        other.zero_grad()


def between(*, public_updates: bool = False) -> tuple[PrivateTraining, nn.Module, Tensor, Tensor]:
    torch.manual_seed(0)
    x, y = torch.randn(20, 4), torch.arange(20) % 2
    model = nn.Linear(4, 2)
    plan = Plan(population=20, batch_size=10, epochs=2, delta=1e-4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    training = PrivateTraining(plan, model, optimizer, owners=20, public_updates=public_updates)
    return training, model, x, y


def test_raw_updates_between_steps_are_refused() -> None:
    training, model, x, y = between()
    with pytest.raises(InvalidInput, match="as the last step left them"):
        stepping_between(training, model, x, y)
    assert not training.guarantee().holds


def test_a_checkpoint_of_changed_weights_is_refused(tmp_path: Path) -> None:
    training, model, x, y = between()
    for step in training.steps():
        for batch in step:
            losses = functional.cross_entropy(model(x[batch]), y[batch], reduction="none")
            step.backward(losses)
    training.save(tmp_path / "good.pt")
    with torch.no_grad():
        next(model.parameters()).sub_(x.mean(0))
    with pytest.raises(InvalidInput, match="as the last step left them"):
        training.save(tmp_path / "bad.pt")


def test_declared_updates_are_an_assumption() -> None:
    training, model, x, y = between(public_updates=True)
    stepping_between(training, model, x, y)
    assert any("between the steps" in each for each in training.guarantee().assumptions)


def test_twin_without_the_comparison_raw_updates_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    training, model, x, y = between()
    monkeypatch.setattr(PrivateTraining, "_check_between_steps", lambda self: None)
    stepping_between(training, model, x, y)
    assert training.guarantee().holds
