"""The page: its content, and that text from files never becomes markup."""

import json
import math
import re
import subprocess
import sys
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.report.runs import audit_of, complete_run, rescore_result, train_run, write_run

from sottovoce.privacy.accounting import Entry
from sottovoce.privacy.facts import NoisySum, Sampling
from sottovoce.privacy.guarantee import Relation, Unit
from sottovoce.privacy.ledger import Ledger
from sottovoce.report import Report, collect
from sottovoce.report.cross_run import training_times, utilities, word_errors
from sottovoce.report.entries import rows

VOID = {"meta", "br", "line", "rect", "circle", "polygon", "polyline", "link", "input"}


class Outline(HTMLParser):
    """Headings, ids, table headers and whether every element is closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag


def page_of(tmp_path: Path, **runs: dict[str, Any]) -> str:
    return Report(tuple(collect([write_run(tmp_path / n, r) for n, r in runs.items()]))).html()


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Report:
    folder = tmp_path_factory.mktemp("runs")
    plain = train_run(noise=None, method="sgd", accuracy=0.95, speed=6000)
    private = train_run(noise=20, claimed=0.4)
    write_run(folder / "plain", plain, audit_of(plain, correct=90))
    write_run(folder / "private", private, audit_of(private))
    write_run(folder / "tight", train_run(noise=60, accuracy=0.8, speed=500, seeded=True))
    (folder / "rescored").mkdir()
    (folder / "rescored" / "run.json").write_text(
        json.dumps({"verb": "rescore", "metrics": rescore_result(), "guarantee": None})
    )
    stages = collect([folder])
    return Report(tuple(stages), compared=(stages[0], stages[1]))


@pytest.fixture(scope="module")
def page(full: Report) -> str:
    return full.html()


def test_the_verdict_shows_missing_guarantees(page: str) -> None:
    assert "Do not release</h2>" in page
    assert "states no guarantee" in page
    assert "No guarantee can be given to any one utterance." in page
    assert "plain SGD adds no noise" in page


def test_claimed_stands_beside_true(full: Report, page: str) -> None:
    cells = re.findall(r'<span>0\.4</span></td>\s*<td class="n true good"[^>]*>([\d.]+)</td>', page)
    true = full.stages[1].epsilon
    assert true is not None
    assert float(cells[0]) == pytest.approx(true, rel=0.01)
    assert float(cells[0]) >= true  # never less than it is


def test_the_page_is_well_formed_and_accessible(page: str) -> None:
    outline = Outline(page)
    assert not outline.open
    ids = [attributes["id"] for _, attributes in outline.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    levels = [int(tag[1]) for tag, _ in outline.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert all(a.get("scope") for tag, a in outline.tags if tag == "th")
    charts = [a for tag, a in outline.tags if tag == "svg" and a.get("class") == "chart"]
    assert len(charts) >= 8
    assert all(a["role"] == "img" and len(a["aria-label"] or "") > 20 for a in charts)
    assert dict(outline.tags)["html"] == {"lang": "en"}
    links = {(a["href"] or "")[1:] for tag, a in outline.tags if tag == "a"}
    assert links <= set(ids)


def test_nothing_is_loaded_and_nothing_runs(page: str) -> None:
    tags = {tag for tag, _ in Outline(page).tags}
    assert not tags & {"script", "link", "img", "iframe", "object", "embed", "form"}
    assert "url(" not in page
    assert not re.search(r"https?://", page)
    assert "default-src 'none'" in page


def test_whatever_comes_from_a_file_is_escaped(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"
    run = train_run(method=evil, data=evil, claimed=1.0)
    run["claimed"]["how"] = evil
    run["guarantee"]["assumptions"] = run["guarantee"]["not_covered"] = [evil]
    run["versions"] = {evil: evil}
    run["seed"] = f"seeded{evil}"
    run["metrics"]["test"][evil] = 0.5
    run["metrics"]["rounds"] = [{"accepted": evil, "refused": {evil: evil}, "sampled": evil}]
    run["configuration"][evil] = evil
    run["examples"] = [{"before": evil, "after": evil, "spans_before": [[0, 5, evil]]}]
    run["attacks"] = [{"attack": evil, "success": 0.1, "prior": 0.1, "trials": 3}]
    other = {"verb": evil, "metrics": {}}
    folders = [write_run(tmp_path / "<b>bold", run), write_run(tmp_path / "other", other)]
    stages = collect([*folders, write_run(tmp_path / "third", train_run(data=evil))])
    page = Report(tuple(stages), title=evil, compared=(stages[0], stages[1])).html()
    assert page.count("&lt;script&gt;") > 15
    outline = Outline(page)
    assert not outline.open
    assert not {tag for tag, _ in outline.tags} & {"script", "img", "b"}


def test_an_audit_above_the_guarantee_is_a_defect_on_the_page(tmp_path: Path) -> None:
    run = train_run(noise=100)
    folder = write_run(tmp_path / "wrong", run, audit_of(run, correct=99))
    report = Report(tuple(collect([folder])))
    assert any("contradicted by a lower bound" in defect for defect in report.defects)
    assert "Do not release</h2>" in report.html()
    run = train_run()
    fine = Report(tuple(collect([complete_run(tmp_path / "fine", run, audit_of(run))])))
    assert not fine.defects
    assert "Do not release</h2>" not in fine.html()


def test_a_guarantee_that_its_ledger_does_not_give_is_a_defect(tmp_path: Path) -> None:
    run = train_run(noise=20)
    run["guarantee"]["epsilon"] /= 2
    report = Report(tuple(collect([write_run(tmp_path / "better", run)])))
    assert report.views[0].lines[0].checked is False
    assert any("its ledger gives epsilon" in each for each in report.defects)


def test_ledgers_with_many_noise_levels_are_derived_again_too(tmp_path: Path) -> None:
    run = train_run()
    steps = [
        Entry(NoisySum(unit=Unit.UTTERANCE, clip_norm=1, noise_stds=(1 + place / 100,),
                       sampling=Sampling.EVERYONE))
        for place in range(30)
    ]  # fmt: skip
    ledger = Ledger.of(steps, unit=Unit.UTTERANCE, relation=Relation.ADD_OR_REMOVE)
    run["ledger"] = ledger.to_json()
    run["guarantee"] = ledger.guarantee(1e-5).to_json()
    (stage,) = collect([write_run(tmp_path / "decays", run)])
    report = Report((stage,))
    assert report.views[0].lines[0].checked is True
    (row,) = rows(stage.ledgers["utterance"])
    assert (row.times, row.entries) == (30, 30)
    assert "noise multiplier 1 to 1.29" in row.what
    assert "30 distinct entries" in report.html()


def test_runs_of_the_same_data_are_compared_and_no_others(tmp_path: Path) -> None:
    write_run(tmp_path / "a", train_run(noise=None, method="sgd", speed=3000))
    write_run(tmp_path / "b", train_run(speed=1000))
    write_run(tmp_path / "c", train_run(data="health"))
    stages = collect([tmp_path])
    found = utilities(stages)
    assert [each.key for each in found] == ["ser", "intent_accuracy", "slot_f1", "exact_match"]
    assert {point.name for each in found for point in each.points} == {"a", "b"}
    assert math.isinf(found[0].points[0].epsilon)
    ((data, pace),) = training_times(stages)
    assert data == "communication"
    assert [round(each.ratio, 6) for each in pace] == [1.0, 3.0]


def test_word_errors_against_epsilon(tmp_path: Path) -> None:
    guarantee = train_run()["guarantee"]
    for place, wer in enumerate((5.0, 4.5)):
        told = guarantee | {"epsilon": 1.0 + place}
        run = {"verb": "rescore", "metrics": rescore_result(wer), "guarantee": told}
        write_run(tmp_path / f"r{place}", run)
    stages = collect([tmp_path])
    assert [(p.epsilon, p.measured.value) for p in word_errors(stages)] == [(1.0, 5.0), (2.0, 4.5)]
    page = Report(tuple(stages)).html()
    assert "Word errors against epsilon" in page
    assert "rare words" in page


def test_examples_are_marked_by_type(tmp_path: Path) -> None:
    run = train_run() | {
        "examples": [
            {
                "before": "call Maria at nine",
                "after": "call [PER] at nine",
                "spans_before": [[5, 10, "PER"], [6, 8, "ORG"], [90, 99, "LOC"], "junk"],
                "spans_after": [[5, 10, "PER"]],
            }
        ]
    }
    page = page_of(tmp_path, released=run)
    assert '<mark class="k0">Maria<small>PER</small></mark> at nine' in page
    assert "ORG" not in page  # it overlaps
    assert "protect this page like the corpus" in page


def test_two_runs_side_by_side(page: str) -> None:
    section = page.split('id="compared"')[1].split("</section>")[0]
    assert "Compared: plain and private" in section
    assert "plan.noise_multiplier" in section
    assert "epochs" not in section  # it is the same in both
    assert re.search(r"test: intent accuracy</th>.*?−0\.05", section, re.DOTALL)


def test_it_renders_without_torch(tmp_path: Path) -> None:
    write_run(tmp_path / "a", train_run())
    code = (
        "from sottovoce.report import Report, collect\n"
        f"page = Report(tuple(collect([{str(tmp_path)!r}]))).html()\n"
        "assert 'Verdict' in page\n"
        "import sys\n"
        "assert not {'torch', 'transformers', 'flwr', 'ray', 'matplotlib'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
