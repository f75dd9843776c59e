"""`sottovoce train`: the folder it leaves, what it refuses, and how it stops and goes on."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path

import click
import pytest
import torch
from tests.conftest import RunCli
from tests.nlu.small import OPTIONS, small_parts, write_parts
from tests.nlu.tiny import tiny_bert

from sottovoce.cli.train import train
from sottovoce.io.run import Run
from sottovoce.nlu.encoders.bert import save_encoder
from sottovoce.nlu.fit.optimisation import OptimizerName, Schedule
from sottovoce.nlu.fit.settings import Settings
from sottovoce.nlu.runs.run import load_run
from sottovoce.privacy.ledger import Ledger
from sottovoce.privacy.recipes import Decay, Method
from sottovoce.training import ClippingStyle

torch.set_num_threads(1)
PRIVATE = ("--method", "dp-sgd", "--noise-multiplier", 2)
SENTENCES = {
    "labels": "read off the private data",
    "population": "the number of examples",
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_parts(tmp_path_factory.mktemp("corpus") / "calls", small_parts())


def test_a_private_run_leaves_a_whole_folder(run_cli: RunCli, data: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    result = run_cli("train", data, *OPTIONS, "--method", "dp-sgd", "--epsilon", 3, "-o", run)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "epsilon = 3, delta" in " ".join(result.stdout.split())
    assert "semantic error rate" in result.stdout
    assert sorted(path.name for path in run.iterdir()) == [
        "README.md", "config.json", "labels.json", "ledger.jsonl", "model.safetensors", "private",
        "run.json", "words.json",
    ]  # fmt: skip
    loaded = load_run(run)
    assert loaded.model.predict([["redial"]])[0].intent in loaded.schema.intents
    guarantee = loaded.run["guarantee"]
    spent = Ledger.read(run / "ledger.jsonl").guarantee(guarantee["delta"])
    assert guarantee["epsilon"] == pytest.approx(spent.epsilon)
    assert 2.99 < guarantee["epsilon"] <= 3
    for sentence in SENTENCES.values():
        assert any(sentence in each for each in guarantee["not_covered"])
        assert sentence in (run / "README.md").read_text()
    kept = Run(run).private_part()
    assert kept["source"]["data"] == str(data)
    assert kept["data"] == {"train": 120, "valid": 30, "test": 80}
    assert set(kept["metrics"]) == {"valid", "test"}
    again = run_cli("train", data, *OPTIONS, "-o", run)
    assert again.exit_code == 2
    assert again.stderr.startswith("Error: Expected an empty folder, got a finished run in")
    resumed = run_cli("train", data, *OPTIONS, "-o", run, "--resume")
    assert (resumed.exit_code, resumed.stderr.count("\n")) == (2, 1)
    assert "got a finished one" in resumed.stderr


def test_json_of_a_run_without_a_guarantee(run_cli: RunCli, data: Path, tmp_path: Path) -> None:
    printed = ("--method", "edp-sgd", "--as-printed", "--noise-multiplier", 0.01, "--workers", 2)
    result = run_cli("train", data, *OPTIONS, *printed, "-o", tmp_path / "run", "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    found = json.loads(result.stdout)
    private = found.pop("private")
    assert found == json.loads((tmp_path / "run" / "run.json").read_text())
    assert private == Run(tmp_path / "run").private_part()
    assert found["guarantee"]["verdict"] == "no-guarantee"
    assert found["claimed"]["epsilon"] is not None


def test_declared_labels_and_population(run_cli: RunCli, data: Path, tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_bytes((data / "train.jsonl").read_bytes())
    declared = ("--public-labels", "--population", 120)
    result = run_cli(
        "train", tmp_path / "train.jsonl", *OPTIONS, *PRIVATE, *declared, "-o", tmp_path / "run",
        "--json",
    )  # fmt: skip
    guarantee = json.loads(result.stdout)["guarantee"]
    for sentence in SENTENCES.values():
        assert not any(sentence in each for each in guarantee["not_covered"])
    assert any("names of intents" in each for each in guarantee["assumptions"])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--method", "dp-sgd", "--epsilon", 3, "--noise-multiplier", 1), "got both: set one"),
        (("--method", "sgd", "--epsilon", 3), "Expected a private method for an epsilon, got sgd"),
        (("--method", "edp-sgd", "--epsilon", 3), "Use --method dp-sgd"),
        (("--model", "bert", "--tuning", "half"), "Expected the tuning frozen, last-K"),
        (("--method", "edp-sgd", "--as-printed", "--epsilon", 3), "as printed, got an epsilon"),
        (("--labels", "LABELS", "--public-labels"), "Expected --labels or --public-labels"),
        (("--method", "edp-sgd", "--as-printed", "--canaries", 3), "an even number of canaries"),
        (("--method", "dp-sgd", "--workers", 2), "Expected 2 workers as planned, got 1"),
        (("--resume",), "Expected an interrupted run in"),
        (("--vocabulary", "no such file"), "Expected the vocabulary hashed, dp"),
        (("--delta", 1), "Expected delta in (0, 1), got 1."),
    ],
)
def test_invalid_options_are_one_sentence(
    run_cli: RunCli, data: Path, tmp_path: Path, options: tuple[object, ...], sentence: str
) -> None:
    labels = tmp_path / "labels.json"
    labels.write_text('{"intents": ["a"], "slot_types": []}')
    given = [str(labels) if each == "LABELS" else each for each in options]
    result = run_cli("train", data, *OPTIONS, *given, "-o", tmp_path / "run")
    assert (result.exit_code, result.stdout) == (2, "")
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1
    # Nothing was spent, so the folder is not lost to a slip of the tongue.
    again = run_cli("train", data, *OPTIONS, *PRIVATE, "--epochs", 1, "-o", tmp_path / "run")
    assert again.exit_code == 0 or "2 workers" in sentence


def test_a_folder_with_other_files_is_left_alone(
    run_cli: RunCli, data: Path, tmp_path: Path
) -> None:
    (tmp_path / "README.md").write_text("mine")
    result = run_cli("train", data, *OPTIONS, "-o", tmp_path)
    assert result.exit_code == 2
    assert "Expected an empty folder, got README.md" in result.stderr
    assert (tmp_path / "README.md").read_text() == "mine"


def test_users_are_protected_or_refused(run_cli: RunCli, data: Path, tmp_path: Path) -> None:
    by_user = (*OPTIONS, *PRIVATE, "--unit", "user", "--batch-size", 10)
    result = run_cli("train", data, *by_user, "-o", tmp_path / "run", "--json")
    found = json.loads(result.stdout)
    assert found["guarantee"]["unit"] == "user"
    assert found["configuration"]["population"] == len({u.user for u in small_parts().train})
    (tmp_path / "nobody.jsonl").write_text(
        '{"tokens": ["stop", "mum"], "slots": ["O", "B-who"], "intent": "stop"}\n'
    )
    result = run_cli("train", tmp_path / "nobody.jsonl", *by_user, "-o", tmp_path / "other")
    assert result.exit_code == 2
    assert "add users, or protect examples" in result.stderr


def test_ctrl_c_and_resume(run_cli: RunCli, data: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    options = (*OPTIONS, *PRIVATE, "--epochs", 40, "--public-labels")
    command = [sys.executable, "-m", "sottovoce", "train", data, *options, "-o", run]
    process = subprocess.Popen(
        [str(each) for each in command],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    while process.poll() is None and not (run / "private/checkpoint.pt").exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=120)
    assert process.returncode == 130, told
    assert "continue with the same command and --resume" in told
    assert not (run / "run.json").exists()
    spent = sum(entry.count for entry in Ledger.read(run / "ledger.jsonl").entries)
    assert 1 <= spent < 120
    for other, sentence in [
        (("--tau", 0.2, "--resume"), "got another tau: 0.2 instead of 0.1"),
        (("--canaries", 10, "--resume"), "got another canaries"),
        ((), "got an interrupted run"),
    ]:
        refused = run_cli("train", data, *options, *other, "-o", run)
        assert refused.exit_code == 2
        assert sentence in refused.stderr
    result = run_cli("train", data, *options, "-o", run, "--resume", "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    ledger = Ledger.read(run / "ledger.jsonl")
    assert sum(entry.count for entry in ledger.entries) == found["configuration"]["steps"] == 120
    planned = ledger.guarantee(found["configuration"]["delta"]).epsilon
    assert found["guarantee"]["epsilon"] == pytest.approx(planned)
    steps = [each["step"] for each in found["history"]]
    assert steps == sorted(steps)
    assert steps[0] == min(spent, 6)  # what was seen before the stop is still told
    assert not list(run.rglob("checkpoint*"))


def test_two_processes_write_one_run(data: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
        "-m", "sottovoce", "train", data, *OPTIONS, "--method", "edp-sgd", "--workers", 2,
        "--noise-multiplier", 3, "-o", run, "--json",
    ]  # fmt: skip
    done = subprocess.run(
        [str(each) for each in command],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)  # one of the two speaks
    assert found["configuration"]["workers"] == 2
    guarantee = found["guarantee"]
    assert guarantee["verdict"] == "holds"
    whole = Ledger.read(run / "ledger.jsonl")
    assert whole.guarantee(guarantee["delta"]).epsilon == pytest.approx(guarantee["epsilon"])
    for rank in range(2):
        assert (run / f"ledger.rank{rank}.jsonl").exists()
    assert not list(run.rglob("checkpoint*"))
    assert load_run(run).run | {"private": Run(run).private_part()} == found


@pytest.mark.parametrize("named", ["by the option", "in the environment"])
def test_a_tiny_bert_with_a_frozen_encoder(
    named: str, run_cli: RunCli, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sottovoce.nlu.fit.factory.PUBLIC_UTTERANCES", 8)
    torch.manual_seed(0)
    save_encoder(tiny_bert(positions=64), tmp_path / "encoder")
    chosen: tuple[object, ...] = ("--encoder", tmp_path / "encoder")
    if named == "in the environment":
        monkeypatch.setenv("SOTTOVOCE_ENCODER", str(tmp_path / "encoder"))
        chosen = ()
    small = (*chosen, "--epochs", 2, "--batch-size", 60)
    result = run_cli("train", data, *small, *PRIVATE, "-o", tmp_path / "run", "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["configuration"]["tuning"] == "frozen"
    assumed = f"the encoder {tmp_path / 'encoder'} was made from public text only"
    assert assumed in found["guarantee"]["assumptions"]
    assert load_run(tmp_path / "run").model.predict([["redial"]])


def test_choices_and_defaults_of_options_are_those_of_the_settings() -> None:
    options = {each.name: each for each in train.params}
    for name, kind in {
        "method": Method, "decay": Decay, "clipping": ClippingStyle, "optimizer": OptimizerName,
        "schedule": Schedule,
    }.items():  # fmt: skip
        choice = options[name].type
        assert isinstance(choice, click.Choice)
        assert list(choice.choices) == [each.value for each in kind]
    defaults = {each.name: each.default for each in fields(Settings)}
    for name in ("decay", "tau", "workers", "virtual_batch", "encoder"):
        assert options[name].default == defaults[name], name


def test_settings_from_a_file_and_options_before_them(
    run_cli: RunCli, data: Path, tmp_path: Path
) -> None:
    file = tmp_path / "best.json"
    kept = {"model": "clc", "hidden": 8, "layers": 1, "word_width": 8, "vocabulary": "hashed-200",
            "epochs": 1, "batch_size": 40, "tau": 0.3}  # fmt: skip
    file.write_text(json.dumps({"settings": kept, "scores": {}}))
    result = run_cli(
        "train", data, "--settings", file, "--batch-size", 60, "-o", tmp_path / "run", "--json"
    )
    assert result.exit_code == 0, result.stderr
    asked = json.loads(result.stdout)["asked"]
    assert {name: asked[name] for name in kept} == kept | {"batch_size": 60}
    for content in ("[1]", "{", '{"settings": {"frobnicate": 1}}'):
        file.write_text(content)
        result = run_cli("train", data, "--settings", file, "-o", tmp_path / "other")
        assert (result.exit_code, result.stderr.count("\n")) == (2, 1)


@pytest.mark.parametrize("verb", ["train", "tune", "audit"])
def test_help_loads_no_torch(verb: str) -> None:
    code = (
        "import sys; from sottovoce.cli.main import sottovoce as s\n"
        f"s.main(['{verb}', '--help'], standalone_mode=False)\n"
        "sys.exit(bool({'torch', 'transformers', 'numpy'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


@pytest.mark.parametrize("verb", ["train", "tune"])
@pytest.mark.parametrize("part", ["", "train.jsonl", ".."])
def test_the_data_itself_is_refused_as_samples(
    run_cli: RunCli, data: Path, tmp_path: Path, verb: str, part: str
) -> None:
    result = run_cli(verb, data, *OPTIONS, "--samples", data / part, "-o", tmp_path / "run")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Expected public samples, got " in result.stderr
    assert not (tmp_path / "run").exists()
