"""Clients built from N-best lists, for simulated federation.

A keyed hash of an utterance's id decides which round it belongs to, so adding or removing an
utterance moves no other; the accounting of increments relies on that.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sottovoce import _validate
from sottovoce.errors import InvalidInput
from sottovoce.personalize.federated.cache import ClientCache
from sottovoce.personalize.federated.plan import ReleasePlan
from sottovoce.personalize.federated.release import CountRelease
from sottovoce.personalize.federated.rounds import CacheClient
from sottovoce.personalize.federated.server import PLAUSIBLE_MASS, WORD_LIMIT, Server
from sottovoce.personalize.lm.vocabulary import Vocabulary
from sottovoce.personalize.nbest.lists import NBest, by_client
from sottovoce.privacy.guarantee import Relation
from sottovoce.privacy.ledger import Ledger
from sottovoce.privacy.noise import NoiseSource
from sottovoce.privacy.sampling import Membership, SamplingKey


@dataclass(frozen=True)
class RoundUtterances:
    """The utterances of one client, by round."""

    rounds: dict[int, list[NBest]]

    def __call__(self, cache: ClientCache, number: int) -> None:
        for each in self.rounds.get(number, ()):
            cache.add(each)


def clients_of(
    lists: Sequence[NBest],
    vocabulary: Vocabulary,
    plan: ReleasePlan,
    *,
    rounds: int,
    key: SamplingKey | None = None,
) -> list[CacheClient]:
    """One client for every name in the lists; each utterance belongs to one round."""
    _validate.at_least_one("rounds", rounds)
    membership = Membership((each.id for each in lists), key or SamplingKey())
    round_of = dict(
        zip((each.id for each in lists), membership.workers(rounds).tolist(), strict=True)
    )
    # Amplification by sampling requires that unsampled increments are dropped.
    keep = plan.sampling_rate is None
    clients = []
    for name, mine in by_client(lists).items():
        by_round: dict[int, list[NBest]] = {}
        for each in mine:
            by_round.setdefault(round_of[each.id] + 1, []).append(each)
        cache = ClientCache(vocabulary, plan.counting, plan.caps)
        clients.append(CacheClient(name, cache, RoundUtterances(by_round), keep=keep))
    return clients


def server_for(
    vocabulary: Vocabulary,
    plan: ReleasePlan | None,
    *,
    ledger: Ledger,
    source: NoiseSource | None = None,
    denoise: str = "project",
    plausible_mass: float = PLAUSIBLE_MASS,
    minimum_clients: int = 1,
    resume: str | None = None,
) -> Server:
    """A server that releases by the plan, or without noise if there is no plan.

    With a minimum of clients above 1, none of them adds more than its inverse to the share of a
    word. `resume` is the id of an interrupted run to continue.
    """
    _validate.at_least_one("minimum_clients", minimum_clients)
    release = CountRelease(plan, ledger, source, resume=resume) if plan is not None else None
    return Server(
        vocabulary,
        release,
        ledger=ledger,
        denoise=denoise,
        plausible_mass=plausible_mass,
        minimum_clients=minimum_clients,
        word_limit=WORD_LIMIT if minimum_clients > 1 else None,
    )


def ledger_for(plan: ReleasePlan, earlier: Mapping[str, Any] | None = None) -> Ledger:
    """A ledger for the plan: empty, or continuing an `earlier` one given as JSON."""
    ledger = Ledger(unit=plan.unit, relation=Relation.ADD_OR_REMOVE)
    return ledger if earlier is None else continued(ledger, earlier)


def continued(ledger: Ledger, earlier: Mapping[str, Any]) -> Ledger:
    """The ledger, merged with everything that an earlier one (as JSON) has spent."""
    other = Ledger.from_json(earlier)
    if other.unit != ledger.unit:
        raise InvalidInput(
            f"Expected the unit of the earlier release, {other.unit}, got {ledger.unit}."
        )
    return ledger.union(other)
