"""Model folders from strangers: no code, no downloads, no more memory than their weights."""

import json
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from sottovoce._model_folders import bounded, elements
from sottovoce.errors import InvalidInput
from sottovoce.nlu.encoders.bert import Bert, save_encoder
from sottovoce.nlu.encoders.clc import Clc, ClcShape
from sottovoce.nlu.encoders.words import Words
from sottovoce.nlu.model import JointModel
from sottovoce.nlu.runs.run import load_run, save_run
from sottovoce.nlu.schema import Schema

TINY = {
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 8,
}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("transformers", reason="the extra bert is not installed")
    folder = tmp_path_factory.mktemp("encoder")
    save_encoder(Bert.untrained(shape=TINY), folder)
    return folder


def changed(folder: Path, target: Path, **config: object) -> Path:
    """A copy of a model folder with another configuration."""
    target.mkdir()
    for path in folder.iterdir():
        (target / path.name).write_bytes(path.read_bytes())
    found = json.loads((target / "config.json").read_text())
    (target / "config.json").write_text(json.dumps(found | config))
    return target


@pytest.mark.parametrize(
    "config", [{"vocab_size": 300_000_000}, {"num_hidden_layers": 10**6}, {"hidden_size": 10**6}]
)
def test_a_configuration_cannot_take_more_memory_than_the_weights(
    encoder: Path, tmp_path: Path, config: dict[str, int]
) -> None:
    assert Bert.load(encoder).width == 8
    with pytest.raises(InvalidInput, match="describes a larger one"):
        Bert.load(changed(encoder, tmp_path / "copy", **config))


def test_the_bound_counts_every_way_to_make_weights() -> None:
    makers: list[Callable[[], object]] = [
        lambda: torch.nn.Linear(4000, 4000),
        lambda: torch.nn.Embedding(10**7, 2),
        lambda: torch.nn.LSTM(1000, 2000),
        lambda: torch.nn.Parameter(torch.full((10**4, 10**4), 0.0)),
        lambda: torch.zeros(size=(10**4, 10**4)),
        lambda: torch.randn([10**4, 10**4]),
    ]
    for make in makers:
        with pytest.raises(InvalidInput, match="a larger one"), bounded(10, "here"):
            make()
        with bounded(2 * 10**8, "here"), torch.device("meta"):
            make()


def test_code_of_a_folder_never_runs_and_nobody_is_asked(encoder: Path, tmp_path: Path) -> None:
    folder = changed(
        encoder,
        tmp_path / "copy",
        model_type="stranger",
        auto_map={"AutoConfig": "evil.Config", "AutoModel": "evil.Model"},
    )
    (folder / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    # On a terminal transformers would ask; a yes on standard input must not count.
    script = (
        "import sys; from sottovoce.nlu.encoders.bert import Bert; Bert.load(sys.argv[1])"
    )  # fmt: skip
    ran = subprocess.run(
        [sys.executable, "-c", script, str(folder)], input="y\n", capture_output=True, text=True
    )
    assert ran.returncode == 1
    assert "InvalidInput" in ran.stderr
    assert not (tmp_path / "ran").exists()


def test_a_header_that_lies_is_bounded_by_the_file(tmp_path: Path) -> None:
    header = json.dumps({"x": {"dtype": "F32", "shape": [10**9], "data_offsets": [0, 4]}}).encode()
    file = tmp_path / "model.safetensors"
    file.write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    assert elements(tmp_path) == file.stat().st_size
    file.write_bytes(b"\xff" * 16)
    with pytest.raises(InvalidInput, match="damaged"):
        elements(tmp_path)


def test_a_run_cannot_take_more_memory_than_its_weights(tmp_path: Path) -> None:
    shape = ClcShape(word_width=4, filters=3, hidden=5, layers=1)
    schema = Schema(intents=("call", "stop"), slot_types=("who",), slots_of=None, declared=True)
    save_run(tmp_path, JointModel(schema, Clc(Words.hashed(10), shape)), {"verb": "train"})
    config = json.loads((tmp_path / "config.json").read_text())
    config["model"]["encoder"]["shape"]["hidden"] = 20_000
    (tmp_path / "config.json").write_text(json.dumps(config))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InvalidInput, match="describes a larger one"):
        load_run(tmp_path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + (1 << 20)


def test_a_run_names_nothing_to_download(tmp_path: Path) -> None:
    from sottovoce.nlu.runs.run import _public

    with pytest.raises(InvalidInput, match="not on this machine"):
        _public({"source": "stranger/model", "names": [], "sha256": ""}, {})
