"""Federation rounds in one process: sample clients, collect, refuse invalid counts, release.

It computes the same numbers as a network deployment, for tests and small studies. A client that
fails, is late or sends invalid data is counted and left out; the round continues without it. A
round without contributions is not released, and a federation without a released round fails.
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
    """A participant with counts."""

    @property
    def name(self) -> str: ...

    def contribute(self, number: int, *, cumulative: bool) -> Vector:
        """The counts for round `number`, in units."""
        ...

    def skip(self, number: int) -> None:
        """The client was not sampled in this round."""
        ...


class CacheClient:
    """A client backed by a cache; `fill` adds the utterances of a round.

    With `keep` an unsampled client saves its increment for the next round. Nothing is lost, but an
    utterance may then be sent in any of several rounds, so amplification by sampling must not be
    claimed. Without `keep` the increment is dropped, and it may be claimed.
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
        """The rules this client counts by."""
        return self.cache.rules

    def contribute(self, number: int, *, cumulative: bool) -> Vector:
        self.fill(self.cache, number)
        return self.cache.take_cumulative() if cumulative else self.cache.take_increment()

    def skip(self, number: int) -> None:
        self.fill(self.cache, number)
        if not self.keep:
            self.cache.drop_increment()

    def replay(self, number: int) -> None:
        """Count a round of an interrupted run whose increment was asked for before."""
        self.fill(self.cache, number)
        self.cache.take_increment()


@dataclass(frozen=True)
class RoundReport:
    """The result of one round; q_bar is the previous one if nothing was released.

    Everything here except q_bar is exact, so it is for the operator only.
    """

    number: int
    sampled: int
    accepted: int
    refused: dict[str, int]
    q_bar: Vector
    released: bool = True

    @property
    def sentence(self) -> str:
        """A summary for the operator's terminal.

        >>> import numpy as np
        >>> RoundReport(1, 3, 2, {"late": 1}, np.ones(1)).sentence
        'Round 1: 3 asked, 2 accepted, 1 refused (late: 1).'
        """
        refused = sum(self.refused.values())
        why = ", ".join(f"{reason}: {count}" for reason, count in sorted(self.refused.items()))
        summary = f"Round {self.number}: {self.sampled} asked, {self.accepted} accepted, "
        summary += f"{refused} refused"
        summary += f" ({why})" if why else ""
        return f"{summary}." if self.released else f"{summary}; nothing was released."

    def to_json(self) -> dict[str, Any]:
        """The counts of the round, without the distribution."""
        return {
            "sampled": self.sampled,
            "accepted": self.accepted,
            "refused": self.refused,
            "released": self.released,
        }


def finish(server: Server, number: int, sampled: int, refused: dict[str, int]) -> RoundReport:
    """End a round: release it if enough clients contributed, and report."""
    try:
        q_bar, released = server.finish_round(), True
    except NobodyJoined:
        q_bar, released = server.q_bar, False
    accepted = sampled - sum(refused.values())
    return RoundReport(number, sampled, accepted, refused, q_bar, released)


def check_released(reports: Sequence[RoundReport]) -> None:
    """Raise an error if no round was released: there is nothing to publish."""
    if not any(report.released for report in reports):
        summary = " ".join(report.sentence for report in reports[:3])
        raise NobodyJoined(
            f"Expected contributions in at least one of {len(reports)} rounds, got too few in all "
            f"of them, so nothing was released or published. {summary}"
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
    done: Sequence[RoundReport] = (),
) -> Iterator[RoundReport]:
    """Run `rounds` rounds and yield a report after each; `deadline` is in seconds per client.

    `done` are the rounds of an interrupted run that the server was restored from.

    Raises `NobodyJoined` at the end if no round was released. Every call is a separate run in the
    ledger: repeated rounds, possibly over the same utterances, are charged again.

    >>> import numpy as np
    >>> from sottovoce.personalize.federated.counting import Counting
    >>> from sottovoce.personalize.nbest.lists import Hypothesis, NBest
    >>> from sottovoce.personalize.lm.vocabulary import Vocabulary
    >>> words = Vocabulary(("call", "mum", "<unk>"), [0.4, 0.4, 0.2])
    >>> def fill(cache, number):
    ...     cache.add(NBest(f"u{number}", (Hypothesis("call mum"),)))
    >>> ann = CacheClient("ann", ClientCache(words, Counting()), fill)
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
    reports = list(done)
    for client in clients:
        for number in range(1, len(reports) + 1):
            if isinstance(client, CacheClient):
                client.replay(number)
    for number in range(len(reports) + 1, rounds + 1):
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
    """A sampling key for this run only: two runs must not sample the same clients."""
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
    """Accept one contribution, or return a one-word reason for refusing it."""
    started = clock()
    try:
        contribution = client.contribute(number, cumulative=server.cumulative)
    except Exception:  # noqa: BLE001 - a failing client must not stop the round
        return "failed"
    if deadline is not None and clock() - started > deadline:
        return "late"
    try:
        # A custom client may not state its rules.
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
            f"Expected the plan's sampling rate of {planned:g}, got {rate:g}: use the plan's, or "
            "the ledger would claim an amplification that did not happen."
        )
    if any(isinstance(client, CacheClient) and client.keep for client in clients):
        raise InvalidInput(
            "Expected clients that drop unsent counts (keep=False) for amplification by sampling, "
            "got clients that keep them."
        )
