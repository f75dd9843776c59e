"""An attacker with only the public files of a release tries to learn the input."""

import hashlib
import json
import re
from pathlib import Path

import pytest

from sottovoce.corpora import read
from sottovoce.deid import Deidentifier, Fields, Setting
from sottovoce.deid.detect import Gazetteer
from sottovoce.deid.files import manifest as manifests
from sottovoce.deid.files.corpus_file import release_file
from sottovoce.deid.files.manifest import verify
from sottovoce.errors import InvalidInput
from sottovoce.privacy.noise import NoiseSource

NAMES = ["anna", "ben", "maria", "joe"]


def released(folder: Path, lines: list[str], name: str = "calls.txt") -> Path:
    folder.mkdir()
    (folder / name).write_text("".join(f"{line}\n" for line in lines))
    deid = Deidentifier(
        detector=Gazetteer({"PER": NAMES}),
        setting=Setting(strategy="redact"),
        fields=Fields(user="drop", id="drop"),
        source=NoiseSource.seeded(1),
    )
    out = folder / "out.txt"
    release_file(deid, read(folder / name), out)
    return out


def shared(out: Path) -> dict[str, object]:
    """All that may be shared, but for the output and what is computed from it.

    Ledgers have random ids, and hashes that depend on them.
    """
    text = re.sub(r'"[0-9a-f]{16,64}"', '"..."', Path(f"{out}.run.json").read_text())
    content = json.loads(text)
    del content["output"], content["sha256"]
    return dict(content)


def guessed(out: Path) -> list[str]:
    """The names that a dictionary attack on every hash in the shared manifest finds."""
    hashes = set(re.findall(r"[0-9a-f]{64}", Path(f"{out}.run.json").read_text()))
    tried = {name: hashlib.sha256(f"call {name}\n".encode()).hexdigest() for name in NAMES}
    return [name for name, digest in tried.items() if digest in hashes]


def test_no_hash_of_the_input_can_be_tried_out(tmp_path: Path) -> None:
    assert guessed(released(tmp_path / "a", ["call maria"])) == []


def test_a_plain_hash_of_the_input_would_tell_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifests, "PUBLIC", (*manifests.PUBLIC, "input"))
    monkeypatch.setattr(manifests, "_input", lambda source, folder: manifests.describe_file(source))
    assert guessed(released(tmp_path / "a", ["call maria"])) == ["maria"]


@pytest.mark.parametrize(
    "neighbour",
    [["call joe", "call anna"], ["call maria", "call anna", "call ben"], ["call maria", "call"]],
    ids=["another name", "one line more", "one name less"],
)
def test_what_is_shared_of_neighbours_is_equal(tmp_path: Path, neighbour: list[str]) -> None:
    first = released(tmp_path / "a", ["call maria", "call anna"])
    second = released(tmp_path / "b", neighbour, name="the calls of joe.txt")
    assert shared(first) == shared(second)


def test_counts_would_tell_neighbours_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifests, "PUBLIC", (*manifests.PUBLIC, "metrics"))
    first = released(tmp_path / "a", ["call maria"])
    second = released(tmp_path / "b", ["call maria", "call anna"])
    assert shared(first) != shared(second)


def test_only_the_owner_can_check_the_original(tmp_path: Path) -> None:
    out = released(tmp_path / "a", ["call maria"])
    verify(out, source=tmp_path / "a" / "calls.txt")
    (tmp_path / "guess.txt").write_text("call anna\n")
    with pytest.raises(InvalidInput, match="got another file"):
        verify(out, source=tmp_path / "guess.txt")
    (tmp_path / "a" / "private").rename(tmp_path / "kept")
    verify(out)
    with pytest.raises(InvalidInput, match="only be checked with the private folder"):
        verify(out, source=tmp_path / "a" / "calls.txt")


def test_a_second_release_does_not_replace_the_record_of_the_first(tmp_path: Path) -> None:
    out = released(tmp_path / "a", ["call maria"])
    before = Path(f"{out}.run.json").read_bytes()
    deid = Deidentifier(detector=Gazetteer({"PER": NAMES}), setting=Setting(epsilon=1.0))
    with pytest.raises(InvalidInput, match="the cost of both releases adds up"):
        release_file(deid, read(tmp_path / "a" / "calls.txt"), out)
    assert Path(f"{out}.run.json").read_bytes() == before
