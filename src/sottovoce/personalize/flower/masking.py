"""One round of Flower's SecAgg+, on the server and on the device, whose sum of counts is exact."""

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.personalize.federated.plan import ReleasePlan
from sottovoce.personalize.federated.server import PLAUSIBLE_MASS
from sottovoce.personalize.lm.vocabulary import Vector
from sottovoce.privacy.guarantee import Unit

if TYPE_CHECKING:
    from flwr.app import Context, Message, RecordDict
    from flwr.serverapp import Grid

# Flower computes in 32-bit words.
_LARGEST_MODULUS = 2**32
_LARGEST_QUANTISED = 2**31 - 1


@dataclass(frozen=True)
class SecureRanges:
    """Arguments of `SecAggPlusWorkflow`; every client sends its counts with a weight of 1.

    SecAgg+ clips every value to [-c, c] (silently, c = 8 by default), maps it to
    (value + c) r / (2 c), rounds stochastically, adds masks modulo M, and inverts the map on the
    sum. Each client also sends a weight w = round(r n / n_max), by which its values are multiplied
    and the sum is divided. With these ranges none of this can change a count:

    1. Every count x is a whole number of units with 0 <= x <= c (`check`, on the device), so
       clipping changes nothing. With n = n_max = 1 the weight is r exactly, and values are
       multiplied by 1.
    2. r = 2 c with c whole and below 2^30, so the scale is exactly 1 and x + c is a whole number
       below 2^31. The ceiling of a whole number is itself, and rounding goes down with probability
       0.
    3. N clients send at most 2 c each, and r each as their weight: both sums are at most N r < M,
       so reducing them modulo M loses nothing once the masks, which cancel modulo M, are gone.
    4. The server subtracts N c and divides by N r / r = N. The caller multiplies by N and rounds:
       the error of both is below 2^-51 N r < 2^-18, so the whole number is recovered.

    >>> from sottovoce.personalize.federated.counting import Counting
    >>> from sottovoce.personalize.federated.counting import Caps
    >>> plan = ReleasePlan(counting=Counting(integer=True), unit=Unit.USER, caps=Caps(100.0))
    >>> SecureRanges.of(plan, clients=1000).arguments()["clipping_range"]
    6400.0
    """

    clipping_range: float
    quantization_range: int
    modulus_range: int
    max_weight: float = 1.0

    @classmethod
    def of(
        cls, plan: ReleasePlan, *, clients: int, plausible_mass: float = PLAUSIBLE_MASS
    ) -> "SecureRanges":
        """Ranges for one round of this plan with `clients` clients, or an error."""
        _validate.at_least_one("clients", clients)
        if not plan.counting.integer:
            raise InvalidInput("Expected integer counting for an exact secure sum, got fractions.")
        unit = plan.counting.unit
        most = math.ceil(plausible_mass * unit)
        if plan.unit is Unit.USER:
            mass, per_word = plan.caps.in_units(unit)
            most = math.ceil(min(mass, per_word))
        quantised = 2 * most
        modulus = 1 << (clients * quantised).bit_length()
        if quantised > _LARGEST_QUANTISED or modulus > _LARGEST_MODULUS:
            raise InvalidInput(
                f"Expected {clients} clients times 2 x {most} units to fit in 32 bits, got more: "
                "lower the word cap, or aggregate in smaller groups."
            )
        return cls(float(most), quantised, modulus)

    def arguments(self) -> dict[str, Any]:
        return asdict(self)

    def check(self, counts: Vector, *, clients: int) -> None:
        """Reject ranges or counts for which a secure sum could differ from the plain one.

        >>> SecureRanges(8.0, 2**22, 2**32).check(np.array([183.0]), clients=5)
        Traceback (most recent call last):
        sottovoce.errors.InvalidInput: Expected ranges that preserve counts, got ...
        """
        whole = self.quantization_range == 2 * self.clipping_range and self.max_weight == 1
        room = clients * self.quantization_range < self.modulus_range <= _LARGEST_MODULUS
        if not whole or not room or self.quantization_range > _LARGEST_QUANTISED:
            raise InvalidInput(f"Expected ranges that preserve counts, got {self}.")
        fits = (counts >= 0) & (counts <= self.clipping_range) & (np.rint(counts) == counts)
        if not fits.all():
            raise InvalidInput(
                f"Expected whole counts of at most {self.clipping_range:g} units per word, got "
                f"{int((~fits).sum())} others: nothing is sent."
            )

    def assumptions(self) -> tuple[str, ...]:
        """What secure aggregation protects, and what it leaves open."""
        return (
            "single contributions are masked (SecAgg+): the server sees the exact sum of a round "
            "and adds the noise to that sum, so its operator is trusted with the sums",
            "the server follows the protocol, and two thirds of every client's neighbours neither "
            "leave nor share their keys with it",
            "the masks of Flower 1.41 are derived from 32-bit seeds: they stop a curious server, "
            "not one that searches all seeds",
            f"no client sends false counts, which a mask would hide; a sum above "
            f"{self.clipping_range:g} units per word and client is left out",
        )


MIN_CLIENTS = 3
"""Minimum clients: with two, each could derive the other's counts from the sum."""
NEIGHBOURS = 31
"""Largest number of neighbours that a client shares its keys with."""
THRESHOLD = 0.67
"""Share of neighbours that must be honest and stay until the end."""


def secure_sum(
    grid: "Grid",
    nodes: Sequence[int],
    order: Mapping[str, Any],
    ranges: SecureRanges,
    *,
    timeout: float,
) -> tuple[Vector | None, int]:
    """The sum over the nodes that stayed until the end, and their number.

    `None` if the protocol stopped: too many nodes dropped out, or one sent invalid data.

    Flower's SecAgg+ workflow uses Flower's older interface; a minimal strategy and proxies adapt to
    it.
    """
    from flwr.app import ArrayRecord, ConfigRecord, Context, RecordDict
    from flwr.server.compat.legacy_context import LegacyContext
    from flwr.server.workflow import SecAggPlusWorkflow

    workflow = SecAggPlusWorkflow(
        num_shares=NEIGHBOURS if len(nodes) > NEIGHBOURS else 1.0,
        reconstruction_threshold=THRESHOLD,
        timeout=timeout,
        **ranges.arguments(),
    )
    collected = _SumStrategy(nodes, order)
    state = RecordDict(
        {
            "config": ConfigRecord({"current_round": order["round"]}),
            "parameters": ArrayRecord(),
        }
    )
    context = LegacyContext(
        Context(0, 0, {}, state, {}),
        strategy=collected,  # type: ignore[arg-type]
        client_manager=SimpleNamespace(num_available=lambda: len(nodes)),  # type: ignore[arg-type]
    )
    try:
        workflow(grid, context)
    except (ValueError, TypeError, KeyError, IndexError, ArithmeticError) as problem:
        # A masked contribution was invalid; its sender cannot be identified.
        logging.getLogger(__name__).warning("A secure round was stopped: %s", problem)
        return None, 0
    if collected.mean is None:
        return None, 0
    # Flower divides by the sum of weights, that is by the number of clients.
    total = np.rint(collected.mean * collected.clients)
    return np.asarray(total, dtype=np.float64), collected.clients


class _SumStrategy:
    """The parts of a strategy that the workflow uses: node selection and the mean."""

    def __init__(self, nodes: Sequence[int], order: Mapping[str, Any]) -> None:
        self.nodes, self.order = nodes, order
        self.mean: Vector | None = None
        self.clients = 0

    def configure_fit(self, *_: object) -> list[tuple[Any, Any]]:
        from flwr.common import FitIns, Parameters

        call = FitIns(Parameters([], "numpy.ndarray"), dict(self.order))
        return [(SimpleNamespace(node_id=node), call) for node in self.nodes]

    def aggregate_fit(
        self, _number: int, results: list[tuple[Any, Any]], _failures: list[Any]
    ) -> tuple[None, dict[str, Any]]:
        from flwr.common import parameters_to_ndarrays

        if results:
            # The workflow gives every result the same mean.
            (self.mean,) = parameters_to_ndarrays(results[0][1].parameters)
            self.clients = len(results)
        return None, {}


def mask_when_asked(
    message: "Message", context: "Context", call_next: "Callable[[Message, Context], Message]"
) -> "Message":
    """A client mod: SecAgg+ if the server runs it, else plain counts.

    A device with `secure=true` in its configuration only answers SecAgg+.
    """
    from flwr.client.mod import secaggplus_mod
    from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS

    if RECORD_KEY_CONFIGS in message.content.config_records:
        return secaggplus_mod(message, context, call_next)
    if message.metadata.message_type == "train" and context.node_config.get("secure"):
        raise InvalidInput("Expected secure aggregation, got a request for plain counts.")
    return call_next(message, context)


def to_be_masked(counts: Vector, context: "Context") -> "RecordDict":
    """The counts in the form of Flower's mod, or an error if masking could change them."""
    from flwr.common import Code, FitRes, Status, ndarrays_to_parameters
    from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_STATE, Key
    from flwr.compat.common.recorddict_compat import fitres_to_recorddict

    config = context.state.config_records[RECORD_KEY_STATE]
    ranges = SecureRanges(
        float(str(config[Key.CLIPPING_RANGE])),
        int(str(config[Key.TARGET_RANGE])),
        int(str(config[Key.MOD_RANGE])),
        float(str(config[Key.MAX_WEIGHT])),
    )
    ranges.check(counts, clients=int(str(config[Key.SAMPLE_NUMBER])))
    return fitres_to_recorddict(
        FitRes(Status(Code.OK, ""), ndarrays_to_parameters([counts]), 1, {}), keep_input=False
    )
