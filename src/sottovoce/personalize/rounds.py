"""Rounds of federation in one process: sample clients, collect, refuse what is wrong, release.

The same numbers as over a network, without one: for tests and small studies. A client that fails,
is late or sends garbage is counted and left out; the round goes on without it.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.personalize.cache import ClientCache
from sottovoce.personalize.server import Refused, Server
from sottovoce.personalize.vocabulary import Vector
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

    def contribute(self, number: int, *, cumulative: bool) -> Vector:
        self.fill(self.cache, number)
        return self.cache.take_cumulative() if cumulative else self.cache.take_increment()

    def skip(self, number: int) -> None:
        self.fill(self.cache, number)
        if not self.keep:
            self.cache.drop_increment()


@dataclass(frozen=True)
class RoundReport:
    """What happened in one round."""

    number: int
    sampled: int
    accepted: int
    refused: dict[str, int]
    q_bar: Vector

    def to_json(self) -> dict[str, Any]:
        """The counts of the round, without its distribution."""
        return {"sampled": self.sampled, "accepted": self.accepted, "refused": self.refused}


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

    >>> import numpy as np
    >>> from sottovoce.personalize.counting import Counting
    >>> from sottovoce.personalize.nbest import Hypothesis, NBest
    >>> from sottovoce.personalize.vocabulary import Vocabulary
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
    key = key or SamplingKey()
    if key.seeded and sampling_rate < 1 and server.ledger is not None:
        server.ledger.assume(SEEDED_STAMP)
    membership = Membership((client.name for client in clients), key)
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
        q_bar = server.finish_round()
        accepted = len(sampled) - refused.total()
        yield RoundReport(number, len(sampled), accepted, dict(refused), q_bar)


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
        server.receive(contribution)
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
