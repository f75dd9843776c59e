"""Parameters outside of modules with rules, followed through the operations that use them."""

from collections.abc import Callable

import pytest
import torch
from tests.training.reference import Partition, assert_exact, score
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrizations

from sottovoce.errors import InvalidInput
from sottovoce.training.clipping.bookkeeping import BookKeeper

EXAMPLES, LENGTH, WIDTH = 4, 5, 6
# LENGTH == EXAMPLES is the case in which shapes alone do not tell examples from positions.
GROUPS = Partition(torch.tensor([0, 2, 2, 0]), 3)


def inputs(length: int = LENGTH) -> Tensor:
    return torch.randn(EXAMPLES, length, WIDTH, generator=torch.Generator().manual_seed(1))


IDS = torch.randint(9, (EXAMPLES, LENGTH), generator=torch.Generator().manual_seed(2))
LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[Tensor, ...]]] = {
    "Conv3d": (lambda: nn.Conv3d(2, 3, 2, padding=1), (torch.randn(EXAMPLES, 2, 3, 4, 3),)),
    "ConvTranspose1d": (lambda: nn.ConvTranspose1d(LENGTH, 4, 3, stride=2), (inputs(),)),
    "ConvTranspose2d": (
        lambda: nn.ConvTranspose2d(2, 4, 3, groups=2),
        (torch.randn(EXAMPLES, 2, 3, 3),),
    ),
    "InstanceNorm3d": (
        lambda: nn.InstanceNorm3d(2, affine=True),
        (torch.randn(EXAMPLES, 2, 3, 2, 3),),
    ),
    "EmbeddingBag sum": (lambda: nn.EmbeddingBag(9, 3, mode="sum", padding_idx=1), (IDS,)),
    "EmbeddingBag mean": (lambda: nn.EmbeddingBag(9, 3, mode="mean", padding_idx=1), (IDS,)),
    "EmbeddingBag max": (lambda: nn.EmbeddingBag(9, 3, mode="max"), (IDS,)),
    "EmbeddingBag of a flat input": (
        lambda: nn.EmbeddingBag(9, 3, mode="mean"),
        (torch.arange(9), torch.tensor([0, 2, 2, 6])),
    ),
    "PReLU": (lambda: nn.PReLU(LENGTH), (inputs(),)),
    "PReLU of one slope": (nn.PReLU, (inputs(),)),
    "Bilinear": (lambda: nn.Bilinear(WIDTH, WIDTH, 3), (inputs(), inputs().cos())),
    "weight_norm": (lambda: parametrizations.weight_norm(nn.Linear(WIDTH, 3)), (inputs(),)),
    "weight_norm of Conv1d": (
        lambda: parametrizations.weight_norm(nn.Conv1d(LENGTH, 4, 3)),
        (inputs(),),
    ),
    "orthogonal": (lambda: parametrizations.orthogonal(nn.Linear(WIDTH, 3)), (inputs(),)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_of_torch(name: str) -> None:
    torch.manual_seed(0)
    make, given = LAYERS[name]
    layer = make()
    assert_exact(layer, lambda: score(layer(*given), EXAMPLES), GROUPS)


class Assorted(nn.Module):
    """Parameters in lists and dictionaries, used alone and in functions of each other."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.randn(WIDTH))
        self.matrices = nn.ParameterList([torch.randn(WIDTH, 4), torch.randn(1, LENGTH, 4)])
        self.named = nn.ParameterDict({"mix": torch.randn(4, 4)})
        self.temperature = nn.Parameter(torch.tensor(0.7))
        self.queries = nn.Parameter(torch.randn(1, 2, 4))

    def forward(self, x: Tensor) -> Tensor:
        x = (x * self.scale.exp() + self.scale.mean()) @ self.matrices[0] + self.matrices[1]
        x = torch.cat([self.queries.expand(len(x), -1, -1), x], 1)
        x = torch.einsum("btd,de->bte", x, self.named["mix"]) * self.temperature
        looked = torch.softmax(self.queries @ x.transpose(1, 2), -1) @ x
        return torch.cat([x, looked], 1)


class Tied(nn.Module):
    """One table for input and output, scaled, and positions without a batch dimension."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(9, WIDTH), nn.Embedding(9, WIDTH)

    def forward(self, ids: Tensor) -> Tensor:
        hidden = self.words(ids) * WIDTH**0.5 + self.places(torch.arange(ids.shape[1]))
        return functional.linear(hidden, self.words.weight)


class Norm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(WIDTH)), nn.Parameter(torch.randn(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        normed = functional.layer_norm(x, (WIDTH,), self.weight, self.bias, 1e-5)
        variance = normed.square().mean(-1, keepdim=True)
        return (1 + self.weight.to(x.dtype)) * (normed * torch.rsqrt(variance + 1e-6))


class SomeRows(nn.Module):
    """A head that sees masked positions only: none of one example, all of another."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.head = (
            nn.Linear(WIDTH, WIDTH),
            nn.LayerNorm(WIDTH),
            nn.Linear(WIDTH, 3),
        )
        self.shift = nn.Parameter(torch.randn(3))

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        mask = torch.zeros(x.shape[:2], dtype=torch.bool)
        mask[0, ::2], mask[2], mask[3, -1] = True, True, True
        outputs = x.new_zeros(*x.shape[:2], 3)
        outputs[mask] = (self.head(self.norm(x[mask])) + self.shift).tanh()
        return outputs


class RelativePositions(nn.Module):
    """A table of positions [length, length], which has no batch dimension at all."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.bias = nn.Linear(WIDTH, WIDTH), nn.Embedding(9, 1)
        self.table = nn.Embedding(9, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        places = torch.arange(x.shape[1])
        distance = (places[None] - places[:, None]).abs()
        scores = self.query(x) @ x.transpose(1, 2) + self.bias(distance).squeeze(-1)
        relative = self.norm(self.table.weight)  # a module called with a parameter
        repeated: Tensor = self.query(relative).unsqueeze(0).repeat(len(x), 1, 1)
        outputs: Tensor = scores.softmax(-1) @ x + (x @ repeated.transpose(1, 2)) @ repeated
        return outputs


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Tensor]]] = {
    "parameters in lists": (Assorted, inputs),
    "tied": (Tied, lambda: IDS),
    "norms": (Norm, inputs),
    "some rows": (SomeRows, inputs),
    "relative positions": (RelativePositions, inputs),
    "as long as the batch": (RelativePositions, lambda: inputs(EXAMPLES)),
    "positions as long as the batch": (Tied, lambda: IDS[:, :EXAMPLES]),
}


@pytest.mark.parametrize("partition", [Partition(None, EXAMPLES), GROUPS])
@pytest.mark.parametrize("name", MODELS)
def test_models(name: str, partition: Partition) -> None:
    torch.manual_seed(0)
    make, given = MODELS[name]
    model, x = make().double(), given()
    x = x.double() if x.is_floating_point() else x
    assert_exact(model, lambda: score(model(x), EXAMPLES), partition)


class TimeFirst(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return (x.transpose(0, 1) * self.weight).transpose(0, 1)


@pytest.mark.parametrize("length", [LENGTH, EXAMPLES])
def test_other_uses_are_refused_or_noticed(length: int) -> None:
    keeper = BookKeeper(model := TimeFirst())
    x = inputs(length).requires_grad_()
    with pytest.raises(InvalidInput, match=r"rule|on that example alone"), keeper.record(count=4):
        keeper.backward(score(model(x), EXAMPLES))


def test_a_refusal_names_the_way_out() -> None:
    model = TimeFirst()
    keeper = BookKeeper(model)
    with pytest.raises(InvalidInput, match="weight") as refusal, keeper.record(count=4):
        keeper.backward(score(model(inputs().requires_grad_()), EXAMPLES))
    for way in ("rule_for", "one_by_one", "method='textbook'"):
        assert way in str(refusal.value)


def test_an_empty_batch() -> None:
    model = Assorted()
    keeper, x = BookKeeper(model), inputs()[:0]
    with keeper.record(count=0):
        keeper.backward(model(x).flatten(1).sum(1))
    keeper.accumulate(torch.zeros(0))
    assert all(p.grad is None or not p.grad.any() for p in model.parameters())
