"""Attacks on a device by servers and by what happens to its files.

Measured from outside: what leaves the device, and what stands in its file. Every attack has a twin
in which the protection is taken away, and then it succeeds.
"""

import copy
import json
import os
import pickle
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sottovoce.errors import InvalidInput
from sottovoce.personalize.device import sealed
from sottovoce.personalize.device.answers import Agreement
from sottovoce.personalize.device.contribution_log import ContributedMass, ContributionLog
from sottovoce.personalize.device.messages import Contribution, RoundRequest
from sottovoce.personalize.device.sealed import SealedFile
from sottovoce.personalize.federated.counting import Caps, Counting, rules
from sottovoce.personalize.federated.plan import ReleasePlan
from sottovoce.personalize.lm.vocabulary import Vocabulary
from sottovoce.personalize.nbest.lists import Hypothesis, NBest
from sottovoce.personalize.personaliser import Personaliser
from sottovoce.privacy.facts import Noise
from sottovoce.privacy.guarantee import Budget, Unit
from sottovoce.privacy.recipes.federate import Release

WORDS = Vocabulary.from_text(["call mum dad", "hang up now", "see my oncologist"], size=20)
OTHER = Vocabulary((*reversed(WORDS.words[:-1]), "<unk>"), np.roll(WORDS.unigram, 1))
COUNTING = Counting(sigma=1.0, nbest=5)
PLAN = ReleasePlan(counting=COUNTING).calibrated(epsilon=1.0, rounds=1)
USER = ReleasePlan(counting=COUNTING, unit=Unit.USER, caps=Caps(mass=4.0, per_word=2.0)).calibrated(
    epsilon=1.0, rounds=1
)
BUDGET = Budget(epsilon=1.0, delta=0.0)
SECRET = NBest("secret", (Hypothesis("see my oncologist"), Hypothesis("see my")))
KEY = bytes(32)
Patch = pytest.MonkeyPatch


def device(plan: ReleasePlan = PLAN, *heard: NBest) -> Personaliser:
    made = Personaliser(WORDS, counting=COUNTING, caps=plan.caps, budget=BUDGET)
    for each in heard or (SECRET,):
        made.hear(each)
    return made


def ask(
    plan: ReleasePlan = PLAN,
    number: int = 1,
    *,
    words: Vocabulary = WORDS,
    server: str = "server",
    run: str = "run",
) -> bytes:
    return RoundRequest(
        server=server,
        run=run,
        number=number,
        plan=plan,
        rules=rules(words, plan.counting, plan.caps),
    ).to_bytes()


def told(answer: bytes | None) -> float:
    """The count of the oncologist in the answer."""
    if answer is None:
        return 0.0
    return float(Contribution.from_bytes(answer).counts(len(WORDS))[WORDS.index["oncologist"]])


def all_told(made: Personaliser, *asked: bytes) -> float:
    return sum(told(made.contribute(each)) for each in asked)


ASKED = {
    "the next round": [ask(number=number) for number in (1, 2, 3)],
    "another run": [ask(run=run) for run in ("one", "two", "three")],
    "another server": [ask(server=server) for server in ("ours", "theirs", "yours")],
    "another noise": [ask(replace(PLAN, scale=PLAN.scale * times), times) for times in (1, 2, 3)],
}


@pytest.mark.parametrize("how", ASKED)
def test_an_utterance_is_sent_once_however_many_servers_ask(how: str, monkeypatch: Patch) -> None:
    assert all_told(device(), *ASKED[how]) == 1.0
    # The twin: a log that forgets what it sent.
    monkeypatch.setattr(ContributionLog, "was_sent", lambda *_: False)
    assert all_told(device(), *ASKED[how]) == 3.0


def test_a_replayed_round_gets_nothing_of_what_was_heard_since(monkeypatch: Patch) -> None:
    def attack(*, replayable: bool = True) -> float:
        made = device(PLAN, NBest("harmless", (Hypothesis("hang up"),)))
        first = made.contribute(ask(), replayable=replayable)
        assert first is not None
        made.hear(SECRET)
        again = made.contribute(ask(), replayable=replayable)
        # Masked answers are never repeated, others only to the last byte.
        assert (again == first) is replayable
        return told(again)

    assert attack() == attack(replayable=False) == 0.0
    monkeypatch.setattr(ContributionLog, "check_open", lambda *_: None)
    assert attack(replayable=False) == 1.0


WIDER: dict[str, bytes] = {
    "another vocabulary": ask(words=OTHER),
    "a wider kernel": ask(replace(PLAN, counting=replace(COUNTING, sigma=100.0))),
    "a longer list": ask(replace(PLAN, counting=replace(COUNTING, nbest=100))),
    "more words": ask(replace(PLAN, counting=replace(COUNTING, max_words=10**9))),
    "cumulative counts": ask(replace(PLAN, release=Release.CUMULATIVE)),
    "claimed sampling": ask(replace(PLAN, sampling_rate=0.01)),
    "caps": ask(USER),
}


@pytest.mark.parametrize("what", WIDER)
def test_other_rules_than_those_agreed_to_are_answered_with_nothing(
    what: str, monkeypatch: Patch
) -> None:
    made = device()
    assert made.contribute(WIDER[what]) is None
    assert made.refusal is not None
    assert told(made.contribute(ask())) == 1.0
    monkeypatch.setattr(Agreement, "words", lambda self, _: self.vocabulary)
    monkeypatch.setattr(ContributionLog, "check_cost", lambda *_: None)
    assert device().contribute(WIDER[what]) is not None


def test_larger_caps_are_answered_with_nothing(monkeypatch: Patch) -> None:
    larger = ask(replace(USER, caps=Caps(mass=400.0, per_word=200.0), scale=1e4))
    smaller = ask(replace(USER, caps=Caps(mass=0.4, per_word=0.2)))
    for asked in (larger, smaller):
        assert device(USER).contribute(asked) is None
    monkeypatch.setattr(Agreement, "words", lambda self, _: self.vocabulary)
    assert device(USER).contribute(larger) is not None


def test_rules_that_belie_the_plan_are_answered_with_nothing(monkeypatch: Patch) -> None:
    wide = json.loads(WIDER["a wider kernel"])
    lied = json.dumps({**wide, "rules": json.loads(ask())["rules"]}).encode()
    assert device().contribute(lied) is None
    # The twin compares only the digest, which the server can set freely.
    monkeypatch.setattr(Agreement, "words", lambda self, _: self.vocabulary)
    monkeypatch.setattr(ContributionLog, "check_cost", lambda *_: None)
    assert device().contribute(lied) is not None


def test_pairs_that_smuggle_other_words_in_are_answered_with_nothing(monkeypatch: Patch) -> None:
    plan = replace(PLAN, counting=replace(COUNTING, order=2))

    def attack() -> bytes | None:
        pairs = ("divorce lawyer", "<unk>")
        words = Vocabulary(pairs, np.full(2, 0.5))
        request = RoundRequest(
            server="s", run="r", number=1, plan=plan, pairs=pairs,
            rules=rules(words, plan.counting, plan.caps),
        )  # fmt: skip
        return device(PLAN, NBest("u", (Hypothesis("divorce lawyer"),))).contribute(request)

    assert attack() is None
    monkeypatch.setattr(
        Agreement, "_pairs", lambda _, request: Vocabulary(request.pairs, np.full(2, 0.5))
    )
    assert attack() is not None


OVERSPENT: dict[str, list[ReleasePlan]] = {
    "less noise": [replace(PLAN, scale=PLAN.scale / 2)],
    "Gaussian noise without a delta": [replace(PLAN, noise=Noise.GAUSSIAN, scale=1e6)],
    "pairs on top of words": [PLAN, replace(PLAN, counting=replace(COUNTING, order=2))],
}


@pytest.mark.parametrize("what", OVERSPENT)
def test_the_owners_budget_stands_whatever_a_server_says(what: str, monkeypatch: Patch) -> None:
    pairs = ("see my", "my oncologist", "<unk>")

    def attack() -> list[bytes | None]:
        made = device()
        answers = []
        for plan in OVERSPENT[what]:
            two = plan.counting.order == 2
            words = Vocabulary(pairs, np.full(3, 1 / 3)) if two else WORDS
            request = RoundRequest(
                server="s", run="r", number=1, plan=plan, pairs=pairs if two else None,
                rules=rules(words, plan.counting, plan.caps),
            )  # fmt: skip
            answers.append(made.contribute(request))
        assert made.spent().epsilon <= BUDGET.epsilon or answers[-1] is not None
        return answers

    assert attack()[-1] is None
    monkeypatch.setattr(ContributionLog, "check_cost", lambda *_: None)
    assert attack()[-1] is not None


def test_a_second_family_of_noise_is_paid_beside_the_first_one(monkeypatch: Patch) -> None:
    """A lifetime cap may be split over both, so the cost is more than that of the worse one."""
    other = replace(USER, noise=Noise.GAUSSIAN, scale=1e3)

    def attack() -> bytes | None:
        made = device(USER, NBest("u", (Hypothesis("call mum"),)))
        made.budget = Budget(epsilon=1.0, delta=1e-6)
        assert made.contribute(ask(USER)) is not None
        made.hear(SECRET)
        return made.contribute(ask(other, 2))

    assert attack() is None
    paid = ContributionLog._fact
    monkeypatch.setattr(ContributionLog, "_fact", lambda *of: replace(paid(*of), pool="words"))
    assert attack() is not None


def test_lifetime_caps_hold_over_all_servers(monkeypatch: Patch) -> None:
    def attack() -> float:
        made = device(USER)
        total = 0.0
        for place in range(6):
            answer = made.contribute(ask(USER, server=f"server {place}"))
            if answer is not None:
                total += float(Contribution.from_bytes(answer).counts(len(WORDS)).sum())
            made.hear(NBest(f"u{place}", (Hypothesis("call mum dad"),)))
        return total

    assert attack() <= 4.0 + 1e-9
    monkeypatch.setattr(ContributionLog, "room", lambda *_: ContributedMass())
    assert attack() > 10.0


def test_servers_cannot_tell_that_they_know_the_same_device(monkeypatch: Patch) -> None:
    def names() -> set[str]:
        made = device()
        first = made.contribute(ask(server="ours"))
        made.hear(NBest("more", (Hypothesis("call mum"),)))
        second = made.contribute(ask(server="theirs"))
        assert first is not None
        assert second is not None
        return {Contribution.from_bytes(each).device for each in (first, second)}

    assert len(names()) == 2
    monkeypatch.setattr(ContributionLog, "pseudonym", lambda *_: "ann")
    assert len(names()) == 1


def test_corrections_never_leave(monkeypatch: Patch) -> None:
    def attack() -> float:
        made = Personaliser(WORDS, counting=COUNTING, budget=BUDGET)
        made.hear(NBest("u", (Hypothesis("see my"),)), correction="see my oncologist")
        return told(made.contribute(ask()))

    assert attack() == 0.0
    kind = type(next(iter(device()._utterances.values())))
    monkeypatch.setattr(kind, "first_pass", lambda self: NBest("u", (Hypothesis(self.correction),)))
    assert attack() == 1.0


def test_forgetting_and_hearing_again_sends_nothing_again(monkeypatch: Patch) -> None:
    def attack() -> float:
        made = device()
        total = told(made.contribute(ask()))
        made.forget("secret")
        try:
            made.hear(SECRET)
        except InvalidInput:
            return total
        return total + told(made.contribute(ask(number=2)))

    assert attack() == 1.0
    monkeypatch.setattr(ContributionLog, "was_sent", lambda *_: False)
    assert attack() == 2.0


def test_a_forgotten_word_stands_nowhere_in_the_state(monkeypatch: Patch) -> None:
    def attack() -> bytes:
        made = device(USER, SECRET, NBest("other", (Hypothesis("call mum"),)))
        assert made.contribute(ask(USER)) is not None
        assert b"oncologist" in made._plain()
        made.forget("secret")
        return made._plain()

    left = attack()
    assert b"oncologist" not in left
    assert b"secret" not in left.replace(b'"secret":', b"")
    monkeypatch.setattr(ContributedMass, "forget", lambda *_: None)
    assert b"oncologist" in attack()


def test_what_was_given_counts_after_it_was_forgotten(monkeypatch: Patch) -> None:
    """Forgetting repeatedly does not raise the contribution above the word cap."""

    def attack() -> float:
        made = Personaliser(WORDS, counting=COUNTING, caps=USER.caps, budget=BUDGET)
        total = 0.0
        for place in range(4):
            made.hear(NBest(f"u{place}", (Hypothesis("oncologist"),)))
            total += told(made.contribute(ask(USER, place + 1)))
            made.forget_everything()
        return total

    assert attack() <= 2.0 + 1e-9

    def clear(self: ContributedMass, kept: Any) -> None:
        self.words.clear()

    monkeypatch.setattr(ContributedMass, "forget", clear)
    assert attack() > 3.0


@pytest.mark.parametrize("plan", [PLAN, USER], ids=["utterance", "user"])
def test_one_unit_moves_all_that_is_sent_by_no_more_than_the_plan_pays_for(
    plan: ReleasePlan, monkeypatch: Patch
) -> None:
    rng = np.random.default_rng(2)
    heard = [
        NBest(f"u{i}", tuple(Hypothesis(" ".join(rng.choice(WORDS.words, 40))) for _ in range(7)))
        for i in range(6)
    ]

    def all_rounds(lists: list[NBest]) -> np.ndarray:
        made = Personaliser(WORDS, counting=COUNTING, caps=plan.caps, budget=BUDGET)
        rounds = np.zeros((8, len(WORDS)))
        for number in range(8):
            for each in lists[number : number + 1]:
                made.hear(each)
            answer = made.contribute(ask(plan, number + 1, server=f"server {number % 3}"))
            if answer is not None:
                rounds[number] = Contribution.from_bytes(answer).counts(len(WORDS))
        return rounds

    def moved() -> float:
        # The removed unit: the last utterance, or all of the user's utterances.
        rest = heard[:-1] if plan is PLAN else []
        return float(np.abs(all_rounds(heard) - all_rounds(rest)).sum())

    paid = plan.sensitivity()
    assert 0.9 * paid < moved() <= paid * (1 + 1e-9)
    monkeypatch.setattr(ContributionLog, "was_sent", lambda *_: False)
    monkeypatch.setattr(ContributionLog, "room", lambda *_: ContributedMass())
    assert moved() > 2 * paid


class Plain:
    """A null cipher."""

    def __init__(self, key: bytes) -> None:
        pass

    def encrypt(self, nonce: bytes, plain: bytes, head: bytes) -> bytes:
        return plain


def test_the_file_reveals_no_words(tmp_path: Path, monkeypatch: Patch) -> None:
    def attack(name: str) -> bool:
        device().save(tmp_path / name, "a passphrase")
        seen = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
        assert all(path.stat().st_mode & 0o077 == 0 for path in tmp_path.iterdir())
        return b"oncologist" in seen or b"passphrase" in seen

    assert not attack("safe")
    monkeypatch.setattr(sealed, "AESGCM", Plain)
    assert attack("open")


def backup(path: Path, *, with_counter: bool) -> Callable[[], None]:
    names = [path, path.with_name(f"{path.name}.counter")][: 2 if with_counter else 1]
    kept = {name: name.read_bytes() for name in names}

    def restore() -> None:
        for name, content in kept.items():
            name.write_bytes(content)

    return restore


def sent_after_restoring(folder: Path, *, with_counter: bool, **options: Any) -> float:
    path = folder / "ann"
    made = device()
    made.save(path, KEY)
    restore = backup(path, with_counter=with_counter)
    total = told(made.contribute(ask()))
    restore()
    again = Personaliser.load(path, KEY, WORDS, **options)
    assert again.utterances == ("secret",)
    return total + told(again.contribute(ask(number=2)))


def test_a_restored_backup_is_refused_and_sends_nothing_again(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    for name in ("a", "b", "twin"):
        (tmp_path / name).mkdir()
    with pytest.raises(InvalidInput, match="older than its counter"):
        sent_after_restoring(tmp_path / "a", with_counter=False)
    assert sent_after_restoring(tmp_path / "b", with_counter=False, restored=True) == 1.0
    # It stays closed after saving and loading.
    Personaliser.load(tmp_path / "b/ann", KEY, WORDS, restored=True).save()
    later = Personaliser.load(tmp_path / "b/ann", KEY, WORDS)
    assert later.contribute(ask(number=3)) is None
    assert later.refusal is not None
    assert "restored" in later.refusal
    monkeypatch.setattr(SealedFile, "newest", lambda _: 1)
    assert sent_after_restoring(tmp_path / "twin", with_counter=False) == 2.0


def test_a_backup_without_its_counter_is_refused(tmp_path: Path) -> None:
    device().save(tmp_path / "ann", KEY)
    (tmp_path / "ann.counter").unlink()
    with pytest.raises(InvalidInput, match="without its counter"):
        Personaliser.load(tmp_path / "ann", KEY, WORDS)


def test_a_backup_with_its_counter_is_not_noticed_as_the_page_says(tmp_path: Path) -> None:
    """A documented limit: only a hardware counter would help."""
    assert sent_after_restoring(tmp_path, with_counter=True) == 2.0
    assert sealed.__doc__ is not None
    assert "is not detected" in sealed.__doc__
    assert any("no older copy" in each for each in device().spent().assumptions)


def test_of_two_processes_with_one_file_one_sends(tmp_path: Path, monkeypatch: Patch) -> None:
    def attack(name: str) -> float:
        device().save(tmp_path / name, KEY)
        both = [Personaliser.load(tmp_path / name, KEY, WORDS) for _ in range(2)]
        return sum(told(made.contribute(ask(number=n))) for n, made in enumerate(both, 1))

    assert attack("ann") == 1.0
    monkeypatch.setattr(Personaliser, "_is_newest", lambda *_: True)
    assert attack("twin") == 2.0


def test_a_stale_process_does_not_bring_back_what_was_forgotten(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    def attack(name: str) -> tuple[str, ...]:
        device().save(tmp_path / name, KEY)
        stale, mine = (Personaliser.load(tmp_path / name, KEY, WORDS) for _ in range(2))
        mine.forget("secret")
        with suppress(InvalidInput):
            stale.save()
        return Personaliser.load(tmp_path / name, KEY, WORDS).utterances

    assert attack("ann") == ()
    monkeypatch.setattr(Personaliser, "_is_newest", lambda *_: True)
    assert attack("twin") == ("secret",)


def test_a_copy_elsewhere_never_contributes(tmp_path: Path, monkeypatch: Patch) -> None:
    def attack(name: str) -> float:
        made = device()
        made.save(tmp_path / name, KEY)
        made.save(tmp_path / f"{name} copy", KEY)
        other = Personaliser.load(tmp_path / f"{name} copy", KEY, WORDS)
        assert other.personal().tolist() == made.personal().tolist()
        return told(made.contribute(ask())) + told(other.contribute(ask(number=2)))

    assert attack("ann") == 1.0
    monkeypatch.setattr(ContributionLog, "check_open", lambda *_: None)
    assert attack("twin") == 2.0


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_device_in_memory_is_neither_copied_nor_pickled_nor_forked() -> None:
    made = device()
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(InvalidInput, match="two logs"):
            attempt(made)
    child = os.fork()
    if child == 0:
        os._exit(0 if made.contribute(ask()) is None else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert told(made.contribute(ask())) == 1.0
