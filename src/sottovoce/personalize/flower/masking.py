"""One round of Flower's SecAgg+, server side and client side.

The server runs Flower's SecAgg+ workflow, which uses Flower's older interface: a minimal strategy
and proxies adapt to it. The device masks the answer of `contribute`, after checking against the
ranges the server announced that masking cannot change a count.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce.errors import InvalidInput
from sottovoce.personalize.flower.secure import SecureRanges
from sottovoce.personalize.lm.vocabulary import Vector

if TYPE_CHECKING:
    from flwr.app import Context, Message, RecordDict
    from flwr.serverapp import Grid

MIN_CLIENTS = 3
"""Minimum clients: with two, each could derive the other's counts from the sum."""
NEIGHBOURS = 31
"""Largest number of neighbours that a client shares its keys with."""
THRESHOLD = 0.67
"""Share of neighbours that must be honest and stay until the end."""


def secure_sum(
    grid: "Grid",
    nodes: Sequence[int],
    order: Mapping[str, int | str],
    ranges: SecureRanges,
    *,
    timeout: float,
) -> tuple[Vector | None, int]:
    """The sum over the nodes that stayed until the end, and their number.

    `None` if the protocol stopped: too many nodes dropped out, or one sent invalid data.
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

    def __init__(self, nodes: Sequence[int], order: Mapping[str, int | str]) -> None:
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
    if context.node_config.get("secure"):
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
