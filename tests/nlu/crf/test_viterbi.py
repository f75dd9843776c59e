"""Decoding and posteriors against every sequence of tags, one by one."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.nlu.sequences import every_path, few_tags, lengths, random_batch, random_crf
from tests.training.reference import few, seeds

from sottovoce.errors import InvalidInput
from sottovoce.nlu.crf.linear_chain import Crf, bio_constraints
from sottovoce.nlu.crf.viterbi import decode, log_partition, marginals

BIO = ("O", "B-a", "I-a", "B-b", "I-b")
short = st.lists(st.integers(0, 4), min_size=1, max_size=4)


def well_formed(path: tuple[int, ...]) -> bool:
    names = ["O", *(BIO[tag] for tag in path)]
    return all(
        not after.startswith("I-") or before[1:] == after[1:]
        for before, after in itertools.pairwise(names)
    )


@few
@given(lengths=short, constrained=st.booleans(), masked=st.booleans(), seed=seeds)
def test_the_best_of_all_sequences(
    lengths: list[int], constrained: bool, masked: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    crf = random_crf(5)
    emissions, _, mask = random_batch(lengths, 5)
    allowed = None
    if masked:
        allowed = torch.rand(len(lengths), 5) < 0.6
        allowed[:, 0] = True
    found = decode(crf, emissions, mask, allowed, tags=BIO if constrained else None)
    for row, n in enumerate(lengths):
        paths, scores = every_path(crf.requires_grad_(False), emissions[row, :n])
        possible = [
            (float(score), path)
            for path, score in zip(paths, scores, strict=True)
            if (not constrained or well_formed(path))
            and (allowed is None or all(allowed[row, tag] for tag in path))
        ]
        score, path = max(possible)
        assert found.tags[row] == list(path)
        assert float(found.scores[row]) == pytest.approx(score, rel=1e-4, abs=1e-4)


@few
@given(lengths=short, tags=st.integers(1, 4), scale=st.sampled_from([0.1, 1.0, 60.0]), seed=seeds)
def test_posteriors_and_their_sum(lengths: list[int], tags: int, scale: float, seed: int) -> None:
    torch.manual_seed(seed)
    crf = random_crf(tags, scale)
    emissions, _, mask = random_batch(lengths, tags, scale=scale)
    found, totals = marginals(crf, emissions, mask), log_partition(crf, emissions, mask)
    assert not found[~mask].any()
    for row, n in enumerate(lengths):
        paths, scores = every_path(crf.requires_grad_(False), emissions[row, :n])
        expected = torch.zeros(n, tags, dtype=torch.float64)
        for path, probability in zip(paths, scores.softmax(0), strict=True):
            for t, tag in enumerate(path):
                expected[t, tag] += probability
        torch.testing.assert_close(found[row, :n].double(), expected, rtol=1e-4, atol=1e-4)
        assert float(totals[row]) == pytest.approx(float(scores.logsumexp(0)), rel=1e-5, abs=1e-4)


@few
@given(lengths=lengths, tags=few_tags, seed=seeds)
def test_as_pytorch_crf(lengths: list[int], tags: int, seed: int) -> None:
    torchcrf = pytest.importorskip("torchcrf", reason="pytorch-crf is the oracle here")
    torch.manual_seed(seed)
    lengths = [max(n, 1) for n in lengths]
    crf = random_crf(tags)
    emissions, _, mask = random_batch(lengths, tags)
    theirs = torchcrf.CRF(tags, batch_first=True)
    theirs.load_state_dict(
        {
            "start_transitions": crf.start,
            "end_transitions": crf.end,
            "transitions": crf.transitions,
        }
    )
    assert decode(crf, emissions, mask).tags == theirs.decode(emissions.nan_to_num(), mask)


def test_long_and_harsh() -> None:
    torch.manual_seed(0)
    crf = random_crf(5, 1e4)
    emissions, _, mask = random_batch([500, 1, 0, 250], 5, scale=1e4)
    found = decode(crf, emissions, mask, tags=BIO)
    assert [len(path) for path in found.tags] == [500, 1, 0, 250]
    assert all(well_formed(tuple(path)) for path in found.tags)
    assert found.scores.isfinite().all()
    probable = marginals(crf, emissions, mask)
    torch.testing.assert_close(probable.sum(-1), mask.float(), rtol=0, atol=1e-3)


def test_no_words() -> None:
    crf, nobody = Crf(2), torch.zeros(2, 0, 2)
    assert decode(crf, nobody).tags == [[], []]
    assert log_partition(crf, nobody).tolist() == [0.0, 0.0]
    assert marginals(crf, nobody).shape == (2, 0, 2)


def test_constraints() -> None:
    first, following = bio_constraints(BIO)
    for path in itertools.product(range(5), repeat=3):
        fits = bool(first[path[0]]) and all(
            bool(following[i, j]) for i, j in itertools.pairwise(path)
        )
        assert fits == well_formed(path)


def test_bad_arguments() -> None:
    crf, emissions = Crf(3), torch.zeros(1, 2, 3)
    with pytest.raises(InvalidInput, match="names of 3 tags, got 2"):
        decode(crf, emissions, tags=("O", "B-a"))
    with pytest.raises(InvalidInput, match="allowed tags of bool"):
        decode(crf, emissions, allowed=torch.ones(1, 2, dtype=torch.bool))
    with pytest.raises(InvalidInput, match="sequence of allowed tags, got none"):
        decode(
            crf,
            emissions,
            allowed=torch.tensor([[False, False, True]]),
            tags=("O", "B-a", "I-a"),
        )
