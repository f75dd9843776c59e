from pathlib import Path

import pytest

from sottovoce.errors import InvalidInput
from sottovoce.io.atomic import find, settle, write_together

OLD, NEW = {"a": b"old", "b": b"old"}, {"a": b"new", "b": b"new"}


class Killed(BaseException):
    """Stands for kill -9: nothing after it runs."""


def valid(folder: Path) -> set[bytes]:
    return {find(folder, name).read_bytes() for name in OLD}


def kill_at(monkeypatch: pytest.MonkeyPatch, method: str, call: int) -> None:
    """Die at the n-th call of a method of `Path`, and clean nothing up."""
    plain = getattr(Path, method)
    calls = 0

    def dying(self: Path, *args: object, **kwargs: object) -> object:
        nonlocal calls
        calls += 1
        if calls == call:
            raise Killed
        return plain(self, *args, **kwargs)

    monkeypatch.setattr(Path, method, dying)
    monkeypatch.setattr("shutil.rmtree", lambda *_, **__: None)


@pytest.mark.parametrize(
    ("method", "call", "expected"),
    [
        ("open", 1, b"old"),
        ("open", 2, b"old"),
        ("rename", 1, b"old"),
        ("replace", 1, b"new"),
        ("replace", 2, b"new"),
        ("rmdir", 1, b"new"),
    ],
)
def test_a_killed_save_is_old_or_new_but_never_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, call: int, expected: bytes
) -> None:
    write_together(tmp_path, OLD)
    with monkeypatch.context() as patch:
        kill_at(patch, method, call)
        with pytest.raises(Killed):
            write_together(tmp_path, NEW)
    assert valid(tmp_path) == {expected}
    settle(tmp_path)
    assert valid(tmp_path) == {expected}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_the_tester_notices_files_that_are_mixed(tmp_path: Path) -> None:
    write_together(tmp_path, OLD)
    (tmp_path / "a").write_bytes(b"new")
    assert valid(tmp_path) == {b"old", b"new"}


def test_other_files_stay(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("kept")
    write_together(tmp_path, OLD)
    write_together(tmp_path, {"a": b"new"})
    assert (tmp_path / "mine").read_text() == "kept"
    assert (find(tmp_path, "a").read_bytes(), find(tmp_path, "b").read_bytes()) == (b"new", b"old")


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="Expected a folder"):
        write_together(tmp_path / "file", NEW)
