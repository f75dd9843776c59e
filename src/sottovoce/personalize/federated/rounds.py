"""Rounds of federation in one process: sample clients, collect, refuse what is wrong, release.

The same numbers as over a network, without one: for tests and small studies. A client that fails,
is late or sends garbage is counted and left out; the round goes on without it. A round without
contributions is not released, and a federation without such a round ends with an error.
"""

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.personalize.federated.cache import ClientCache
from sottovoce.personalize.federated.server import NobodyJoined, Refused, Server
from sottovoce.personalize.lm.vocabulary import Vector
from sottovoce.privacy.guarantee import SEEDED_STAMP
from sottovoce.privacy.sampling import Membership, SamplingKey


class Client(Protocol):
    """Somebody with counts."""

    @property
    def name(self) -> str: ...

    def contribute(self, number: int, *, cumulative: bool) -> Vector:
        """The counts for round `number`, in units."""
        ...

    def skip(self, number: int) -> None:
        """The client was not sampled in this round."""
        ...


class CacheClient:
    """A client whose counts are a cache; `fill` lets it hear what belongs to a round.

    With `keep` an unsampled client saves its increment up for the next time. That wastes nothing,
    but an utterance may then leave in any of several rounds, so sampling must not be claimed to
    amplify; without it the increment is dropped, and it may.
    """

    def __init__(
        self,
        name: str,
        cache: ClientCache,
        fill: Callable[[ClientCache, int], None],
        *,
        keep: bool = True,
    ) -> None:
        self._name, self.cache, self.fill, self.keep = name, cache, fill, keep

    @property
    def name(self) -> str:
        return self._name

    @property
    def rules(self) -> str:
        """By which rules this client counts."""
        return self.cache.rules

    def contribute(self, number: int, *, cumulative: bool) -> Vector:
        self.fill(self.cache, number)
        return self.cache.take_cumulative() if cumulative else self.cache.take_increment()

    def skip(self, number: int) -> None:
        self.fill(self.cache, number)
        if not self.keep:
            self.cache.drop_increment()


@dataclass(frozen=True)
class RoundReport:
    """What happened in one round; q_bar is that of the round before where nothing was released.

    Everything here but q_bar is exact, and so for the operator alone.
    """

    number: int
    sampled: int
    accepted: int
    refused: dict[str, int]
    q_bar: Vector
    released: bool = True

    @property
    def sentence(self) -> str:
        """For the operator's terminal.

        >>> import numpy as np
        >>> RoundReport(1, 3, 2, {"late": 1}, np.ones(1)).sentence
        'Round 1: 2 accepted, 1 refused (late: 1).'
        """
        refused = sum(self.refused.values())
        why = ", ".join(f"{reason}: {count}" for reason, count in sorted(self.refused.items()))
        told = f"Round {self.number}: {self.accepted} accepted, {refused} refused"
        told += f" ({why})" if why else ""
        return f"{told}." if self.released else f"{told}; nothing was released."

    def to_json(self) -> dict[str, Any]:
        """The counts of the round, without its distribution."""
        return {
            "sampled": self.sampled,
            "accepted": self.accepted,
            "refused": self.refused,
            "released": self.released,
        }


def finish(server: Server, number: int, sampled: int, refused: dict[str, int]) -> RoundReport:
    """End a round: release it if enough clients joined, and say what happened."""
    try:
        q_bar, released = server.finish_round(), True
    except NobodyJoined:
        q_bar, released = server.q_bar, False
    accepted = sampled - sum(refused.values())
    return RoundReport(number, sampled, accepted, refused, q_bar, released)


def check_released(reports: Sequence[RoundReport]) -> None:
    """Refuse a federation in which no round was released: there is nothing to publish."""
    if not any(report.released for report in reports):
        told = " ".join(report.sentence for report in reports[:3])
        raise NobodyJoined(
            f"Expected contributions in at least one of {len(reports)} rounds, got too few in all "
            f"of them, so nothing was released or published. {told}"
        )


def run_rounds(
    clients: Sequence[Client],
    server: Server,
    *,
    rounds: int,
    sampling_rate: float = 1.0,
    key: SamplingKey | None = None,
    deadline: float | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[RoundReport]:
    """Run so many rounds, one report after each; `deadline` is in seconds for one client.

    Raises `NobodyJoined` at the end if no round was released. Every call is a run of its own in the
    ledger: rounds run again, maybe over the same utterances, are paid again.

    >>> import numpy as np
    >>> from sottovoce.personalize.federated.counting import Counting
    >>> from sottovoce.personalize.nbest.lists import Hypothesis, NBest
    >>> from sottovoce.personalize.lm.vocabulary import Vocabulary
    >>> words = Vocabulary(("call", "mum", "<unk>"), [0.4, 0.4, 0.2])
    >>> def hear(cache, number):
    ...     cache.add(NBest(f"u{number}", (Hypothesis("call mum"),)))
    >>> ann = CacheClient("ann", ClientCache(words, Counting()), hear)
    >>> for report in run_rounds([ann], Server(words), rounds=2):
    ...     print(report.number, report.accepted, report.q_bar.tolist())
    1 1 [0.5, 0.5, 0.0]
    2 1 [0.5, 0.5, 0.0]
    """
    _validate.at_least_one("rounds", rounds)
    _check_sampling(clients, server, sampling_rate)
    server.begin_run()
    key = key_of_run(key or SamplingKey(), server)
    if key.seeded and sampling_rate < 1 and server.ledger is not None:
        server.ledger.assume(SEEDED_STAMP)
    membership = Membership((client.name for client in clients), key)
    reports = []
    for number in range(1, rounds + 1):
        sampled = set(membership.poisson(number, sampling_rate).tolist())
        refused: Counter[str] = Counter()
        for place, client in enumerate(clients):
            if place not in sampled:
                client.skip(number)
                continue
            reason = _collect(client, server, number, deadline, clock)
            if reason is not None:
                refused[reason] += 1
        reports.append(finish(server, number, len(sampled), dict(refused)))
        yield reports[-1]
    check_released(reports)


def key_of_run(key: SamplingKey, server: Server) -> SamplingKey:
    """A key for the sampling of this run alone: two runs must not sample the same clients."""
    run = "" if server.release is None else server.release.run
    secret = hashlib.blake2b(run.encode(), key=key.secret, digest_size=16).digest()
    return SamplingKey(secret, seeded=key.seeded)


def _collect(
    client: Client,
    server: Server,
    number: int,
    deadline: float | None,
    clock: Callable[[], float],
) -> str | None:
    """Take one contribution in, or say in one word why not."""
    started = clock()
    try:
        contribution = client.contribute(number, cumulative=server.cumulative)
    except Exception:  # noqa: BLE001 - whatever breaks on a client's device is that client's loss
        return "failed"
    if deadline is not None and clock() - started > deadline:
        return "late"
    try:
        # A client of somebody's own making may not say by which rules it counts.
        server.receive(contribution, client=client.name, rules=getattr(client, "rules", None))
    except Refused as problem:
        return problem.reason
    return None


def _check_sampling(clients: Sequence[Client], server: Server, rate: float) -> None:
    _validate.rate("sampling_rate", rate)
    if not clients:
        raise InvalidInput("Expected at least one client, got none.")
    planned = server.plan.sampling_rate if server.plan is not None else None
    if planned is None:
        return
    if planned != rate:
        raise InvalidInput(
            f"Expected the plan's sampling rate of {planned:g}, got {rate:g}: the ledger would "
            "claim an amplification that did not happen."
        )
    if any(isinstance(client, CacheClient) and client.keep for client in clients):
        raise InvalidInput(
            "Expected clients that drop what they do not send (keep=False) where sampling is to "
            "amplify."
        )
