"""The master formula, and the objections of a training step."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.errors import InvalidInput
from sottovoce.privacy.accountants.losses import GaussianLoss, PoissonGaussianLoss
from sottovoce.privacy.facts import (
    Assignment,
    Contribution,
    NoisySum,
    Sampling,
    ScaleSource,
    fact_from_json,
)
from sottovoce.privacy.guarantee import SEEDED_STAMP, Relation, Unit

STEP = NoisySum(unit=Unit.EXAMPLE, clip_norm=1.0, noise_stds=(1.0,), sampling_rate=0.01)
ADD, REPLACE = Relation.ADD_OR_REMOVE, Relation.REPLACE_ONE


@pytest.mark.parametrize(
    ("contribution", "scales", "stds", "effective"),
    [
        # z over sqrt(8) by the paper's split of eight independent draws
        ("per-unit", (1, 1, 1), (0.353553390593274,) * 3, 0.353553390593274),
        ("per-unit", (1, 1, 1), (1.0, 1.0, 1.0), 1.0),
        ("mixed", (0.2, 1.0, 3.0), (0.353553390593274,) * 3, 0.058925565098879),
        ("mixed", (0.2, 1.0, 3.0), (0.2, 1.0, 3.0), 0.5),
        ("mixed", (0.1, 0.25, 0.5), (0.7, 0.7, 0.7), 0.7),
        ("per-unit", (1,), (1.3,), 1.3),
    ],
)
def test_master_formula(
    contribution: str, scales: tuple[float, ...], stds: tuple[float, ...], effective: float
) -> None:
    step = replace(STEP, contribution=Contribution(contribution), scales=scales, noise_stds=stds)
    assert step.noise_multiplier(ADD) == pytest.approx(effective, rel=1e-12)


@pytest.mark.parametrize(
    ("contribution", "relation", "kappa"),
    [("per-unit", ADD, 1), ("per-unit", REPLACE, 2), ("mixed", ADD, 2), ("mixed", REPLACE, 2)],
)
def test_sensitivity_factor(contribution: str, relation: Relation, kappa: int) -> None:
    step = replace(STEP, contribution=Contribution(contribution), noise_stds=(3.0,))
    assert step.noise_multiplier(relation) == pytest.approx(3.0 / kappa)


@given(
    st.integers(2, 4).flatmap(
        lambda k: st.tuples(
            st.lists(st.floats(0.1, 10), min_size=k, max_size=k),
            st.lists(st.floats(0.1, 10), min_size=k, max_size=k),
            st.lists(st.floats(-1, 1), min_size=k, max_size=k),
        )
    )
)
def test_no_clipped_vector_beats_the_master_formula(
    case: tuple[list[float], list[float], list[float]],
) -> None:
    """For any direction within the clip norm, the whitened shift is at most 1 / z_eff."""
    scales, stds, direction = (np.array(part) for part in case)
    norm = np.linalg.norm(direction)
    if norm < 1e-6:
        return
    shift = scales * direction / norm  # norm 1 before rescaling by alpha
    step = replace(STEP, scales=tuple(scales), noise_stds=tuple(stds))
    assert np.linalg.norm(shift / stds) <= 1 / step.noise_multiplier(ADD) * (1 + 1e-12)


def test_layers_clipped_apart_add_up() -> None:
    step = replace(STEP, scales=(1.0, 2.0), noise_stds=(5.0, 5.0), clipped_per_layer=True)
    assert 1 / step.noise_multiplier(ADD) == pytest.approx(math.sqrt((1 / 5) ** 2 + (2 / 5) ** 2))


def test_losses_by_sampling() -> None:
    assert STEP.losses(ADD) == [(PoissonGaussianLoss(0.01, 1.0), 1)]
    # The PLD accountant applies the factor 2 of replace-one itself.
    assert STEP.losses(REPLACE) == [(PoissonGaussianLoss(0.01, 1.0), 1)]
    mixed = replace(STEP, contribution=Contribution.MIXED)
    assert mixed.losses(ADD) == [(PoissonGaussianLoss(0.01, 0.5), 1)]
    shuffled = replace(STEP, sampling=Sampling.SHUFFLE, sampling_rate=None, pool="epoch 0")
    assert shuffled.losses(REPLACE) == [(GaussianLoss(2.0), 1)]


@pytest.mark.parametrize(
    ("changes", "relation", "words"),
    [
        ({"scale_source": ScaleSource.FIRST_BATCH}, ADD, "private gradient without noise"),
        ({"noise_stds": (2.0**-21,)}, ADD, "no longer Gaussian"),
        ({"rank": 0, "workers": 2}, ADD, "only the noise share of worker 0 of 2"),
        ({"sampling": Sampling.SHUFFLE, "pool": "epoch 0"}, ADD, "only the relation replace-one"),
        (
            {"contribution": Contribution.MIXED, "assignment": Assignment.POSITIONAL},
            ADD,
            "the records of every worker",
        ),
    ],
)
def test_objections(changes: dict[str, object], relation: Relation, words: str) -> None:
    (objection,) = replace(STEP, **changes).objections(relation)  # type: ignore[arg-type]
    assert words in objection


def test_positional_chunks_are_fine_under_replace_one() -> None:
    step = replace(STEP, contribution=Contribution.MIXED, assignment=Assignment.POSITIONAL)
    assert step.objections(REPLACE) == []


@pytest.mark.parametrize("workers", [2, 8])
def test_why_positional_chunks_are_refused(workers: int) -> None:
    """Adding one record changes the records of every worker: the sum changes by 2 N C, not 2 C."""
    records = [(-1.0) ** (i + 1) * 10.0 ** (2 * i + 1) for i in range(2 * workers)]
    sign = -1 if records[-1] > 0 else 1
    added = [*records, sign * 10 * abs(records[-1])]

    def clipped_sum(values: list[float]) -> float:
        chunks = np.array_split(np.array(values), workers)
        return float(sum(np.clip(chunk.mean(), -1, 1) for chunk in chunks))

    assert abs(clipped_sum(added) - clipped_sum(records)) == pytest.approx(2 * workers)


def test_a_seed_is_stamped() -> None:
    assert SEEDED_STAMP in replace(STEP, seeded=True).assumptions(ADD)


def test_json_both_ways() -> None:
    step = replace(
        STEP,
        scales=(1.0, 2.0),
        noise_stds=(0.1, 0.2),
        contribution=Contribution.MIXED,
        scale_source=ScaleSource.PUBLIC,
        workers=4,
        rank=3,
        seeded=True,
    )
    assert fact_from_json(step.to_json()) == step


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"clip_norm": 0.0}, "Expected clip_norm > 0, got 0"),
        ({"scales": (1.0, 1.0)}, "one noise standard deviation for each of 2"),
        ({"scales": ()}, "one noise standard deviation for each of 0"),
        ({"scales": (-1.0,)}, "Expected every layer scale > 0"),
        ({"noise_stds": (math.nan,)}, "Expected each of noise_stds to be finite"),
        ({"noise_stds": (-1.0,)}, "Expected every noise standard deviation from 0"),
        ({"sampling_rate": None}, "Expected a sampling_rate with Poisson"),
        ({"sampling_rate": 1.5}, "Expected sampling_rate in"),
        ({"sampling": Sampling.SHUFFLE}, "Expected a pool"),
        ({"workers": 0}, "Expected workers >= 1"),
    ],
)
def test_bad_facts_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        replace(STEP, **changes)  # type: ignore[arg-type]
