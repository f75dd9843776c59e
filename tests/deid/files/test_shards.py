import json
from pathlib import Path

import pytest

from sottovoce.corpora import Reader, Utterance, read, write
from sottovoce.deid import Deidentifier, LabelMap, Setting
from sottovoce.deid.detect import Gold
from sottovoce.deid.files.shards import release_shards
from sottovoce.errors import InvalidInput

LABELS = LabelMap({"who": "PER"})


def make(epsilon: float = 1.0) -> Deidentifier:
    return Deidentifier(detector=Gold(LABELS), setting=Setting(epsilon=epsilon))


@pytest.fixture
def shards(tmp_path: Path) -> list[Reader]:
    readers = []
    for number in range(3):
        calls = [
            Utterance(tokens=("call", name), slots=("O", "B-who"), user="u1")
            for name in ["anna", "ben"][: 1 + number % 2]
        ]
        write(tmp_path / f"part{number}.jsonl", calls)
        readers.append(read(tmp_path / f"part{number}.jsonl"))
    return readers


def test_users_add_up_over_shards_and_tokens_do_not(shards: list[Reader], tmp_path: Path) -> None:
    content = release_shards(make, shards, tmp_path / "out")
    found = content["guarantees"]
    assert found["token"]["epsilon"] == pytest.approx(1)
    assert found["utterance"]["epsilon"] == pytest.approx(1)
    assert found["user"]["epsilon"] == pytest.approx(4)
    shared = json.loads((tmp_path / "out" / "run.json").read_text())
    assert shared == {key: value for key, value in content.items() if key != "metrics"}
    assert content["metrics"] == {"shards": 3, "resumed": 0, "utterances": 4}


def test_finished_shards_are_kept_and_others_are_done_again(
    shards: list[Reader], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    release_shards(make, shards, out)
    before = {path.name: path.read_bytes() for path in out.glob("part*")}
    (out / "part1.jsonl").unlink()  # as if the run had been killed here
    content = release_shards(make, shards, out)
    assert content["metrics"]["resumed"] == 2
    for name in ("part0.jsonl", "part2.jsonl"):
        assert (out / name).read_bytes() == before[name]
    with pytest.raises(InvalidInput, match="a new output file"):
        release_shards(lambda: make(2.0), shards, out)


def test_one_bad_shard_voids_the_whole(shards: list[Reader], tmp_path: Path) -> None:
    def redact() -> Deidentifier:
        return Deidentifier(detector=Gold(LABELS), setting=Setting(strategy="redact", p=0.5))

    content = release_shards(redact, shards, tmp_path / "out")
    assert content["guarantees"]["token"]["verdict"] == "no-guarantee"


def test_no_shards_and_equal_names_are_refused(shards: list[Reader], tmp_path: Path) -> None:
    for readers in ([], [shards[0], shards[0]]):
        with pytest.raises(InvalidInput, match="at least one shard"):
            release_shards(make, readers, tmp_path / "out")
