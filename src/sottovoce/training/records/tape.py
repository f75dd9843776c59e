"""The records of one backward pass, and the squared gradient norms that they add up to."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from sottovoce.errors import InvalidInput
from sottovoce.training.clipping.totals import ClippedSums
from sottovoce.training.records.gram import GramCache
from sottovoce.training.records.grouping import Grouping, norm_dtype
from sottovoce.training.records.inner import shared_product
from sottovoce.training.records.instantiated import Instantiated
from sottovoce.training.records.lookup import Lookup, add_rows
from sottovoce.training.records.outer import OuterProduct, formed_is_smaller
from sottovoce.training.records.record import Record
from sottovoce.training.records.weights import GroupWeights, spread

# Products are added up in floating point, and what cancels leaves its rounding errors behind. A
# norm that came out too small would let a gradient pass unclipped, so as many units in the last
# place of its size are added. At most 2 were ever missing in trials with rows of one sign and rows
# that cancel, 30 to 2000 wide. Where little cancels, this is one part in a million.
_ROUNDING = 4


@dataclass(frozen=True)
class Account:
    """A trainable parameter as the tape knows it."""

    name: str
    parameter: torch.nn.Parameter
    layer: int
    shared: bool
    """Whether several modules hold it: their gradients are one gradient."""


@dataclass(frozen=True, eq=False)
class _Use:
    accounts: tuple[Account, ...]
    record: Record
    sizes: Tensor


def _magnitude(size: int) -> int:
    """The nearest power of two: sizes that vary around a power of two stay in one class.

    >>> [_magnitude(size) for size in (45, 46, 64, 90, 91)]
    [6, 7, 7, 7, 8]
    """
    return (size * 181 >> 7).bit_length()


class Tape:
    """What the rules write to during one pass. A rule needs `batched`, `rows` and `add`."""

    def __init__(
        self,
        accounts: Mapping[int, Account],
        layers: int,
        device: torch.device,
    ) -> None:
        self._accounts = accounts
        self._layers = layers
        self._grouping: Grouping | None = None
        self.device = device
        self._uses: deque[_Use] = deque()
        self._norms: Tensor | None = None
        self.anchor = torch.zeros((), device=device, requires_grad=True)
        """An input that needs a gradient, so that the graph reaches layers whose own do not."""
        self.grams = GramCache()
        self.module = "the model"
        """The name of the module that is running, for error messages."""
        self.open = True
        self.touched = False
        """Whether a backward pass has reached it."""
        self._probing = False
        self._inputs: list[tuple[str, torch.dtype, torch.Size]] = []

    @property
    def signature(self) -> tuple[object, frozenset[object]]:
        """(structure, sizes): which modules ran on inputs of which form and of about which size.

        Two passes of one structure run the same rules; sizes, on a logarithmic scale, show whether
        an input is much longer or shorter than those before.
        """
        examples = max(self.grouping.examples, 1) if self.knows_examples else 1
        structure, sizes = [], []
        for module, dtype, shape in self._inputs:
            first = shape[0] if shape else 0
            relation = "each" if first == examples else "one" if first == 1 else "folded"
            structure.append((module, dtype, len(shape), relation))
            fold = 1 if relation == "one" else first // examples
            sizes.append((module, _magnitude(fold), *map(_magnitude, shape[1:])))
        return tuple(structure), frozenset(sizes)

    @property
    def leaves(self) -> list[Tensor]:
        """Where a backward pass ends: whatever else is trainable is none of its business."""
        return [self.anchor, *(account.parameter for account in self._accounts.values())]

    @property
    def grouping(self) -> Grouping:
        if self._grouping is None:
            raise InvalidInput(
                "Expected the number of examples to be known, got neither groups nor count, and "
                "the model was not called as a whole: give record(count=number of examples)."
            )
        return self._grouping

    @property
    def knows_examples(self) -> bool:
        return self._grouping is not None

    @property
    def has_no_examples(self) -> bool:
        return self._grouping is not None and self._grouping.examples == 0

    def group(self, grouping: Grouping) -> None:
        self._grouping = grouping

    def batched(self, x: Tensor) -> Tensor:
        """x with a first dimension that belongs to the examples.

        That dimension is the number of examples or, where words are folded into the batch, a
        multiple of it with the rows of one example next to each other. A first dimension of one
        (position numbers for all examples alike) is expanded.
        """
        examples = self.grouping.examples
        first = x.shape[0] if x.dim() else 0
        self._inputs.append((self.module, x.dtype, x.shape))
        if first == examples or (x.dim() and examples and first % examples == 0):
            return x
        if first == 1:
            return x.expand(examples, *x.shape[1:])
        raise InvalidInput(
            f"Expected {self.module} to be given a first dimension of {examples} "
            f"examples, a multiple of it or 1, got an input of shape {list(x.shape)}."
        )

    def rows(self, x: Tensor) -> Tensor:
        """[examples * fold, ..., width] -> [examples, rows, width]."""
        examples, width = self.grouping.examples, x.shape[-1]
        if x.dim() == 3 and len(x) == examples:
            return x
        rows = x[..., 0].numel() // examples if examples else 0
        return x.reshape(examples, rows, width)

    def belong_together(self, *parameters: Tensor) -> bool:
        """Whether they are of one layer and used by nothing else, so that one record will do."""
        accounts = [self._account(parameter) for parameter in parameters]
        return all(a.layer == accounts[0].layer and not a.shared for a in accounts)

    def add(self, parameters: tuple[Tensor, ...], record: Record) -> None:
        """Write down one use of the first parameter, and of biases that go along with it."""
        if not self.open:
            raise InvalidInput(
                "Expected the backward pass to run inside of keeper.record(), got one after it."
            )
        accounts = tuple(self._account(parameter) for parameter in parameters)
        first = accounts[0]
        squares, sizes = record.measure()
        slack = sizes
        if not self._probing:
            for use in self._uses:
                shared = shared_product(use.accounts, use.record, accounts, record)
                if shared is not None:
                    squares = squares + 2 * shared
                    slack = slack + 2 * use.sizes
            self._uses.append(_Use(accounts, record, sizes))
            self.touched = True
        if self._norms is None:
            self._norms = self._no_norms()
        rounding = _ROUNDING * torch.finfo(sizes.dtype).eps
        self._norms[first.layer] += squares.addcmul(sizes, slack, value=rounding)

    @contextmanager
    def probe(self) -> Iterator[None]:
        """Let a backward pass be a question: its norms can be read, nothing else remains."""
        kept, self._norms = self._norms, None
        self._probing = True
        try:
            yield
        finally:
            self._norms, self._probing = kept, False
            self.grams.clear()

    def squared_norms(self) -> Tensor:
        """[layers, count]"""
        return self._no_norms() if self._norms is None else self._norms.clone()

    def pay_out(self, weights: Tensor, finite: Tensor, sums: ClippedSums) -> None:
        """Add sum_g w_g g_g to the sum of every parameter, and forget each use once paid.

        Tables were used first, so they are paid last: theirs are the large gradients, and by then
        the rest has been freed.
        """
        rows = spread(weights, self._layers)
        factors: dict[int, GroupWeights] = {}
        self.grams.clear()
        while self._uses:
            use = self._uses.popleft()
            layer = use.accounts[0].layer if weights.dim() == 2 else 0
            if layer not in factors:
                factors[layer] = GroupWeights(self.grouping, rows[layer], finite)
            # Few rows of a large table: a whole one for each use would cost more than the rest.
            if isinstance(use.record, Lookup):
                (account,) = use.accounts
                use.record.add_weighted(factors[layer], sums.of(account.parameter))
                continue
            totals = use.record.weighted_sums(factors[layer])
            for account, total in zip(use.accounts, totals, strict=True):
                sums.add(account.parameter, total)

    def forget(self) -> None:
        self._uses.clear()
        self.grams.clear()
        self._norms = None

    def _no_norms(self) -> Tensor:
        """One block for the whole pass: many small tensors would cut up the memory in between."""
        double = any(a.parameter.dtype == torch.float64 for a in self._accounts.values())
        dtype = torch.float64 if double else torch.float32
        return torch.zeros(self._layers, self.grouping.count, dtype=dtype, device=self.device)

    def _account(self, parameter: Tensor) -> Account:
        account = self._accounts.get(id(parameter))
        if account is None:
            raise InvalidInput(
                "Expected a trainable parameter that the model had when its BookKeeper was made, "
                f"got a tensor of shape {list(parameter.shape)}."
            )
        return account


def record_outer_product(
    tape: Tape,
    weight: Tensor,
    biases: Sequence[Tensor | None],
    inputs: Tensor,
    gradients: Tensor,
) -> None:
    """W multiplied `inputs`, each bias was added, and `gradients` came back.

    Both are [examples, rows, width]; W is [p, d], or [p, ...] with d numbers for each output.
    """
    added = [bias for bias in biases if bias is not None and bias.requires_grad]
    grouping = tape.grouping
    form = all(
        formed_is_smaller(inputs.shape[1] * bucket.size, weight.shape)
        for bucket in grouping.buckets
    )
    # Cross terms are between uses of the same parameters, so what is tied elsewhere stays apart.
    together = weight.requires_grad and not form and tape.belong_together(weight, *added)
    product = OuterProduct(
        inputs, gradients, len(added) if together else 0, weight.shape, grouping, tape.grams
    )
    if together:
        tape.add((weight, *added), product)
        return
    if weight.requires_grad:
        tape.add((weight,), Instantiated(product.instantiate()) if form else product)
    if added:
        summed = grouping.sums(gradients.sum(1, dtype=norm_dtype(gradients)))
        for bias in added:
            tape.add((bias,), Instantiated(summed))


def record_lookup(
    tape: Tape, table: Tensor, ids: Tensor, gradients: Tensor, padding_idx: int | None
) -> None:
    """`ids` [examples, rows] were looked up, and `gradients` [examples, rows, width] came back."""
    size, count = table.shape[0], tape.grouping.count
    keys = (tape.grouping.labels.unsqueeze(1) * size + ids).flatten()
    rows = gradients.to(norm_dtype(gradients)).flatten(0, 1)
    if padding_idx is not None:
        kept = ids.flatten() != padding_idx
        keys, rows = keys[kept], rows[kept]
    if count * size <= len(keys):
        formed = add_rows(rows, keys, count * size)
        tape.add((table,), Instantiated(formed.view(count, *table.shape)))
        return
    keys, place = torch.unique(keys, return_inverse=True)
    merged = add_rows(rows, place, len(keys))
    groups = keys.div(size, rounding_mode="floor")
    tape.add((table,), Lookup(groups, keys - groups * size, merged, count, table.shape))
