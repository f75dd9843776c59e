"""Ten lines: train, parse, evaluate, save and load from Python, the same as the command line."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from tests.conftest import RunCli
from tests.nlu.small import OPTIONS, SIZES, SMALL, command, small_parts, write_parts

from sottovoce import nlu
from sottovoce.corpora import Utterance
from sottovoce.errors import InvalidInput
from sottovoce.nlu.fit.loop import Progress
from sottovoce.nlu.runs.experiment import evaluate
from sottovoce.privacy.ledger import Ledger

TEXTS = ["answer  the call", "call my voicemail please", "hang up"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_parts(tmp_path_factory.mktemp("data") / "calls", small_parts())


@pytest.fixture(scope="module")
def by_command(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("command") / "run"
    command(
        "train", data, "--method", "dp-sgd", "--epsilon", 3, *OPTIONS, "--seed", 5, "-o", run
    )  # fmt: skip
    return run


@pytest.fixture(scope="module")
def model(data: Path) -> nlu.Assistant:
    return nlu.train(data, epsilon=3, **SMALL, seed=5)


@pytest.fixture(scope="module")
def plain() -> nlu.Assistant:
    """Without privacy, so that it has learnt something."""
    parts = small_parts(train=160)
    settings: dict[str, Any] = SMALL | {
        "epochs": 12,
        "hidden": 32,
        "word_width": 32,
        "batch_size": 20,
    }
    return nlu.train(parts, method="sgd", seed=1, learning_rate=0.03, **settings)


def files_of(folder: Path) -> set[str]:
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    return found - {"private/lock"}


def test_library_and_command_line_make_the_same_model(
    model: nlu.Assistant, by_command: Path, tmp_path: Path
) -> None:
    model.save(tmp_path / "run")
    assert files_of(tmp_path / "run") == files_of(by_command)
    ours, theirs = (
        json.loads((folder / "config.json").read_text())
        for folder in (tmp_path / "run", by_command)
    )
    assert ours == theirs  # the hash of the weights is in it
    run = json.loads((by_command / "run.json").read_text())
    assert model.run["configuration"] == run["configuration"] | {"seed": 5}
    assert model.guarantee.to_json() == run["guarantee"]


def test_a_run_of_the_command_line_is_loaded(model: nlu.Assistant, by_command: Path) -> None:
    loaded = nlu.load(by_command)
    assert loaded(TEXTS) == model(TEXTS)
    assert loaded.labels == model.labels
    assert loaded.metrics["test"].to_json() == model.metrics["test"].to_json()


def test_a_saved_run_serves_the_other_verbs(
    model: nlu.Assistant, data: Path, tmp_path: Path, run_cli: RunCli
) -> None:
    run = tmp_path / "run"
    model.save(run)
    said = run_cli("predict", run, "--text", TEXTS[0], "--json")
    assert json.loads(said.stdout)["intent"] == model(TEXTS[0]).intent
    assert run_cli("ledger", "verify", run).exit_code == 0
    audited = run_cli("audit", run, "--attack", "loss", "--data", data)
    assert audited.exit_code == 0, audited.stderr
    assert run_cli("report", run, "-o", tmp_path / "report.html").exit_code in (0, 1, 3)
    assert (run / "private").stat().st_mode & 0o077 == 0


def test_saving_keeps_what_was_spent(model: nlu.Assistant, tmp_path: Path) -> None:
    model.save(tmp_path / "run")
    kept = Ledger.read(tmp_path / "run" / "ledger.jsonl")
    assert kept.entries == model.ledger.entries
    nlu.load(tmp_path / "run").save(tmp_path / "copy")
    assert files_of(tmp_path / "copy") == files_of(tmp_path / "run")
    assert Ledger.read(tmp_path / "copy" / "ledger.jsonl").entries == kept.entries
    with pytest.raises(InvalidInput, match="got a finished run"):
        model.save(tmp_path / "copy")


def test_with_output_the_run_is_there_after_training(data: Path, tmp_path: Path) -> None:
    made = nlu.train(data, epsilon=3, output=tmp_path / "run", **SMALL)
    assert nlu.load(tmp_path / "run")(TEXTS) == made(TEXTS)
    made.save(tmp_path / "run")  # it is there already
    with pytest.raises(InvalidInput, match="got a finished run"):
        nlu.train(data, epsilon=3, output=tmp_path / "run", **SMALL)


def test_slots_have_offsets_into_the_text(plain: nlu.Assistant) -> None:
    texts = [f"  {utterance.text.replace(' ', '   ')}!" for utterance in small_parts().test]
    parses = plain(texts)
    slots = [(parse, slot) for parse in parses for slot in parse.slots]
    assert slots
    for parse, slot in slots:
        assert parse.text[slot.start : slot.end] == slot.value
        assert slot.name in plain.labels.slot_types
        assert 0 <= slot.score <= 1
    assert [parse.text for parse in parses] == texts
    first = parses[0].to_json()
    assert json.loads(json.dumps(first)) == first
    assert first.keys() == {"text", "intent", "score", "slots"}


def test_one_text_is_parsed_as_in_a_list(plain: nlu.Assistant) -> None:
    one, many = plain("redial please"), plain(iter(["redial please"]))
    assert (one.intent, one.slots) == (many[0].intent, many[0].slots)
    assert plain([]) == []
    with pytest.raises(InvalidInput, match="Expected some words in the text, got ' '"):
        plain(["redial", " "])
    with pytest.raises(InvalidInput, match="Expected a text, got int"):
        plain([7])  # type: ignore[list-item]


def test_many_threads_get_what_one_gets(plain: nlu.Assistant) -> None:
    texts = [utterance.text for utterance in small_parts().test[:24]]
    alone = [plain(text) for text in texts]
    with ThreadPoolExecutor(8) as pool:
        for together in pool.map(lambda _: [plain(text) for text in texts], range(8)):
            assert together == alone


def test_evaluation_is_that_of_the_command_line(plain: nlu.Assistant) -> None:
    test = small_parts().test
    found = plain.evaluate(test)
    assert found.to_json() == evaluate(plain.model, test)
    assert found["ser"].low <= found["ser"].value <= found["ser"].high
    assert found["intent_accuracy"].value > 0.6
    assert str(found).startswith("semantic error rate")
    with pytest.raises(InvalidInput, match="Expected utterances with intents"):
        plain.evaluate([{"text": "redial"}])


def test_a_frame_trains_the_same_model_as_its_file(model: nlu.Assistant, data: Path) -> None:
    train = small_parts().train
    frame = pd.DataFrame(
        {"said": [u.text for u in train], "slots": [" ".join(u.slots) for u in train],
         "intent": [u.intent for u in train]}
    )  # fmt: skip
    made = nlu.train(frame, epsilon=3, columns={"text": "said"}, **SMALL, seed=5)
    assert made(TEXTS) == model(TEXTS)


def test_a_quick_run_is_marked_as_quick(tmp_path: Path) -> None:
    seen: list[Progress] = []
    made = nlu.train(small_parts(), epsilon=3, quick=True, on_progress=seen.append)
    assert made.quick
    assert "a quick look" in repr(made)
    assert "epsilon 3 for one example" in repr(made)
    assert seen[-1].step == seen[-1].steps
    made.save(tmp_path / "run")
    assert nlu.load(tmp_path / "run").quick


def test_a_quick_look_is_the_same_on_the_command_line(
    data: Path, tmp_path: Path, run_cli: RunCli
) -> None:
    small: dict[str, Any] = {"hidden": 8, "epochs": 2}  # given settings come first
    made = nlu.train(data, epsilon=3, quick=True, seed=2, **small)
    assert not made.quick
    options = [str(word) for name, value in small.items() for word in (f"--{name}", value)]
    done = run_cli(
        "train", data, "--quick", *options, "--method", "dp-sgd", "--epsilon", 3, "--seed", 2,
        "-o", tmp_path / "run",
    )  # fmt: skip
    assert done.exit_code == 0, done.stderr
    assert nlu.load(tmp_path / "run")(TEXTS) == made(TEXTS)


def test_without_privacy_there_is_no_guarantee(plain: nlu.Assistant) -> None:
    assert not plain.guarantee.holds
    assert "no guarantee" in repr(plain)


def test_users_are_protected_and_labels_declared(tmp_path: Path) -> None:
    labels = nlu.Schema.of(small_parts().train, declared=True)
    made = nlu.train(
        small_parts(), epsilon=3, unit="user", labels=labels, **(SMALL | {"batch_size": None})
    )
    assert made.guarantee.unit == "user"
    assert not [each for each in made.guarantee.not_covered if "names of intents" in each]


def unlabelled(count: int) -> list[dict[str, str]]:
    return [{"text": f"say {number}"} for number in range(count)]


def labelled(count: int) -> list[Utterance]:
    return list(small_parts().train[:count])


@pytest.mark.parametrize(
    ("data", "settings", "refusal"),
    [
        (unlabelled(9), {}, "Expected labelled utterances to train on, got 9 without intents"),
        (
            [*labelled(5), *unlabelled(2)],
            {},
            "Expected an intent for every training utterance, got none for 2 of 7, the first of "
            "them utterance 6",
        ),
        (labelled(1), {}, "Expected at least two examples to train on, got one"),
        (labelled(20), {"batch_size": 64}, "as many examples as the batch size of 64, got 20"),
        (labelled(20), {"epoch": 3}, "Expected settings among .* got 'epoch': did you mean epochs"),
        (labelled(20), {"epsilon": None}, "Expected an epsilon for dp-sgd, such as epsilon=3"),
        (labelled(20), {"epsilon": -1}, "Expected epsilon > 0"),
        (labelled(20), {"method": "sgd"}, "Expected a private method for an epsilon"),
        (labelled(20), {"method": "dpsgd"}, "Expected method to be one of"),
        (labelled(20), {"labels": "x", "public_labels": True}, "got both"),
        (labelled(20), {"resume": True}, "Expected the output folder"),
        ("nowhere.jsonl", {}, "found nothing there"),
        ([], {}, "found none"),
    ],
)
def test_what_cannot_be_trained_is_refused(
    data: Any, settings: dict[str, Any], refusal: str
) -> None:
    with pytest.raises(InvalidInput, match=refusal):
        nlu.train(data, **{"epsilon": 3, "model": "clc", **SIZES, **settings})


def test_samples_that_are_part_of_the_data_are_refused(data: Path) -> None:
    with pytest.raises(InvalidInput, match="Expected public samples"):
        nlu.train(data, epsilon=3, samples=str(data / "train.jsonl"))


def test_the_command_line_refuses_the_same(tmp_path: Path, run_cli: RunCli) -> None:
    (tmp_path / "said.txt").write_text("call mum\nhang up\n")
    refused = run_cli("train", tmp_path / "said.txt", "--model", "clc", "-o", tmp_path / "run")
    assert refused.exit_code == 2
    assert "Expected labelled utterances to train on, got 2 without" in refused.stderr
    assert not (tmp_path / "run").exists()


def test_another_folder_is_not_loaded(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="Expected a run folder"):
        nlu.load(tmp_path)


def test_no_torch_until_it_is_used() -> None:
    code = (
        "import sys; from sottovoce import nlu; nlu.Parse; nlu.read; dir(nlu); "
        "print('torch' in sys.modules, sorted(nlu.__all__) == nlu.__all__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


def test_unknown_names_are_no_attributes() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'tarin'"):
        nlu.tarin  # noqa: B018
    assert all(hasattr(nlu, name) for name in nlu.__all__)
