"""Results of one run used by another: their cost is carried over, or they are refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import RunCli

from sottovoce.cli import federate as verb
from sottovoce.errors import InvalidInput
from sottovoce.personalize.federated import cache as caches
from sottovoce.personalize.federated.cache import ClientCache
from sottovoce.personalize.federated.counting import Caps, Counting
from sottovoce.personalize.federated.marginals import Marginals, guarantee_of
from sottovoce.personalize.lm.vocabulary import Vocabulary
from sottovoce.personalize.nbest.formats import write_nbest
from sottovoce.personalize.nbest.lists import Hypothesis, NBest

WORDS = Vocabulary.from_text(["call mum dad", "hang up now", "call"], size=20)
OTHERS = Vocabulary.from_text(["ring bob eve", "hang up now", "ring"], size=20)
CAPS = Caps(mass=4.0, per_word=2.0)
HEARD = NBest("u", (Hypothesis("call mum dad"),))


def saved(folder: Path) -> Path:
    """A cache whose lifetime cap is used up."""
    cache = ClientCache(WORDS, Counting(), CAPS)
    for _ in range(9):
        cache.add(HEARD)
    assert cache.take_increment().sum() == 4
    cache.save(folder / "cache.json")
    return folder / "cache.json"


def sent_after(cache: ClientCache) -> float:
    cache.add(HEARD)
    return float(cache.take_increment().sum())


def test_a_lifetime_that_is_spent_stays_spent_on_disk(tmp_path: Path) -> None:
    assert sent_after(ClientCache.load(saved(tmp_path), WORDS)) == 0
    assert sent_after(ClientCache.load(saved(tmp_path), WORDS, CAPS)) == 0


@pytest.mark.parametrize(
    ("words", "caps"),
    [(OTHERS, None), (WORDS, Caps()), (WORDS, Caps(mass=9.0, per_word=2.0)), (OTHERS, CAPS)],
)
def test_other_words_or_caps_do_not_begin_it_anew(
    tmp_path: Path, words: Vocabulary, caps: Caps | None
) -> None:
    with pytest.raises(InvalidInput):
        ClientCache.load(saved(tmp_path), words, caps)


@pytest.mark.parametrize("gone", ["caps", "vocabulary", "spent", "counting"])
def test_a_cache_without_what_it_was_counted_by_is_refused(tmp_path: Path, gone: str) -> None:
    path = saved(tmp_path)
    state = json.loads(path.read_text())
    del state[gone]
    path.write_text(json.dumps(state))
    with pytest.raises(InvalidInput):
        ClientCache.load(path, WORDS)


def test_if_what_was_spent_were_not_kept_it_would_be_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caches, "_PARTS", ("personal", "pending", "sent"))
    assert sent_after(ClientCache.load(saved(tmp_path), WORDS)) > 0


@pytest.fixture
def federated(run_cli: RunCli, tmp_path: Path) -> list[object]:
    lists = [NBest(f"u{i}", (Hypothesis("call mum"),), client=f"c{i % 5}") for i in range(30)]
    write_nbest(tmp_path / "heard.jsonl", lists)
    WORDS.save(tmp_path / "vocabulary.json")
    start = ["federate", tmp_path / "heard.jsonl", "--vocabulary", tmp_path, "--rounds", "2"]
    command: list[object] = [*start, "--runner", "in-process", "--epsilon", "1"]
    result = run_cli(*command, "-o", tmp_path / "words")
    assert result.exit_code == 0, result.stderr
    return [
        *command,
        "--pairs-of",
        tmp_path / "words",
        "--pair-words",
        "3",
        "-o",
        tmp_path / "pairs",
    ]


def edited(path: Path, change: Callable[[Any], None]) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def test_pairs_cost_what_their_words_cost_too(
    run_cli: RunCli, federated: list[object], tmp_path: Path
) -> None:
    assert run_cli(*federated).exit_code == 0
    run = json.loads((tmp_path / "pairs/run.json").read_text())
    assert run["guarantee"]["epsilon"] == pytest.approx(2, rel=1e-3)


def lost(tmp_path: Path) -> None:
    """The ledger file is gone, and the copy in run.json is emptied."""
    (tmp_path / "words/ledger.jsonl").unlink()
    edited(tmp_path / "words/run.json", lambda run: run.update(ledger=None))


def exchanged(tmp_path: Path) -> None:
    """Other numbers select the words of the pairs."""
    (tmp_path / "words/ledger.jsonl").unlink()
    edited(tmp_path / "words/marginals.json", lambda told: told["q_bar"].reverse())


def unbound(tmp_path: Path) -> None:
    edited(tmp_path / "words/marginals.json", lambda told: told["about"].pop("of"))


@pytest.mark.parametrize("forge", [lost, exchanged, unbound])
def test_words_that_nobody_paid_for_choose_no_pairs(
    run_cli: RunCli, federated: list[object], tmp_path: Path, forge: Callable[[Path], None]
) -> None:
    forge(tmp_path)
    result = run_cli(*federated)
    assert result.exit_code == 2
    assert not (tmp_path / "pairs/marginals.json").exists()


def test_without_their_ledger_the_words_would_be_free(
    run_cli: RunCli, federated: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "words/ledger.jsonl").unlink()
    monkeypatch.setattr(verb._Job, "carried", None)
    assert run_cli(*federated).exit_code == 0
    run = json.loads((tmp_path / "pairs/run.json").read_text())
    assert run["guarantee"]["epsilon"] == pytest.approx(1, rel=1e-3)


def test_numbers_that_are_bound_to_no_ledger_have_no_guarantee(
    federated: list[object], tmp_path: Path
) -> None:
    path = tmp_path / "words/marginals.json"
    assert guarantee_of(Marginals.load(path)).holds
    unbound(tmp_path)
    assert not guarantee_of(Marginals.load(path)).holds
