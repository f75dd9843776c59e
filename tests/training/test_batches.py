"""Batches: the sample of each step, in groups that are never split."""

from collections import Counter
from dataclasses import replace

import pytest
import torch

from sottovoce.errors import InvalidInput
from sottovoce.privacy.facts import Sampling
from sottovoce.privacy.guarantee import Unit
from sottovoce.privacy.sampling import SamplingKey
from sottovoce.training.batches import Batches, Piece, numbered
from sottovoce.training.plan import Method, Plan

KEY = SamplingKey.from_seed(3)
PLAN = Plan(population=400, batch_size=100, epochs=1, delta=1e-5, virtual_batch=16)
USERS = [f"u{i % 40}" for i in range(400)]


def examples(pieces: list[Piece]) -> list[int]:
    return [int(i) for piece in pieces for i in piece.examples]


def test_examples_come_once_in_pieces_that_fit() -> None:
    pieces = Batches(PLAN, list(numbered(400)), KEY).pieces(0)
    assert all(len(piece.examples) <= 16 for piece in pieces)
    assert max(Counter(examples(pieces)).values()) == 1
    assert 60 < len(examples(pieces)) < 140
    for piece in pieces:
        assert piece.groups.tolist() == list(range(len(piece.examples)))


def test_pieces_do_not_depend_on_what_fits() -> None:
    whole = Batches(replace(PLAN, virtual_batch=1000), list(numbered(400)), KEY).pieces(2)
    parts = Batches(PLAN, list(numbered(400)), KEY).pieces(2)
    assert len(whole) == 1
    assert examples(whole) == examples(parts)


def test_a_user_comes_with_everything_in_one_group() -> None:
    plan = replace(PLAN, population=40, batch_size=10, unit=Unit.USER)
    pieces = Batches(plan, USERS, KEY).pieces(0)
    owner_of_group: dict[tuple[int, int], set[str]] = {}
    for number, piece in enumerate(pieces):
        for example, group in zip(piece.examples.tolist(), piece.groups.tolist(), strict=True):
            owner_of_group.setdefault((number, group), set()).add(USERS[example])
    assert all(len(owners) == 1 for owners in owner_of_group.values())
    owners = [next(iter(owners)) for owners in owner_of_group.values()]
    assert len(owners) == len(set(owners))  # no user is split over pieces
    assert Counter(USERS[i] for i in examples(pieces)) == dict.fromkeys(owners, 10)


def test_micro_batches_are_dealt_independently_and_stay_whole() -> None:
    plan = replace(PLAN, micro_batch=5)
    ids = list(numbered(400))
    pieces = Batches(plan, ids, KEY).pieces(0)
    sizes = torch.cat([piece.sizes for piece in pieces])
    assert len(sizes) <= plan.divisor
    assert int(sizes.sum()) == len(examples(pieces))
    assert sizes.float().std() > 0  # sizes vary: assignment is not by position
    # Removing one record moves no other.
    removed = examples(pieces)[0]
    fewer = Batches(plan, [name for i, name in enumerate(ids) if i != removed], KEY).pieces(0)
    assert len(examples(fewer)) == len(examples(pieces)) - 1


def test_a_worker_has_one_group_that_may_span_pieces() -> None:
    plan = replace(PLAN, method=Method.EDP_SGD, workers=4)
    pieces = Batches(plan, list(numbered(400)), KEY).pieces(0)
    assert sum(piece.closes for piece in pieces) == 4
    assert all(piece.count == 1 for piece in pieces)


def test_ranks_share_the_work_of_one_process() -> None:
    plan = replace(PLAN, method=Method.EDP_SGD, workers=3)
    ids = list(numbered(400))
    together = examples(Batches(plan, ids, KEY).pieces(5))
    apart = [examples(Batches(plan, ids, KEY, rank=rank).pieces(5)) for rank in range(3)]
    assert sorted(together) == sorted(i for own in apart for i in own)
    assert all(apart)


def test_shuffled_epochs_use_everybody_once() -> None:
    plan = replace(PLAN, sampling=Sampling.SHUFFLE)
    batches = Batches(plan, list(numbered(400)), KEY)
    seen = [i for step in range(plan.steps_per_epoch) for i in examples(batches.pieces(step))]
    assert sorted(seen) == list(range(400))


def test_shuffled_batches_need_the_exact_population() -> None:
    with pytest.raises(InvalidInput, match="Expected 400 examples, the planned population"):
        Batches(replace(PLAN, sampling=Sampling.SHUFFLE), list(numbered(399)), KEY)


def test_an_empty_sample_has_no_pieces() -> None:
    plan = replace(PLAN, population=10**6, batch_size=1)
    assert Batches(plan, ["only one"], KEY).pieces(0) == []


def test_ids_must_be_distinct() -> None:
    with pytest.raises(InvalidInput, match="distinct"):
        Batches(PLAN, ["a", "a"], KEY)


@pytest.mark.parametrize("unit", [Unit.EXAMPLE, Unit.USER])
def test_shuffled_batches_are_dealt_evenly(unit: Unit) -> None:
    plan = replace(
        PLAN, method=Method.EDP_SGD, workers=3, sampling=Sampling.SHUFFLE, unit=unit,
        population=400 if unit is Unit.EXAMPLE else 40, batch_size=30, virtual_batch=400,
    )  # fmt: skip
    owners = list(numbered(400)) if unit is Unit.EXAMPLE else USERS
    for step in range(plan.steps_per_epoch):
        apart = [examples(Batches(plan, owners, KEY, rank=rank).pieces(step)) for rank in range(3)]
        sizes = [len({owners[i] for i in own}) for own in apart]
        assert max(sizes) - min(sizes) <= 1
        together = Batches(plan, owners, KEY).pieces(step)
        assert [examples([piece]) for piece in together] == apart


def test_replacing_a_record_moves_nobody_in_shuffled_batches() -> None:
    plan = replace(PLAN, method=Method.EDP_SGD, workers=3, sampling=Sampling.SHUFFLE)
    ids = list(numbered(400))
    replaced = ["somebody else" if name == "7" else name for name in ids]
    for step in range(plan.steps_per_epoch):
        before = [examples(Batches(plan, ids, KEY, rank=rank).pieces(step)) for rank in range(3)]
        after = [examples(Batches(plan, replaced, KEY, rank=r).pieces(step)) for r in range(3)]
        assert before == after


def test_adding_a_record_moves_nobody_in_a_poisson_sample() -> None:
    plan = replace(PLAN, method=Method.EDP_SGD, workers=3)
    ids = list(numbered(399))
    for rank in range(3):
        before = examples(Batches(plan, ids, KEY, rank=rank).pieces(0))
        after = examples(Batches(plan, [*ids, "399"], KEY, rank=rank).pieces(0))
        assert [i for i in after if i != 399] == before
