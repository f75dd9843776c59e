"""What lies at the top of a run folder may be shared; everything else is in `private/`."""

import stat
from pathlib import Path

import pytest

from sottovoce.errors import InvalidInput
from sottovoce.io.allowed import KEYS, join, split
from sottovoce.io.run import Run


def test_a_key_that_nobody_declared_is_private(tmp_path: Path) -> None:
    folder = Run(tmp_path)
    run = {
        "verb": "train",
        "data": {"name": "calls", "train": 120},
        "configuration": {"epochs": 3, "seed": 7},
        "history": [{"step": 1, "epsilon": 0.5, "loss": 2.0}, {"step": 2, "epsilon": 1.0}],
        "a new idea": {"of": "somebody"},
        "metrics": {},
    }
    folder.write_run(run)
    text = (tmp_path / "run.json").read_text()
    for word in ("120", "seed", "loss", "somebody", "metrics"):
        assert word not in text
    assert folder.read_run(private=True) == run
    assert folder.read_run() == split(run, KEYS)[0]


def test_what_should_be_an_object_and_is_not_is_private() -> None:
    run = {"configuration": "seed 7", "data": ["ann", "bob"], "history": [1, 2]}
    assert split(run, KEYS) == ({}, run)


def test_two_halves_give_the_whole() -> None:
    whole = {"verb": "train", "history": [{"step": 1, "loss": 1.0}], "timings": {"seconds": 3}}
    public, private = split(whole, KEYS)
    assert join(public, private) == whole
    assert join(public, {}) == public


def test_private_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    folder = Run(tmp_path / "run")
    written = folder.write_private("losses.json", [1.0])
    folder.keyed_hash(written)
    assert stat.S_IMODE(written.parent.stat().st_mode) == 0o700
    for path in written.parent.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "Do not share" in (written.parent / ".gitignore").read_text()


@pytest.mark.parametrize("name", ["losses.json", "../run.json", "", "..", "a/run.json", "private"])
def test_other_names_are_refused_at_the_top(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput, match="Expected"):
        Run(tmp_path).public(name)


def test_a_linked_private_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "private").symlink_to(tmp_path)
    with pytest.raises(InvalidInput, match="got a link"):
        Run(tmp_path / "run").private("key")


def test_hashes_are_keyed_and_the_key_decides(tmp_path: Path) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text("my name is ann\n")
    one, two = Run(tmp_path / "one"), Run(tmp_path / "two")
    assert one.keyed_hash(data) == one.keyed_hash(data) != two.keyed_hash(data)
    stated = one.keyed_hash(data)
    assert one.verify_hash(data, stated)
    assert not two.verify_hash(data, stated)
    data.write_text("my name is bob\n")
    assert not one.verify_hash(data, stated)
    with pytest.raises(InvalidInput, match="only who has the private folder"):
        Run(tmp_path / "nobody").verify_hash(data, stated)


def test_two_processes_do_not_write_one_folder(tmp_path: Path) -> None:
    held, refused = Run(tmp_path), pytest.raises(InvalidInput, match="another process")
    with held.lock(), refused, Run(tmp_path).lock():
        pass
    with Run(tmp_path).lock():
        pass


def test_one_file_and_its_run_beside_it(tmp_path: Path) -> None:
    out = tmp_path / "calls[1].jsonl"
    folder = Run.beside(out)
    assert folder.public(out.name) == out
    folder.write_run({"verb": "deid", "metrics": {"utterances": 12}})
    assert "12" not in (tmp_path / "calls[1].jsonl.run.json").read_text()
    assert (tmp_path / "private" / "calls[1].jsonl.json").is_file()
    assert Run.beside(out).read_run(private=True)["metrics"] == {"utterances": 12}
    for name in ("run.json", "calls1.jsonl", "other.jsonl"):
        with pytest.raises(InvalidInput, match="may be shared"):
            folder.public(name)


def test_an_old_run_is_read_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"verb": "train", "metrics": {"test": {}}}')
    assert Run(tmp_path).read_run(private=True)["metrics"] == {"test": {}}
    for content in ("[1]", "{"):
        (tmp_path / "run.json").write_text(content)
        with pytest.raises(InvalidInput, match="Expected"):
            Run(tmp_path).read_run()
