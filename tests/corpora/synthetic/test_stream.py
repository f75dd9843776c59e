import gzip
import json
import re
import subprocess
import sys
import tracemalloc
from collections import Counter, defaultdict
from functools import cache
from itertools import combinations, islice, pairwise
from pathlib import Path
from random import Random

import pytest

from sottovoce.corpora import Utterance, check_bio, spans_of
from sottovoce.corpora.jsonl import jsonl_line
from sottovoce.corpora.synthetic import DOMAINS, generate, schema, write_jsonl
from sottovoce.errors import InvalidInput

SIZE = 20_000
HABITS = {"communication": "contact", "health": "medicine", "video": "title"}

each_domain = pytest.mark.parametrize("domain", DOMAINS)


@cache
def corpus(domain: str) -> tuple[Utterance, ...]:
    return tuple(generate(domain, size=SIZE))


def values_of(utterance: Utterance, slot_type: str) -> list[str]:
    spans = spans_of(utterance)
    return [utterance.text[s.start : s.end] for s in spans if s.type == slot_type]


@each_domain
def test_records_are_well_formed(domain: str) -> None:
    declared = schema(domain)
    labels, intents = set(declared.labels), set(declared.intents)
    word = re.compile(r"[a-z0-9]([a-z0-9'@.:/-]*[a-z0-9])?")
    for number, utterance in enumerate(corpus(domain)):
        check_bio(utterance.slots)
        assert set(utterance.slots) <= labels
        assert utterance.intent in intents
        assert utterance.id == f"{domain}-{number:09d}"
        assert re.fullmatch(r"u\d{5}", utterance.user)
        assert utterance.text == " ".join(utterance.tokens)
        assert all(map(word.fullmatch, utterance.tokens)), utterance.text


@each_domain
def test_every_intent_slot_type_and_private_slot_occurs(domain: str) -> None:
    declared = schema(domain)
    intents = Counter(utterance.intent for utterance in corpus(domain))
    slots = Counter(
        label[2:] for u in corpus(domain) for label in u.slots if label.startswith("B-")
    )
    assert set(intents) == set(declared.intents)
    assert set(slots) == set(declared.slot_types)
    assert min(slots.values()) >= 20
    assert sum(slots[name] for name in declared.private) > SIZE / 10


@each_domain
def test_the_same_seed_gives_the_same_corpus_and_another_seed_another(domain: str) -> None:
    again = tuple(islice(generate(domain, size=SIZE), 5000))
    assert again == corpus(domain)[:5000]
    other = generate(domain, size=SIZE, seed=1)
    assert sum(a.text == b.text for a, b in zip(again, other, strict=False)) < 100


def test_the_corpus_is_the_same_in_another_process() -> None:
    program = (
        "from sottovoce.corpora.synthetic import generate\n"
        "for u in generate('health', size=50, seed=3): print(u.user, u.intent, u.text)"
    )
    printed = subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        capture_output=True,
        text=True,
        env={"PYTHONHASHSEED": "77"},
    ).stdout
    here = [f"{u.user} {u.intent} {u.text}" for u in generate("health", size=50, seed=3)]
    assert printed.splitlines() == here


def test_a_smaller_size_is_a_prefix_when_users_are_equal() -> None:
    longer = list(generate("video", size=9000, users=50))
    assert list(generate("video", size=5000, users=50)) == longer[:5000]
    assert list(generate("video", size=5000, users=51)) != longer[:5000]


@each_domain
def test_the_file_holds_what_generate_yields(domain: str, tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    told: list[int] = []
    write_jsonl(path, domain, size=5000, users=30, seed=2, progress=told.append)
    expected = list(generate(domain, size=5000, users=30, seed=2))
    with path.open("rb") as lines:
        for line, utterance in zip(lines, expected, strict=True):
            record = json.loads(line)
            assert list(record) == ["tokens", "slots", "intent", "user", "id"]
            assert tuple(record["tokens"]) == utterance.tokens
            assert tuple(record["slots"]) == utterance.slots
            assert line == jsonl_line(utterance)
    assert told[-1] == 5000
    assert all(a < b for a, b in pairwise(told))


def test_a_gz_name_compresses_the_same_bytes(tmp_path: Path) -> None:
    plain, packed = tmp_path / "a.jsonl", tmp_path / "a.jsonl.gz"
    write_jsonl(plain, "video", size=300)
    write_jsonl(packed, "video", size=300)
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_a_crash_leaves_no_file_and_an_old_one_as_it_was(
    error: type[BaseException], tmp_path: Path
) -> None:
    def interrupted(written: int) -> None:
        raise error

    old = tmp_path / "old.jsonl"
    old.write_text("old\n")
    for path in (tmp_path / "new.jsonl", old):
        with pytest.raises(error):
            write_jsonl(path, "health", size=10_000, progress=interrupted)
    assert [path.name for path in tmp_path.iterdir()] == ["old.jsonl"]
    assert old.read_text() == "old\n"


@each_domain
def test_activity_is_zipf_like(domain: str) -> None:
    counts = [count for _, count in Counter(u.user for u in corpus(domain)).most_common()]
    assert sum(counts[: len(counts) // 10]) > 0.3 * SIZE
    assert len(counts) > 300


@each_domain
def test_values_recur_within_users_far_more_than_between_them(domain: str) -> None:
    """Chance that two values of a user are equal, against the same after shuffling the users."""

    def recurrence(users: list[str], values: list[str]) -> float:
        own = defaultdict(list)
        for user, value in zip(users, values, strict=True):
            own[user].append(value)
        pairs = [a == b for said in own.values() for a, b in combinations(said[:40], 2)]
        return sum(pairs) / len(pairs)

    pairs = [(u.user, value) for u in corpus(domain) for value in values_of(u, HABITS[domain])]
    users, values = [user for user, _ in pairs], [value for _, value in pairs]
    shuffled = Random(0).sample(values, len(values))
    assert recurrence(users, values) > 5 * recurrence(users, shuffled)
    assert recurrence(users, values) > 0.02


@each_domain
def test_sentences_are_varied_with_a_head_of_short_commands(domain: str) -> None:
    counts = Counter(utterance.text for utterance in corpus(domain))
    assert len(counts) > 0.8 * SIZE
    head = [text for text, _ in counts.most_common(10)]
    assert max(len(text.split()) for text in head) <= 6
    assert counts.most_common(1)[0][1] > 20


@each_domain
def test_speech_has_fillers_bare_commands_and_many_slots(domain: str) -> None:
    fillers = sum(1 for u in corpus(domain) if {"uh", "um"} & set(u.tokens))
    slots = Counter(sum(s.startswith("B-") for s in u.slots) for u in corpus(domain))
    assert fillers > 0.02 * SIZE
    assert slots[0] > 0.05 * SIZE
    assert sum(count for number, count in slots.items() if number > 1) > 0.1 * SIZE


@each_domain
def test_a_sentence_does_not_always_tell_its_intent(domain: str) -> None:
    intents = defaultdict(set)
    for utterance in corpus(domain):
        shape = re.sub(r"(B-\S+)( I-\S+)*", r"\1", " ".join(utterance.slots))
        words = " ".join(
            word
            for word, label in zip(utterance.tokens, utterance.slots, strict=True)
            if label == "O"
        )
        intents[words, shape].add(utterance.intent)
    assert sum(len(found) > 1 for found in intents.values()) >= 20


def test_memory_does_not_grow_with_the_size(tmp_path: Path) -> None:
    def peak(size: int) -> int:
        tracemalloc.start()
        write_jsonl(tmp_path / "corpus.jsonl", "communication", size=size, users=100)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    peak(100)  # compile the grammar first
    assert peak(15_000) < 1.2 * peak(5000)


@pytest.mark.parametrize(
    ("domain", "size", "users", "seed", "message"),
    [
        ("weather", 10, None, 0, "Expected domain to be one of communication, health, video"),
        ("health", 0, None, 0, "Expected size >= 1, got 0."),
        ("health", -5, None, 0, "Expected size >= 1, got -5."),
        ("health", 10, 0, 0, r"Expected users from 1 to size \(10\), got 0."),
        ("health", 10, 11, 0, r"Expected users from 1 to size \(10\), got 11."),
        ("health", 10, None, -1, "Expected seed >= 0, got -1."),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_made(
    domain: str, size: int, users: int | None, seed: int, message: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInput, match=message):
        generate(domain, size=size, users=users, seed=seed)
    with pytest.raises(InvalidInput, match=message):
        write_jsonl(tmp_path / "x.jsonl", domain, size=size, users=users, seed=seed)
    assert not list(tmp_path.iterdir())


def test_one_utterance_is_a_corpus() -> None:
    (only,) = generate("communication", size=1)
    assert only.user == "u00000"
