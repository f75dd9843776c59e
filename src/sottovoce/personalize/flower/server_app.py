"""The Flower server: requests counts, refuses invalid ones, adds noise, publishes q_bar.

Sampling is decided here, by a key that stays here. Nodes are listed anew for every round. A node
that fails, declines, times out or sends invalid data is counted, and contributes nothing to the
sum. A federation without any released round publishes nothing and fails. After every round the
state is on disk, so a killed server resumes (see `federated/checkpoint`).
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from sottovoce.errors import InvalidInput
from sottovoce.personalize.federated.checkpoint import Checkpoint
from sottovoce.personalize.federated.federation import server_for
from sottovoce.personalize.federated.plan import ReleasePlan
from sottovoce.personalize.federated.publishing import federation_folder
from sottovoce.personalize.federated.rounds import RoundReport, finish, key_of_run
from sottovoce.personalize.federated.server import Refused, Server
from sottovoce.personalize.flower.masking import SecureRanges
from sottovoce.personalize.flower.settings import FederationSettings, packed_words
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
    words = Vocabulary.load(settings.vocabulary)
    with federation_folder(
        settings.output,
        plan,
        asked=settings.asked(words),
        key=settings.assignment(),
        ledger=settings.ledger or None,
        earlier=settings.earlier,
    ) as (folder, ledger, checkpoint):
        server = _server(settings, plan, words, ranges, ledger, checkpoint.run)
        checkpoint.begin(server)
        _rounds(grid, settings, plan, server, checkpoint, on_round)
        settings.publication_metadata().write(
            folder, server, checkpoint.reports, seeded=settings.seed is not None, started=started
        )
        if not settings.nbest:
            _send_released(grid, settings, server)
        return checkpoint.reports


def _rounds(
    grid: "Grid",
    settings: FederationSettings,
    plan: ReleasePlan,
    server: Server,
    checkpoint: Checkpoint,
    on_round: Callable[[RoundReport], None],
) -> None:
    key = SamplingKey.from_seed(settings.seed) if settings.seed is not None else SamplingKey()
    key = key_of_run(key, server)
    if checkpoint.done < settings.rounds:
        _wait_for(grid, settings)
    order = _Order.of(settings, server, checkpoint.done)
    for number in range(checkpoint.done + 1, settings.rounds + 1):
        nodes = sorted(grid.get_node_ids())
        members = Membership((str(node) for node in nodes), key)
        sampled = [nodes[place] for place in members.poisson(number, settings.sampling_rate)]
        if settings.secure:
            refused = _ask_securely(grid, settings, plan, server, order.of_round(number), sampled)
        else:
            refused = _ask(grid, settings, server, order.of_round(number), sampled)
        report = finish(server, number, len(sampled), refused)
        checkpoint.add(report, server)
        on_round(report)


def _server(
    settings: FederationSettings,
    plan: ReleasePlan,
    words: Vocabulary,
    ranges: SecureRanges | None,
    ledger: Ledger,
    resume: str | None,
) -> Server:
    if settings.seed is not None and settings.sampling_rate < 1:
        ledger.assume(SEEDED_STAMP)
    for sentence in ranges.assumptions() if ranges is not None else ():
        ledger.assume(sentence)
    return server_for(
        words,
        None if settings.noiseless else plan,
        ledger=ledger,
        source=NoiseSource.seeded(settings.seed) if settings.seed is not None else NoiseSource(),
        denoise=settings.denoise,
        plausible_mass=settings.plausible_mass,
        minimum_clients=settings.minimum_clients,
        resume=resume,
    )


@dataclass(frozen=True)
class _Order:
    """The request to the devices; they decline to count by other rules than their own."""

    fields: dict[str, int | str | bytes]

    @classmethod
    def of(cls, settings: FederationSettings, server: Server, done: int) -> Self:
        return cls(
            {
                "server": settings.server,
                "run": "noiseless" if server.release is None else server.release.run,
                "plan": json.dumps(settings.plan),
                "rules": server.rules,
                "words": packed_words(server.vocabulary),
                "simulation": settings.simulation(done),
            }
        )

    def of_round(self, number: int) -> dict[str, int | str | bytes]:
        return {"round": number, **self.fields}


def _ask(
    grid: "Grid",
    settings: FederationSettings,
    server: Server,
    order: dict[str, Any],
    sampled: list[int],
) -> dict[str, int]:
    """One round in which the server validates every contribution."""
    replies = _send(grid, "train", {"order": order}, sampled, settings.timeout)
    return _receive_all(server, replies, set(sampled))


def _send(
    grid: "Grid",
    kind: str,
    content: Mapping[str, Mapping[str, Any]],
    nodes: Sequence[int],
    timeout: float,
) -> "Iterable[Message]":
    from flwr.app import ConfigRecord, Message, RecordDict

    records = {name: ConfigRecord({**fields}) for name, fields in content.items()}
    # A list, because Flower iterates over it twice.
    calls = [
        Message(RecordDict({**records}), dst_node_id=node, message_type=kind) for node in nodes
    ]
    return grid.send_and_receive(calls, timeout=timeout) if calls else []


def _ask_securely(
    grid: "Grid",
    settings: FederationSettings,
    plan: ReleasePlan,
    server: Server,
    order: dict[str, Any],
    sampled: list[int],
) -> dict[str, int]:
    """One round in which the server sees only the sum; an invalid sum is discarded.

    Nodes that are dead or decline are left out before the protocol starts: it survives few that
    leave later.
    """
    from sottovoce.personalize.flower.masking import MIN_CLIENTS, secure_sum

    refused: Counter[str] = Counter()
    ready = []
    silent = set(sampled)
    patience = min(settings.patience, settings.timeout)
    for reply in _send(grid, "query", {"order": order}, sampled, patience):
        silent.discard(reply.metadata.src_node_id)
        reason = "failed" if reply.has_error() else _declined(reply)
        if reason:
            refused["failed" if reply.has_error() else "declined"] += 1
        else:
            ready.append(reply.metadata.src_node_id)
    if silent:
        refused["dead"] = len(silent)
    if len(ready) < max(MIN_CLIENTS, settings.minimum_clients):
        return {**refused, "too-few": len(ready)} if ready else dict(refused)
    ranges = SecureRanges.of(plan, clients=len(ready), plausible_mass=settings.plausible_mass)
    total, clients = secure_sum(grid, sorted(ready), order, ranges, timeout=settings.timeout)
    if total is None:
        return {**refused, "halted": len(ready)}
    try:
        server.receive_sum(total, clients=clients, most=ranges.clipping_range)
    except Refused as problem:
        return {**refused, problem.reason: len(ready)}
    if clients < len(ready):
        refused["failed"] += len(ready) - clients
    return dict(refused)


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
            if reason := _declined(reply):
                raise Refused("declined", reason)
            counts, rules = _counts(reply)
            server.receive(counts, client=str(node), rules=rules)
        except Refused as problem:
            refused[problem.reason] += 1
    if silent:
        refused["late"] = len(silent)
    return dict(refused)


def _declined(reply: "Message") -> str:
    """The reason of a device that declines, or nothing."""
    from flwr.app import ConfigRecord

    about = reply.content.get("about")
    return str(about.get("declined", "")) if isinstance(about, ConfigRecord) else ""


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


def _send_released(grid: "Grid", settings: FederationSettings, server: Server) -> None:
    """Send the marginals to the devices that are there; others get them with a later run."""
    content = {"released": {"marginals": server.marginals.to_bytes()}}
    for _ in _send(grid, "evaluate", content, sorted(grid.get_node_ids()), settings.patience):
        pass


def _wait_for(grid: "Grid", settings: FederationSettings) -> None:
    until = time.monotonic() + settings.timeout
    while (found := len(list(grid.get_node_ids()))) < settings.nodes:
        if time.monotonic() > until:
            raise InvalidInput(f"Expected {settings.nodes} nodes, got {found} before the timeout.")
        time.sleep(_POLL)
