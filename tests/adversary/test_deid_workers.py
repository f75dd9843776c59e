"""Workers that release with a de-identifier of their parent: counted, or refused."""

import asyncio
import concurrent.futures
import copy
import multiprocessing
import os
import pickle
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sottovoce.corpora import Utterance
from sottovoce.deid import Deidentifier, Setting
from sottovoce.deid.detect import Gazetteer
from sottovoce.deid.statement import shared_counts as keepers
from sottovoce.errors import InvalidInput

CALL = Utterance(tokens=("call", "maria"), slots=("O", "O"), user="ann", id="1")
_OURS: list[Deidentifier] = []
"""Globals that a forked worker inherits from its parent."""


def made() -> Deidentifier:
    return Deidentifier(detector=Gazetteer({"PER": ["maria"]}), setting=Setting(epsilon=1.0))


@pytest.fixture
def deid() -> Iterator[Deidentifier]:
    _OURS.append(made())
    yield _OURS[-1]
    _OURS.clear()


def stated(deid: Deidentifier) -> float:
    return deid.statement().guarantees["utterance"].epsilon


def work(times: int) -> str:
    """A pool worker; it inherits the parent's global."""
    told = [each.text for each in _OURS[-1].release_all([CALL] * times)]
    return told[-1]


def ask(_: int) -> str:
    try:
        _OURS[-1].statement()
    except InvalidInput as problem:
        return str(problem)
    return ""


def pool_map(function: Callable[[int], Any], numbers: list[int]) -> list[Any]:
    """Like `datasets.map(num_proc=2)`: forked workers, each with a shard of the rows."""
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return pool.map(function, numbers)


def futures_map(function: Callable[[int], Any], numbers: list[int]) -> list[Any]:
    context = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        return list(pool.map(function, numbers))


@pytest.mark.parametrize("run", [pool_map, futures_map])
def test_a_pool_of_forked_workers_is_counted(
    deid: Deidentifier, run: Callable[..., list[Any]]
) -> None:
    work(1)
    run(work, [2, 3, 4])
    assert stated(deid) == pytest.approx(10)
    run(work, [5])
    assert stated(deid) == pytest.approx(15)


def test_without_the_shared_file_the_workers_would_be_forgotten(
    deid: Deidentifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keepers.SharedCounts, "is_copy", False)
    work(1)
    pool_map(work, [2, 3, 4])
    assert stated(deid) == pytest.approx(1)


def test_workers_of_workers_are_counted(deid: Deidentifier) -> None:
    child = os.fork()
    if not child:
        grandchild = os.fork()
        work(2)
        if grandchild:
            os.waitpid(grandchild, 0)
        os._exit(0)
    os.waitpid(child, 0)
    assert stated(deid) == pytest.approx(4)


def test_a_worker_that_dies_was_counted_before_it_released(deid: Deidentifier) -> None:
    child = os.fork()
    if not child:
        next(deid.release_all([CALL] * 3))
        os._exit(9)
    os.waitpid(child, 0)
    assert stated(deid) == pytest.approx(3)


def test_a_worker_makes_no_statement_of_its_own(deid: Deidentifier) -> None:
    assert all("ask the parent" in told for told in pool_map(ask, [1, 2]))


@pytest.mark.parametrize("way", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_copy_for_a_worker_is_refused(deid: Deidentifier, way: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match="would not be counted"):
        way(deid)


def test_a_spawned_worker_cannot_be_given_one(deid: Deidentifier) -> None:
    process = multiprocessing.get_context("spawn").Process(target=print, args=(deid,))
    with pytest.raises(TypeError, match="would not be counted"):
        process.start()


def test_a_pool_cannot_be_given_one(deid: Deidentifier) -> None:
    context = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        sent = pool.submit(deid.release, "call maria")
        with pytest.raises(TypeError, match="would not be counted"):
            sent.result()
    assert deid.statement().guarantees["utterance"].epsilon == 0


def test_a_generator_left_half_way_is_counted(deid: Deidentifier) -> None:
    going = deid.release_all([CALL] * 5)
    next(going)
    del going
    assert stated(deid) == pytest.approx(5)


def test_a_generator_finished_after_the_statement_is_in_the_next_one(deid: Deidentifier) -> None:
    waiting = deid.release_all([CALL])
    assert stated(deid) == 0
    next(waiting)
    assert stated(deid) == pytest.approx(1)


def test_an_input_that_fails_half_way_is_counted(deid: Deidentifier) -> None:
    def failing() -> Iterator[Utterance]:
        yield from [CALL] * 1024
        raise OSError("the disk is gone")

    told = []
    with pytest.raises(OSError, match="gone"):
        told += [each.text for each in deid.release_all(failing())]
    assert stated(deid) == pytest.approx(1024)


def test_tasks_and_threads_lose_nothing(deid: Deidentifier) -> None:
    async def every() -> None:
        await asyncio.gather(*(asyncio.to_thread(work, 5) for _ in range(8)))

    asyncio.run(every())
    threads = [threading.Thread(target=work, args=(5,)) for _ in range(4)]
    for each in threads:
        each.start()
    seen = stated(deid)  # while they run: never less than what was before, and never an error
    for each in threads:
        each.join()
    assert 40 - 1e-9 <= seen <= 60 + 1e-9
    assert stated(deid) == pytest.approx(60)
