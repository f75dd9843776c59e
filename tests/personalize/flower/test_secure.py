"""With these ranges Flower gives the plain sum of counts back; with its default it does not."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.errors import InvalidInput
from sottovoce.personalize.federated.counting import Caps, Counting
from sottovoce.personalize.federated.plan import ReleasePlan
from sottovoce.personalize.flower.masking import SecureRanges
from sottovoce.personalize.lm.vocabulary import Vector
from sottovoce.privacy.guarantee import Unit

with warnings.catch_warnings():
    # Flower's command line uses a deprecated part of click.
    warnings.simplefilter("ignore", DeprecationWarning)
    pytest.importorskip("flwr.app", reason="Flower is not installed (extra `flower`)")
    from flwr.common.secure_aggregation.quantization import dequantize, quantize

PLAN = ReleasePlan(counting=Counting(integer=True), unit=Unit.USER, caps=Caps(300.0, 50.0))


def secure_sum(counts: list[Vector], ranges: SecureRanges) -> Vector:
    """Like SecAgg+: quantise, add cancelling masks, sum modulo M, dequantise."""
    clip, target, modulus = ranges.clipping_range, ranges.quantization_range, ranges.modulus_range
    rng = np.random.default_rng(0)
    masks = rng.integers(modulus, size=(len(counts), counts[0].size))
    masks[-1] -= masks.sum(axis=0)
    quantised = [quantize([c], clip, target)[0].astype(np.int64) for c in counts]
    total = sum((q + m) % modulus for q, m in zip(quantised, masks, strict=True)) % modulus
    (back,) = dequantize([np.asarray(total)], clip, target)
    # Every client but one adds a shift that dequantisation does not remove.
    return np.asarray(back - (len(counts) - 1) * clip)


@settings(max_examples=30)
@given(st.lists(st.lists(st.integers(0, 3200), min_size=3, max_size=3), min_size=1, max_size=9))
def test_the_secure_sum_is_the_plain_sum(rows: list[list[int]]) -> None:
    counts = [np.array(row, dtype=np.float64) for row in rows]
    ranges = SecureRanges.of(PLAN, clients=len(counts))
    assert np.array_equal(secure_sum(counts, ranges), np.sum(counts, axis=0))


def test_the_default_range_corrupts_counts() -> None:
    default = SecureRanges(8.0, 2**22, 2**32)
    (found,) = secure_sum([np.array([183.0])], default)
    assert found == pytest.approx(8.0, abs=1e-3)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(InvalidInput, match="integer counting"):
        SecureRanges.of(ReleasePlan(), clients=3)
    with pytest.raises(InvalidInput, match="fit in 32 bits"):
        SecureRanges.of(PLAN, clients=10**6)
    utterances = ReleasePlan(counting=Counting(integer=True))
    assert SecureRanges.of(utterances, clients=10, plausible_mass=10.0).clipping_range == 640
    with pytest.raises(InvalidInput, match="clients >= 1"):
        SecureRanges.of(PLAN, clients=0)


def test_a_device_sends_nothing_that_masking_could_change() -> None:
    good = SecureRanges.of(PLAN, clients=5)
    counts = np.array([0.0, 3200.0, 7.0])
    good.check(counts, clients=5)
    for wrong in (counts + 0.5, counts - 1, counts + 1):
        with pytest.raises(InvalidInput, match="nothing is sent"):
            good.check(wrong, clients=5)
    for ranges, clients in (
        (SecureRanges(8.0, 2**22, 2**32), 5),
        (SecureRanges(3200.0, 6401, 2**32), 5),
        (SecureRanges(3200.0, 6400, 2**15), 6),
        (SecureRanges(3200.0, 6400, 2**33), 5),
        (SecureRanges(3200.0, 6400, 2**32, max_weight=1000.0), 5),
    ):
        with pytest.raises(InvalidInput, match="preserve counts"):
            ranges.check(counts, clients=clients)


def test_flower_takes_the_arguments() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from flwr.server.workflow import SecAggPlusWorkflow
    ranges = SecureRanges.of(PLAN, clients=5)
    made = SecAggPlusWorkflow(num_shares=5, reconstruction_threshold=3, **ranges.arguments())
    assert made.clipping_range == ranges.clipping_range
