"""Repeated releases of the same text must add up in the statement."""

import os
import pickle
import threading

import pytest

from sottovoce.corpora import Utterance
from sottovoce.deid import Deidentifier, Setting
from sottovoce.deid import deidentifier as deidentifiers
from sottovoce.deid.detect import Gazetteer
from sottovoce.deid.statement.unit_counts import random_numbers

CALL = Utterance(tokens=("call", "maria"), slots=("O", "O"), user="ann", id="1")


def made() -> Deidentifier:
    return Deidentifier(detector=Gazetteer({"PER": ["maria"]}), setting=Setting(epsilon=1.0))


def stated(deid: Deidentifier, unit: str = "utterance") -> float:
    return deid.statement().guarantees[unit].epsilon


def test_one_id_forty_times_in_a_file_costs_forty_times() -> None:
    deid = made()
    list(deid.release_all([CALL] * 40))
    assert stated(deid) == pytest.approx(40)
    assert stated(deid, "token") == pytest.approx(40)


def test_if_ids_were_ignored_it_would_cost_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deidentifiers, "key_of", lambda *parts: random_numbers(1)[0])
    deid = made()
    list(deid.release_all([CALL] * 40))
    assert stated(deid) == pytest.approx(1)


def test_the_same_text_in_later_calls_adds_up() -> None:
    deid = made()
    for _ in range(3):
        deid.release("call maria")
    assert stated(deid) == pytest.approx(3)


def test_another_run_adds_up_where_its_record_is_given() -> None:
    first, second = made(), made()
    for each in (first, second):
        list(each.release_all([CALL]))
    assert stated(second) == pytest.approx(1)
    second.absorb(first.record())
    assert stated(second) == pytest.approx(2)


def test_a_forked_process_is_counted_by_its_parent() -> None:
    deid = made()
    list(deid.release_all([CALL]))
    child = os.fork()
    if not child:
        list(deid.release_all([CALL]))
        os._exit(0)
    os.waitpid(child, 0)
    assert stated(deid) == pytest.approx(2)


def test_a_copy_that_would_not_be_counted_cannot_be_made() -> None:
    with pytest.raises(TypeError, match="would not be counted"):
        pickle.dumps(made())


def test_threads_lose_nothing() -> None:
    deid = made()
    threads = [
        threading.Thread(target=lambda: list(deid.release_all([CALL] * 25))) for _ in range(4)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert stated(deid, "user") == pytest.approx(100)
