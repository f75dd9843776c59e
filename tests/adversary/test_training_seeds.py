"""A seed is for tests, and even there no noise hides two different sums."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from sottovoce.training import Plan, PrivateTraining
from sottovoce.training.noise import TensorNoise
from sottovoce.training.private import _randomness

SIZE = 32
X = torch.randn(SIZE, 4, generator=torch.Generator().manual_seed(3))


def plan(**settings: object) -> Plan:
    given = {"population": SIZE, "batch_size": 8, "epochs": 2, "delta": 1e-5, **settings}
    return Plan(**given)  # type: ignore[arg-type]


def begin(chosen: Plan, lr: float = 0.1) -> PrivateTraining:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    return PrivateTraining(chosen, model, optimizer, owners=SIZE, seed=5)


@pytest.fixture
def noise(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """What was added, draw by draw."""
    found: list[Tensor] = []
    honest = TensorNoise.add

    def listen(self: TensorNoise, tensors: list[Tensor], stds: float | list[float]) -> None:
        before = tensors[0].clone()
        honest(self, tensors, stds)
        found.append((tensors[0] - before).flatten())

    monkeypatch.setattr(TensorNoise, "add", listen)
    return found


def work(training: PrivateTraining, steps: int = 100) -> list[list[int]]:
    batches: list[list[int]] = []
    for step in training.steps():
        sampled: list[int] = []
        for batch in step:
            sampled += batch.tolist()
            step.backward(training.model(X[batch]).squeeze(1))
        batches.append(sampled[: step.size])
        if len(batches) == steps:
            break
    return batches


def alike(one: Tensor, other: Tensor) -> bool:
    """Up to scale, because scales decide how much noise a layer gets."""
    size = min(len(one), len(other))
    return bool(torch.allclose(one[:size] / one[0], other[:size] / other[0], rtol=1e-2))


def test_every_step_has_noise_of_its_own(noise: list[Tensor]) -> None:
    work(begin(plan()))
    assert len(noise) == 8
    assert not any(alike(noise[i], noise[j]) for i in range(8) for j in range(i))


def test_the_release_of_scales_has_noise_of_its_own(noise: list[Tensor]) -> None:
    work(begin(plan(method="edp-sgd", workers=2, alpha_source="dp")))
    assert len(noise) == 9
    assert not any(alike(noise[0], other) for other in noise[1:])


def test_every_rank_has_noise_of_its_own() -> None:
    fingerprints = {_randomness(5, rank)[0].fingerprint for rank in range(8)}
    assert len(fingerprints) == 8


def test_a_training_that_is_repeated_with_its_seed_is_the_same(noise: list[Tensor]) -> None:
    assert work(begin(plan())) == work(begin(plan()))
    assert all(torch.allclose(a, b, atol=1e-4) for a, b in zip(noise[:8], noise[8:], strict=True))


def _resumed_noise(noise: list[Tensor], tmp_path: Path) -> tuple[list[Tensor], list[list[int]]]:
    """The same step from one checkpoint, twice, after which the weights go different ways."""
    training = begin(plan())
    work(training, 2)
    training.save(tmp_path / "checkpoint.pt")
    noise.clear()
    batches = []
    for lr in (0.1, 0.5):
        again = begin(plan(), lr)
        again.resume(tmp_path / "checkpoint.pt")
        batches.append(work(again, 1)[0])
    batches.append(work(training, 1)[0])
    return list(noise), batches


def test_a_seeded_resume_repeats_neither_noise_nor_sampling(
    noise: list[Tensor], tmp_path: Path
) -> None:
    drawn, batches = _resumed_noise(noise, tmp_path)
    assert not any(alike(drawn[i], drawn[j]) for i in range(3) for j in range(i))
    assert len({tuple(batch) for batch in batches}) == 3


def test_from_the_seed_alone_it_would(
    noise: list[Tensor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin: the noise of one release, taken from the other, leaves the sums bare."""
    monkeypatch.setattr("sottovoce.training.private._salt", lambda: "resumed")
    drawn, _ = _resumed_noise(noise, tmp_path)
    assert alike(drawn[0], drawn[1])


def test_a_step_that_failed_after_its_noise_does_not_draw_it_again(noise: list[Tensor]) -> None:
    training = begin(plan())
    stop = True

    def fail(*_: object) -> None:
        if stop:
            raise KeyboardInterrupt

    training.optimizer.register_step_post_hook(fail)
    with pytest.raises(KeyboardInterrupt):
        work(training)
    stop = False
    work(training, 1)
    assert len(noise) == 2
    assert not alike(*noise)


def test_a_seed_is_in_the_statement() -> None:
    training = begin(plan())
    work(training, 1)
    statement = training.guarantee()
    assert any("seeded" in each for each in (*statement.reasons, *statement.assumptions)) or (
        "seeded" in str(statement)
    )
