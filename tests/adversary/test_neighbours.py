"""Models, losses and loops of strangers: one example never moves the sum by more than is stated.

What is measured is what leaves the training: the noise is taken away, and the gradients of two
datasets that differ in one example are compared. Each attack has a twin in which the neighbour
check is taken away and the program is trained with a false statement.
"""

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from sottovoce.errors import InvalidInput
from sottovoce.training import Method, Plan, PrivateTraining
from sottovoce.training.checks.neighbours import NeighbourCheck
from sottovoce.training.errors import NeighbourCheckFailed
from sottovoce.training.noise import TensorNoise

SIZE, WORDS, WIDTH = 24, 6, 8
GENERATOR = torch.Generator().manual_seed(3)
X = torch.randn(SIZE, WORDS, WIDTH, generator=GENERATOR)
X[-1] *= 20  # somebody unlike the others
Y = torch.randint(0, 3, (SIZE,), generator=GENERATOR)
ALL = Plan(population=SIZE, batch_size=SIZE, epochs=4, delta=1e-5, noise_multiplier=1.0)

Losses = Callable[[nn.Module, Tensor], Tensor]


class Encoder(nn.Module):
    def __init__(self, *, dropout: float = 0.0, zero: bool = False) -> None:
        super().__init__()
        self.lstm = nn.LSTM(WIDTH, 12, 2, batch_first=True, dropout=dropout)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(12, 3)
        if zero:
            nn.init.zeros_(self.head.weight)
            nn.init.zeros_(self.head.bias)

    def hidden(self, x: Tensor) -> Tensor:
        states: Tensor = self.dropout(self.lstm(x)[0])
        return states

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.hidden(x).mean(1))
        return scores


def cross_entropy(scores: Tensor, batch: Tensor) -> Tensor:
    return functional.cross_entropy(scores.float(), Y[batch], reduction="none")


def plain(model: nn.Module, batch: Tensor) -> Tensor:
    return cross_entropy(model(X[batch]), batch)


def train(
    model: nn.Module,
    losses: Losses,
    plan: Plan = ALL,
    size: int = SIZE,
    *,
    own_randomness: bool = False,
) -> PrivateTraining:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    training = PrivateTraining(plan, model, optimizer, owners=size, own_randomness=own_randomness)
    for step in training.steps():
        for batch in step:
            step.backward(losses(model, batch))
    return training


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NeighbourCheck, "trials", lambda self: iter(()))


def moved(model: nn.Module, losses: Losses, monkeypatch: pytest.MonkeyPatch) -> float:
    """How far the last example moves the released sum of one step, in clip norms."""
    monkeypatch.setattr(TensorNoise, "add", lambda self, tensors, stds: None)
    plan = Plan(population=SIZE, batch_size=SIZE, epochs=1, delta=1e-5)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    sums = []
    for size in (SIZE, SIZE - 1):
        model.load_state_dict(state)
        train(model, losses, plan, size)
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        sums.append(torch.cat([g.flatten().float() * plan.divisor for g in gradients]))
    return float((sums[0] - sums[1]).norm())


def by_count(model: nn.Module, batch: Tensor) -> Tensor:
    return plain(model, batch) * 40 / len(batch)


def by_batch_softmax(model: nn.Module, batch: Tensor) -> Tensor:
    losses = plain(model, batch)
    return losses * losses.detach().softmax(0) * 20


def normalised_inputs(model: nn.Module, batch: Tensor) -> Tensor:
    x = X[batch]
    spread = x.std(0, correction=0) + 1e-3
    return cross_entropy(model((x - x.mean(0)) / spread), batch)


class Centred(Encoder):
    def forward(self, x: Tensor) -> Tensor:
        hidden = self.hidden(x).mean(1)
        scores: Tensor = self.head((hidden - hidden.mean(0)) * 20)
        return scores


class LateCentred(Centred):
    """Mixes examples only after a while."""

    passes = 0

    def forward(self, x: Tensor) -> Tensor:
        self.passes += 1
        return super().forward(x) if self.passes > 30 else Encoder.forward(self, x)


class ContrastiveLoss(Encoder):
    """Every example against all others in the batch."""

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.hidden(x).mean(1))
        return scores + 5 * (scores @ scores.t()).logsumexp(1, keepdim=True)


class CentredWithNumpy(Centred):
    """A random number from elsewhere is no excuse."""

    def forward(self, x: Tensor) -> Tensor:
        np.random.rand()
        return super().forward(x)


class AgainstNeighbours(Encoder):
    """Every example against the one before it, without a gradient to it."""

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.hidden(x).mean(1)
        scores: Tensor = self.head(hidden - 3 * hidden.detach().roll(1, 0))
        return scores


class Memory(Encoder):
    """Remembers the examples that it has seen."""

    def __init__(self) -> None:
        super().__init__()
        self.past: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.hidden(x).mean(1)
        self.past.append(hidden.detach().mean(0))
        scores: Tensor = self.head(hidden + torch.stack(self.past[-3:]).sum(0))
        return scores


class OnlyLarge(Encoder):
    """Mixes examples where there are more of them than a small check looks at."""

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.hidden(x).mean(1)
        scores: Tensor = self.head(hidden + (5 * hidden.detach().mean(0) if len(x) > 8 else 0))
        return scores


class ScaledBackwards(torch.autograd.Function):
    """Right values, gradients multiplied by the number of examples."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * len(gradient) * 0.1


class OwnBackward(Encoder):
    def forward(self, x: Tensor) -> Tensor:
        hidden = self.hidden(x).mean(1)
        scores: Tensor = self.head(ScaledBackwards.apply(hidden))  # type: ignore[no-untyped-call]
        return scores


def hooked() -> nn.Module:
    model = Encoder()

    def scale(_: nn.Module, before: Any, after: Any) -> tuple[Tensor, ...]:
        return (before[0] * len(before[0]),)

    model.head.register_full_backward_hook(scale)
    return model


def quietly(model: nn.Module, batch: Tensor) -> Tensor:
    return plain(model, batch) * 0.05  # nothing is clipped, so that every scale shows


def mixed_up(model: nn.Module, batch: Tensor) -> Tensor:
    others = X[batch][torch.randperm(len(batch))]
    return cross_entropy(model(0.7 * X[batch] + 0.3 * others), batch)


def negatives_of_the_batch(model: nn.Module, batch: Tensor) -> Tensor:
    others = X[batch][torch.randint(len(batch), (len(batch),))]
    return cross_entropy(model(X[batch] - others), batch)


def by_class(model: nn.Module, batch: Tensor) -> Tensor:
    _, place, counts = torch.unique(Y[batch], return_inverse=True, return_counts=True)
    weights: Tensor = 1 / counts[place]
    return plain(model, batch) * weights


def by_running_mean() -> Losses:
    mean = 1.0

    def losses(model: nn.Module, batch: Tensor) -> Tensor:
        nonlocal mean
        found = plain(model, batch)
        mean = 0.5 * mean + 0.5 * float(found.detach().mean())
        return found / mean * 0.05

    return losses


ATTACKS: dict[str, tuple[Callable[[], nn.Module], Losses]] = {
    "a loss divided by the number of examples": (Encoder, by_count),
    "a loss weighted by a softmax over the batch": (Encoder, by_batch_softmax),
    "inputs normalised by the batch": (Encoder, normalised_inputs),
    "inputs normalised by the batch, a head of zeros": (
        lambda: Encoder(zero=True), normalised_inputs,
    ),
    "hidden states centred by the batch": (Centred, plain),
    "hidden states centred by the batch, a head of zeros": (lambda: Centred(zero=True), plain),
    "examples compared with each other": (ContrastiveLoss, plain),
    "a random number of numpy on the way": (CentredWithNumpy, plain),
    "the example before, detached": (AgainstNeighbours, plain),
    "a memory": (Memory, plain),
    "mixing in large batches only": (OnlyLarge, plain),
    "gradients scaled by the batch": (OwnBackward, quietly),
    "a backward hook that scales by the batch": (hooked, quietly),
    "mixup": (Encoder, mixed_up),
    "negatives of the batch": (Encoder, negatives_of_the_batch),
    "classes balanced in the batch": (Encoder, by_class),
    "a loss divided by its running mean": (Encoder, by_running_mean()),
}  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_program_that_mixes_examples_is_stopped(attack: str) -> None:
    make, losses = ATTACKS[attack]
    torch.manual_seed(1)
    # Some are seen by the probe of gradients already, before the sums are compared.
    with pytest.raises(ValueError, match="example"):
        train(make(), losses)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("attack", ATTACKS)
def test_unchecked_it_is_trained_with_a_false_statement(
    attack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, losses = ATTACKS[attack]
    torch.manual_seed(1)
    monkeypatch.setattr(
        "sottovoce.training.clipping.bookkeeping.check_independence", lambda *_: True
    )
    assert train(make(), losses).guarantee().holds


@pytest.mark.usefixtures("unchecked")
def test_unchecked_one_example_moves_the_sum_by_more_than_is_stated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch.manual_seed(1)
    assert moved(Encoder(), normalised_inputs, monkeypatch) > 1.02


def test_honest_programs_move_the_sum_by_the_clip_norm_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch.manual_seed(1)
    assert moved(Encoder(), plain, monkeypatch) <= 1.001


def test_mixing_that_begins_later_is_found_and_what_was_released_loses_its_guarantee() -> None:
    torch.manual_seed(1)
    model = LateCentred()
    plan = Plan(population=SIZE, batch_size=SIZE, epochs=3000, delta=1e-5, noise_multiplier=50.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    training = PrivateTraining(plan, model, optimizer, owners=SIZE)

    def go_on() -> None:
        for step in training.steps():
            for batch in step:
                step.backward(plain(model, batch))

    with pytest.raises(NeighbourCheckFailed, match="one example"):
        go_on()
    assert training.step > 1
    assert not training.guarantee().holds
    assert not training.ledger().guarantee(1e-5).holds
    # Nor does it go on for somebody who ignores the error.
    with pytest.raises(NeighbourCheckFailed):
        next(training.steps())


class LateFirst(Encoder):
    """After a while, the others influence the first of a batch, and nobody else."""

    passes = 0

    def forward(self, x: Tensor) -> Tensor:
        self.passes += 1
        hidden = self.hidden(x).mean(1)
        if self.passes > 30 and len(x) > 1:
            others = 5 * hidden.detach()[1:].mean(0, keepdim=True)
            hidden = hidden + torch.cat([others, torch.zeros_like(hidden[1:])])
        scores: Tensor = self.head(hidden)
        return scores


class LateLast(Encoder):
    """After a while, the last of a batch influences the others."""

    passes = 0

    def forward(self, x: Tensor) -> Tensor:
        self.passes += 1
        hidden = self.hidden(x).mean(1)
        if self.passes > 30:
            hidden = (
                hidden + 3 * hidden.detach()[-1:] * (torch.arange(len(x)) < len(x) - 1)[:, None]
            )
        scores: Tensor = self.head(hidden)
        return scores


@pytest.mark.parametrize("make", [LateFirst, LateLast, LateCentred])
def test_one_check_in_three_finds_mixing_in_either_direction(
    make: type[nn.Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a check in every step instead of one in 256."""
    monkeypatch.setattr("sottovoce.training.checks.neighbours.RARELY", 1)
    torch.manual_seed(1)
    plan = Plan(population=SIZE, batch_size=SIZE, epochs=80, delta=1e-5, noise_multiplier=50.0)
    with pytest.raises(NeighbourCheckFailed):
        train(make(), plain, plan)


class Twice(nn.Module):
    """One layer on the sequence and on its mean: inputs of different numbers of rows."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer, self.head = layer, nn.Linear(WIDTH, 3)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(
            self._run(x).mean(1) + self._run(x.mean(1, keepdim=True)).mean(1)
        )
        return scores

    def _run(self, x: Tensor) -> Tensor:
        if isinstance(self.layer, nn.Conv1d):
            found: Tensor = self.layer(x.transpose(1, 2)).transpose(1, 2)
            return found
        out = self.layer(x, x, x) if isinstance(self.layer, nn.MultiheadAttention) else None
        out = self.layer(x) if out is None else out
        sequence: Tensor = out[0] if isinstance(out, tuple) else out
        return sequence


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Linear(WIDTH, WIDTH),
        lambda: nn.LSTM(WIDTH, WIDTH, batch_first=True),
        lambda: nn.GRU(WIDTH, WIDTH, batch_first=True),
        lambda: nn.Conv1d(WIDTH, WIDTH, 1),
        lambda: nn.MultiheadAttention(WIDTH, 2, batch_first=True),
    ],
)
def test_a_layer_used_on_a_sequence_and_on_its_mean_is_exact(
    make: Callable[[], nn.Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bias of the short use and of the long one are one bias: its cross term counts."""
    torch.manual_seed(1)
    assert moved(Twice(make()), plain, monkeypatch) <= 1.001


@pytest.mark.parametrize(
    "plan",
    [
        {},
        {"clipping": "per-layer"},
        {"clipping": "automatic"},
        {"micro_batch": 4},
        {"method": "textbook"},
        {"method": "edp-sgd", "workers": 3},
        {"sampling": "shuffle"},
        {"virtual_batch": 5},
    ],
)
def test_dropout_is_repeated_for_every_method(plan: dict[str, object]) -> None:
    torch.manual_seed(1)
    settings = {"population": SIZE, "batch_size": SIZE, "epochs": 3, "delta": 1e-5, **plan}
    training = train(Encoder(dropout=0.3), plain, Plan(**settings))  # type: ignore[arg-type]
    assert training.guarantee().holds
    assert not any("neighbour check" in each for each in training.ledger().assumptions)


def test_users_with_many_examples_and_shorter_batches() -> None:
    """Leaving out the longest example shortens the padding, and the masks with it."""
    torch.manual_seed(1)
    lengths = torch.arange(SIZE) % WORDS + 1

    class Padded(Encoder):
        def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
            assert mask is not None
            hidden = self.dropout(self.head(x.new_zeros(*x.shape[:2], 12) + x.sum(-1, True)))
            summed: Tensor = (hidden * mask.unsqueeze(2)).sum(1)
            return summed

    def padded(model: nn.Module, batch: Tensor) -> Tensor:
        longest = int(lengths[batch].max())
        mask = torch.arange(longest) < lengths[batch].unsqueeze(1)
        return cross_entropy(model(X[batch, :longest], mask), batch)

    model = Padded(dropout=0.3)
    model.lstm.requires_grad_(False)
    plan = Plan(population=6, batch_size=6, epochs=4, delta=1e-5, unit="user")  # type: ignore[arg-type]
    parameters = [p for p in model.parameters() if p.requires_grad]
    owners = [f"user {number % 6}" for number in range(SIZE)]
    training = PrivateTraining(plan, model, torch.optim.SGD(parameters, lr=0.1), owners=owners)
    for step in training.steps():
        for batch in step:
            step.backward(padded(model, batch))
    assert training.guarantee().holds


def own_generator() -> Losses:
    outside = np.random.default_rng(5)

    def augmented(model: nn.Module, batch: Tensor) -> Tensor:
        kept = torch.from_numpy(outside.random((len(batch), 1, 1)) < 0.8)
        return cross_entropy(model(X[batch] * kept), batch)

    return augmented


def test_a_loop_whose_random_numbers_cannot_be_repeated_is_stopped() -> None:
    torch.manual_seed(1)
    with pytest.raises(NeighbourCheckFailed, match="own_randomness"):
        train(Encoder(), own_generator())


def test_a_loop_that_declares_its_own_randomness_is_told_so_in_the_statement() -> None:
    torch.manual_seed(1)
    training = train(Encoder(), own_generator(), own_randomness=True)
    assert training.guarantee().holds
    assert any("could not repeat" in each for each in training.guarantee().assumptions)


@pytest.mark.parametrize("method", ["textbook", "edp-sgd"])
def test_a_memory_is_found_where_units_go_through_the_model_one_by_one(method: str) -> None:
    torch.manual_seed(1)
    plan = Plan(population=SIZE, batch_size=SIZE, epochs=2, delta=1e-5, method=method)  # type: ignore[arg-type]
    with pytest.raises(NeighbourCheckFailed):
        train(Memory(), plain, plan)


@pytest.mark.parametrize("method", ["textbook", "edp-sgd"])
@pytest.mark.usefixtures("unchecked")
def test_unchecked_a_memory_is_trained_with_a_false_statement(method: str) -> None:
    plan = Plan(population=SIZE, batch_size=SIZE, epochs=2, delta=1e-5, method=method)  # type: ignore[arg-type]
    assert train(Memory(), plain, plan).guarantee().holds


class Augmented(Encoder):
    """Honest, with random numbers from numpy and Python, several times a pass."""

    def forward(self, x: Tensor) -> Tensor:
        kept = torch.from_numpy(np.random.rand(len(x), 1, 1) > 0.2)
        factors = torch.tensor([random.uniform(0.5, 1) for _ in x]).view(-1, 1, 1)
        return super().forward(x * kept * factors)


@pytest.mark.parametrize("clipping", ["flat", "automatic", "per-layer"])
@pytest.mark.parametrize("micro_batch", [1, 4])
def test_honest_random_numbers_of_numpy_and_python_are_held_still(
    clipping: str, micro_batch: int
) -> None:
    torch.manual_seed(1)
    np.random.seed(1)
    random.seed(1)
    plan = Plan(
        population=SIZE, batch_size=SIZE, epochs=3, delta=1e-5,
        clipping=clipping, micro_batch=micro_batch,  # type: ignore[arg-type]
    )  # fmt: skip
    assert train(Augmented(), plain, plan).guarantee().holds
    assert 0 <= random.random() != random.random()  # and let go again


def _leave_where_checks_begin(training: PrivateTraining, losses: Losses) -> None:
    """Whenever there is more than the sample, give up the step and start again."""
    for _ in range(30):
        with suppress(InvalidInput):
            for step in training.steps():
                seen = 0
                for batch in step:
                    if seen >= step.size:
                        break
                    step.backward(losses(training.model, batch))
                    seen += len(batch)


def _without_probe(monkeypatch: pytest.MonkeyPatch) -> PrivateTraining:
    monkeypatch.setattr(
        "sottovoce.training.clipping.bookkeeping.check_independence", lambda *_: True
    )
    torch.manual_seed(1)
    model = Centred()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    return PrivateTraining(ALL, model, optimizer, owners=SIZE)


def test_a_loop_that_leaves_whenever_it_is_checked_trains_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    training = _without_probe(monkeypatch)
    _leave_where_checks_begin(training, plain)
    assert training.step == 0


@pytest.mark.usefixtures("unchecked")
def test_unchecked_it_trains(monkeypatch: pytest.MonkeyPatch) -> None:
    training = _without_probe(monkeypatch)
    _leave_where_checks_begin(training, plain)
    assert training.step == ALL.steps


def test_every_new_form_in_a_step_is_checked_not_the_last_one_only() -> None:
    """The first piece of two mixes examples, the second does not."""

    class Sometimes(Encoder):
        def forward(self, x: Tensor) -> Tensor:
            hidden = self.hidden(x)
            if len(x) > 11:  # the head sees words here
                scores: Tensor = self.head(hidden + 5 * hidden.detach().mean(0)).mean(1)
                return scores
            return super().forward(x)

    torch.manual_seed(1)
    plan = Plan(population=23, batch_size=23, epochs=1, delta=1e-5, virtual_batch=16)
    with pytest.raises(NeighbourCheckFailed):
        train(Sometimes(), plain, plan, 23)


def test_one_example_without_a_number_leaves_the_others_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(model: nn.Module, batch: Tensor) -> Tensor:
        found = plain(model, batch)
        return torch.where(batch == SIZE - 1, found * float("nan"), found)

    torch.manual_seed(1)
    assert moved(Encoder(), broken, monkeypatch) == 0


def test_checkpointing_that_hides_its_graph_is_refused() -> None:
    class Checkpointed(Encoder):
        def forward(self, x: Tensor) -> Tensor:
            hidden = self.hidden(x).mean(1).requires_grad_()
            scores: Tensor = checkpoint(self.head, hidden, use_reentrant=True)
            return scores

    for method in ("dp-sgd", "textbook", "edp-sgd"):
        plan = Plan(population=SIZE, batch_size=SIZE, epochs=1, delta=1e-5, method=method)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="use_reentrant=False"):
            train(Checkpointed(), plain, plan)


def test_a_batch_that_is_written_to_stays_what_it_was() -> None:
    """Handed out again for a check, it would be other examples."""

    def shifted(model: nn.Module, batch: Tensor) -> Tensor:
        batch += 1
        batch %= SIZE
        return plain(model, batch)

    torch.manual_seed(1)
    assert train(Encoder(), shifted).guarantee().holds


def test_checks_leave_the_training_as_it_would_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same seeds, with the check and without: the same weights."""
    weights = []
    for checked in (True, False):
        if not checked:
            monkeypatch.setattr(NeighbourCheck, "trials", lambda self: iter(()))
        torch.manual_seed(1)
        model = Encoder(dropout=0.3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        training = PrivateTraining(ALL, model, optimizer, owners=SIZE, seed=7)
        for step in training.steps():
            for batch in step:
                step.backward(plain(model, batch))
        weights.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    assert torch.equal(*weights)


def test_bfloat16_sums_keep_their_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum of 4096 in bfloat16 is rounded to multiples of 32: noise of 1 would vanish in it."""
    size = 4096
    model = nn.Linear(1, 1, bias=False).to(torch.bfloat16)
    plan = Plan(population=size, batch_size=size, epochs=1, delta=1e-6, virtual_batch=size)
    seen: list[Tensor] = []
    honest = TensorNoise.add

    def listen(self: TensorNoise, tensors: list[Tensor], stds: list[float]) -> None:
        honest(self, tensors, stds)
        seen.append(tensors[0].clone())

    monkeypatch.setattr(TensorNoise, "add", listen)
    for run in range(4):
        training = PrivateTraining(
            plan, model, torch.optim.SGD(model.parameters(), lr=1e-9), owners=size, seed=run
        )
        for step in training.steps():
            for batch in step:
                step.backward(model(torch.ones(len(batch), 1, dtype=torch.bfloat16)).squeeze(1))
    sums = torch.cat([each.flatten() for each in seen]) * size
    assert sums.dtype == torch.float32
    assert len(set(sums.tolist())) == 4
    assert bool(((sums - size).abs() < 8).all())
    # The twin: rounded before the noise is seen, all of them are one and the same.
    assert len(set(sums.to(torch.bfloat16).tolist())) == 1


def test_float16_is_refused() -> None:
    model = nn.Linear(2, 1).half()
    with pytest.raises(ValueError, match="bfloat16"):
        PrivateTraining(ALL, model, torch.optim.SGD(model.parameters(), lr=0.1), owners=SIZE)


def test_plain_training_is_not_checked() -> None:
    plan = Plan(population=SIZE, batch_size=SIZE, epochs=1, delta=1e-5, method=Method.SGD)
    assert not train(Encoder(), by_count, plan).guarantee().holds


@pytest.mark.parametrize("first", [21, 30])
def test_mixing_that_begins_with_longer_inputs_is_stopped(
    first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every step is one word longer than the one before; beyond some length examples are mixed."""
    probe = "sottovoce.training.clipping.bookkeeping.check_independence"
    monkeypatch.setattr(probe, lambda *_: True)
    torch.manual_seed(1)
    model = Encoder()
    long = torch.randn(SIZE, 60, WIDTH, generator=torch.Generator().manual_seed(4))
    plan = Plan(population=SIZE, batch_size=SIZE, epochs=60, delta=1e-5, noise_multiplier=4.0)
    training = PrivateTraining(
        plan, model, torch.optim.SGD(model.parameters(), lr=0.1), owners=SIZE
    )

    def run() -> None:
        for step in training.steps():
            length = step.number + 1
            for batch in step:
                x = long[batch, :length]
                if length >= first:
                    x = (x - x.mean(0)) / (x.std(0, correction=0) + 1e-3)
                step.backward(cross_entropy(model(x), batch))

    with pytest.raises(NeighbourCheckFailed):
        run()
    assert not training.guarantee().holds
