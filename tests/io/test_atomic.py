import errno
import gzip
import os
import stat
from pathlib import Path

import pytest

from sottovoce.errors import InvalidInput
from sottovoce.io.atomic import output, outputs, text_output


def write_half(interruption: BaseException | None, *targets: Path) -> None:
    with outputs(*targets) as streams:
        for stream in streams:
            stream.write(b"half")
        if interruption is not None:
            raise interruption


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("name", ["calls.jsonl", "calls.jsonl.gz"])
@pytest.mark.parametrize("interruption", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space")])
def test_interrupted_output_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, name: str, interruption: BaseException
) -> None:
    target = tmp_path / name
    target.write_bytes(b"precious")
    with pytest.raises((KeyboardInterrupt, OSError)):
        write_half(interruption, target)
    assert target.read_bytes() == b"precious"
    assert names_in(tmp_path) == [name]


def test_disk_that_is_full_at_the_last_moment_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    (tmp_path / "a").write_text("old")
    with pytest.raises(OSError, match="No space"):
        write_half(None, tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "a").read_text() == "old"
    assert names_in(tmp_path) == ["a"]


def test_several_outputs_fail_together(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        write_half(KeyboardInterrupt(), tmp_path / "a", tmp_path / "b")
    assert names_in(tmp_path) == []


def test_nothing_is_visible_before_the_end(tmp_path: Path) -> None:
    with output(tmp_path / "a") as stream:
        stream.write(b"x")
        assert not (tmp_path / "a").exists()
    assert (tmp_path / "a").read_bytes() == b"x"


def test_compressed_output_has_the_same_bytes_each_time(tmp_path: Path) -> None:
    for name in ("a.gz", "b.gz"):
        with output(tmp_path / name) as stream:
            stream.write(b"hello")
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.gz").read_bytes()) == b"hello"


def test_permissions_are_those_of_the_old_file_or_the_usual_ones(tmp_path: Path) -> None:
    old, new, usual = tmp_path / "old", tmp_path / "new", tmp_path / "usual"
    old.touch()
    old.chmod(0o640)
    usual.touch()
    for target in (old, new):
        with output(target):
            pass
    assert stat.S_IMODE(old.stat().st_mode) == 0o640
    assert new.stat().st_mode == usual.stat().st_mode


def test_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "store" / "real")
    with text_output(tmp_path / "link") as stream:
        stream.write("né\n")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "store" / "real").read_bytes() == "né\n".encode()


def test_device_is_written_directly() -> None:
    with output("/dev/null") as stream:
        stream.write(b"gone")
    assert not Path("/dev/null").is_file()


def test_full_device_is_reported() -> None:
    with pytest.raises(OSError, match="No space left"), output("/dev/full") as stream:
        stream.write(b"x")


def test_standard_output_stays_open(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    with output("-") as stream:
        stream.write(b"hello")
    assert not stream.closed


@pytest.mark.parametrize(
    ("where", "complaint"),
    [(".", "got the folder"), ("none/here.txt", "Expected an existing folder")],
)
def test_impossible_target_is_refused(tmp_path: Path, where: str, complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint), output(tmp_path / where):
        pass
