import json
from pathlib import Path
from typing import Any

import pytest

from sottovoce.corpora import Utterance, read, write
from sottovoce.deid import Deidentifier, Fields, LabelMap, Setting
from sottovoce.deid.detect import Gold
from sottovoce.deid.files.corpus_file import release_file
from sottovoce.deid.files.manifest import verify, with_hash
from sottovoce.deid.replace.counted import counted_surrogates, private_surrogates
from sottovoce.errors import InvalidInput
from sottovoce.privacy.noise import NoiseSource

LABELS = LabelMap({"who": "PER", "what": "TEXT"})
CALLS = [
    Utterance(tokens=("call", name), slots=("O", "B-who"), user=f"u{n}", id=str(n))
    for n, name in enumerate(["anna", "ben", "eve", "joe"] * 25)
]


def deidentifier() -> Deidentifier:
    return Deidentifier(
        detector=Gold(LABELS), setting=Setting(epsilon=1.0), fields=Fields(drop_rest=True)
    )


@pytest.fixture
def released(tmp_path: Path) -> Path:
    write(tmp_path / "calls.jsonl", CALLS)
    release_file(deidentifier(), read(tmp_path / "calls.jsonl"), tmp_path / "out.jsonl")
    return tmp_path / "out.jsonl"


@pytest.mark.parametrize(
    "name", ["a.jsonl", "a.conll", "a.csv", "a.tsv", "a.parquet", "a.jsonl.gz", "a.txt"]
)
def test_every_format(name: str, tmp_path: Path) -> None:
    write(tmp_path / "calls.jsonl", CALLS)
    release_file(deidentifier(), read(tmp_path / "calls.jsonl"), tmp_path / name)
    assert len(list(read(tmp_path / name))) == 100
    verify(tmp_path / name, source=tmp_path / "calls.jsonl")
    assert {path.name for path in tmp_path.iterdir()} == {
        "calls.jsonl", name, f"{name}.run.json", "private",
    }  # fmt: skip


def test_the_manifest_says_what_run_json_has_to_say(released: Path) -> None:
    content = json.loads(Path(f"{released}.run.json").read_text())
    for key in ("configuration", "versions", "seed", "ledger", "guarantee", "claimed"):
        assert content[key]
    kept = json.loads((released.parent / "private" / "out.jsonl.json").read_text())
    assert kept["metrics"] == {"utterances": 100, "users": 100, "replaced": {"PER": 100}}
    assert content["guarantee"]["unit"] == "user"
    assert content["guarantee"]["epsilon"] == pytest.approx(1.0)
    assert content["output"]["name"] == "out.jsonl"


def test_changed_files_are_noticed(released: Path) -> None:
    verify(released)
    with released.open("ab") as stream:
        stream.write(b"\n")
    with pytest.raises(InvalidInput, match="got another file"):
        verify(released)


def test_another_original_is_noticed(released: Path, tmp_path: Path) -> None:
    write(tmp_path / "other.jsonl", CALLS[1:])
    with pytest.raises(InvalidInput, match="to be the input"):
        verify(released, source=tmp_path / "other.jsonl")


def change(released: Path, edit: Any, *, seal: bool) -> None:
    path = Path(f"{released}.run.json")
    content = json.loads(path.read_text())
    edit(content)
    path.write_text(json.dumps(with_hash(content) if seal else content))


def test_an_altered_manifest_is_noticed(released: Path) -> None:
    change(released, lambda content: content["output"].update(bytes=7), seal=False)
    with pytest.raises(InvalidInput, match="altered"):
        verify(released)


def test_a_smaller_epsilon_than_the_ledger_gives_is_noticed(released: Path) -> None:
    def lie(content: Any) -> None:
        content["release"]["guarantees"]["token"]["epsilon"] = 0.1

    change(released, lie, seal=True)
    with pytest.raises(InvalidInput, match="its ledger gives"):
        verify(released)


def test_missing_and_foreign_manifests_are_refused(released: Path) -> None:
    manifest = Path(f"{released}.run.json")
    manifest.write_text("[]")
    with pytest.raises(InvalidInput, match="release manifest"):
        verify(released)
    manifest.unlink()
    with pytest.raises(InvalidInput, match="found none"):
        verify(released)


def test_an_error_leaves_nothing_behind(tmp_path: Path) -> None:
    bad = [*CALLS, Utterance(tokens=("call", "x"), slots=("O", "B-unknown"))]
    write(tmp_path / "calls.jsonl", bad)
    with pytest.raises(InvalidInput, match="unknown"):
        release_file(deidentifier(), read(tmp_path / "calls.jsonl"), tmp_path / "out.jsonl")
    assert [path.name for path in tmp_path.iterdir()] == ["calls.jsonl"]
    with pytest.raises(InvalidInput, match="existing folder"):
        release_file(deidentifier(), read(tmp_path / "calls.jsonl"), tmp_path / "no" / "out.jsonl")


def test_a_corpus_without_annotations_is_not_released_by_them(tmp_path: Path) -> None:
    write(tmp_path / "calls.jsonl", [Utterance(tokens=("call", "anna"), slots=("O", "O"))])
    with pytest.raises(InvalidInput, match="private annotations"):
        release_file(deidentifier(), read(tmp_path / "calls.jsonl"), tmp_path / "out.jsonl")
    assert [path.name for path in tmp_path.iterdir()] == ["calls.jsonl"]


def test_surrogates_counted_in_the_corpus() -> None:
    detector = Gold(LABELS)
    counted = counted_surrogates(CALLS, detector)["PER"]
    assert sorted(counted.values) == ["anna", "ben", "eve", "joe"]
    private = private_surrogates(
        CALLS, detector, epsilon=2.0, delta=1e-6, source=NoiseSource.seeded(1)
    )
    assert private["PER"].histogram["epsilon"] == 4.0
    few = private_surrogates(
        CALLS[:3], detector, epsilon=2.0, delta=1e-6, source=NoiseSource.seeded(1)
    )
    assert len(few["PER"].values) > 1000  # the public list, whose cost still counts
    assert few["PER"].histogram["epsilon"] == 4.0


def test_messages_never_become_surrogates() -> None:
    texts = [Utterance(tokens=("say", w), slots=("O", "B-what"), user=w) for w in ("hi", "bye")]
    assert counted_surrogates(texts, Gold(LABELS)) == {}
