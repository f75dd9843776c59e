"""The build audits itself: real private training, gradient canaries, and controls that must fail.

A lower bound above the guarantee is a defect. The negative controls halve the noise and print
eDP-SGD as published; an audit that no longer caught them would have lost its power.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from sottovoce.audit import LowerBound, independent_canaries_audit
from sottovoce.audit.bounds import gaussian_bound
from sottovoce.audit.canaries import Family
from sottovoce.privacy.facts import Sampling
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.privacy.recipes import NoiseSplit
from sottovoce.training import Method, Plan, PrivateTraining
from sottovoce.training.noise import TensorNoise

CANARIES = 20_000
ONE_STEP = Plan(
    population=CANARIES, batch_size=CANARIES, virtual_batch=CANARIES, epochs=1, delta=1e-5
)


@pytest.fixture
def halved_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = TensorNoise.add

    def too_quiet(self: TensorNoise, tensors: list[torch.Tensor], stds: list[float]) -> None:
        honest(self, tensors, [std / 2 for std in stds])

    monkeypatch.setattr(TensorNoise, "add", too_quiet)


def dirac_audit(plan: Plan) -> tuple[LowerBound, Guarantee]:
    """Example i touches row i only: every included example is a canary with its own coordinate."""
    included = np.random.default_rng(0).random(CANARIES) < 0.5
    present = torch.from_numpy(np.flatnonzero(included))
    model = nn.Embedding(CANARIES, 1)
    nn.init.zeros_(model.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    training = PrivateTraining(plan, model, optimizer, owners=len(present), seed=3)
    for step in training.steps():
        for batch in step:
            step.backward(-1000.0 * model(present[batch]).squeeze(1))
    scores = model.weight.detach().squeeze(1).numpy() * plan.divisor / plan.clip_norm
    bound = independent_canaries_audit(
        scores / plan.steps, included, threshold=0.5, delta=plan.delta, family=Family.GAUSSIAN
    )
    # At the delta of the printed figures, which is too large for so many people.
    return bound, training.ledger().guarantee(plan.delta)


@pytest.mark.parametrize("plan", [ONE_STEP, replace(ONE_STEP, epochs=4, noise_multiplier=2.0)])
def test_exact_dpsgd_leaks_no_more_than_guaranteed_and_nearly_as_much(plan: Plan) -> None:
    bound, guarantee = dirac_audit(plan)
    assert guarantee.epsilon == pytest.approx(4.3772, rel=1e-3)
    assert not bound.contradicts(guarantee)
    assert bound.epsilon > 3.5  # the audit is tight, so it would see a defect


@pytest.mark.usefixtures("halved_noise")
def test_halved_noise_is_caught() -> None:
    bound, guarantee = dirac_audit(ONE_STEP)
    assert bound.contradicts(guarantee)


def turned_around(plan: Plan, *, present: bool) -> Iterator[float]:
    """The released sum of every step; if present, one record of 64 turns its worker around."""
    model = nn.Linear(1, 1, bias=False)
    pulls = torch.full((64, 1), -1.0)  # the gradient of each record's loss
    if present:
        pulls[17] = 1e6
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    training = PrivateTraining(plan, model, optimizer, owners=64, seed=7 + present)
    for step in training.steps():
        for batch in step:
            step.backward(model(pulls[batch]).squeeze(1))
        assert model.weight.grad is not None
        yield -float(model.weight.grad) * plan.workers / plan.clip_norm


def test_edpsgd_as_printed_leaks_far_more_than_it_claims() -> None:
    """Every step is one release of Algorithm 1, 8 workers, z = 1: claimed 3.35, true 33.8."""
    trials = 800
    plan = Plan(
        method=Method.EDP_SGD, workers=8, noise_split=NoiseSplit.PAPER, sampling=Sampling.SHUFFLE,
        population=64, batch_size=64, epochs=trials, delta=5e-4,
    )  # fmt: skip
    claimed = 3.35156077554293  # one Gaussian with noise multiplier z, as advertised
    true = replace(plan, epochs=1).guarantee().epsilon
    assert true == pytest.approx(33.82873, rel=1e-5)
    with_it = np.array(list(turned_around(plan, present=True)))
    without = np.array(list(turned_around(plan, present=False)))
    # Eight workers agree (sum 8) unless one was turned around (sum 6): the threshold is half way.
    bound = gaussian_bound(
        true_positives=int((with_it < 7).sum()), members=trials,
        false_positives=int((without < 7).sum()), non_members=trials, delta=plan.delta,
    )  # fmt: skip
    assert claimed < 20 < bound.epsilon <= true
