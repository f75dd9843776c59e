"""Nobody makes a ledger say less than was spent: damage, cuts, roll-backs, copies, shared pools.

Each test is a mistake or an attack; its twin takes the protection away, and the attack succeeds.
"""

import copy
import json
import os
import pickle
import warnings
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sottovoce.errors import (
    BudgetExceeded,
    CannotAccount,
    InvalidInput,
    LedgerDamaged,
    UnchainedLedger,
)
from sottovoce.privacy.accounting import Entry
from sottovoce.privacy.facts import BoundedRelease, Contribution, NoisySum, Sampling
from sottovoce.privacy.guarantee import Relation, Unit
from sottovoce.privacy.ledger import Budget, Ledger
from sottovoce.privacy.ledgers import history, journal, merging
from sottovoce.privacy.ledgers.chain import Chain, Record
from sottovoce.privacy.ledgers.merging import compose, merge_workers

HALF = BoundedRelease(unit=Unit.USER, mechanism="histogram", epsilon=0.5)
TENTH = BoundedRelease(unit=Unit.USER, mechanism="count", epsilon=0.1)
SHUFFLED = NoisySum(
    unit=Unit.USER, clip_norm=1.0, noise_stds=(2.0,), sampling=Sampling.SHUFFLE, pool="epoch 0"
)


def new(relation: Relation = Relation.REPLACE_ONE, budget: Budget | None = None) -> Ledger:
    return Ledger(unit=Unit.USER, relation=relation, budget=budget)


def opened(path: Path, budget: Budget | None = None) -> Ledger:
    return Ledger.open(path, unit=Unit.USER, relation=Relation.REPLACE_ONE, budget=budget)


def epsilon(ledger: Ledger, delta: float = 0.0) -> float:
    return ledger.guarantee(delta).epsilon


def copy_of(ledger: Ledger) -> Ledger:
    """What a checkpoint or run.json keeps."""
    return Ledger.from_json(json.loads(json.dumps(ledger.to_json())))


def spent_file(path: Path, times: int = 5) -> bytes:
    with opened(path) as ledger:
        for _ in range(times):
            ledger.spend(HALF)
    return path.read_bytes()


# -- damage -------------------------------------------------------------------------------------


def test_one_changed_byte_anywhere_is_refused_and_the_file_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    whole = spent_file(path, times=2)
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 0x01
        path.write_bytes(changed)
        with pytest.raises(LedgerDamaged):
            Ledger.read(path)
        with pytest.raises(LedgerDamaged):
            opened(path)
        assert path.read_bytes() == changed


def test_one_changed_byte_in_an_open_ledger_hides_nothing(tmp_path: Path) -> None:
    """The process was killed, so there is no seal after the last spend."""
    path = tmp_path / "ledger.jsonl"
    whole = spent_file(path, times=1)
    whole = whole[: whole[:-1].rindex(b"\n") + 1]
    for place in range(whole[:-1].rindex(b"\n"), len(whole)):
        for flip in (0x01, 0x20, 0x80):
            changed = bytearray(whole)
            changed[place] ^= flip
            path.write_bytes(changed)
            with pytest.raises(LedgerDamaged):
                Ledger.read(path)


def test_twin_a_reader_that_drops_a_bad_last_line_forgets_what_was_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.jsonl"
    whole = spent_file(path, times=1)
    lines = whole.splitlines(keepends=True)[:-1]
    path.write_bytes(b"".join([*lines[:-1], lines[-1].replace(b"0.5", b"0.4")]))
    real = journal.parse

    def forgiving(content: bytes, where: Path) -> Any:
        try:
            return real(content, where)
        except LedgerDamaged:
            return real(b"".join(content.splitlines(keepends=True)[:-1]), where)

    monkeypatch.setattr(journal, "parse", forgiving)
    assert epsilon(Ledger.read(path)) == 0


def test_lines_taken_out_put_in_twice_or_moved_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    lines = spent_file(path).splitlines(keepends=True)
    other = tmp_path / "other.jsonl"
    foreign = spent_file(other).splitlines(keepends=True)
    variants = [
        lines[:2] + lines[3:],
        [*lines[:3], lines[2], *lines[3:]],
        [lines[0], lines[2], lines[1], *lines[3:]],
        lines[1:],
        [lines[0], *lines],
        [foreign[0], *lines[1:]],
        [*lines, foreign[-1]],
        [*lines, b"\n"],
        [b"\xef\xbb\xbf" + lines[0], *lines[1:]],
        [line.replace(b"\n", b"\r\n") for line in lines],
    ]
    for variant in variants:
        path.write_bytes(b"".join(variant))
        with pytest.raises(LedgerDamaged):
            Ledger.read(path)


def test_an_emptied_file_is_no_new_ledger(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    whole = spent_file(path)
    for content in (b"", b"\n", whole[: whole.index(b"\n") // 2], b"{}\n", b"shopping list"):
        path.write_bytes(content)
        with pytest.raises(LedgerDamaged):
            opened(path)
        assert path.read_bytes() == content


def test_what_is_no_file_is_refused_with_a_sentence(tmp_path: Path) -> None:
    spent_file(tmp_path / "ledger.jsonl")
    (tmp_path / "link").symlink_to(tmp_path / "ledger.jsonl")
    (tmp_path / "nowhere").symlink_to(tmp_path / "nothing")
    os.mkfifo(tmp_path / "pipe")
    for name in ("", "link", "nowhere", "pipe", "ledger.jsonl/x", "missing/ledger.jsonl"):
        with pytest.raises(InvalidInput, match="Expected"):
            opened(tmp_path / name)
    assert not (tmp_path / "nothing").exists()
    with pytest.raises(InvalidInput, match="Expected a ledger at"):
        Ledger.read(tmp_path / "nothing")


# -- hand-made records: the attacker can compute hashes too ---------------------------------------


def forged(*records: Record) -> bytes:
    chain = Chain()
    for record in records:
        chain.append(chain.next(record))
    return chain.lines()


def header() -> Record:
    return new().to_json()["records"][0]  # type: ignore[no-any-return]


FORGERIES: dict[str, list[Any]] = {
    "a negative count": [{"spend": HALF.to_json(), "count": 9}, {"again": -8}],
    "a count of zero": [{"spend": HALF.to_json(), "count": 0}],
    "a count that is true": [{"spend": HALF.to_json(), "count": True}],
    "a count with a fraction": [{"spend": HALF.to_json(), "count": 0.5}],
    "a count beyond floats": [{"spend": HALF.to_json(), "count": 2**53 + 1}],
    "nothing to repeat": [{"again": 1}],
    "a second header": [header()],
    "an unknown record": [{"refund": 1}],
    "a spend with a comment": [{"spend": HALF.to_json(), "count": 1, "void": True}],
    "another unit": [{"spend": {**HALF.to_json(), "unit": "token"}, "count": 1}],
    "a negative epsilon": [{"spend": {**HALF.to_json(), "epsilon": -5.0}, "count": 1}],
    "an unknown fact": [{"spend": {"kind": "gift"}, "count": 1}],
    "spending after the seal": [{"sealed": True}, {"spend": HALF.to_json(), "count": 1}],
    "one run twice": [{"run": "a"}, {"run": "a"}],
    "a union with a refund": [
        {"absorb": {"id": None, "head": {"records": 1, "sha256": ""}}, "spends": [[{}, -1]]}
    ],
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_records_are_refused_in_files_and_in_json(tmp_path: Path, name: str) -> None:
    path = tmp_path / "ledger.jsonl"
    records = [header(), *FORGERIES[name]]
    path.write_bytes(forged(*records))
    with pytest.raises(LedgerDamaged):
        Ledger.read(path)
    with pytest.raises(LedgerDamaged):
        opened(path)
    with pytest.raises(LedgerDamaged):
        Ledger.from_json({"records": records, "head": Chain.from_json(records).head.to_json()})


def test_twin_without_the_check_of_counts_a_refund_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(forged(header(), *FORGERIES["a negative count"]))
    monkeypatch.setattr(history, "_count", lambda value: value)
    monkeypatch.setattr(Entry, "__post_init__", lambda self: None)
    assert epsilon(Ledger.read(path)) == pytest.approx(0.5)  # of 4.5


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e999", '1, "count": 2'])
def test_numbers_that_json_does_not_have_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "ledger.jsonl"
    chain = Chain.from_json([header()])
    body = json.dumps({"spend": HALF.to_json(), "count": 1}, sort_keys=True)
    link = chain.link({}, body.replace('"count": 1', f'"count": {text}'))
    path.write_bytes(chain.lines() + link.line)
    with pytest.raises(LedgerDamaged):
        Ledger.read(path)


@pytest.mark.parametrize("count", [0, -1, True, False, 1.0, 0.5, "1", None, 2**53 + 1, 1e9])
def test_only_whole_numbers_are_spent(count: Any) -> None:
    ledger = new()
    with pytest.raises(InvalidInput, match="count"):
        ledger.spend(HALF, count)
    ledger.spend(HALF, 2**53)
    with pytest.raises((InvalidInput, LedgerDamaged), match=r"2\^53"):
        ledger.spend(HALF)


# -- cuts, roll-backs, copies --------------------------------------------------------------------


def test_a_cut_ledger_does_not_read_as_complete(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    lines = spent_file(path, times=30).splitlines(keepends=True)
    whole = Ledger.read(path)
    assert whole.sealed
    assert not any("not closed" in each for each in whole.guarantee(0.0).assumptions)
    path.write_bytes(b"".join(lines[:20]))
    cut = Ledger.read(path)
    assert not cut.sealed
    assert any("not closed" in each for each in cut.guarantee(0.0).assumptions)
    with opened(path) as looked_at:
        assert any("not closed" in each for each in looked_at.guarantee(0.0).assumptions)
    assert not Ledger.read(path).sealed  # looking does not close what somebody else left open
    # Going on does not heal it.
    with opened(path) as ledger:
        ledger.spend(HALF)
    mended = Ledger.read(path)
    assert (mended.sealed, mended.interruptions) == (True, 1)
    assert any("interrupted" in each for each in mended.guarantee(0.0).assumptions)


def test_going_on_from_a_copy_of_a_cut_ledger_does_not_heal_it(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    lines = spent_file(path, times=30).splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:20]))
    continued = Ledger.read(path)
    continued.assume("nothing else happened")
    continued.close()
    again = copy_of(continued)
    assert any("interrupted" in each for each in again.guarantee(0.0).assumptions)


def test_twin_without_a_seal_a_cut_ledger_looks_like_a_whole_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Ledger, "sealed", True)  # neither written nor looked for
    path = tmp_path / "ledger.jsonl"
    lines = spent_file(path, times=30).splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:20]))
    cut = Ledger.read(path)
    assert cut.guarantee(0.0).assumptions == ()
    assert epsilon(cut) == pytest.approx(9.5)  # of 15


def rolled_back(path: Path) -> tuple[Ledger, Ledger]:
    """A file put back to an older state, and the copy of the newer one in a checkpoint."""
    with opened(path) as ledger:
        ledger.spend(HALF, 2)
        old = path.read_bytes()
        ledger.spend(TENTH)
        ledger.spend(HALF, 3)
        saved = copy_of(ledger)
    path.write_bytes(old)
    return opened(path), saved


def test_a_rolled_back_file_does_not_beat_the_copy_in_the_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    ledger, saved = rolled_back(path)
    assert not ledger.includes(saved)
    assert saved.includes(ledger)
    ledger.union(saved)
    assert epsilon(ledger) == pytest.approx(2.6)
    ledger.spend(HALF)
    ledger.close()
    # Once is enough: to resume again from the same checkpoint adds nothing.
    with opened(path) as again:
        assert again.includes(saved)
        again.union(saved)
        assert epsilon(again) == pytest.approx(3.1)


def test_twin_without_the_union_the_older_file_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, saved = rolled_back(tmp_path / "ledger.jsonl")
    monkeypatch.setattr(Ledger, "union", lambda self, other: self)
    assert epsilon(ledger.union(saved)) == pytest.approx(1.0)


def test_a_file_that_has_gone_on_includes_its_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    with opened(path) as ledger:
        ledger.spend(HALF, 2)
        saved = copy_of(ledger)
        ledger.spend(HALF, 2)
    with opened(path) as ledger:
        before = path.read_bytes()
        assert epsilon(ledger.union(saved)) == pytest.approx(2.0)
        assert path.read_bytes() == before


def test_a_lost_file_is_made_good_by_the_checkpoint_beyond_the_budget(tmp_path: Path) -> None:
    budget = Budget(epsilon=1.0, delta=0.0)
    saved = new(budget=budget)
    saved.spend(HALF, 2)
    with opened(tmp_path / "ledger.jsonl", budget) as ledger:
        ledger.spend(TENTH)
        assert epsilon(ledger.union(saved)) == pytest.approx(1.1)
        with pytest.raises(BudgetExceeded):
            ledger.spend(TENTH)


def two_ways(tmp_path: Path) -> tuple[Ledger, Ledger]:
    """A ledger that was copied, and both copies spent the same: 0.5 before, 0.5 and 1.0 after."""
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    with opened(first) as ledger:
        ledger.spend(HALF)
    second.write_bytes(first.read_bytes())
    for path, times in ((first, 1), (second, 2)):
        with opened(path) as ledger:
            ledger.spend(HALF, times)
    return Ledger.read(first), Ledger.read(second)


def test_copies_that_went_different_ways_are_both_paid(tmp_path: Path) -> None:
    first, second = two_ways(tmp_path)
    assert not first.includes(second)
    assert not second.includes(first)
    assert epsilon(copy_of(first).union(second)) == pytest.approx(2.0)
    assert epsilon(copy_of(second).union(first)) == pytest.approx(2.0)
    assert epsilon(compose([("a", first), ("b", second)]).ledger) == pytest.approx(2.0)


def test_twin_without_names_of_openings_one_way_hides_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Ledger, "_new_opening", lambda self: "opened")
    first, second = two_ways(tmp_path)
    assert epsilon(copy_of(first).union(second)) == pytest.approx(1.5)


def test_two_runs_from_one_copy_in_json_are_both_paid() -> None:
    earlier = new()
    earlier.spend(HALF)
    one, two = copy_of(earlier), copy_of(earlier)
    one.spend(HALF)
    two.spend(HALF)
    assert epsilon(copy_of(one).union(two)) == pytest.approx(1.5)


def test_what_a_copy_withdrew_stays_withdrawn(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    with opened(path) as ledger:
        ledger.spend(HALF)
        old = path.read_bytes()
        ledger.void("the sum moved by 3 C")
        saved = copy_of(ledger)
    path.write_bytes(old)
    with opened(path) as ledger:
        assert ledger.guarantee(0.0).holds  # what the attacker hoped for
        assert ledger.union(saved).guarantee(0.0).reasons == ("the sum moved by 3 C",)
    assert not Ledger.read(path).guarantee(0.0).holds


def test_a_ledger_of_other_people_is_not_united() -> None:
    other = Ledger(unit=Unit.TOKEN, relation=Relation.REPLACE_ONE)
    with pytest.raises(CannotAccount, match="Expected a ledger that protects one user"):
        new().union(other)


def test_an_edited_copy_in_json_is_refused() -> None:
    ledger = new()
    ledger.spend(HALF)
    for _ in range(9):
        ledger.spend(HALF)
    whole = ledger.to_json()
    assert epsilon(copy_of(ledger)) == pytest.approx(5.0)
    edits: list[dict[str, Any]] = [
        {**whole, "records": whole["records"][:-1]},
        {**whole, "records": [*whole["records"][:-1], {"again": 1, "times": 2}]},
        {**whole, "records": [*whole["records"][:-1], {"again": 1, "times": 0}]},
        {**whole, "records": [*whole["records"][:-1], {"again": 1, "times": True}]},
        {**whole, "records": [*whole["records"][:-1], {"again": 1, "times": 2**60}]},
        {**whole, "head": {**whole["head"], "records": 3}},
        {"records": whole["records"][:-1]},
        {**whole, "head": None},
    ]
    for edited in edits:
        with pytest.raises(LedgerDamaged):
            Ledger.from_json(json.loads(json.dumps(edited)))


# -- pools ---------------------------------------------------------------------------------------


def five_trainings(path: Path) -> float:
    for _ in range(5):
        with opened(path) as ledger:
            ledger.spend(SHUFFLED, 10)
    return epsilon(Ledger.read(path), 1e-5)


def test_five_shuffled_trainings_in_one_file_are_paid_five_times(tmp_path: Path) -> None:
    apart = Ledger.of(
        [Entry(replace(SHUFFLED, pool=f"epoch {place}"), 10) for place in range(5)],
        unit=Unit.USER,
        relation=Relation.REPLACE_ONE,
    )
    once = Ledger.of([Entry(SHUFFLED, 10)], unit=Unit.USER, relation=Relation.REPLACE_ONE)
    assert five_trainings(tmp_path / "ledger.jsonl") == pytest.approx(epsilon(apart, 1e-5))
    assert epsilon(apart, 1e-5) > 2 * epsilon(once, 1e-5)


def test_twin_pools_that_are_known_by_name_alone_are_paid_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = Ledger.of([Entry(SHUFFLED, 10)], unit=Unit.USER, relation=Relation.REPLACE_ONE)
    monkeypatch.setattr(history.History, "scoped", lambda self, fact, opening=None: fact)
    assert five_trainings(tmp_path / "ledger.jsonl") == pytest.approx(epsilon(once, 1e-5))


def test_two_runs_in_one_opening_do_not_share_pools() -> None:
    ledger = new()
    for _ in range(2):
        ledger.new_run()
        ledger.spend(SHUFFLED)
    assert len({entry.fact.pool for entry in ledger.entries}) == 2
    # Runs that take turns say by the names of their pools whose batch it was.
    in_turns = new()
    runs = [in_turns.new_run(), in_turns.new_run()]
    for run in runs * 3:
        in_turns.spend(replace(SHUFFLED, pool=f"{run} epoch 0"))
    assert {entry.fact.pool for entry in in_turns.entries} == {f"{run} epoch 0" for run in runs}


def test_a_seeded_run_that_is_repeated_gets_another_id(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    ids = []
    for _ in range(3):
        with opened(path) as ledger:
            run = ledger.new_run("seed 7")
            ids.append(run)
            ledger.spend(replace(SHUFFLED, pool=f"{run} epoch 0"))
            # The name of an earlier run is not believed.
            ledger.spend(replace(SHUFFLED, pool=f"{ids[0]} epoch 0"))
    assert ids == [ids[0], f"{ids[0]}-2", f"{ids[0]}-3"]
    assert new().new_run("seed 7") == ids[0]
    assert len({entry.fact.pool for entry in Ledger.read(path).entries}) == 5


def test_forks_of_a_seeded_ledger_do_not_share_pools(tmp_path: Path) -> None:
    """Both copies went on with a fresh pool of the same name."""
    one = new()
    one.spend(HALF)
    two, three = copy_of(one), copy_of(one)
    for each in (two, three):
        each.spend(SHUFFLED)
    both = copy_of(two).union(three)
    assert len([entry for entry in both.entries if entry.fact.pool is not None]) == 2


# -- merging -------------------------------------------------------------------------------------


def worker(rank: int, *runs: str, workers: int = 2) -> Ledger:
    ledger = new(Relation.ADD_OR_REMOVE)
    share = NoisySum(
        unit=Unit.USER, clip_norm=1.0, noise_stds=(0.7,), sampling_rate=0.1,
        contribution=Contribution.MIXED, workers=workers, rank=rank,
    )  # fmt: skip
    for run in runs:
        ledger.new_run(run)
        ledger.spend(share, 10)
    if not runs:
        ledger.spend(share, 10)
    return ledger


def test_ledgers_of_two_trainings_are_not_workers_of_one() -> None:
    assert len(merge_workers([worker(0, "x"), worker(1, "x")]).entries) == 1
    first = worker(0, "x")
    for pair in (
        [worker(0, "x"), worker(1, "y")],
        [worker(0, "x"), worker(1)],
        [worker(0, "x"), worker(0, "x")],
        [first, first],
        [worker(0, "x", workers=3), worker(1, "x", workers=3)],
        [worker(0, "x", "y"), worker(1, "y", "z")],
        [worker(0, "x", "y"), worker(1, "y", "x")],
        [worker(0, "x")],
        [],
    ):
        with pytest.raises((CannotAccount, InvalidInput), match="Expected"):
            merge_workers(pair)


def test_a_worker_that_lost_an_earlier_run_leaves_no_step_out() -> None:
    merged = merge_workers([worker(0, "x", "y", "z"), worker(1, "x", "z")])
    assert sum(entry.count for entry in merged.entries) == 30


def test_twin_without_run_ids_two_trainings_pass_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "_check_one_training", lambda ledgers: None)
    merged = merge_workers([worker(0, "x"), worker(1, "y")])
    assert sum(entry.count for entry in merged.entries) == 10  # of 20 steps, with half the noise


def test_without_run_ids_the_assumption_is_stated() -> None:
    merged = merge_workers([worker(0), worker(1)])
    assert any("run ids" in sentence for sentence in merged.assumptions)


def test_one_worker_that_withdraws_withdraws_for_all() -> None:
    ledgers_of_two = [worker(0, "x"), worker(1, "x")]
    ledgers_of_two[1].void("the sum moved by 3 C")
    assert merge_workers(ledgers_of_two).guarantee(1e-5).reasons == ("the sum moved by 3 C",)


def test_ledgers_about_the_same_people_add_up_and_copies_count_once() -> None:
    one, two = new(), new()
    one.spend(HALF)
    two.spend(HALF)
    older = copy_of(one)
    one.spend(HALF)
    whole = compose([("old", older), ("one", one), ("two", two), ("again", copy_of(one))])
    assert epsilon(whole.ledger) == pytest.approx(1.5)
    assert any("counted once" in sentence for sentence in whole.how)
    assert any("old, one, two, again" in each for each in whole.ledger.assumptions)


def test_pools_of_different_ledgers_are_never_one() -> None:
    one, two = new(), new()
    for ledger in (one, two):
        ledger.spend(SHUFFLED, 10)
    whole = compose([("one", one), ("two", two)]).ledger
    assert epsilon(whole, 1e-5) > 1.3 * epsilon(one, 1e-5)


def test_twin_pools_of_different_ledgers_by_name_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = new(), new()
    for ledger in (one, two):
        ledger.spend(SHUFFLED, 10)
    monkeypatch.setattr(merging, "_with_pool_of", lambda fact, source: fact)
    whole = compose([("one", one), ("two", two)]).ledger
    assert epsilon(whole, 1e-5) == pytest.approx(epsilon(one, 1e-5))


def test_two_runs_of_one_seed_are_both_paid_though_their_ledgers_look_alike() -> None:
    seeded = [
        Ledger(unit=Unit.USER, relation=Relation.REPLACE_ONE, seed_hint="7") for _ in range(2)
    ]
    for ledger in seeded:
        ledger.spend(HALF)
    assert seeded[0].to_json() == seeded[1].to_json()
    assert epsilon(compose([("a", seeded[0]), ("b", seeded[1])]).ledger) == pytest.approx(1.0)


def test_ledgers_of_different_units_or_relations_are_not_added() -> None:
    for other in (
        Ledger(unit=Unit.TOKEN, relation=Relation.REPLACE_ONE),
        new(Relation.ADD_OR_REMOVE),
    ):
        with pytest.raises(CannotAccount, match="same unit and relation"):
            compose([("a", new()), ("b", other)])


# -- between payment and release -----------------------------------------------------------------


def test_a_fact_that_is_changed_after_it_was_spent_changes_nothing() -> None:
    ledger, fact = new(), replace(HALF)
    ledger.spend(fact)
    object.__setattr__(fact, "epsilon", 0.001)
    assert epsilon(ledger) == 0.5


def test_twin_the_callers_own_object_in_the_ledger_can_be_changed() -> None:
    fact = replace(HALF)
    careless = [Entry(fact)]
    object.__setattr__(fact, "epsilon", 0.001)
    whole = Ledger.of(careless, unit=Unit.USER, relation=Relation.REPLACE_ONE)
    assert epsilon(whole) == 0.001


def test_a_budget_cannot_be_raised_in_passing() -> None:
    ledger = new(budget=Budget(epsilon=0.6, delta=0.0))
    with pytest.raises(AttributeError):
        ledger.budget = None  # type: ignore[misc]
    ledger.spend(HALF)
    with pytest.raises(BudgetExceeded):
        ledger.spend(HALF)


@pytest.mark.parametrize("bad", [True, "1", None, float("nan"), float("inf"), 0, -1])
def test_a_budget_is_a_number(bad: Any) -> None:
    with pytest.raises(InvalidInput, match="Expected"):
        Budget(epsilon=bad, delta=0.0)


def test_a_closed_ledger_takes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    ledger = opened(path)
    ledger.spend(HALF)
    ledger.close()
    ledger.close()
    for attempt in (lambda: ledger.spend(HALF), ledger.new_run, lambda: ledger.void("why")):
        with pytest.raises(InvalidInput, match="got a closed one"):
            attempt()
    assert epsilon(ledger) == epsilon(Ledger.read(path)) == 0.5


def test_twin_a_closed_ledger_that_goes_on_in_memory_leaves_nothing_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.jsonl"
    ledger = opened(path)
    monkeypatch.setattr(Ledger, "close", lambda self: setattr(self, "_journal", None))
    ledger.close()
    ledger.spend(HALF)
    assert epsilon(Ledger.read(path)) == 0


def test_a_ledger_is_neither_pickled_nor_copied() -> None:
    ledger = new()
    for make in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(InvalidInput, match="to_json"):
            make(ledger)


def test_an_existing_file_is_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    before = spent_file(path)
    with pytest.raises(InvalidInput, match="exists"):
        new().save(path)
    assert path.read_bytes() == before
    fresh = new()
    fresh.spend(HALF)
    fresh.save(tmp_path / "saved.jsonl")
    read = Ledger.read(tmp_path / "saved.jsonl")
    assert read.sealed
    assert read.includes(fresh)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["ledger.jsonl", "saved.jsonl"]


@pytest.mark.parametrize("unit", ["speaker", "", None, 3])
def test_units_are_parsed(unit: Any) -> None:
    with pytest.raises(InvalidInput, match="one of token"):
        Ledger(unit=unit, relation=Relation.REPLACE_ONE)
    spelled = Ledger(unit="user", relation="replace-one")  # type: ignore[arg-type]
    assert spelled.unit is Unit.USER


# -- files of earlier versions -------------------------------------------------------------------


def old_file(*records: Record) -> bytes:
    """What version 0.1 wrote: a checksum a line."""
    content, checksum = "", "00000000"
    for record in records:
        body = json.dumps(record, sort_keys=True)
        checksum = f"{zlib.crc32((checksum + body).encode()):08x}"
        content += f'{{"crc": "{checksum}", "record": {body}}}\n'
    return content.encode()


OLD_HEADER: Record = {"ledger": {"unit": "user", "relation": "replace-one", "budget": None}}
OLD = (OLD_HEADER, {"spend": SHUFFLED.to_json(), "count": 1}, {"again": 2})


def test_old_files_are_read_and_continued_with_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(old_file(*OLD))
    with pytest.warns(UnchainedLedger, match="without hashes"):
        assert Ledger.read(path).entries == (Entry(SHUFFLED, 3),)
    with pytest.warns(UnchainedLedger), opened(path) as ledger:
        ledger.spend(SHUFFLED)
    assert path.read_bytes().startswith(old_file(*OLD))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnchainedLedger)
        read = Ledger.read(path)
        assert [entry.count for entry in read.entries] == [3, 1]  # another pool
        assert read.sealed
        # From now on the old lines are bound by hashes too.
        for content in (
            path.read_bytes().replace(old_file(*OLD), old_file(*OLD[:2])),
            old_file(*OLD) + path.read_bytes(),
            path.read_bytes() + old_file(*OLD),
        ):
            path.write_bytes(content)
            with pytest.raises(LedgerDamaged):
                Ledger.read(path)


def test_an_old_file_with_a_changed_byte_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    whole = old_file(*OLD)
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 0x01
        path.write_bytes(changed)
        with pytest.raises(LedgerDamaged):
            Ledger.read(path)


def test_old_copies_in_json_are_read_with_a_warning() -> None:
    with pytest.warns(UnchainedLedger, match="has no hash"):
        old = Ledger.from_json({"records": [*OLD[:1], {"spend": HALF.to_json(), "count": 3}]})
    assert epsilon(old) == 1.5
    # Two ledgers without ids are never taken for copies of one.
    assert epsilon(compose([("a", old), ("b", old)]).ledger) == 3.0
