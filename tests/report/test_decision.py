"""The decision: every policy with a release that passes it and twins that do not."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import RunCli
from tests.report.runs import audit_of, complete_run, train_run, write_run

from sottovoce.corpora import Utterance, read, write
from sottovoce.deid import Deidentifier, Setting
from sottovoce.deid.detect import Gazetteer
from sottovoce.deid.detect.measuring import Measuring
from sottovoce.deid.files.corpus_file import release_file
from sottovoce.deid.files.fields import Fields
from sottovoce.errors import InvalidInput
from sottovoce.privacy.facts import NoisySum, Sampling
from sottovoce.privacy.guarantee import Relation, Unit
from sottovoce.privacy.ledger import Ledger
from sottovoce.privacy.policy import SHIPPED, Policy, policy_of, shipped
from sottovoce.report import Report, collect
from sottovoce.report.decision import Decision, Judgement, judge
from sottovoce.report.finding import Level

DELTA = 1e-6


def user_run(noise: float, delta: float = DELTA, population: int | None = 5000) -> dict[str, Any]:
    """A training that protects users."""
    fact = NoisySum(
        unit=Unit.USER, clip_norm=1.0, noise_stds=(noise,), sampling=Sampling.EVERYONE,
    )  # fmt: skip
    ledger = Ledger(unit=Unit.USER, relation=Relation.ADD_OR_REMOVE)
    ledger.spend(fact, 10)
    run = train_run()
    run["ledger"], run["guarantee"] = ledger.to_json(), ledger.guarantee(delta).to_json()
    run["configuration"]["population"] = population
    return run


def audited(folder: Path, run: dict[str, Any]) -> Path:
    return complete_run(folder, run, audit_of(run, leak=0.0, correct=50))


def judged(paths: list[Path], policy: Policy | str) -> Judgement:
    chosen = shipped(policy) if isinstance(policy, str) else policy
    return judge(collect(paths), chosen)


def released(
    folder: Path,
    *,
    found: int,
    of: int = 1575,
    setting: Setting | None = None,
    drop: bool = True,
    name: str = "out.jsonl",
) -> Path:
    """A release of annotated text in which the detector knows only some of the names."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"name{number}x" for number in range(of)]
    calls = [
        Utterance(tokens=("call", each), slots=("O", "B-PER"), user=f"u{place}", id=str(place))
        for place, each in enumerate(names)
    ]
    write(folder / "in.jsonl", calls)
    deid = Deidentifier(
        detector=Measuring([Gazetteer({"PER": names[:found]})]),
        setting=setting or Setting(strategy="typed"),
        fields=Fields(user="drop", id="drop") if drop else Fields(),
    )
    release_file(deid, read(folder / "in.jsonl"), folder / name)
    return folder / f"{name}.run.json"


@pytest.mark.parametrize(
    ("policy", "noise"), [("strict", 30.0), ("moderate", 12.0), ("research", 6.0)]
)
def test_each_policy_lets_pass_what_it_describes(tmp_path: Path, policy: str, noise: float) -> None:
    found = judged([audited(tmp_path / "run", user_run(noise))], policy)
    assert found.decision is Decision.RELEASE, found.findings
    assert found.decision.exit_code == 0
    assert found.total is not None
    assert found.total.holds


@pytest.mark.parametrize(
    ("policy", "noise", "decision"),
    [
        ("strict", 12.0, Decision.ASK),
        ("strict", 4.0, Decision.STOP),
        ("moderate", 4.0, Decision.ASK),
        ("moderate", 2.0, Decision.STOP),
        ("research", 2.0, Decision.ASK),
        ("research", None, Decision.STOP),
    ],
)
def test_and_no_policy_lets_pass_more(
    tmp_path: Path, policy: str, noise: float | None, decision: Decision
) -> None:
    run = train_run(noise=None) if noise is None else user_run(noise)
    assert judged([audited(tmp_path / "run", run)], policy).decision is decision


@pytest.mark.parametrize("policy", ["strict", "moderate", "research"])
def test_a_vacuous_number_is_never_green_and_said_in_words(tmp_path: Path, policy: str) -> None:
    found = judged([audited(tmp_path / "run", user_run(0.05))], policy)
    assert found.decision is not Decision.RELEASE
    assert any("50 % can become more than 99.99 % certain" in f.sentence for f in found.findings)
    page = Report(tuple(collect([tmp_path / "run"])), policy=shipped(policy)).html()
    assert not re.search(r"e\^\d", page)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"delta": 1e-2}, "delta"),
        ({"population": 10}, "population"),
        ({"population": None}, "population"),
    ],
)
def test_every_threshold_of_a_training_counts(
    tmp_path: Path, change: dict[str, Any], rule: str
) -> None:
    found = judged([audited(tmp_path / "run", user_run(30.0, **change))], "strict")
    assert found.decision is not Decision.RELEASE
    assert rule in {finding.rule for finding in found.findings}


def test_audits_that_nobody_tried_are_amber(tmp_path: Path) -> None:
    found = judged([complete_run(tmp_path / "run", user_run(30.0))], "strict")
    assert found.decision is Decision.ASK
    assert sum(finding.rule == "audits" for finding in found.findings) == 2


def test_an_assumption_that_may_not_be_relied_on(tmp_path: Path) -> None:
    run = user_run(30.0)
    ledger = Ledger.from_json(run["ledger"])
    ledger.assume("nothing was spent after the last record of this ledger, which was not closed")
    run["ledger"], run["guarantee"] = ledger.to_json(), ledger.guarantee(DELTA).to_json()
    found = judged([audited(tmp_path / "run", run)], "strict")
    assert found.decision is Decision.STOP
    assert judged([tmp_path / "run"], "research").decision is Decision.RELEASE


def test_without_a_total_for_a_person_a_person_must_decide(tmp_path: Path) -> None:
    run = train_run(noise=200.0, delta=DELTA)
    run["configuration"]["population"] = 5000
    folder = audited(tmp_path / "run", run)
    found = judged([folder], "strict")
    assert found.decision is Decision.ASK
    assert any(finding.rule == "person" for finding in found.findings)
    assert judged([folder], "research").decision is Decision.RELEASE  # where it is optional


def test_the_total_of_several_releases_decides(tmp_path: Path) -> None:
    folders = [audited(tmp_path / f"run{number}", user_run(30.0)) for number in range(8)]
    alone = judged(folders[:1], "strict")
    assert alone.decision is Decision.RELEASE
    found = judged(folders, "strict")
    assert found.decision is not Decision.RELEASE
    assert found.total is not None
    assert alone.total is not None
    assert alone.total.epsilon < found.total.epsilon < 8 * alone.total.epsilon
    text = Report(tuple(collect(folders)), policy=shipped("strict")).html()
    assert "over all 8 releases" in text.split('id="verdict"')[0]


def test_a_copy_of_a_run_is_not_counted_twice(tmp_path: Path) -> None:
    run = user_run(30.0)
    once = judged([audited(tmp_path / "a", run)], "strict")
    twice = judged([tmp_path / "a", audited(tmp_path / "b", run)], "strict")
    assert once.total is not None
    assert twice.total is not None
    assert twice.total.epsilon == once.total.epsilon


def test_a_release_full_of_names_is_red_and_one_without_is_not(tmp_path: Path) -> None:
    leaky = released(tmp_path / "leaky", found=1)
    for policy in SHIPPED:
        found = judged([leaky], policy)
        assert found.decision is Decision.STOP, policy
        assert "1,574 of 1,575 annotated private values" in found.reasons[0].sentence
    clean = released(tmp_path / "clean", found=1575)
    levels = {f.level for f in judged([clean], "research").findings}
    assert levels == {Level.GREEN}
    # In the strict policy nobody has attacked it, and nobody has measured how stable it is.
    assert judged([clean], "strict").decision is Decision.ASK


def test_an_unmeasured_detector_is_amber_at_best(tmp_path: Path) -> None:
    calls = [Utterance(tokens=("call", "maria"), slots=("O", "O"), user="a", id="1")]
    write(tmp_path / "in.jsonl", calls)
    deid = Deidentifier(detector=Gazetteer({"PER": ["maria"]}), setting=Setting(strategy="typed"))
    release_file(deid, read(tmp_path / "in.jsonl"), tmp_path / "out.jsonl")
    found = judged([tmp_path / "out.jsonl.run.json"], "research")
    assert found.decision is Decision.ASK
    assert "Nobody has measured how much gazetteer misses" in found.reasons[0].sentence


def test_safe_harbor_lists_what_nobody_looked_for(tmp_path: Path) -> None:
    found = judged([released(tmp_path / "a", found=1575)], "safe-harbor")
    assert found.decision is Decision.ASK
    (finding,) = [each for each in found.findings if each.rule == "identifiers"]
    assert "biometric identifiers" in finding.sentence
    assert "names" not in finding.sentence.partition("looked: ")[2].split(", ")
    kept = judged([released(tmp_path / "b", found=1575, drop=False)], "safe-harbor")
    assert kept.decision is Decision.STOP
    drawn = released(tmp_path / "c", found=1575, setting=Setting(strategy="entity", epsilon=3.0))
    assert "stay as they are" in judged([drawn], "safe-harbor").reasons[0].sentence


def test_a_reference_is_shown_but_does_not_decide(tmp_path: Path) -> None:
    good = audited(tmp_path / "good", user_run(30.0))
    plain = write_run(tmp_path / "plain", train_run(noise=None, method="sgd"))
    aside = collect([good], references=[plain])
    assert [stage.name for stage in aside] == ["good", "plain"]
    assert judge(aside, shipped("strict")).decision is Decision.RELEASE
    assert judged([good, plain], "strict").decision is Decision.STOP


def test_exit_codes_and_what_is_printed(run_cli: RunCli, tmp_path: Path) -> None:
    good = audited(tmp_path / "good", user_run(30.0))
    for policy, noise, code in (("strict", 30.0, 0), ("strict", 4.0, 1), ("strict", 12.0, 3)):
        folder = audited(tmp_path / f"run{noise}", user_run(noise))
        result = run_cli("report", folder, "-o", tmp_path / "p.html", "--policy", policy)
        assert result.exit_code == code, result.stdout
    result = run_cli("report", good, "-o", tmp_path / "p.html", "--json")
    told = json.loads(result.stdout)
    assert (told["decision"], told["level"]) == ("release", "green")
    assert told["person"]["guarantee"]["unit"] == "user"


@pytest.mark.parametrize("name", SHIPPED)
def test_every_threshold_has_a_reason_and_a_source(name: str) -> None:
    policy = shipped(name)
    assert policy.about
    assert policy.explanations
    for told in policy.explanations.values():
        assert len(told.why) > 10
        assert told.source
    assert Policy.from_json(policy.to_json()) == policy
    assert policy_of(name).sha256 == policy.sha256


@pytest.mark.parametrize(
    "text",
    [
        "[epsilon.user]\nrelease = 1\nmost = 2\n",  # without a reason
        "[epsilon.village]\nrelease = 1\nmost = 2\nwhy = 'a'\nsource = 'b'\n",
        "[epsilon.user]\nrelease = 3\nmost = 2\nwhy = 'a'\nsource = 'b'\n",
        "[epsilon.user]\nrelease = 'x'\nmost = 2\nwhy = 'a'\nsource = 'b'\n",
        "[recal]\nleast = 0.9\nwhy = 'a'\nsource = 'b'\n",
        "[recall]\nleast = 9\nwhy = 'a'\nsource = 'b'\n",
        "[signatures]\nroles = 'me'\nwhy = 'a'\nsource = 'b'\n",
        "recall = 3",
        "[[",
    ],
)
def test_a_wrong_policy_is_refused_in_a_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=r"Expected"):
        policy_of(path)
