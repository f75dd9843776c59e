"""The Flower server: requests counts, refuses invalid ones, adds noise, publishes q_bar.

Sampling is decided here, by a key that stays here. A node that fails, times out or sends invalid
data is counted, and contributes nothing to the sum. A federation without any released round
publishes nothing and fails.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.errors import InvalidInput
from sottovoce.personalize.federated.federation import server_for
from sottovoce.personalize.federated.plan import ReleasePlan
from sottovoce.personalize.federated.publishing import federation_folder
from sottovoce.personalize.federated.rounds import RoundReport, finish, key_of_run
from sottovoce.personalize.federated.server import Refused, Server
from sottovoce.personalize.flower.masking import SecureRanges
from sottovoce.personalize.flower.settings import FederationSettings
from sottovoce.personalize.lm.vocabulary import Vector, Vocabulary
from sottovoce.privacy.guarantee import SEEDED_STAMP
from sottovoce.privacy.ledger import Ledger
from sottovoce.privacy.noise import NoiseSource
from sottovoce.privacy.sampling import Membership, SamplingKey

if TYPE_CHECKING:
    from flwr.app import Context, Message
    from flwr.serverapp import Grid, ServerApp

__all__ = ["app", "federate", "server_app"]  # noqa: F822 - `app` comes from __getattr__

_POLL = 0.1


def server_app(
    settings: FederationSettings | None = None,
    on_round: Callable[[RoundReport], None] = lambda _: None,
) -> "ServerApp":
    """The app; without settings it reads the file named in the run's configuration."""
    from flwr.serverapp import ServerApp

    made = ServerApp()

    @made.main()
    def main(grid: "Grid", context: "Context") -> None:
        known = settings
        if known is None:
            known = FederationSettings.load(str(context.run_config["settings"]))
        federate(grid, known, on_round)

    return made


def __getattr__(name: str) -> object:
    if name == "app":
        return server_app()
    raise AttributeError(name)


def federate(
    grid: "Grid",
    settings: FederationSettings,
    on_round: Callable[[RoundReport], None] = lambda _: None,
) -> list[RoundReport]:
    """Run all rounds; writes `marginals.json` and `run.json` to the output folder."""
    started = time.monotonic()
    plan = settings.release_plan()
    if plan.sampling_rate not in (None, settings.sampling_rate):
        raise InvalidInput(
            f"Expected the plan's sampling rate of {plan.sampling_rate}, got "
            f"{settings.sampling_rate:g}."
        )
    ranges = None
    if settings.secure:
        ranges = SecureRanges.of(
            plan, clients=settings.nodes, plausible_mass=settings.plausible_mass
        )
    with federation_folder(
        settings.output, plan, ledger=settings.ledger or None, earlier=settings.earlier
    ) as (folder, ledger):
        server = _server(settings, plan, ranges, ledger)
        reports = _rounds(grid, settings, plan, server, on_round)
        settings.publication_metadata().write(
            folder, server, reports, seeded=settings.seed is not None, started=started
        )
    return reports


def _rounds(
    grid: "Grid",
    settings: FederationSettings,
    plan: ReleasePlan,
    server: Server,
    on_round: Callable[[RoundReport], None],
) -> list[RoundReport]:
    key = SamplingKey.from_seed(settings.seed) if settings.seed is not None else SamplingKey()
    nodes = _wait_for(grid, settings)
    ranges = None
    if settings.secure:
        # There may be more nodes than expected, and all of them have to fit.
        ranges = SecureRanges.of(plan, clients=len(nodes), plausible_mass=settings.plausible_mass)
    members = Membership((str(node) for node in nodes), key_of_run(key, server))
    reports = []
    for number in range(1, settings.rounds + 1):
        sampled = [nodes[place] for place in members.poisson(number, settings.sampling_rate)]
        if ranges is None:
            refused = _ask(grid, settings, server, number, sampled)
        else:
            refused = _ask_securely(grid, settings, server, number, sampled, ranges)
        reports.append(finish(server, number, len(sampled), refused))
        on_round(reports[-1])
    return reports


def _server(
    settings: FederationSettings, plan: ReleasePlan, ranges: SecureRanges | None, ledger: Ledger
) -> Server:
    if settings.seed is not None and settings.sampling_rate < 1:
        ledger.assume(SEEDED_STAMP)
    for sentence in ranges.assumptions() if ranges is not None else ():
        ledger.assume(sentence)
    return server_for(
        Vocabulary.load(settings.vocabulary),
        None if settings.noiseless else plan,
        ledger=ledger,
        source=NoiseSource.seeded(settings.seed) if settings.seed is not None else NoiseSource(),
        denoise=settings.denoise,
        plausible_mass=settings.plausible_mass,
        minimum_clients=settings.minimum_clients,
    )


def _ask(
    grid: "Grid", settings: FederationSettings, server: Server, number: int, sampled: list[int]
) -> dict[str, int]:
    """One round in which the server validates every contribution."""
    from flwr.app import ConfigRecord, Message, RecordDict

    order = ConfigRecord({**_order(settings, server, number)})
    # A list, because Flower iterates over it twice.
    calls = [
        Message(RecordDict({"order": order}), dst_node_id=node, message_type="train")
        for node in sampled
    ]
    replies = grid.send_and_receive(calls, timeout=settings.timeout) if calls else []
    return _receive_all(server, replies, set(sampled))


def _order(settings: FederationSettings, server: Server, number: int) -> dict[str, int | str]:
    """The request to a device; it refuses to count by other rules."""
    return {"round": number, "settings": settings.for_devices(), "rules": server.rules}


def _ask_securely(
    grid: "Grid",
    settings: FederationSettings,
    server: Server,
    number: int,
    sampled: list[int],
    ranges: SecureRanges,
) -> dict[str, int]:
    """One round in which the server sees only the sum; an invalid sum is discarded."""
    from sottovoce.personalize.flower.masking import MIN_CLIENTS, secure_sum

    if len(sampled) < MIN_CLIENTS:
        return {"too-few": len(sampled)} if sampled else {}
    order = _order(settings, server, number)
    total, clients = secure_sum(grid, sampled, order, ranges, timeout=settings.timeout)
    if total is None:
        return {"halted": len(sampled)}
    try:
        server.receive_sum(total, clients=clients, most=ranges.clipping_range)
    except Refused as problem:
        return {problem.reason: len(sampled)}
    return {"failed": len(sampled) - clients} if clients < len(sampled) else {}


def _receive_all(server: Server, replies: "Iterable[Message]", asked: set[int]) -> dict[str, int]:
    refused: Counter[str] = Counter()
    silent = set(asked)
    for reply in replies:
        node = reply.metadata.src_node_id
        try:
            if node not in silent:
                raise Refused(
                    "twice",
                    f"Expected one answer from each node that was asked, got another from {node}.",
                )
            silent.discard(node)
            if reply.has_error():
                raise Refused("failed", "Expected counts, got an error.")
            counts, rules = _counts(reply)
            server.receive(counts, client=str(node), rules=rules)
        except Refused as problem:
            refused[problem.reason] += 1
    if silent:
        refused["late"] = len(silent)
    return dict(refused)


def _counts(reply: "Message") -> tuple[Vector, str]:
    """The counts of a reply, and the rules they were counted by."""
    from flwr.app import ArrayRecord, ConfigRecord

    record, about = reply.content.get("counts"), reply.content.get("about")
    if not isinstance(record, ArrayRecord) or "counts" not in record:
        raise Refused("wrong-length", "Expected counts in a reply, got none.")
    try:
        counts = record["counts"].numpy()
    except (ValueError, TypeError, OSError, EOFError) as problem:
        raise Refused("not-numbers", f"Expected an array of counts: {problem}.") from problem
    stated = about.get("rules", "") if isinstance(about, ConfigRecord) else ""
    return np.asarray(counts), str(stated)


def _wait_for(grid: "Grid", settings: FederationSettings) -> list[int]:
    until = time.monotonic() + settings.timeout
    while len(nodes := sorted(grid.get_node_ids())) < settings.nodes:
        if time.monotonic() > until:
            raise InvalidInput(
                f"Expected {settings.nodes} nodes, got {len(nodes)} before the timeout."
            )
        time.sleep(_POLL)
    return nodes
