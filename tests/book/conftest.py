"""Books in both stores: a SQLite file, and a PostgreSQL server that the tests start themselves."""

import itertools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin")) if os.name == "posix" else []
_NUMBERS = itertools.count()


def _as_server(command: list[str]) -> list[str]:
    """A server refuses to run as root: then it runs as the user that its package made."""
    if os.geteuid() != 0:
        return command
    return ["runuser", "-u", "postgres", "--", *command]


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The folder of the socket of a running PostgreSQL."""
    initdb = shutil.which("initdb") or (str(PROGRAMS[-1] / "initdb") if PROGRAMS else None)
    if initdb is None:
        pytest.skip("PostgreSQL is not installed")
    pytest.importorskip("psycopg", reason="the driver of PostgreSQL is not installed")
    if os.geteuid() == 0 and shutil.which("runuser") is None:
        pytest.skip("a PostgreSQL server cannot run as root")
    # Sockets have short names, and the server's user has to reach the folder.
    folder = Path(tempfile.mkdtemp(prefix="sv-pg-", dir="/tmp"))
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres")
    data, programs = folder / "data", Path(initdb).parent
    options = f"-k {folder} -c listen_addresses= -c max_connections=40"
    run = subprocess.run
    run(_as_server([initdb, "-D", str(data), "-A", "trust", "-U", "books", "-N"]),
        check=True, capture_output=True, cwd="/")  # fmt: skip
    control = [str(programs / "pg_ctl"), "-D", str(data), "-w"]
    run(_as_server([*control, "-o", options, "-l", str(folder / "log"), "start"]),
        check=True, capture_output=True, cwd="/")  # fmt: skip
    try:
        yield str(folder)
    finally:
        run(_as_server([*control, "-m", "immediate", "stop"]), capture_output=True, cwd="/")
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(autouse=True)
def anchors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SOTTOVOCE_ANCHORS", str(tmp_path / "anchors"))
    monkeypatch.setenv("SOTTOVOCE_BOOK_KEY", str(tmp_path / "book.key"))
    return tmp_path / "anchors"


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a new book goes."""
    if request.param == "sqlite":
        return str(tmp_path / "people.book")
    folder = request.getfixturevalue("server")
    import psycopg

    name = f"book{next(_NUMBERS)}"
    with psycopg.connect(f"postgresql://books@/postgres?host={folder}", autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
    return f"postgresql://books@/{name}?host={folder}"
