"""Rounds continue whatever single clients do, and invalid contributions never enter the sum."""

from typing import Any

import numpy as np
import pytest

from sottovoce.errors import InvalidInput
from sottovoce.personalize.federated.cache import ClientCache
from sottovoce.personalize.federated.counting import Caps, Counting
from sottovoce.personalize.federated.plan import ReleasePlan
from sottovoce.personalize.federated.release import CountRelease
from sottovoce.personalize.federated.rounds import CacheClient, run_rounds
from sottovoce.personalize.federated.server import NO_NOISE, NobodyJoined, Server
from sottovoce.personalize.lm.vocabulary import UNKNOWN, Vector, Vocabulary
from sottovoce.personalize.nbest.lists import Hypothesis, NBest
from sottovoce.privacy.facts import Noise
from sottovoce.privacy.guarantee import SEEDED_STAMP, Relation, Unit
from sottovoce.privacy.ledger import Ledger
from sottovoce.privacy.noise import NoiseSource
from sottovoce.privacy.recipes.federate import Cap, Release
from sottovoce.privacy.sampling import SamplingKey

WORDS = Vocabulary(("a", "b", "c", UNKNOWN), np.full(4, 0.25))


class Scripted:
    """A client that returns a fixed answer."""

    def __init__(self, name: str, answer: Any) -> None:
        self.name, self.answer = name, answer
        self.skipped: list[int] = []

    def contribute(self, number: int, *, cumulative: bool) -> Vector:
        if isinstance(self.answer, Exception):
            raise self.answer
        answer: Vector = self.answer
        return answer

    def skip(self, number: int) -> None:
        self.skipped.append(number)


def hearing(text: str, counting: Counting, name: str = "ann", **options: Any) -> CacheClient:
    def hear(cache: ClientCache, number: int) -> None:
        cache.add(NBest(f"u{number}", (Hypothesis(text),)))

    return CacheClient(
        name, ClientCache(WORDS, counting, options.pop("caps", None)), hear, **options
    )


BAD: dict[str, Any] = {
    "wrong-length": np.ones(3),
    "not-finite": np.array([1.0, np.nan, 0, 0]),
    "negative": np.array([1.0, -1.0, 0, 0]),
    "too-large": np.array([1e9, 0, 0, 0]),
    "not-numbers": np.array(["a", "b", "c", "d"]),
    "failed": RuntimeError("battery empty"),
}


def test_bad_clients_are_refused_and_counted() -> None:
    good = Scripted("good", np.array([3.0, 1.0, 0.0, 0.0]))
    clients = [good, *(Scripted(reason, answer) for reason, answer in BAD.items())]
    clients.append(Scripted("none", None))
    (report,) = run_rounds(clients, Server(WORDS), rounds=1)
    assert report.sampled == len(BAD) + 2
    assert report.accepted == 1
    assert report.refused == dict.fromkeys(BAD, 1) | {"wrong-length": 2}
    assert report.q_bar.tolist() == [0.75, 0.25, 0.0, 0.0]


def test_late_clients_are_left_out() -> None:
    now = iter([0.0, 1.0, 10.0, 99.0])
    clients = [Scripted("quick", np.array([1.0, 0, 0, 0])), Scripted("slow", np.ones(4))]
    (report,) = run_rounds(clients, Server(WORDS), rounds=1, deadline=5.0, clock=lambda: next(now))
    assert report.refused == {"late": 1}
    assert report.q_bar.tolist() == [1.0, 0, 0, 0]


def test_caps_of_the_plan_bound_what_is_accepted() -> None:
    plan = ReleasePlan(
        counting=Counting(integer=True),
        noise=Noise.DISCRETE_LAPLACE,
        unit=Unit.USER,
        caps=Caps(2.0, 1.0),
        scale=0.01,
    )
    ledger = Ledger(unit=Unit.USER, relation=Relation.ADD_OR_REMOVE)
    server = Server(WORDS, CountRelease(plan, ledger, NoiseSource.seeded(1)))
    clients = [
        Scripted("mass", np.array([64.0, 64, 1, 0])),
        Scripted("word", np.array([65.0, 0, 0, 0])),
        Scripted("half", np.array([0.5, 0, 0, 0])),
        Scripted("good", np.array([64.0, 64, 0, 0])),
    ]
    (report,) = run_rounds(clients, server, rounds=1)
    assert report.refused == {"too-large": 2, "not-whole": 1}
    assert report.accepted == 1


def test_a_round_without_anybody_is_neither_released_nor_paid() -> None:
    plan = ReleasePlan(scale=1.0)
    ledger = Ledger(unit=Unit.UTTERANCE, relation=Relation.ADD_OR_REMOVE)
    server = Server(WORDS, CountRelease(plan, ledger, NoiseSource.seeded(1)))
    rounds = run_rounds([Scripted("bad", None)], server, rounds=2)
    reports = [next(rounds), next(rounds)]
    assert [(report.accepted, report.released) for report in reports] == [(0, False)] * 2
    assert "nothing was released" in reports[0].sentence
    with pytest.raises(NobodyJoined, match=r"at least one of 2 rounds.*wrong-length: 1"):
        next(rounds)
    assert not ledger.entries
    assert not server.counts.any()


def test_too_few_contributions_are_dropped_and_the_next_round_is_released() -> None:
    server = Server(WORDS, minimum_clients=2)
    server.receive(np.array([5.0, 0, 0, 0]), client="ann")
    with pytest.raises(NobodyJoined, match="at least 2 clients in a round, got 1"):
        server.finish_round()
    for name in ("ann", "bob"):
        server.receive(np.array([0, 1.0, 0, 0]), client=name)
    assert server.finish_round().tolist() == [0, 1.0, 0, 0]


def test_without_noise_the_ledger_says_so() -> None:
    ledger = Ledger(unit=Unit.USER, relation=Relation.ADD_OR_REMOVE)
    list(run_rounds([Scripted("a", np.ones(4))], Server(WORDS, ledger=ledger), rounds=2))
    guarantee = ledger.guarantee(0.0)
    assert not guarantee.holds
    assert guarantee.reasons == (NO_NOISE,)


@pytest.mark.parametrize("release", Release)
def test_increments_and_cumulative_counts_give_the_same_distribution(release: Release) -> None:
    plan = ReleasePlan(scale=1e-6, release=release)
    ledger = Ledger(unit=Unit.UTTERANCE, relation=Relation.ADD_OR_REMOVE)
    server = Server(WORDS, CountRelease(plan, ledger, NoiseSource.seeded(1)))
    clients = [hearing("a a b", plan.counting, "ann"), hearing("c", plan.counting, "bob")]
    reports = list(run_rounds(clients, server, rounds=3))
    assert np.allclose(reports[-1].q_bar, [0.5, 0.25, 0.25, 0.0], atol=1e-4)
    assert np.allclose(server.counts, [6.0, 3.0, 3.0, 0.0], atol=1e-3)


def test_sampling_is_poisson_and_unsampled_clients_are_told() -> None:
    clients = [Scripted(f"c{i}", np.ones(4)) for i in range(200)]
    reports = list(
        run_rounds(
            clients, Server(WORDS), rounds=5, sampling_rate=0.3, key=SamplingKey.from_seed(7)
        )
    )
    assert all(30 < report.sampled < 90 for report in reports)
    assert len({report.sampled for report in reports}) > 1
    assert sum(len(client.skipped) for client in clients) == 1000 - sum(r.sampled for r in reports)


def test_kept_increments_arrive_later_and_dropped_ones_never() -> None:
    for keep, expected in ((True, 4.0), (False, 2.0)):
        client = hearing("a", Counting(), keep=keep)
        received = 0.0
        for number, sampled in enumerate([True, False, False, True]):
            if sampled:
                received += client.contribute(number, cumulative=False).sum()
            else:
                client.skip(number)
        assert received == expected


def test_amplification_is_claimed_only_for_what_happens() -> None:
    plan = ReleasePlan(sampling_rate=0.5)
    ledger = Ledger(unit=Unit.UTTERANCE, relation=Relation.ADD_OR_REMOVE)
    server = Server(WORDS, CountRelease(plan, ledger))
    with pytest.raises(InvalidInput, match="plan's sampling rate"):
        next(run_rounds([Scripted("a", None)], server, rounds=1))
    with pytest.raises(InvalidInput, match="keep=False"):
        next(run_rounds([hearing("a", plan.counting)], server, rounds=1, sampling_rate=0.5))
    dropping = [hearing("a", plan.counting, f"c{i}", keep=False) for i in range(20)]
    key = SamplingKey.from_seed(1)
    list(run_rounds(dropping, server, rounds=2, sampling_rate=0.5, key=key))
    guarantee = ledger.guarantee(0.0)
    assert guarantee.epsilon < plan.counting.l1_sensitivity / plan.scale
    assert SEEDED_STAMP in guarantee.assumptions


def test_growing_caps_accept_what_has_grown() -> None:
    plan = ReleasePlan(
        unit=Unit.USER,
        caps=Caps(1.0, span=Cap.PER_ROUND),
        release=Release.CUMULATIVE,
        scale=1e-6,
    )
    ledger = Ledger(unit=Unit.USER, relation=Relation.ADD_OR_REMOVE)
    server = Server(WORDS, CountRelease(plan, ledger, NoiseSource.seeded(1)))
    client = hearing("a b", plan.counting, caps=plan.caps)
    reports = list(run_rounds([client], server, rounds=3))
    assert [report.refused for report in reports] == [{}, {}, {}]


def test_bad_input() -> None:
    with pytest.raises(InvalidInput, match="at least one client"):
        next(run_rounds([], Server(WORDS), rounds=1))
    with pytest.raises(InvalidInput, match="rounds >= 1"):
        next(run_rounds([Scripted("a", None)], Server(WORDS), rounds=0))
    with pytest.raises(InvalidInput, match="denoise to be one of"):
        Server(WORDS, denoise="polish")
