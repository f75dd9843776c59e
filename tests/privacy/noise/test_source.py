"""The stream of random bits: secure, never repeated, reproducible only with a seed."""

import copy
import itertools
import multiprocessing
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.errors import InvalidInput
from sottovoce.privacy.noise import SEEDED_STAMP, NoiseSource
from sottovoce.privacy.noise.source import ZEROS, _hash

MADE: dict[str, Callable[[], NoiseSource]] = {
    "os": NoiseSource,
    "seeded": lambda: NoiseSource.seeded(1),
}


def test_the_stream_is_the_encryption_of_a_counter() -> None:
    source = NoiseSource.seeded(1)
    blocks = 2 * len(ZEROS) // 16 + 3
    counters = b"".join(block.to_bytes(16, "big") for block in range(blocks))
    key = _hash(source._root, b"stream")
    reference = Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(counters)
    assert source.words(2 * blocks).tobytes() == reference


@settings(derandomize=True, deadline=None, max_examples=30)
@given(parts=st.lists(st.integers(0, 300), max_size=6), kind=st.sampled_from(["words", "halves"]))
def test_parts_make_the_whole(parts: list[int], kind: str) -> None:
    source, whole = NoiseSource.seeded(1), NoiseSource.seeded(1)
    drawn = [x for n in parts for x in getattr(source, kind)(n).tolist()]
    assert drawn == getattr(whole, kind)(sum(parts)).tolist()


def test_parts_larger_than_a_piece_make_the_whole() -> None:
    source, n = NoiseSource.seeded(1), len(ZEROS) // 8
    parts = np.concatenate([source.words(n + 1), source.words(5), source.words(2 * n)])
    assert (parts == NoiseSource.seeded(1).words(3 * n + 6)).all()


def test_a_seed_repeats_and_another_seed_does_not() -> None:
    assert (NoiseSource.seeded(1).words(9) == NoiseSource.seeded(1).words(9)).all()
    assert not (NoiseSource.seeded(1).words(9) == NoiseSource.seeded(2).words(9)).any()
    assert not (NoiseSource.seeded(2**2000).words(9) == NoiseSource.seeded(0).words(9)).any()


def test_sources_keyed_by_the_operating_system_differ() -> None:
    assert not (NoiseSource().words(9) == NoiseSource().words(9)).any()


def test_no_word_comes_twice() -> None:
    words = NoiseSource.seeded(1).words(100_000)
    assert np.unique(words).size == words.size


def test_stamps() -> None:
    assert NoiseSource().stamp is None
    assert not NoiseSource().is_seeded
    seeded = NoiseSource.seeded(0)
    assert seeded.is_seeded
    assert seeded.stamp == SEEDED_STAMP
    assert seeded.stamp == "seeded: for tests, no guarantee against anyone who knows the seed"
    assert seeded.derive("worker 0").stamp == SEEDED_STAMP
    assert NoiseSource().derive("worker 0").stamp is None


def test_fingerprints_tell_equal_keys_without_telling_the_key() -> None:
    source = NoiseSource.seeded(1)
    before = source.fingerprint
    source.words(100)
    assert source.fingerprint == before == NoiseSource.seeded(1).fingerprint
    assert before != NoiseSource.seeded(2).fingerprint
    assert len(before) == 16
    for secret in [source._root.hex(), _hash(source._root, b"stream").hex()]:
        assert before not in secret
        assert secret not in repr(source)


def test_children_are_independent_of_each_other_and_of_what_was_drawn() -> None:
    parent, used = NoiseSource.seeded(1), NoiseSource.seeded(1)
    used.words(1000)
    assert (parent.derive("a").words(9) == used.derive("a").words(9)).all()
    streams = [
        parent,
        parent.derive("b"),
        parent.derive("c"),
        parent.derive("d").derive("b"),
        NoiseSource.seeded(2).derive("b"),
    ]
    draws = [set(stream.words(1000).tolist()) for stream in streams]
    for one, other in itertools.combinations(draws, 2):
        assert not one & other


def test_a_label_is_used_once() -> None:
    source = NoiseSource()
    source.derive("a")
    with pytest.raises(InvalidInput, match="'a' again"):
        source.derive("a")


Report = tuple[list[int], str, str | None]


def _report(source: NoiseSource, end: Connection) -> None:
    end.send((source.words(50).tolist(), source.fingerprint, source.stamp))


# Newer Pythons warn of forking beside the threads that numpy's libraries keep.
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("kind", MADE)
def test_a_forked_process_does_not_repeat_the_parent(kind: str) -> None:
    source = MADE[kind]()
    source.words(3)
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    for _ in range(2):
        child = context.Process(target=_report, args=(source, sender))
        child.start()
        child.join(timeout=20)
        assert child.exitcode == 0
    _report(source, sender)
    reports: list[Report] = [receiver.recv() for _ in range(3)]
    for one, other in itertools.combinations(reports, 2):
        assert not set(one[0]) & set(other[0])
        assert one[1] != other[1]
        assert one[2] == other[2]


def test_only_the_forked_process_starts_afresh(monkeypatch: pytest.MonkeyPatch) -> None:
    source, reference = NoiseSource.seeded(1), NoiseSource.seeded(1).words(20)
    source.derive("a")
    assert (source.words(10) == reference[:10]).all()
    assert (source.words(10) == reference[10:]).all()
    monkeypatch.setattr("os.getpid", lambda: -1)
    assert not np.isin(source.words(20), reference).any()
    assert source.derive("a").fingerprint != NoiseSource.seeded(1).derive("a").fingerprint


@pytest.mark.parametrize("duplicate", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_source_cannot_be_duplicated(duplicate: Callable[[object], object]) -> None:
    with pytest.raises(TypeError, match="would repeat the same noise"):
        duplicate(NoiseSource())


def test_threads_share_a_source_without_repeats() -> None:
    source, draws, n = NoiseSource.seeded(1), 40, 20_000
    with ThreadPoolExecutor(4) as pool:
        drawn = np.concatenate(list(pool.map(source.words, [n] * draws)))
    assert (np.sort(drawn) == np.sort(NoiseSource.seeded(1).words(n * draws))).all()


def test_uniform_takes_the_upper_53_bits() -> None:
    words = NoiseSource.seeded(1).words(100).tolist()
    assert NoiseSource.seeded(1).uniform(100).tolist() == [(w >> 11) / 2**53 for w in words]


@settings(derandomize=True, deadline=None, max_examples=60)
@given(high=st.integers(1, 2**63))
def test_integers_are_remainders_of_fair_words(high: int) -> None:
    drawn = NoiseSource.seeded(1).integers(high, 20).tolist()
    words = NoiseSource.seeded(1).words(20).tolist()
    for value, word in zip(drawn, words, strict=True):
        assert 0 <= value < high
        if word < 2**64 // high * high:
            assert value == word % high


def test_edges_of_integers() -> None:
    source = NoiseSource.seeded(1)
    assert source.integers(1, 5).tolist() == [0] * 5
    assert source.integers(7, 0).shape == (0,)
    assert source.integers(2**63, 1000).min() >= 0
    assert source.integers(2**63, 1000).max() > 2**62
    assert source.integers(2, 10).dtype == np.int64


@pytest.mark.parametrize("high", [0, -3, 2**63 + 1, 2**64])
def test_integers_refuse_what_they_cannot_do(high: int) -> None:
    with pytest.raises(InvalidInput, match=r"Expected high from 1 to 2\*\*63"):
        NoiseSource().integers(high, 1)


def test_empty_draws() -> None:
    source = NoiseSource()
    assert source.words(0).shape == source.halves(0).shape == source.uniform(0).shape == (0,)


def test_bad_arguments() -> None:
    source = NoiseSource()
    for draw in [source.words, source.halves, source.uniform]:
        with pytest.raises(InvalidInput, match="Expected n >= 0, got -1"):
            draw(-1)
    with pytest.raises(InvalidInput, match="Expected seed >= 0, got -1"):
        NoiseSource.seeded(-1)
    with pytest.raises(TypeError, match="integer"):
        NoiseSource.seeded(1.5)  # type: ignore[arg-type]


def test_fill_takes_any_contiguous_array() -> None:
    source = NoiseSource.seeded(1)
    out = np.zeros((3, 5), np.uint16)
    source.fill(out)
    assert out.tobytes() == NoiseSource.seeded(1).words(4).tobytes()[:30]
    with pytest.raises(InvalidInput, match="contiguous"):
        source.fill(out[:, ::2])
    out.flags.writeable = False
    with pytest.raises(InvalidInput, match="writable"):
        source.fill(out)
