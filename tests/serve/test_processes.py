"""Work in processes: killed at its limits, shared fairly, and started again after a crash."""

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from sottovoce.errors import InvalidInput
from sottovoce.serve import processes
from sottovoce.serve.app import create_app
from sottovoce.serve.metrics import Metrics
from sottovoce.serve.problems import RequestError, WorkFailed
from sottovoce.serve.processes import Processes
from sottovoce.serve.settings import Settings
from sottovoce.serve.workers import Verb

SETTINGS = Settings(detector="greedy", timeout=600.0, workers=2)
PLUGINS = ("tests.serve.greedy",)
QUICK, ENDLESS, MEMORY = '{"text": "hello"}', '{"text": "for ever"}', '{"text": "memory"}'


@pytest.fixture(scope="module")
def workers() -> Iterator[Processes]:
    found = Processes(SETTINGS, Metrics(), PLUGINS)
    yield found
    found.close()


def asleep(workers: Processes) -> None:
    """Idle processes of an earlier event loop would answer too, but tests count processes."""
    for process in workers._idle:
        process.discard()
    workers._idle.clear()


async def status_of(workers: Processes, verb: Verb, body: str, caller: str = "ann") -> int:
    try:
        await workers.run(verb, body, caller)
    except RequestError as problem:
        return problem.status
    return 200


def test_a_job_is_answered(workers: Processes) -> None:
    answer = asyncio.run(workers.run(Verb.DEIDENTIFY, QUICK, "ann"))
    assert answer["detector"] == "greedy"
    assert answer["released"] == [{"text": "hello", "spans": []}]


def test_the_time_limit_ends_the_work(workers: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    asleep(workers)
    monkeypatch.setattr(workers, "_settings", replace(SETTINGS, timeout=1.0))
    seen: list[int] = []

    async def scenario() -> int:
        asked = asyncio.create_task(status_of(workers, Verb.DEIDENTIFY, ENDLESS))
        while not (workers._running and workers._running[0].process):
            await asyncio.sleep(0.01)
        seen.append(workers._running[0].process.pid)
        return await asked

    assert asyncio.run(scenario()) == 504
    assert workers._running == []
    # It was killed, and vanishes as soon as the system gets to it.
    while _at_work(seen[0]):
        time.sleep(0.01)


def test_long_jobs_leave_the_lanes_to_short_ones(workers: Processes) -> None:
    asleep(workers)

    async def scenario() -> list[int]:
        long = [
            asyncio.create_task(status_of(workers, Verb.DEIDENTIFY, ENDLESS, "mallory"))
            for _ in range(6)
        ]
        # All lanes are taken by a caller who has more waiting, and yet others are answered.
        answers = [await status_of(workers, Verb.DEIDENTIFY, QUICK, f"{n}") for n in range(6)]
        assert not all(each.done() for each in long)
        for each in long:
            each.cancel()
        await asyncio.gather(*long, return_exceptions=True)
        return answers

    assert asyncio.run(scenario()) == [200] * 6
    assert workers._running == []
    assert not workers._waiting


def test_without_the_rule_long_jobs_hold_up_short_ones(
    workers: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "MOMENT", 1e9)
    asleep(workers)

    async def scenario() -> bool:
        long = [
            asyncio.create_task(status_of(workers, Verb.DEIDENTIFY, ENDLESS, "mallory"))
            for _ in range(2)
        ]
        await asyncio.sleep(0)
        short = asyncio.create_task(status_of(workers, Verb.DEIDENTIFY, QUICK, "ann"))
        done, _ = await asyncio.wait([short], timeout=1.5)
        for each in [*long, short]:
            each.cancel()
        await asyncio.gather(*long, short, return_exceptions=True)
        return bool(done)

    assert not asyncio.run(scenario())


def test_callers_take_turns(workers: Processes) -> None:
    order: list[str] = []

    async def ask(caller: str) -> None:
        await workers.run(Verb.DEIDENTIFY, QUICK, caller)
        order.append(caller)

    async def scenario() -> None:
        many = [asyncio.create_task(ask("mallory")) for _ in range(30)]
        await asyncio.sleep(0)
        await asyncio.gather(*many, ask("ann"))

    asyncio.run(scenario())
    # Two lanes: ann's job is the third or so to start.
    assert order.index("ann") < 8


def test_a_job_that_takes_too_much_memory_is_refused(workers: Processes) -> None:
    assert asyncio.run(_outcome(workers, MEMORY)) == 413
    assert asyncio.run(_outcome(workers, QUICK)) == 200


async def _outcome(workers: Processes, body: str) -> Any:
    try:
        await workers.run(Verb.DEIDENTIFY, body, "ann")
    except RequestError as problem:
        return problem.status
    except WorkFailed as problem:
        return problem.failure
    return 200


def test_a_killed_worker_and_a_killed_parent_of_workers_are_replaced(workers: Processes) -> None:
    asyncio.run(workers.run(Verb.DEIDENTIFY, QUICK, "ann"))
    for process in workers._idle:
        os.kill(process.pid, signal.SIGKILL)
        while process.alive:
            time.sleep(0.01)
    assert asyncio.run(_outcome(workers, QUICK)) == 200
    assert workers._forker is not None
    workers._forker[0].kill()
    workers._forker[0].wait()
    assert not workers.ready
    asleep(workers)
    assert asyncio.run(_outcome(workers, QUICK)) == 200
    assert workers.ready


def test_what_cannot_be_loaded_is_one_sentence() -> None:
    with pytest.raises(InvalidInput, match="nowhere"):
        Processes(Settings(detector="patterns", run="nowhere"), Metrics())


def test_the_whole_service_with_processes() -> None:
    settings = Settings(detector="patterns", workers=1)
    with TestClient(create_app(settings)) as client:
        assert client.get("/readyz").status_code == 200
        answer = client.post("/deidentify", json={"text": "call 555-0123"}).json()
        metrics = client.get("/metrics").text
    assert "555" not in answer["released"][0]["text"]
    assert 'sottovoce_jobs_total{outcome="answered",verb="deidentify"} 1.0' in metrics


def _at_work(pid: int) -> bool:
    """Whether the process lives; one that was just killed may be about to vanish."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"
