"""Attacks on a federation while it runs: empty rounds, other rules, repeated noise, threads."""

import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sottovoce.errors import BudgetExceeded, InvalidInput
from sottovoce.personalize.federated import server as serving
from sottovoce.personalize.federated.cache import ClientCache
from sottovoce.personalize.federated.counting import Caps, Counting
from sottovoce.personalize.federated.federation import clients_of, ledger_for, server_for
from sottovoce.personalize.federated.plan import ReleasePlan
from sottovoce.personalize.federated.release import CountRelease
from sottovoce.personalize.federated.rounds import CacheClient, run_rounds
from sottovoce.personalize.federated.server import NobodyJoined, Refused, Server
from sottovoce.personalize.lm.vocabulary import Vector, Vocabulary
from sottovoce.personalize.nbest.lists import Hypothesis, NBest
from sottovoce.privacy.guarantee import Budget, Relation, Unit
from sottovoce.privacy.ledger import Ledger
from sottovoce.privacy.noise import NoiseSource
from sottovoce.privacy.sampling import SamplingKey

WORDS = Vocabulary.from_text(["call mum dad", "hang up now"], size=9)
PLAN = ReleasePlan(counting=Counting(sigma=1.0)).calibrated(epsilon=1.0, rounds=3)
USER = ReleasePlan(
    counting=Counting(sigma=1.0), unit=Unit.USER, caps=Caps(mass=10.0, per_word=4.0)
).calibrated(epsilon=1.0, rounds=3)
LISTS = [
    NBest(f"u{i}", (Hypothesis("call mum"), Hypothesis("hang dad")), client=f"c{i % 4}")
    for i in range(24)
]


def make(plan: ReleasePlan = PLAN, **options: Any) -> Server:
    return server_for(WORDS, plan, ledger=options.pop("ledger", ledger_for(plan)), **options)


def spent(server: Server) -> float:
    assert server.ledger is not None
    return server.ledger.guarantee(0.0).epsilon


class Broken(CacheClient):
    """A device that fails to start."""

    def contribute(self, number: int, *, cumulative: bool) -> Vector:
        raise OSError("no interpreter")


def clients(plan: ReleasePlan = PLAN, lists: list[NBest] = LISTS) -> list[CacheClient]:
    return clients_of(lists, WORDS, plan, rounds=3, key=SamplingKey.from_seed(1))


def broken() -> list[CacheClient]:
    return [Broken(each.name, each.cache, each.fill) for each in clients()]


def test_a_federation_that_nobody_joined_releases_nothing_and_fails() -> None:
    server = make()
    with pytest.raises(NobodyJoined, match=r"nothing was released.*4 refused \(failed: 4\)"):
        list(run_rounds(broken(), server, rounds=3))
    assert np.array_equal(server.q_bar, WORDS.unigram)
    assert server.ledger is not None
    assert not server.ledger.entries


def test_without_the_check_noise_alone_is_published(monkeypatch: pytest.MonkeyPatch) -> None:
    server = make()
    monkeypatch.setattr(server, "minimum_clients", 0)
    reports = list(run_rounds(broken(), server, rounds=3))
    assert all(report.released and report.accepted == 0 for report in reports)
    assert server.counts.any()


@pytest.mark.parametrize("few", [0, -1, 0.5, True, "2", float("nan"), None])
def test_a_minimum_of_zero_clients_is_refused(few: Any) -> None:
    with pytest.raises(InvalidInput, match="minimum_clients"):
        make(minimum_clients=few)


def test_a_round_below_the_minimum_is_dropped_whole_and_costs_nothing() -> None:
    server = make(minimum_clients=3)
    for name in ("ann", "bob"):
        server.receive(np.ones(len(WORDS)), client=name)
    with pytest.raises(NobodyJoined):
        server.finish_round()
    assert spent(server) == 0
    # Dropped counts do not reappear in the next round.
    with pytest.raises(NobodyJoined):
        server.finish_round()


def test_rounds_run_again_over_the_same_utterances_are_paid_again() -> None:
    server = make()
    for times in (1, 2, 3):
        list(run_rounds(clients(), server, rounds=3))
        assert spent(server) == pytest.approx(times, rel=1e-3)


def test_rounds_of_one_run_would_be_paid_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    server = make()
    monkeypatch.setattr(Server, "begin_run", lambda _: None)
    for _ in range(2):
        list(run_rounds(clients(), server, rounds=3))
    assert spent(server) == pytest.approx(1, rel=1e-3)


def test_another_server_on_the_same_ledger_is_another_run() -> None:
    ledger = ledger_for(USER)
    for times in (1, 2):
        list(run_rounds(clients(USER), make(USER, ledger=ledger), rounds=3))
        assert ledger.guarantee(0.0).epsilon == pytest.approx(times, rel=1e-3)


def test_a_budget_stops_a_second_run_before_it_releases() -> None:
    limit = Budget(epsilon=1.001, delta=0.0)
    ledger = Ledger(unit=Unit.UTTERANCE, relation=Relation.ADD_OR_REMOVE, budget=limit)
    server = make(ledger=ledger)
    list(run_rounds(clients(), server, rounds=3))
    told = server.q_bar
    with pytest.raises(BudgetExceeded, match="nothing was released"):
        list(run_rounds(clients(), server, rounds=3))
    assert np.array_equal(server.q_bar, told)


def noise_of(release: CountRelease) -> Vector:
    return release(np.zeros(len(WORDS)))


def test_a_seed_gives_every_run_and_every_plan_its_own_noise() -> None:
    ledger = ledger_for(PLAN)
    drawn = [noise_of(CountRelease(PLAN, ledger, NoiseSource.seeded(7))) for _ in range(3)]
    other = replace(PLAN, scale=2 * PLAN.scale)
    drawn.append(noise_of(CountRelease(other, ledger, NoiseSource.seeded(7))) / 2)
    one = CountRelease(PLAN, ledger, NoiseSource.seeded(7))
    drawn += [noise_of(one), noise_of(one)]
    for place, noise in enumerate(drawn):
        assert not any(np.isclose(noise, each).any() for each in drawn[:place])


def test_equal_noise_would_show_the_difference_of_the_data() -> None:
    # The twin: two unrelated ledgers with one seed. The noise cancels.
    counts = np.arange(len(WORDS), dtype=float)
    with_, without = (
        CountRelease(PLAN, ledger_for(PLAN), NoiseSource.seeded(7))(total)
        for total in (counts, 0 * counts)
    )
    assert np.allclose(with_ - without, counts)


def test_a_resumed_file_does_not_repeat_its_noise(tmp_path: Any) -> None:
    drawn = []
    for _ in range(2):
        with Ledger.open(
            tmp_path / "ledger.jsonl", unit=Unit.UTTERANCE, relation=Relation.ADD_OR_REMOVE
        ) as ledger:
            drawn.append(noise_of(CountRelease(PLAN, ledger, NoiseSource.seeded(7))))
    assert not np.isclose(drawn[0], drawn[1]).any()


@pytest.mark.parametrize(
    "change",
    [
        {"counting": replace(USER.counting, sigma=50.0)},
        {"counting": replace(USER.counting, nbest=2)},
        {"counting": replace(USER.counting, max_words=99)},
        {"counting": replace(USER.counting, integer=True)},
        {"counting": replace(USER.counting, distinct=True)},
        {"caps": Caps(mass=11.0, per_word=4.0)},
        {"caps": Caps(mass=10.0)},
        {"caps": Caps(mass=10.0, per_word=4.0, span="per-round")},  # type: ignore[arg-type]
    ],
    ids=str,
)
def test_a_client_that_counts_by_other_rules_is_refused(change: dict[str, Any]) -> None:
    stranger = replace(USER, **change)
    few = [NBest("u", (Hypothesis("call"),), client="eve")]
    server = make(USER)
    with pytest.raises(NobodyJoined, match="other-rules: 1"):
        list(run_rounds(clients(stranger, few), server, rounds=1))


def test_a_client_with_another_vocabulary_is_refused() -> None:
    turned = Vocabulary((*reversed(WORDS.words[:-1]), WORDS.words[-1]), WORDS.unigram)
    cache = ClientCache(turned, PLAN.counting)
    eve = CacheClient("eve", cache, lambda cache, _: cache.add(LISTS[0]))
    with pytest.raises(NobodyJoined, match="other-rules: 1"):
        list(run_rounds([eve], make(), rounds=1))


def test_rules_that_are_not_compared_let_a_wider_kernel_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "same_rules", lambda *_: True)
    wider = replace(PLAN, counting=replace(PLAN.counting, sigma=50.0))
    server = make()
    list(run_rounds(clients(wider), server, rounds=3))
    # One utterance changes the sum by more than was accounted for.
    moved = wider.counting.count(LISTS[0], WORDS)[1].sum()
    assert moved > PLAN.counting.count(LISTS[0], WORDS)[1].sum()


def test_a_lifetime_cap_is_held_over_rounds_and_runs() -> None:
    server = make(USER)
    most = np.zeros(len(WORDS))
    most[:3] = (4.0, 4.0, 2.0)
    server.receive(most, client="eve")
    server.finish_round()
    server.begin_run()
    with pytest.raises(Refused, match="lifetime"):
        server.receive(most, client="eve")


def test_many_threads_at_once_are_added_up_and_nobody_counts_twice() -> None:
    server = make(replace(USER, scale=0.01))
    refused: list[str] = []
    start = threading.Barrier(8)

    def send(worker: int) -> None:
        start.wait()
        for i in range(50):
            one = np.zeros(len(WORDS))
            one[0] = 1.0
            try:
                # Every client is sent by two threads.
                server.receive(one, client=f"c{worker % 4}-{i}", rules=server.rules)
            except Refused as problem:
                refused.append(problem.reason)

    threads = [threading.Thread(target=send, args=(worker,)) for worker in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert refused == ["twice"] * 200
    server.finish_round()
    # 200 clients, one count each, and next to no noise.
    assert server.counts[0] == pytest.approx(200, abs=0.9)


@pytest.mark.parametrize("same", ["u0", "u1"])
def test_an_utterance_that_is_there_twice_is_refused(same: str) -> None:
    """Two utterances with one id in one pool would double the accounted sensitivity."""
    twice = [*LISTS, NBest(same, (Hypothesis("call mum"),), client="c9")]
    with pytest.raises(InvalidInput, match="distinct ids"):
        clients(lists=twice)


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        (Counting, {"sigma": float("nan")}), (Counting, {"sigma": "1"}),
        (Counting, {"sigma": True}),
        (Counting, {"nbest": 2.5}), (Counting, {"max_words": True}), (Counting, {"order": "1"}),
        (Counting, {"integer": "no"}), (Counting, {"distinct": 1}), (Counting, {"kernel": "rwa"}),
        (Caps, {"mass": -1.0}), (Caps, {"mass": float("nan")}), (Caps, {"mass": float("inf")}),
        (Caps, {"mass": "9"}), (Caps, {"mass": True}), (Caps, {"mass": 9.0, "per_word": 0.0}),
        (Caps, {"mass": 9.0, "span": "forever"}),
        (ReleasePlan, {"scale": 0.0}), (ReleasePlan, {"scale": "1"}),
        (ReleasePlan, {"scale": True}),
        (ReleasePlan, {"unit": "speaker"}), (ReleasePlan, {"noise": "lapalce"}),
        (ReleasePlan, {"release": "all"}), (ReleasePlan, {"sampling_rate": float("nan")}),
        (ReleasePlan, {"counting": {"sigma": 1.0}}), (ReleasePlan, {"caps": [1.0, None]}),
    ],
    ids=str,
)  # fmt: skip
def test_settings_that_are_not_what_they_should_be_are_refused(
    kind: Any, wrong: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput, match="Expected"):
        kind(**wrong)


def test_text_is_the_member_that_it_spells() -> None:
    typed = ReleasePlan(
        counting=USER.counting, unit="user", noise="laplace", release="increments",  # type: ignore[arg-type]
        caps=Caps(mass=10.0, per_word=4.0, span="lifetime"), scale=USER.scale,  # type: ignore[arg-type]
    )  # fmt: skip
    assert typed == USER
    assert typed.fact() == USER.fact()
