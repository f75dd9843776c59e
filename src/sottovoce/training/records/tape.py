"""The records of one backward pass, and the squared gradient norms computed from them."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from sottovoce.errors import InvalidInput
from sottovoce.training.checks.forms import EACH, SHARED, Input
from sottovoce.training.clipping.totals import ClippedSums
from sottovoce.training.records.derived import DerivedValues
from sottovoce.training.records.grouping import GramCache, Grouping, norm_dtype
from sottovoce.training.records.inner import shared_product
from sottovoce.training.records.records import (
    GroupWeights,
    Instantiated,
    Lookup,
    OuterProduct,
    Record,
    add_rows,
    formed_is_smaller,
    spread,
)

# Cancellation leaves rounding errors in floating-point sums. A norm that is too small would let a
# gradient pass unclipped, so this many units in the last place of its magnitude are added. In
# trials with rows of one sign and rows that cancel, 30 to 2000 wide, the error was at most 2 units.
# Without much cancellation, the correction is about one part in a million.
_ROUNDING = 4


@dataclass(frozen=True)
class TrackedParameter:
    """A trainable parameter with its name and layer."""

    name: str
    parameter: torch.nn.Parameter
    layer: int
    shared: bool
    """Whether several modules share it (tied weights), so that their gradients add up."""


@dataclass(frozen=True, eq=False)
class _Use:
    tracked: tuple[TrackedParameter, ...]
    record: Record
    sizes: Tensor


class Tape:
    """The records that rules write during one pass. A rule needs `batched`, `rows` and `add`."""

    def __init__(
        self,
        tracked: Mapping[int, TrackedParameter],
        layers: int,
        device: torch.device,
    ) -> None:
        self._tracked = tracked
        self._layers = layers
        self._grouping: Grouping | None = None
        self.device = device
        self._uses: deque[_Use] = deque()
        self._norms: Tensor | None = None
        self.anchor = torch.zeros((), device=device, requires_grad=True)
        """Input that requires a gradient, so that autograd reaches layers whose inputs do not."""
        self.grams = GramCache()
        self.derived = DerivedValues()
        self.module = "the model"
        """The name of the current module, for error messages."""
        self.open = True
        self.touched = False
        """Whether a backward pass has reached the tape."""
        self._probing = False
        self.inputs: list[Input] = []
        """What layers read."""

    @property
    def leaves(self) -> list[Tensor]:
        """The tensors at which a backward pass ends; nothing else gets a gradient."""
        own = (entry.parameter for entry in self._tracked.values())
        return [self.anchor, *own, *self.derived.leaves]

    @property
    def grouping(self) -> Grouping:
        if self._grouping is None:
            raise InvalidInput(
                "Expected the number of examples to be known, got neither groups nor count, and "
                "the model itself was not called: use record(count=number of examples)."
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
        """x with the examples as its first dimension.

        Its size is the number of examples or, if words are folded into the batch, a multiple of it
        with the rows of one example next to each other. A first dimension of one (position numbers
        shared by all examples) is expanded.
        """
        examples = self.grouping.examples
        first = x.shape[0] if x.dim() else 0
        rows = EACH if first == examples else SHARED if first == 1 else first // max(examples, 1)
        self.inputs.append((self.module, x.dtype, rows, x.shape[1:]))
        if first == examples or (x.dim() and examples and first % examples == 0):
            return x
        if first == 1:
            return x.expand(examples, *x.shape[1:])
        raise InvalidInput(
            f"Expected an input of {self.module} with a first dimension of {examples} "
            f"examples, a multiple of it or 1, got shape {list(x.shape)}."
        )

    def rows(self, x: Tensor) -> Tensor:
        """[examples * fold, ..., width] -> [examples, rows, width]."""
        examples, width = self.grouping.examples, x.shape[-1]
        if x.dim() == 3 and len(x) == examples:
            return x
        rows = x[..., 0].numel() // examples if examples else 0
        return x.reshape(examples, rows, width)

    def belong_together(self, *parameters: Tensor) -> bool:
        """Whether they belong to one layer and are not shared, so that one record suffices."""
        if any(parameter in self.derived for parameter in parameters):
            return False
        tracked = [self._tracked_parameter(parameter) for parameter in parameters]
        return all(a.layer == tracked[0].layer and not a.shared for a in tracked)

    def add(self, parameters: tuple[Tensor, ...], record: Record) -> None:
        """Record one use of the first parameter and of its biases."""
        if not self.open:
            raise InvalidInput(
                "Expected the backward pass inside keeper.record(), got one after it."
            )
        if parameters[0] in self.derived:
            self._pull_back(parameters[0], record)
            return
        tracked = tuple(self._tracked_parameter(parameter) for parameter in parameters)
        first = tracked[0]
        squares, sizes = record.measure()
        slack = sizes
        if not self._probing:
            for use in self._uses:
                shared = shared_product(use.tracked, use.record, tracked, record)
                if shared is not None:
                    squares = squares + 2 * shared
                    slack = slack + 2 * use.sizes
            self._uses.append(_Use(tracked, record, sizes))
            self.touched = True
        if self._norms is None:
            self._norms = self._no_norms()
        rounding = _ROUNDING * torch.finfo(sizes.dtype).eps
        self._norms[first.layer] += squares.addcmul(sizes, slack, value=rounding)

    def _pull_back(self, value: Tensor, record: Record) -> None:
        """Record a use of a derived value as uses of its parameters."""
        gradients = record.instantiate()
        table = self.derived[value].rows_of
        if table is not None:
            parameter, ids, padding_idx = table
            count = len(gradients)
            rows = gradients.reshape(count, ids.numel(), -1)
            groups = torch.arange(count, device=rows.device)
            ids = ids.reshape(1, -1).expand(count, -1)
            record_rows(self, parameter, groups, ids, rows, padding_idx)
            return
        for parameter, gradient in self.derived.pull_back(value, gradients):
            self.add((parameter,), Instantiated(gradient))

    def name_of(self, value: Tensor) -> str | None:
        """The name of a tracked parameter."""
        entry = self._tracked.get(id(value))
        return None if entry is None else entry.name

    @contextmanager
    def probe(self) -> Iterator[None]:
        """Dry run: a backward pass that yields norms only and leaves no records."""
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

    def add_weighted_sums(self, weights: Tensor, finite: Tensor, sums: ClippedSums) -> None:
        """Add sum_g w_g g_g to the sum of every parameter, and free each record afterwards.

        Embedding tables, used first, come last: their gradients are large, and by then the other
        records have been freed.
        """
        rows = spread(weights, self._layers)
        factors: dict[int, GroupWeights] = {}
        self.grams.clear()
        while self._uses:
            use = self._uses.popleft()
            layer = use.tracked[0].layer if weights.dim() == 2 else 0
            if layer not in factors:
                factors[layer] = GroupWeights(self.grouping, rows[layer], finite)
            # Few rows of a large table: a full table per use would cost more than the rest.
            if isinstance(use.record, Lookup):
                (entry,) = use.tracked
                sums.add_rows(entry.parameter, *use.record.weighted_rows(factors[layer]))
                continue
            totals = use.record.weighted_sums(factors[layer])
            for entry, total in zip(use.tracked, totals, strict=True):
                sums.add(entry.parameter, total)

    def forget(self) -> None:
        self._uses.clear()
        self.grams.clear()
        self.derived.clear()
        self._norms = None

    def _no_norms(self) -> Tensor:
        """One block for the whole pass: many small tensors would fragment memory."""
        double = any(a.parameter.dtype == torch.float64 for a in self._tracked.values())
        dtype = torch.float64 if double else torch.float32
        return torch.zeros(self._layers, self.grouping.count, dtype=dtype, device=self.device)

    def _tracked_parameter(self, parameter: Tensor) -> TrackedParameter:
        entry = self._tracked.get(id(parameter))
        if entry is None:
            raise InvalidInput(
                "Expected a parameter that was trainable when the BookKeeper was created, "
                f"got a tensor of shape {list(parameter.shape)}."
            )
        return entry


def record_outer_product(
    tape: Tape,
    weight: Tensor,
    biases: Sequence[Tensor | None],
    inputs: Tensor,
    gradients: Tensor,
) -> None:
    """Record a product of W with `inputs` plus biases, whose output has these `gradients`.

    Both are [examples, rows, width]; W is [p, d], or [p, ...] with d numbers per output.
    """
    added = [bias for bias in biases if bias is not None and bias.requires_grad]
    grouping = tape.grouping
    form = all(
        formed_is_smaller(inputs.shape[1] * bucket.size, weight.shape)
        for bucket in grouping.buckets
    )
    # Cross terms are computed per parameter, so shared parameters need separate records.
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
    """Record a lookup of `ids` [examples, rows] with `gradients` [examples, rows, width]."""
    record_rows(tape, table, tape.grouping.labels, ids, gradients, padding_idx)


def record_rows(
    tape: Tape,
    table: Tensor,
    groups: Tensor,
    ids: Tensor,
    gradients: Tensor,
    padding_idx: int | None,
) -> None:
    """Record a lookup of which row i, `ids[i]`, belongs to group `groups[i]`."""
    size, count = table.shape[0], tape.grouping.count
    keys = (groups.unsqueeze(1) * size + ids).flatten()
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
