"""The CRF against enumeration, the textbook recursion, pytorch-crf and a loop of examples."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.nlu.sequences import (
    few_tags,
    lengths,
    log_domain_losses,
    plain_losses,
    random_batch,
    random_crf,
)
from tests.training.reference import Partition, assert_exact, few, partitions, seeds
from torch import Tensor, nn

from sottovoce.errors import InvalidInput
from sottovoce.nlu.crf import chain
from sottovoce.nlu.crf.linear_chain import Crf, bio_constraints
from sottovoce.training.clipping.bookkeeping import BookKeeper

# Enumeration is exponential: a few short sentences are enough.
short = st.lists(st.integers(0, 4), min_size=1, max_size=4).filter(any)


def gradients(losses: Tensor, crf: Crf, emissions: Tensor) -> list[Tensor]:
    weights = torch.linspace(0.5, 2, len(losses), dtype=losses.dtype)
    wanted = [crf.start, crf.end, crf.transitions, emissions]
    found = torch.autograd.grad((losses * weights).sum(), wanted, allow_unused=True)
    return [torch.zeros_like(x) if g is None else g for x, g in zip(wanted, found, strict=True)]


@few
@given(lengths=short, tags=st.integers(1, 3), scale=st.sampled_from([0.1, 1.0, 30.0]), seed=seeds)
def test_every_sequence_counts(lengths: list[int], tags: int, scale: float, seed: int) -> None:
    torch.manual_seed(seed)
    crf = random_crf(tags, scale)
    emissions, gold, mask = random_batch(lengths, tags, scale=scale)
    emissions.requires_grad_()
    losses, expected = crf(emissions, gold, mask), plain_losses(crf, emissions, gold, mask)
    torch.testing.assert_close(losses.double(), expected, rtol=1e-4, atol=1e-4)
    assert (losses[~mask.any(1)] == 0).all()
    for found, wanted in zip(
        gradients(losses, crf, emissions), gradients(expected, crf, emissions), strict=True
    ):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


@few
@given(lengths=lengths, tags=few_tags, partition=partitions(5), seed=seeds)
def test_gradients_by_example(
    lengths: list[int], tags: int, partition: Partition, seed: int
) -> None:
    torch.manual_seed(seed)
    lengths = (lengths * 5)[:5]
    emissions, gold, mask = random_batch(lengths, 3)
    model = nn.ModuleDict({"head": nn.Linear(3, tags), "crf": random_crf(tags)})

    def losses() -> Tensor:
        # Poison of padding would come back through the weights of the linear layer.
        found: Tensor = model["crf"](
            model["head"](emissions.nan_to_num()), gold.clamp(max=tags - 1), mask
        )
        return found

    if partition.groups is None:
        partition = Partition(torch.arange(5), 5)
    assert_exact(model, losses, partition)


@pytest.mark.parametrize("frozen", ["start", "end", "transitions"])
def test_part_of_it_is_frozen(frozen: str) -> None:
    crf = random_crf(3)
    crf.get_parameter(frozen).requires_grad_(False)
    emissions, gold, mask = random_batch([2, 4, 1], 3)
    partition = Partition(torch.tensor([0, 1, 0]), 2)
    assert_exact(crf, lambda: crf(emissions, gold, mask), partition)


def test_sentences_folded_into_the_batch() -> None:
    crf = random_crf(3)
    emissions, gold, mask = random_batch([2, 4, 1, 0, 3, 3], 3)
    partition = Partition(torch.arange(3), 3)
    assert_exact(crf, lambda: crf(emissions, gold, mask).view(3, 2).sum(1), partition)


def test_every_sentence_is_there_once_when_recorded() -> None:
    crf = random_crf(4)
    emissions, gold, mask = random_batch([5, 2, 0], 4)
    with BookKeeper(crf).record(count=3):
        torch.testing.assert_close(crf(emissions, gold, mask), crf(emissions, gold, mask))
        recorded = crf(emissions, gold, mask)
    torch.testing.assert_close(recorded, crf(emissions, gold, mask))


def test_a_broken_sentence_harms_only_itself() -> None:
    crf = random_crf(3)
    emissions, gold, mask = random_batch([3, 2], 3)
    emissions[0, 1, 0] = torch.nan
    keeper = BookKeeper(crf)
    with keeper.record():
        losses = crf(emissions, gold, mask)
        losses.sum().backward()
    assert keeper.squared_norms().isfinite().tolist() == [False, True]
    keeper.accumulate(torch.ones(2))
    found = [p.grad for p in crf.parameters()]
    crf.zero_grad()
    crf(emissions[1:], gold[1:], mask[1:]).sum().backward()
    for ours, p in zip(found, crf.parameters(), strict=True):
        assert ours is not None
        assert p.grad is not None
        torch.testing.assert_close(ours, p.grad)


@few
@given(lengths=lengths.filter(any), tags=few_tags, seed=seeds)
def test_as_pytorch_crf(lengths: list[int], tags: int, seed: int) -> None:
    torchcrf = pytest.importorskip("torchcrf", reason="pytorch-crf is the oracle here")
    torch.manual_seed(seed)
    crf = random_crf(tags).double()
    lengths = [max(n, 1) for n in lengths]  # it cannot do sentences without words
    emissions, gold, mask = random_batch(lengths, tags)
    emissions = emissions.nan_to_num().double().requires_grad_()
    gold = gold.clamp(min=0)
    theirs = torchcrf.CRF(tags, batch_first=True).double()
    theirs.load_state_dict(
        {
            "start_transitions": crf.start,
            "end_transitions": crf.end,
            "transitions": crf.transitions,
        }
    )
    expected: Tensor = -theirs(emissions, gold, mask, reduction="none")
    weights = torch.linspace(0.5, 2, len(lengths), dtype=torch.float64)
    wanted = [theirs.start_transitions, theirs.end_transitions, theirs.transitions, emissions]
    theirs_by_name = torch.autograd.grad((expected * weights).sum(), wanted, allow_unused=True)
    for dtype, tolerance in (torch.float64, 1e-9), (torch.float32, 1e-5):
        own = random_crf(tags).to(dtype)
        own.load_state_dict(crf.state_dict())
        seen = emissions.detach().to(dtype).requires_grad_()
        losses = own(seen, gold, mask)
        pairs = [(losses, expected.detach())]
        pairs += [
            (ours, torch.zeros_like(ours) if g is None else g)
            for ours, g in zip(gradients(losses, own, seen), theirs_by_name, strict=True)
        ]
        for ours, other in pairs:
            scale = max(float(other.abs().max()), 1.0)
            torch.testing.assert_close(
                ours.double(), other.double(), rtol=0, atol=tolerance * scale
            )


def losses_and_slow_sentences(
    monkeypatch: pytest.MonkeyPatch, crf: Crf, emissions: Tensor, gold: Tensor
) -> tuple[Tensor, int]:
    slow, plain = 0, chain._forward_backward_log

    def counted(*args: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        nonlocal slow
        slow += args[0].shape[1]
        return plain(*args)

    monkeypatch.setattr(chain, "_forward_backward_log", counted)
    return crf(emissions, gold), slow


HARSH = {
    "emissions of 1e4": (1e4, 1.0),
    "emissions and transitions of 1e4": (1e4, 1e4),
    "transitions of 1e4": (1.0, 1e4),
    "surprises": (60.0, 30.0),
}


@pytest.mark.parametrize("case", HARSH)
@pytest.mark.parametrize("words", [2, 40, 500])
def test_harsh_scores(case: str, words: int) -> None:
    """No nan, and as the textbook says in float64, for whatever float32 cannot hold."""
    emission_scale, transition_scale = HARSH[case]
    torch.manual_seed(words)
    crf = random_crf(6, transition_scale)
    emissions, gold, _ = random_batch([words] * 4, 6, scale=emission_scale, padding=0)
    emissions.requires_grad_()
    losses = crf(emissions, gold)
    assert losses.isfinite().all()
    found = gradients(losses, crf, emissions)
    double = random_crf(6).double()
    double.load_state_dict(crf.state_dict())
    seen = emissions.detach().double().requires_grad_()
    expected = log_domain_losses(double, seen, gold)
    torch.testing.assert_close(losses.double(), expected, rtol=1e-5, atol=1e-2)
    wanted = gradients(expected, double, seen)
    # A tie of float32 scores of 1e4 is known to 1e-3 only, which moves a posterior as much.
    atol = 1e-4 if emission_scale + transition_scale < 1e3 else 2e-2
    for ours, other in zip(found, wanted, strict=True):
        assert ours.isfinite().all()
        torch.testing.assert_close(ours.double(), other, rtol=1e-4, atol=atol * words**0.5)


def test_hard_constraints_stay_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """-1e4 for what may not follow is common, and no reason for the slow way."""
    torch.manual_seed(0)
    crf = random_crf(8)
    with torch.no_grad():
        crf.transitions[torch.rand(8, 8) < 0.3] = -1e4
        crf.transitions[:, 0] = 0.0
    emissions, gold, _ = random_batch([30] * 4, 8, scale=3.0, padding=0)
    losses, slow = losses_and_slow_sentences(monkeypatch, crf, emissions, gold)
    assert slow == 0
    expected = log_domain_losses(crf.double(), emissions.double(), gold)
    torch.testing.assert_close(losses.double(), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(("dip", "slow"), [(20.0, 0), (150.0, 1)])
def test_only_sentences_that_need_it_are_computed_again(
    dip: float, slow: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first word hides the only tag from which the second can be reached."""
    crf = Crf(2)
    with torch.no_grad():
        crf.transitions[0] = -200.0
    emissions = torch.zeros(2, 3, 2)
    emissions[0, 0, 1] = -dip
    gold = torch.zeros(2, 3, dtype=torch.long)
    losses, used = losses_and_slow_sentences(monkeypatch, crf, emissions, gold)
    assert used == slow
    expected = log_domain_losses(crf.double(), emissions.double(), gold)
    torch.testing.assert_close(losses.double(), expected, rtol=1e-6, atol=1e-5)


def test_a_large_common_score_does_not_hide_the_loss() -> None:
    crf = Crf(3)
    emissions, gold = torch.zeros(1, 50, 3), torch.zeros(1, 50, dtype=torch.long)
    torch.testing.assert_close(crf(emissions + 1e6, gold), crf(emissions, gold))


def test_half_precision_is_summed_in_single() -> None:
    crf = random_crf(3).to(torch.bfloat16)
    emissions, gold, mask = random_batch([20, 3], 3)
    emissions = emissions.to(torch.bfloat16).requires_grad_()
    losses = crf(emissions, gold, mask)
    losses.sum().backward()
    assert losses.dtype == torch.float32
    assert emissions.grad is not None
    assert emissions.grad.dtype == torch.bfloat16
    assert crf.transitions.grad is not None
    assert crf.transitions.grad.dtype == torch.bfloat16
    exact = random_crf(3)
    exact.load_state_dict(crf.state_dict())
    torch.testing.assert_close(losses, exact(emissions.float(), gold, mask))


@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (2, 3)])
def test_no_words(shape: tuple[int, int]) -> None:
    crf = random_crf(4)
    emissions = torch.randn(*shape, 4, requires_grad=True)
    tags, mask = torch.zeros(shape, dtype=torch.long), torch.zeros(shape, dtype=torch.bool)
    losses = crf(emissions, tags, mask)
    assert losses.tolist() == [0.0] * shape[0]
    losses.sum().backward()
    assert emissions.grad is not None
    assert not emissions.grad.any()
    keeper = BookKeeper(crf)
    with keeper.record(count=shape[0]):
        keeper.backward(crf(emissions, tags, mask))
    assert keeper.squared_norms().tolist() == [0.0] * shape[0]
    keeper.accumulate(torch.ones(shape[0]))


def test_bad_arguments() -> None:
    crf = Crf(3)
    emissions, tags = torch.zeros(2, 4, 3), torch.zeros(2, 4, dtype=torch.long)
    with pytest.raises(InvalidInput, match="got a mask with words after it"):
        crf(emissions, tags, torch.tensor([[True, False, True, False]] * 2))
    with pytest.raises(InvalidInput, match="tags from 0 to 2, got 3"):
        crf(emissions, tags + 3)
    with pytest.raises(InvalidInput, match=r"\[batch, words, 3\]"):
        crf(emissions[..., :2], tags)
    with pytest.raises(InvalidInput, match="tags of int64"):
        crf(emissions, tags.float())
    with pytest.raises(InvalidInput, match="a mask of bool"):
        crf(emissions, tags, tags)
    with pytest.raises(InvalidInput, match="at least one tag"):
        Crf(0)


def test_named_tags_rule_out_what_is_no_bio() -> None:
    """The likelihood is among BIO sequences only, and impossible moves are never learnt."""
    names = ("O", "B-a", "I-a", "B-b", "I-b")
    torch.manual_seed(4)
    crf, plain = Crf(5, names), Crf(5)
    for parameter in crf.parameters():
        torch.nn.init.normal_(parameter)
    plain.load_state_dict(crf.state_dict())
    emissions = torch.randn(1, 3, 5)
    first, following = bio_constraints(names)
    every = torch.cartesian_prod(*[torch.arange(5)] * 3)
    possible = first[every[:, 0]] & following[every[:, 0], every[:, 1]]
    possible &= following[every[:, 1], every[:, 2]]
    mask = torch.ones(len(every), 3, dtype=torch.bool)
    scores = -plain(emissions.expand(len(every), -1, -1), every, mask)
    wanted = scores[possible] - scores[possible].logsumexp(0)
    found = -crf(emissions.expand(int(possible.sum()), -1, -1), every[possible], mask[possible])
    torch.testing.assert_close(found, wanted, atol=1e-4, rtol=0)
    found.sum().backward()
    assert crf.transitions.grad is not None
    assert crf.start.grad is not None
    assert bool((crf.transitions.grad[~following] == 0).all())
    assert bool((crf.start.grad[~first] == 0).all())
    assert bool((crf.transitions.grad[following] != 0).all())


def test_wrong_number_of_names() -> None:
    with pytest.raises(InvalidInput, match="names of 3 tags, got 2"):
        Crf(3, ("O", "B-a"))
