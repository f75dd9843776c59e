"""Code as people write it: inputs made in the loop, packed sequences, learned first states."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.training.reference import Partition, assert_exact, score
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import (
    PackedSequence,
    pack_padded_sequence,
    pack_sequence,
    pad_packed_sequence,
)

from sottovoce.errors import InvalidInput
from sottovoce.nlu.crf.linear_chain import Crf
from sottovoce.training.clipping.bookkeeping import BookKeeper

N, STEPS, WIDTH = 4, 5, 6
LENGTHS = torch.tensor([3, 5, 1, 4])
GROUPS = Partition(torch.tensor([0, 2, 2, 0]), 3)
X = torch.randn(N, STEPS, WIDTH, generator=torch.Generator().manual_seed(1))
IDS = torch.randint(9, (N, STEPS), generator=torch.Generator().manual_seed(2))


class Model(nn.Module):
    """The parts that most of these need, and a forward pass given as a function."""

    def __init__(self, run: Callable[..., Tensor], layer: nn.Module | None = None) -> None:
        super().__init__()
        self.run, self.layer = run, layer
        self.words, self.first = nn.Embedding(9, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.head, self.crf = nn.Linear(WIDTH, 3), Crf(3)
        self.own = nn.Parameter(torch.randn(1, 1, WIDTH))
        self.square = nn.Parameter(torch.randn(N, N))

    def forward(self, *given: Any) -> Tensor:
        return self.run(self, *given)


def trained(model: nn.Module, losses: Callable[[], Tensor]) -> None:
    """Freeze what a case does not use, then compare with the loop over examples."""
    losses().sum().backward()  # type: ignore[no-untyped-call]
    for parameter in model.parameters():
        parameter.requires_grad_(parameter.grad is not None)
    for partition in (GROUPS, Partition(torch.arange(N), N)):
        assert_exact(model, losses, partition)


def sequential(width: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, 4), nn.Tanh(), nn.Linear(4, 3))


FACTORIES: dict[str, Callable[[], Tensor]] = {
    "ones": lambda: torch.ones(N, 3),
    "full": lambda: torch.full((N, 3), 0.5),
    "randn": lambda: torch.randn(N, 3, generator=torch.Generator().manual_seed(3)),
    "arange": lambda: torch.arange(N).float().unsqueeze(1) / N,
    "eye": lambda: torch.eye(N),
    "one_hot": lambda: functional.one_hot(torch.arange(N), 6).float(),
    "as long as the batch": lambda: torch.ones(N, N, 3),
    "numpy": lambda: torch.from_numpy(X.numpy()),
}


@pytest.mark.parametrize("name", FACTORIES)
def test_inputs_made_in_the_loop(name: str) -> None:
    torch.manual_seed(0)
    make = FACTORIES[name]
    model = sequential(make().shape[-1])
    trained(model, lambda: score(model(make()), N))
    # The parts of a model, and its weights, called by the loop.
    trained(model, lambda: score(model[2](model[0](make()).relu()), N))
    first = model[0]
    assert isinstance(first, nn.Linear)
    trained(model, lambda: score(functional.linear(make(), first.weight, first.bias), N))


def test_losses_of_inputs_made_in_the_loop() -> None:
    torch.manual_seed(0)
    model, labels = sequential(3), torch.tensor([0, 1, 2, 0])
    trained(
        model,
        lambda: functional.cross_entropy(model(torch.ones(N, 3)), labels, reduction="none"),
    )
    trained(model, lambda: (model(torch.ones(N, 3)) - torch.zeros(N, 3)).square().mean(1))
    words = nn.Sequential(nn.Embedding(9, 4), nn.Flatten(), nn.Linear(4, 1))
    trained(words, lambda: words(torch.arange(N).unsqueeze(1)).squeeze(1).square())


def packed(model: Model, x: Tensor, batch_first: bool = True) -> Tensor:
    assert model.layer is not None
    x = x if batch_first else x.transpose(0, 1)
    rows = pack_padded_sequence(x, LENGTHS, batch_first, enforce_sorted=False)
    outputs, _ = pad_packed_sequence(model.layer(rows)[0], batch_first)
    return outputs if batch_first else outputs.transpose(0, 1)


def on_rows(model: Model, ids: Tensor, batch_first: bool) -> Tensor:
    """Layers on the packed data itself, before and after the recurrent one."""
    assert model.layer is not None
    ids = ids if batch_first else ids.transpose(0, 1)
    rows = pack_padded_sequence(ids, LENGTHS, batch_first, enforce_sorted=False)
    outputs = model.layer(rows._replace(data=model.first(model.words(rows.data))))[0]
    scores = PackedSequence(model.head(outputs.data), *outputs[1:])
    found, _ = pad_packed_sequence(scores, batch_first)
    return found if batch_first else found.transpose(0, 1)


def sorted_by_hand(model: Model, ids: Tensor, embedded: bool, state: bool) -> Tensor:
    assert model.layer is not None
    lengths, order = LENGTHS.sort(descending=True)
    x = model.words(ids)[order] if embedded else model.words(ids[order])
    outputs, last = model.layer(pack_padded_sequence(x, lengths, batch_first=True))
    hidden = last[-1] if state else pad_packed_sequence(outputs, batch_first=True)[0]
    scores: Tensor = model.head(hidden)[order.argsort()]
    return scores


def listed(model: Model, ids: Tensor) -> Tensor:
    assert model.layer is not None
    rows = [x[:length] for x, length in zip(model.words(ids), LENGTHS.tolist(), strict=True)]
    outputs = model.layer(pack_sequence(rows, enforce_sorted=False))[0]
    scores: Tensor = model.head(pad_packed_sequence(outputs, batch_first=True)[0])
    return scores


def tagged(model: Model, ids: Tensor) -> Tensor:
    mask = torch.arange(STEPS) < LENGTHS[:, None]
    losses: Tensor = model.crf(model.head(packed(model, model.words(ids))), ids % 3, mask)
    return losses


PACKED: dict[str, tuple[bool, Callable[..., Tensor]]] = {
    "padded": (True, lambda m, ids: m.head(packed(m, m.words(ids)))),
    "time first": (False, lambda m, ids: m.head(packed(m, m.words(ids), False))),
    "on rows": (True, lambda m, ids: on_rows(m, ids, True)),
    "on rows, time first": (False, lambda m, ids: on_rows(m, ids, False)),
    "sorted by hand": (True, lambda m, ids: sorted_by_hand(m, ids, True, False)),
    "inputs sorted by hand": (True, lambda m, ids: sorted_by_hand(m, ids, False, False)),
    "state, sorted by hand": (True, lambda m, ids: sorted_by_hand(m, ids, True, True)),
    "a list": (True, listed),
    "into a CRF": (True, tagged),
}


@pytest.mark.parametrize("kind", [nn.GRU, nn.RNN])
@pytest.mark.parametrize("name", PACKED)
def test_packed_sequences(name: str, kind: type[nn.GRU | nn.RNN]) -> None:
    torch.manual_seed(0)
    batch_first, run = PACKED[name]
    model = Model(run, kind(WIDTH, WIDTH, batch_first=batch_first))
    trained(model, lambda: score(model(IDS).reshape(N, -1), N))


def test_a_packed_batch_of_the_loop() -> None:
    torch.manual_seed(0)
    model = Model(
        lambda m, rows: m.head(pad_packed_sequence(m.layer(rows)[0], True)[0]), nn.LSTM(6, 6)
    )
    trained(model, lambda: score(model(pack_padded_sequence(X, LENGTHS, True, False)), N))


def folded(model: Model, x: Tensor) -> Tensor:
    n, steps, width = x.shape
    hidden = model.first(x.reshape(n * steps, width)).relu() + model.own[0]
    scores: Tensor = model.head(hidden).view(n, steps, -1)
    return scores


def typed(model: Model, ids: Tensor) -> Tensor:
    """Positions, and types that are all zero."""
    places = model.words(torch.arange(ids.shape[1]))
    types = model.first(model.words(torch.zeros(ids.shape, dtype=torch.int64)))
    scores: Tensor = model.head((model.words(ids) + types + places).tanh())
    return scores


OTHERS: dict[str, tuple[Callable[[], nn.Module | None], Callable[..., Tensor], Tensor]] = {
    "folded": (lambda: None, folded, X),
    "learned queries": (
        lambda: nn.MultiheadAttention(WIDTH, 2, batch_first=True),
        lambda m, x: m.layer(m.own.expand(len(x), 2, -1), x, x)[0],
        X,
    ),
    "learned queries, time first": (
        lambda: nn.MultiheadAttention(WIDTH, 2),
        lambda m, x: m.layer(m.own.expand(2, len(x), -1), x.transpose(0, 1), x.transpose(0, 1))[
            0
        ].transpose(0, 1),
        X,
    ),
    "learned first state": (
        lambda: nn.GRU(WIDTH, WIDTH, batch_first=True),
        lambda m, x: m.layer(x, m.own.expand(1, len(x), -1).contiguous())[0],
        X,
    ),
    "first state of a cell": (
        lambda: nn.GRUCell(WIDTH, WIDTH),
        lambda m, x: m.layer(x[:, 0], m.first(torch.zeros(len(x), WIDTH))),
        X,
    ),
    "types and positions": (lambda: None, typed, IDS),
    "types as long as the batch": (lambda: None, typed, IDS[:, :N]),
    "last words": (lambda: None, lambda m, x: m.head(m.first(x)[torch.arange(N), LENGTHS - 1]), X),
    "index_select": (
        lambda: None,
        lambda m, x: m.head(torch.index_select(m.words(x), dim=1, index=torch.tensor([0, 2]))),
        IDS,
    ),
    "einsum": (
        lambda: None,
        lambda m, x: torch.einsum("ntd,de->nte", m.first(x)[..., :N], m.square),
        X,
    ),
    "positions of the loop": (
        lambda: None,
        lambda m, x: m.head(m.words(x) + m.words(torch.arange(x.shape[1]))),
        IDS[:, :N],
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_habits(name: str) -> None:
    torch.manual_seed(0)
    make, run, given = OTHERS[name]
    model = Model(run, make())
    trained(model, lambda: score(model(given), N))


@pytest.mark.parametrize("length", [N, STEPS])
def test_positions_made_in_the_loop(length: int) -> None:
    torch.manual_seed(0)
    model = Model(lambda m, ids, places: m.head(m.words(ids) + m.words(places)))
    trained(model, lambda: score(model(IDS[:, :length], torch.arange(length)), N))


def test_rows_in_another_order_are_noticed() -> None:
    """Sorted, and not put back: row i is not example i."""
    model = Model(lambda m, ids: m.head(m.words(ids)[LENGTHS.argsort()]))
    model.requires_grad_(False)
    model.head.requires_grad_().weight.data.normal_()
    keeper = BookKeeper(model)
    with pytest.raises(InvalidInput, match="that example alone"), keeper.record(count=N):
        keeper.backward(score(model(IDS), N))
