"""Reading stages: which files are found or rejected, and how stages are named."""

import json
from pathlib import Path

import pytest
from tests.report.runs import audit_of, rescore_result, train_run, write_run

from sottovoce.errors import InvalidInput
from sottovoce.io.run import Run
from sottovoce.report import Report, collect, one_stage


def test_a_run_folder_brings_its_audit(tmp_path: Path) -> None:
    run = train_run()
    write_run(tmp_path / "private", run, audit_of(run))
    (stage,) = collect([tmp_path / "private"])
    assert (stage.name, stage.verb) == ("private", "train")
    assert stage.audit is not None
    assert stage.epsilon == run["guarantee"]["epsilon"]
    assert stage.lower_bound is not None


def test_a_folder_of_runs_is_searched_and_nothing_is_read_twice(tmp_path: Path) -> None:
    write_run(tmp_path / "a", train_run())
    write_run(tmp_path / "deep" / "b", train_run())
    (tmp_path / "plots").mkdir()
    (tmp_path / "out.jsonl.run.json").write_text(json.dumps(train_run()))
    stages = collect([tmp_path, tmp_path / "a"])
    assert [stage.name for stage in stages] == ["out.jsonl", "a", "b"]


def test_private_figures_come_along_or_are_left_out(tmp_path: Path) -> None:
    run = train_run()
    folder = Run(tmp_path / "run")
    folder.write_run(run)
    audit_of(run).write(tmp_path / "run")
    (internal,) = collect([tmp_path])
    assert internal.metrics == run["metrics"]
    assert internal.audit is not None
    assert {"metrics", "timings", "audit"} <= set(internal.private)
    page = Report((internal,)).html()
    assert "For internal use" in page
    assert "Semantic error rate" in page
    (shared,) = collect([tmp_path], private=False)
    assert (shared.metrics, shared.audit, shared.private) == ({}, None, ())
    page = Report((shared,)).html()
    for private in ("For internal use", "Semantic error rate", "AUC"):
        assert private not in page
    assert shared.epsilon == internal.epsilon


def test_equal_names_are_distinguished(tmp_path: Path) -> None:
    write_run(tmp_path / "x" / "run", train_run())
    write_run(tmp_path / "y" / "run", train_run())
    assert [stage.name for stage in collect([tmp_path])] == ["x/run", "y/run"]
    same = [write_run(tmp_path / each / "x" / "run", train_run()) for each in ("1", "2")]
    assert [stage.name for stage in collect(same)] == ["x/run (1)", "x/run (2)"]


def test_what_rescore_prints_is_a_stage_without_a_guarantee(tmp_path: Path) -> None:
    path = tmp_path / "rescored.json"
    path.write_text(json.dumps(rescore_result()))
    (stage,) = collect([path])
    assert (stage.verb, stage.epsilon, stage.holds) == ("rescore", None, False)
    assert stage.metrics["adapted"]["wer"] == 4.6


def test_an_audit_alone_speaks_of_the_guarantee_it_was_held_against(tmp_path: Path) -> None:
    run = train_run()
    audit_of(run).write(tmp_path, publish=True)
    (stage,) = collect([tmp_path])
    assert stage.verb == "audit"
    assert stage.epsilon == run["guarantee"]["epsilon"]


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", "not json", '{"name": "package"}', '{"verb": 3, "metrics": {}}', "[" * 100000],
)
def test_foreign_files_are_refused_in_one_sentence(tmp_path: Path, content: str) -> None:
    path = tmp_path / "package.json"
    path.write_text(content)
    with pytest.raises(InvalidInput, match=r"Expected .*package\.json") as problem:
        collect([path])
    assert "\n" not in str(problem.value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"guarantee": {"epsilon": 1}},
        {"guarantee": "three"},
        {"guarantee": train_run()["guarantee"] | {"unit": "village"}},
        {"claimed": {"epsilon": "much"}},
        {"ledger": 7},
    ],
)
def test_a_wrong_part_is_refused_with_the_file(tmp_path: Path, wrong: dict[str, object]) -> None:
    folder = write_run(tmp_path / "broken", train_run() | wrong)
    with pytest.raises(InvalidInput, match=r"broken/run\.json"):
        collect([folder])


def test_a_wrong_audit_is_refused_with_the_file(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "broken", train_run())
    (folder / "audit.json").write_text('{"audit": 1, "attacks": 3}')
    with pytest.raises(InvalidInput, match=r"audit\.json"):
        collect([folder])


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="found nothing"):
        collect([tmp_path / "nowhere"])
    with pytest.raises(InvalidInput, match="Expected runs"):
        collect([tmp_path])


def test_missing_parts_are_tolerated(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "bare", {"verb": "train", "metrics": {"test": {"ser": 0.2}}})
    (stage,) = collect([folder])
    assert stage.stated == ()
    assert stage.scores()[1]["ser"].value == 0.2
    assert stage.history == ()


def test_one_stage_is_the_one_already_read(tmp_path: Path) -> None:
    write_run(tmp_path / "a", train_run())
    write_run(tmp_path / "b", train_run())
    stages = collect([tmp_path])
    assert one_stage(tmp_path / "b", stages) is stages[1]
    with pytest.raises(InvalidInput, match="one run to compare"):
        one_stage(tmp_path, stages)
