"""The contract of a keeper: what it leaves unchanged, what it rejects, and non-finite values."""

import copy

import pytest
import torch
from tests.training.reference import Partition, assert_exact, loop_over_groups, score
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from sottovoce.errors import InvalidInput
from sottovoce.training.clipping.bookkeeping import BookKeeper
from sottovoce.training.clipping.styles import FlatClipping, PerLayerClipping


def make() -> tuple[nn.Sequential, Tensor]:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 20), nn.Tanh(), nn.Linear(20, 4)), torch.randn(5, 2, 3)


def test_the_model_stays_as_it_is() -> None:
    model, x = make()
    keys, before = (
        list(model.state_dict()),
        {name: vars(m).keys() for name, m in model.named_modules()},
    )
    expected = model(x)
    keeper = BookKeeper(model)
    with keeper.record():
        assert list(model.state_dict()) == keys
        recorded = model(x)
        keeper.backward(score(recorded, 5))
        with torch.no_grad():
            assert torch.equal(model(x), expected)
    keeper.accumulate(torch.ones(5))
    torch.testing.assert_close(recorded, expected)
    keeper.detach()
    assert all(p.requires_grad and p.is_leaf for p in model.parameters())
    assert {name: vars(m).keys() for name, m in model.named_modules()} == before
    assert not any(p._backward_hooks for p in model.parameters())
    assert torch.equal(copy.deepcopy(model)(x), expected)
    score(model(x), 5).sum().backward()  # type: ignore[no-untyped-call]


def test_the_model_is_restored_after_an_error() -> None:
    model, x = make()
    keeper = BookKeeper(model)
    with pytest.raises(RuntimeError, match="shapes cannot"), keeper.record():
        model(x[..., :2])
    assert "forward" not in vars(model[0])
    score(model(x), 5).sum().backward()  # type: ignore[no-untyped-call]


def test_weights_of_one_give_the_plain_gradient() -> None:
    model, x = make()
    score(model(x), 5).sum().backward()  # type: ignore[no-untyped-call]
    plain = [p.grad for p in model.parameters()]
    model.zero_grad()
    keeper = BookKeeper(model)
    with keeper.record():
        keeper.backward(score(model(x), 5))
    keeper.accumulate(torch.ones(5))
    torch.testing.assert_close([p.grad for p in model.parameters()], plain)


def test_gradients_accumulate_over_virtual_batches() -> None:
    model, x = make()
    keeper = BookKeeper(model)
    for part in (x, x[:3], x[3:]):
        with keeper.record():
            keeper.backward(score(model(part), len(part)))
        keeper.accumulate(torch.ones(len(part)))
        if part is x:
            whole = [p.grad for p in model.parameters()]
            model.zero_grad()
    torch.testing.assert_close([p.grad for p in model.parameters()], whole)


def test_a_custom_backward_pass() -> None:
    model, x = make()
    keeper = BookKeeper(model)
    with keeper.record():
        keeper.backward(score(model(x), 5))
    expected = keeper.squared_norms()
    with keeper.record(count=5):
        score(model(x), 5).sum().backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(keeper.squared_norms(), expected)


def test_two_backward_passes_are_one_gradient() -> None:
    model, x = make()
    keeper = BookKeeper(model)
    expected = loop_over_groups(model, lambda: 3 * score(model(x), 5), Partition(None, 5))
    with keeper.record():
        losses = score(model(x), 5)
        losses.sum().backward(retain_graph=True)  # type: ignore[no-untyped-call]
        keeper.backward(2 * losses)
    norms = sum(gradient.flatten(1).square().sum(1) for gradient in expected.values())
    torch.testing.assert_close(keeper.squared_norms(), norms)


@pytest.mark.parametrize("reentrant", [True, False])
def test_activation_checkpointing(reentrant: bool) -> None:
    model, x = make()
    x.requires_grad_()

    def losses() -> Tensor:
        hidden = checkpoint(model[:2], x, use_reentrant=reentrant)
        return score(model[2](hidden), 5)

    if reentrant:  # its graph is built during backward, where it cannot be checked
        with pytest.raises(InvalidInput, match="use_reentrant=False"):
            assert_exact(model, losses, Partition(torch.arange(5), 5))
    else:
        assert_exact(model, losses, Partition(torch.arange(5), 5))


def test_masks_and_ignored_labels() -> None:
    model, x = make()
    labels = torch.tensor([[0, 1], [2, -100], [-100, -100], [3, 0], [-100, 1]])

    def losses() -> Tensor:
        by_word = functional.cross_entropy(
            model(x).flatten(0, 1), labels.flatten(), reduction="none", ignore_index=-100
        )
        return by_word.view(5, 2).sum(1) / (labels >= 0).sum(1).clamp(min=1)

    assert_exact(model, losses, Partition(None, 5))
    keeper = BookKeeper(model)
    with keeper.record():
        keeper.backward(losses())
    assert keeper.squared_norms()[2] == 0


@pytest.mark.parametrize("poison", [torch.nan, torch.inf, 1e30])
@pytest.mark.parametrize("groups", [None, torch.tensor([0, 1, 1, 2, 3])])
def test_a_group_that_is_not_finite_contributes_exact_zeros(
    poison: float, groups: Tensor | None
) -> None:
    torch.manual_seed(0)
    model = nn.ModuleDict(
        {
            "words": nn.Embedding(40, 20),
            "letters": nn.Embedding(2, 20),
            "norm": nn.LayerNorm(20),
            "wide": nn.Linear(20, 30),
            "narrow": nn.Linear(30, 2),
        }
    )
    ids = torch.arange(10).view(5, 2)
    spoilt = torch.ones(5, 1, 1)
    spoilt[1] = poison

    def losses(chosen: Tensor) -> Tensor:
        table = model["words"](ids[chosen]) * spoilt[chosen] + model["letters"](ids[chosen] % 2)
        outputs: Tensor = model["narrow"](model["wide"](model["norm"](table)).exp())
        return outputs.sum((1, 2))

    labels = torch.arange(5) if groups is None else groups
    kept = (labels != 1).nonzero().flatten()
    expected = loop_over_groups(model, lambda: losses(kept), Partition(labels[kept], 5))
    keeper = BookKeeper(model)
    for style in (FlatClipping(clip_norm=1e9), PerLayerClipping.equal(1e9, 5)):
        model.zero_grad()
        with keeper.record(labels, 5):
            keeper.backward(losses(torch.arange(5)) * spoilt[:, 0, 0])
        norms = keeper.squared_norms_by_layer()
        assert norms[:, [0, 2, 3]].isfinite().all()
        assert not norms[:, 1].isfinite().all()
        keeper.accumulate(style.weights(norms))
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(parameter.grad, expected[name].sum(0))


@pytest.mark.parametrize("count", [None, 3])
def test_an_empty_batch(count: int | None) -> None:
    torch.manual_seed(0)
    layers = {
        "words": nn.Embedding(9, 4),
        "letters": nn.Conv1d(4, 4, 3, padding=1),
        "lstm": nn.LSTM(4, 5, bidirectional=True, batch_first=True),
        "gru": nn.GRU(10, 6, batch_first=True),
        "norm": nn.LayerNorm(6),
        "scale": nn.RMSNorm(6),
        "attention": nn.MultiheadAttention(6, 2, batch_first=True),
        "head": nn.Linear(6, 2),
    }
    model = nn.ModuleDict(layers)
    ids = torch.zeros(0, 3, dtype=torch.int64)
    groups = torch.zeros(0, dtype=torch.int64)
    keeper = BookKeeper(model)
    with keeper.record(groups, count):
        x = layers["letters"](layers["words"](ids).transpose(1, 2)).transpose(1, 2)
        x = layers["scale"](layers["norm"](layers["gru"](layers["lstm"](x)[0])[0]))
        keeper.backward(layers["head"](layers["attention"](x, x, x)[0]).sum((1, 2)))
    assert keeper.squared_norms().tolist() == [0.0] * (count or 0)
    keeper.accumulate(torch.ones(count or 0))
    for parameter in model.parameters():
        assert parameter.grad is not None
        assert not parameter.grad.any()


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Linear(3, 4), (2, 0, 3)),
        (nn.LayerNorm(3), (2, 0, 3)),
        (nn.RMSNorm(3), (2, 0, 3)),
        (nn.GroupNorm(1, 3), (2, 3, 0)),
        (nn.LSTM(3, 4, bidirectional=True, batch_first=True), (2, 0, 3)),
        (nn.GRU(3, 4, bidirectional=True, batch_first=True), (2, 0, 3)),
        (nn.TransformerEncoderLayer(4, 2, batch_first=True, dropout=0.0), (2, 0, 4)),
        (nn.Embedding(9, 4), (2, 0)),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, nn.Module) else "",
)
def test_sequences_of_no_words(layer: nn.Module, shape: tuple[int, ...]) -> None:
    x = torch.zeros(shape, dtype=torch.int64 if isinstance(layer, nn.Embedding) else None)
    keeper = BookKeeper(layer)
    with keeper.record(count=2):
        outputs = layer(x)
        outputs = outputs[0] if isinstance(outputs, tuple) else outputs
        keeper.backward(outputs.flatten(1).sum(1))
    assert keeper.squared_norms().tolist() == [0, 0]
    keeper.accumulate(torch.ones(2))
    assert all(p.grad is not None and not p.grad.any() for p in layer.parameters())


def test_an_empty_batch_without_a_pass() -> None:
    model, _ = make()
    keeper = BookKeeper(model)
    with keeper.record(count=0):
        pass
    assert keeper.squared_norms().shape == (0,)
    keeper.accumulate(torch.ones(0))
    assert all(p.grad is not None and not p.grad.any() for p in model.parameters())


def test_a_parameter_that_was_not_used_has_a_zero_gradient() -> None:
    model, x = make()
    keeper = BookKeeper(model)
    with keeper.record(count=5):
        keeper.backward(score(model[2](x.new_ones(5, 20)), 5))
    assert keeper.squared_norms_by_layer()[0].tolist() == [0] * 5
    keeper.accumulate(torch.ones(5))
    assert not any(p.grad is None or p.grad.any() for p in model[0].parameters())


def test_losses_that_do_not_depend_on_the_model() -> None:
    model, _ = make()
    keeper = BookKeeper(model)
    with keeper.record():
        keeper.backward(torch.ones(3))
    assert keeper.squared_norms().tolist() == [0] * 3


@pytest.mark.parametrize("reduce", ["sum", "keep words", "fewer"])
def test_losses_must_be_one_for_each_example(reduce: str) -> None:
    model, x = make()
    keeper = BookKeeper(model)
    with keeper.record():
        by_word = model(x).sum(2)
        wrong = {"sum": by_word.sum(), "keep words": by_word, "fewer": by_word[:2, 0]}
        with pytest.raises(InvalidInput, match="one loss for each of 5 examples"):
            keeper.backward(wrong[reduce])


def test_the_first_dimension_must_be_the_examples() -> None:
    model, x = make()
    keeper = BookKeeper(model)
    with keeper.record(count=4), pytest.raises(InvalidInput, match="input of 0 with a first dim"):
        model(x)


def test_a_parameter_used_behind_its_module() -> None:
    model, x = make()
    first, last = model[0].get_parameter("weight"), model[2].get_parameter("weight")
    assert_exact(
        model,
        lambda: score(functional.linear(model(x)[..., :3], first), 5) + last.square().sum(),
        Partition(None, 5),
    )


def test_calls_in_the_wrong_order() -> None:
    model, x = make()
    keeper = BookKeeper(model)
    for call in (keeper.squared_norms, lambda: keeper.accumulate(torch.ones(5))):
        with pytest.raises(InvalidInput, match="got none"):
            call()
    with pytest.raises(InvalidInput, match="got it outside"):
        keeper.backward(torch.ones(5))
    with keeper.record():
        losses = score(model(x), 5)
        with pytest.raises(InvalidInput, match="recording already"), keeper.record():
            pass
    with pytest.raises(InvalidInput, match="got one after it"):
        losses.sum().backward()  # type: ignore[no-untyped-call]
    with pytest.raises(InvalidInput, match="got none"):
        keeper.squared_norms()
    keeper.detach()
    with pytest.raises(InvalidInput, match="was detached"), keeper.record():
        pass


def test_the_number_of_examples_must_be_known() -> None:
    model, x = make()
    keeper = BookKeeper(model)
    with keeper.record(), pytest.raises(InvalidInput, match="use record"):
        model[0](x)


def test_autocast_is_refused() -> None:
    model, x = make()
    keeper = BookKeeper(model)
    with (
        keeper.record(),
        torch.autocast("cpu", torch.bfloat16),
        pytest.raises(InvalidInput, match=r"torch\.autocast"),
    ):
        model(x)


def test_weights_must_fit() -> None:
    model, x = make()
    keeper = BookKeeper(model)
    with keeper.record():
        keeper.backward(score(model(x), 5))
    for weights in (torch.ones(4), torch.ones(5, 2), torch.tensor([1, 1, 1, 1, torch.nan])):
        with pytest.raises(InvalidInput, match="finite weights"):
            keeper.accumulate(weights)
    keeper.accumulate(torch.ones(2, 5))


def test_records_are_freed() -> None:
    model, x = make()
    keeper = BookKeeper(model)
    with keeper.record():
        keeper.backward(score(model(x), 5))
    keeper.forget()
    with pytest.raises(InvalidInput, match="got none"):
        keeper.accumulate(torch.ones(5))
