"""The device: what it computes, forgets, sends and keeps."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sottovoce.errors import InvalidInput
from sottovoce.personalize import (
    Adaptation,
    CacheClient,
    Caps,
    ClientCache,
    Contribution,
    Counting,
    Hypothesis,
    Marginals,
    NBest,
    Personalisation,
    Personaliser,
    Refused,
    ReleasePlan,
    RoundRequest,
    Server,
    SharedPairs,
    Tuned,
    Vocabulary,
    Weights,
    ledger_for,
    pair_vocabulary,
    rescore,
    run_rounds,
    server_for,
    train_ngram,
)
from sottovoce.personalize.rescoring.stream import adapted_scores, personal_factors
from sottovoce.personalize.rescoring.trusting import Trust
from sottovoce.privacy.guarantee import Budget, Unit
from sottovoce.privacy.noise import NoiseSource
from sottovoce.privacy.recipes.federate import Cap

TEXT = ["call mum now", "call dad", "hang up", "call the doctor", "play some music"]
LM = train_ngram(TEXT, Vocabulary.from_text(TEXT, size=40), 2)
WORDS = LM.vocabulary
COUNTING = Counting(sigma=1.0, nbest=5)
PLAN = ReleasePlan(counting=COUNTING).calibrated(epsilon=1.0, rounds=3)
USER = ReleasePlan(counting=COUNTING, unit=Unit.USER, caps=Caps(mass=8.0, per_word=3.0)).calibrated(
    epsilon=1.0, rounds=3
)
BUDGET = Budget(epsilon=1.0, delta=0.0)
TUNED = Tuned(Weights(mix=0.7), Weights(mix=0.9, scale=2.0), 1.5)
KEY = bytes(range(32))
RNG = np.random.default_rng(7)


def some(name: str, count: int, client: str | None = None) -> list[NBest]:
    known = [*WORDS.words[:-1], "xylophone"]
    lists = []
    for i in range(count):
        texts = [" ".join(RNG.choice(known, size=RNG.integers(1, 5))) for _ in range(6)]
        rows = tuple(
            Hypothesis(text, am=float(-RNG.random()), lm=float(-RNG.random())) for text in texts
        )
        lists.append(NBest(f"{name}-{i}", rows, texts[2], client, float(i)))
    return lists


LISTS = some("ann", 12, "ann")


def device(**options: Any) -> Personaliser:
    given: dict[str, Any] = {"counting": COUNTING, "user": "ann", "budget": BUDGET, **options}
    return Personaliser(WORDS, given.pop("lm", LM), **given)


def after(count: int, made: Personaliser | None = None, **options: Any) -> Personaliser:
    made = made or device(**options)
    for each in LISTS[:count]:
        made.hear(each)
    return made


def server(plan: ReleasePlan = PLAN, words: Vocabulary = WORDS, **options: Any) -> Server:
    return server_for(words, plan, ledger=ledger_for(plan), source=NoiseSource.seeded(3), **options)


def request(number: int = 1, plan: ReleasePlan = PLAN, words: Vocabulary = WORDS) -> RoundRequest:
    return RoundRequest.of(server(plan, words), number)


def sent(made: Personaliser, asked: RoundRequest, words: Vocabulary = WORDS) -> np.ndarray:
    data = made.contribute(asked.to_bytes())
    assert data is not None, made.refusal
    return Contribution.from_bytes(data).counts(len(words))


def state(made: Personaliser) -> bytes:
    return made._plain()


SHARED = Marginals(WORDS.words, np.roll(WORDS.unigram, 1))
PAIRS = pair_vocabulary(WORDS, WORDS.unigram, 4)


@pytest.mark.parametrize("trust", [None, 2.0])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("pairs", [False, True])
def test_scores_are_those_of_rescoring_in_the_order_of_time(
    *, trust: float | None, shared: bool, pairs: bool
) -> None:
    made = device(weights=TUNED, trust=trust)
    told = Marginals(PAIRS.words, PAIRS.unigram, mass=50.0)
    if shared:
        made.receive(SHARED)
    if pairs:
        made.receive(told)
    adaptation = Adaptation(
        alpha=0.5 if shared else 0.0, beta=0.45 if shared else 0.9, power=TUNED.power
    )
    settings = Personalisation(
        adaptation=adaptation,
        counting=COUNTING,
        trust=trust,
        pairs=SharedPairs(told) if pairs else None,
    )
    everybody = SHARED.q_bar if shared else None
    factors = personal_factors(LISTS, LM, settings, everybody)
    model = settings.pairs.over(LM) if settings.pairs else LM
    expected = adapted_scores(factors, model)
    chosen = rescore(LISTS, LM, settings, TUNED, everybody).texts
    for each in LISTS:
        assert made.rescore_scores(each) == expected[each.id]
        assert made.rescore(each) == chosen[each.id]
        assert each.hypotheses[made.ranking(each)[0]].text == chosen[each.id]
        made.hear(each)


def test_without_a_model_the_first_pass_stands_until_something_was_heard() -> None:
    made = device(lm=None)
    for each in LISTS:
        best = max(each.hypotheses, key=lambda h: h.first_pass)
        assert made.rescore(each) == best.text
    assert made.rescore(NBest("silence", ())) == ""
    assert made.ranking(NBest("silence", ())) == []


def test_an_utterance_counts_once_and_only_for_its_user() -> None:
    made = after(1)
    with pytest.raises(InvalidInput, match="new utterance"):
        made.hear(LISTS[0])
    with pytest.raises(InvalidInput, match="utterances of 'ann'"):
        made.hear(NBest("x", (), client="bob"))
    with pytest.raises(InvalidInput, match="stored utterance"):
        made.correct("nobody", "call mum")


def test_a_correction_counts_as_if_every_reading_had_agreed() -> None:
    made, late = device(), device()
    heard = NBest("u", (Hypothesis("call mum"), Hypothesis("call dad")))
    made.hear(heard, correction="hang  up")
    late.hear(heard)
    late.correct("u", "hang up")
    mass = COUNTING.kernel_mass
    assert made.personal()[WORDS.index["hang"]] == pytest.approx(mass)
    assert made.personal()[WORDS.index["call"]] == 0
    assert made.personal().tolist() == late.personal().tolist()


def test_what_is_sent_is_what_a_cache_would_send() -> None:
    for plan in (PLAN, USER):
        made = device(caps=plan.caps)
        cache = ClientCache(WORDS, COUNTING, plan.caps)
        for number in (1, 2):
            for each in LISTS[4 * number : 4 * number + 4]:
                made.hear(each)
                cache.add(each)
            expected = cache.take_increment()
            if expected.any():
                counts = sent(made, request(number, plan))
                assert counts.tolist() == pytest.approx(expected.tolist())
            else:
                assert made.contribute(request(number, plan)) is None


def test_caps_of_a_round_let_the_rest_wait_for_the_next_one_and_every_round_is_paid() -> None:
    plan = replace(USER, caps=replace(USER.caps, span=Cap.PER_ROUND), scale=80.0)
    made = after(9, caps=plan.caps, budget=Budget(epsilon=0.25, delta=0.0))
    for number in (1, 2):
        counts = sent(made, request(number, plan))
        assert counts.sum() == pytest.approx(8.0)
        assert counts.max() <= 3.0 + 1e-12
        assert made.spent().epsilon == pytest.approx(0.1 * number)
    # A third round would cost 0.3.
    assert made.contribute(request(3, plan)) is None
    assert made.refusal == (
        "This round would bring epsilon to 0.3, above the budget of 0.25 at delta 0."
    )


@pytest.mark.parametrize("plan", [PLAN, USER])
def test_a_forgotten_utterance_was_never_heard(plan: ReleasePlan, tmp_path: Path) -> None:
    first = after(3, caps=plan.caps)
    assert first.contribute(request(plan=plan)) is not None
    first.receive(SHARED)
    first.save(tmp_path / "a", KEY)
    before = (tmp_path / "a").read_bytes(), (tmp_path / "a.counter").read_bytes()
    for number, name in enumerate("bc"):
        (tmp_path / name).write_bytes(before[0])
        (tmp_path / f"{name}.counter").write_bytes(before[1])
        made = Personaliser.load(tmp_path / name, KEY, lm=LM)
        for each in LISTS[3:6]:
            if number == 0 or each is not LISTS[4]:
                made.hear(each)
        if number == 0:
            made.forget(LISTS[4].id)
            forgot = made
    assert state(forgot) == state(made)
    assert forgot.personal().tolist() == made.personal().tolist()
    assert forgot.rescore_scores(LISTS[4]) == made.rescore_scores(LISTS[4])
    forgot.hear(LISTS[4])


def test_after_forgetting_everything_only_the_log_is_left() -> None:
    made, fresh = after(4, caps=USER.caps), device(caps=USER.caps)
    made.receive(SHARED)
    assert made.contribute(request(plan=USER)) is not None
    made.forget_everything()
    ours, theirs = json.loads(state(made)), json.loads(state(fresh))
    assert ours.pop("book") != theirs.pop("book")
    assert ours == theirs
    assert made.personal().tolist() == fresh.personal().tolist()
    # What was sent stays sent: its cost remains, and its id is used up.
    assert made.spent().epsilon == pytest.approx(1.0, rel=1e-3)
    with pytest.raises(InvalidInput, match="new utterance"):
        made.hear(LISTS[0])


def test_a_device_with_nothing_to_send_gives_the_reason() -> None:
    made = device()
    assert made.contribute(request()) is None
    assert made.refusal == "There is nothing new to send, or the caps are exhausted."
    made = after(1, budget=None)
    assert made.contribute(request()) is None
    assert made.refusal is not None
    assert "budget" in made.refusal
    made.budget = BUDGET
    assert made.contribute(request()) is not None
    assert made.refusal is None


def test_lifetime_caps_end_what_a_device_gives() -> None:
    made = after(6, caps=USER.caps)
    first = sent(made, request(1, USER))
    assert first.sum() == pytest.approx(8.0)
    assert first.max() <= 3.0 + 1e-12
    made.hear(NBest("later", (Hypothesis("play"),)))
    assert made.contribute(request(2, USER)) is None


def people(count: int, plan: ReleasePlan, **options: Any) -> list[tuple[Personaliser, list[NBest]]]:
    return [
        (device(user=f"p{i}", caps=plan.caps, **options), some(f"p{i}", 6)) for i in range(count)
    ]


@pytest.mark.parametrize("plan", [PLAN, USER])
def test_devices_and_a_server_federate_as_caches_do(plan: ReleasePlan) -> None:
    everybody = people(5, plan)
    theirs = server(plan, minimum_clients=3)
    theirs.begin_run()
    for number in (1, 2, 3):
        asked = RoundRequest.of(theirs, number)
        for made, lists in everybody:
            for each in lists[2 * number - 2 : 2 * number]:
                made.hear(each)
            if (data := made.contribute(asked.to_bytes())) is not None:
                Contribution.from_bytes(data).add_to(theirs, asked)
        if number == 1 or plan is PLAN:
            theirs.finish_round()

    def hear(lists: list[NBest]) -> Any:
        return lambda cache, number: [cache.add(e) for e in lists[2 * number - 2 : 2 * number]]

    # Same seed, same noise, so everything else must be the same too.
    other = server(plan, minimum_clients=3)
    clients = [
        CacheClient(made.user, ClientCache(WORDS, COUNTING, plan.caps), hear(lists))
        for made, lists in everybody
    ]
    reports = list(run_rounds(clients, other, rounds=3 if plan is PLAN else 1))
    assert [report.accepted for report in reports] == [5] * len(reports)
    assert theirs.ledger is not None
    assert theirs.q_bar.tolist() == pytest.approx(other.q_bar.tolist())
    assert theirs.ledger.guarantee(0.0).epsilon == pytest.approx(1.0, rel=1e-3)
    for made, _ in everybody:
        before = made.rescore_scores(LISTS[0])
        made.receive(theirs.marginals)
        assert made.rescore_scores(LISTS[0]) != before
        assert made.spent().epsilon == pytest.approx(1.0, rel=1e-3)
        assert made.spent().unit is plan.unit


def test_pairs_are_sent_beside_words_and_paid_beside_them() -> None:
    plan = ReleasePlan(counting=replace(COUNTING, order=2)).calibrated(epsilon=1.0, rounds=1)
    made = after(4, budget=Budget(epsilon=2.0, delta=0.0))
    sent(made, request())
    counts = sent(made, request(1, plan, PAIRS), PAIRS)
    cache = ClientCache(PAIRS, plan.counting)
    for each in LISTS[:4]:
        cache.add(each)
    assert counts.tolist() == pytest.approx(cache.take_increment().tolist())
    assert made.spent().epsilon == pytest.approx(2.0, rel=1e-3)
    assert made.contribute(request(2, plan, PAIRS)) is None


def test_a_saved_device_comes_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "ann.device"
    made = after(4, weights=TUNED)
    made.correct(LISTS[1].id, "hang up")
    made.receive(SHARED)
    assert made.contribute(request()) is not None
    made.save(path, "correct horse")
    for name in ("ann.device", "ann.device.counter", "ann.device.lock"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
    back = Personaliser.load(path, "correct horse", WORDS, LM, weights=TUNED)
    assert state(back) == state(made)
    assert back.rescore_scores(LISTS[5]) == made.rescore_scores(LISTS[5])
    assert back.utterances == made.utterances
    assert back.contribute(request(2)) is None
    # From here on contributions are saved before they are sent.
    back.hear(LISTS[4])
    assert back.contribute(request(3)) is not None
    again = Personaliser.load(path, "correct horse", WORDS)
    assert again.utterances == back.utterances
    assert again.contribute(request(4)) is None
    again.forget_everything()
    assert Personaliser.load(path, "correct horse", WORDS).utterances == ()
    again.save(path, KEY)
    assert Personaliser.load(path, KEY, WORDS).utterances == ()


def test_a_wrong_key_or_an_altered_file_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "ann"
    made = after(2)
    made.save(path, KEY)
    for wrong in (bytes(32), "a passphrase"):
        with pytest.raises(InvalidInput, match="got another key or an altered file"):
            Personaliser.load(path, wrong, WORDS)
    for bad in (b"short", "", bytes(31)):
        with pytest.raises(InvalidInput, match=r"^Expected a (key|passphrase)"):
            made.save(tmp_path / "other", bad)
    content = path.read_bytes()
    for place in [*range(60), len(content) // 2, len(content) - 1]:
        altered = bytearray(content)
        altered[place] ^= 1
        path.write_bytes(bytes(altered))
        with pytest.raises(InvalidInput, match="altered file"):
            Personaliser.load(path, KEY, WORDS)
    for length in (0, 1, 20, 60, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(InvalidInput, match="altered file"):
            Personaliser.load(path, KEY, WORDS)
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match="vocabulary of the device"):
        Personaliser.load(path, KEY, PAIRS)
    with pytest.raises(InvalidInput, match="neither"):
        Personaliser.load(path, KEY)
    (tmp_path / "ann.counter").write_text("many")
    with pytest.raises(InvalidInput, match="a number"):
        Personaliser.load(path, KEY, WORDS)


def test_a_device_does_not_take_the_place_of_another_one(tmp_path: Path) -> None:
    after(2).save(tmp_path / "ann", KEY)
    with pytest.raises(InvalidInput, match="load it"):
        device().save(tmp_path / "ann", KEY)
    with pytest.raises(InvalidInput, match="path and a key"):
        device().save()
    with pytest.raises(InvalidInput, match="existing folder"):
        device().save(tmp_path / "none" / "ann", KEY)


def test_a_contribution_that_cannot_be_saved_is_not_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = after(2)
    made.save(tmp_path / "ann", KEY)

    def full(*_: Any) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("sottovoce.personalize.device.sealed.SealedFile.write", full)
        with pytest.raises(OSError, match="no space"):
            made.contribute(request())
    # In doubt the running device counts it as sent; the saved state knows it was not.
    assert made.contribute(request(2)) is None
    assert Personaliser.load(tmp_path / "ann", KEY, WORDS).contribute(request()) is not None


def test_settings_that_no_server_could_ask_for_are_refused() -> None:
    with pytest.raises(InvalidInput, match="mass cap"):
        device(caps=Caps(per_word=2.0))
    with pytest.raises(InvalidInput, match="counts words"):
        device(counting=replace(COUNTING, order=2))
    with pytest.raises(InvalidInput, match="vocabulary of the language model"):
        Personaliser(PAIRS, LM)
    with pytest.raises(InvalidInput, match="adds noise"):
        RoundRequest.of(Server(WORDS), 1)
    with pytest.raises(InvalidInput, match="Expected marginals"):
        device().receive({"call": 1.0})  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="request for counts"):
        after(1).contribute("round 1")  # type: ignore[arg-type]


def test_garbage_from_a_device_is_refused_and_nothing_else() -> None:
    data = after(3).contribute(request())
    assert data is not None
    told = json.loads(data)
    wrong: list[Any] = [
        {**told, "version": 2}, {**told, "places": None}, {**told, "units": "many"},
        {**told, "units": told["units"][1:]}, {**told, "places": told["places"][::-1]},
        {**told, "places": [-1, *told["places"][1:]]}, {**told, "rules": 3}, {**told, "round": []},
        {**told, "places": [True, *told["places"][1:]]}, [told], None,
        {**told, "units": [float("nan")] * len(told["units"])},
        {**told, "units": [10**400] * len(told["units"])},
    ]  # fmt: skip
    for each in [*map(json.dumps, wrong), "{", "[" * 100_000]:
        with pytest.raises(Refused) as caught:
            Contribution.from_bytes(each.encode())
        assert caught.value.reason == "unreadable"
    theirs = server()
    reasons = {
        "other-round": {**told, "round": "another"},
        "wrong-length": {**told, "places": [10**9], "units": [1.0]},
        "other-rules": {**told, "rules": "others"},
        "negative": {**told, "units": [-1.0] * len(told["units"])},
        "too-large": {**told, "units": [1e9] * len(told["units"])},
    }
    for reason, bad in reasons.items():
        with pytest.raises(Refused) as caught:
            Contribution.from_bytes(json.dumps(bad).encode()).add_to(theirs, request())
        assert caught.value.reason == reason


def test_garbage_from_a_server_is_answered_with_nothing() -> None:
    made = after(3)
    told = json.loads(request().to_bytes())
    wrong: list[Any] = [
        {**told, "version": 0}, {**told, "plan": None}, {**told, "pairs": [1]},
        {**told, "plan": {**told["plan"], "scale": 0}},
        {**told, "plan": {**told["plan"], "scale": float("inf")}}, {**told, "number": True},
        {**told, "number": 0}, {**told, "server": ""}, {**told, "run": None},
        {**told, "pairs": "ab"}, {**told, "rules": None}, [], 3,
        {**told, "plan": {**told["plan"], "caps": [1]}},
        {**told, "plan": {**told["plan"], "noise": "none"}},
    ]  # fmt: skip
    for each in [*map(json.dumps, wrong), "{", "\udcff"]:
        assert made.contribute(each.encode("utf-8", "surrogateescape")) is None
        assert made.refusal is not None
    assert made.contribute(request()) is not None


NO_TORCH = """
import sys

class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "torch":
            raise ImportError("torch is not here")

sys.meta_path.insert(0, NoTorch())
from sottovoce.personalize import *
from sottovoce.privacy.guarantee import Budget

text = ["call mum", "call dad"]
lm = train_ngram(text, Vocabulary.from_text(text, size=9), 2)
plan = ReleasePlan().calibrated(epsilon=1.0, rounds=1)
server = server_for(lm.vocabulary, plan, ledger=ledger_for(plan))
device = Personaliser(lm.vocabulary, lm, budget=Budget(epsilon=1.0, delta=0.0))
heard = NBest("u", (Hypothesis("call mum"), Hypothesis("call dad")))
device.rescore(heard)
device.hear(heard)
device.save(sys.argv[1], bytes(32))
request = RoundRequest.of(server, 1)
Contribution.from_bytes(device.contribute(request.to_bytes())).add_to(server, request)
server.finish_round()
device = Personaliser.load(sys.argv[1], bytes(32), lm=lm)
device.receive(server.marginals)
print(device.rescore(heard), "torch" in sys.modules)
"""


def test_the_whole_life_cycle_needs_no_torch(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", NO_TORCH, str(tmp_path / "me")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split()[-1] == "False"


NAMES = ("zoe", "kim", "bo")


def spoken(turn: int, first: str, second: str) -> NBest:
    rows = tuple(Hypothesis(f"call {name}", am=-0.1 * r) for r, name in enumerate((first, second)))
    return NBest(f"t{turn}", rows)


def trusting_device(**more: Any) -> Personaliser:
    trust = Trust(background=Weights(acoustic=1.0, scale=0.02, mix=1.0), weight=0.3)
    return Personaliser(LM.vocabulary, LM, weights=trust, **more)


def test_a_device_with_a_trust_rescores_by_its_own_history() -> None:
    made = trusting_device()
    asked = spoken(99, "kim", "zoe")
    assert made.rescore(asked) == "call kim"
    for turn in range(12):
        made.hear(spoken(turn, "zoe", "kim"))
    # "zoe" is no word of the model: its history alone speaks for it.
    assert "zoe" not in LM.vocabulary.index
    assert made.rescore(asked) == "call zoe"
    for turn in range(12):
        made.forget(f"t{turn}")
    assert made.rescore(asked) == "call kim"


def test_hearing_on_and_building_anew_are_the_same() -> None:
    lists = [spoken(turn, NAMES[turn % 3], NAMES[turn % 2]) for turn in range(8)]
    one, other = trusting_device(), trusting_device()
    for turn, each in enumerate(lists):
        correction = "call bo" if turn == 3 else None
        one.rescore(each)  # builds the model, which then hears on
        one.hear(each, correction)
        other.hear(each, correction)
    asked = spoken(99, "kim", "zoe")
    rescorers = [made._rescorer(made._believed) for made in (one, other) if made._believed]
    assert rescorers[0].totals(asked) == pytest.approx(rescorers[1].totals(asked))


def test_contacts_are_believed_from_the_start() -> None:
    asked = spoken(99, "kim", "zoe")
    assert trusting_device(bias=["zoe"]).rescore(asked) == "call zoe"
    assert trusting_device(bias=["zoe zoe"]).rescore(asked) == "call kim"
    with pytest.raises(InvalidInput, match="bias list"):
        Personaliser(LM.vocabulary, LM, bias=["zoe"])
    with pytest.raises(InvalidInput, match="language model"):
        Personaliser(LM.vocabulary, weights=Trust(background=Weights()))
