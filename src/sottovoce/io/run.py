"""The folder of a run: at its top what may be shared, in `private/` everything else.

What may be shared is an allow-list (see `allowed`), so that forgetting is safe. Hashes of private
files are keyed: a plain hash of a short file is found out by trying what it may have held.
"""

import fcntl
import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Self

from sottovoce import __version__
from sottovoce.errors import InvalidInput
from sottovoce.io.allowed import FILES, KEYS, WHOLE, join, split
from sottovoce.io.atomic import text_output

RUN, PRIVATE, KEY, LOCK, NOTICE = "run.json", "private", "key", "lock", ".gitignore"
SUFFIX = f".{RUN}"
"""Of the run file beside the one file that a verb has written."""
BEGUN = "settings.json"
"""In `private/`: what an unfinished run was asked for."""
RESERVED = "book.json"
"""In `private/`: the reservation of an unfinished run in a book."""
_KEY_BYTES = 32
_CHUNK = 1 << 20
_NOTICE_TEXT = """\
# Exact counts, times, losses, keyed hashes and their key: no guarantee covers this folder.
# Do not share it; git leaves it out.
*
"""


def header(verb: str, versions: Mapping[str, str] | None = None) -> dict[str, Any]:
    """How every run file begins: the verb, and the versions it ran with.

    >>> header("train", {"torch": "2.6"})["versions"]["torch"]
    '2.6'
    """
    return {"verb": verb, "versions": {"sottovoce": __version__, **(versions or {})}}


class Run:
    """A folder whose files are public by name, or private.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     folder = Run(place)
    ...     folder.write_run({"verb": "train", "data": {"name": "calls", "train": 120}})
    ...     folder.read_run(), folder.read_run(private=True)["data"]
    ({'verb': 'train', 'data': {'name': 'calls'}}, {'name': 'calls', 'train': 120})
    >>> Run("run").public("losses.json")
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: Expected a file that may be shared, got losses.json: keep it in
    private/, or add it to the list in sottovoce/io/allowed.py.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._files: tuple[str, ...] = FILES
        self._run, self._rest = RUN, RUN

    @classmethod
    def beside(cls, output: str | Path) -> Self:
        """For a verb that writes one file: OUT, OUT.run.json and private/OUT.json beside it."""
        output = Path(output)
        folder = cls(output.parent)
        folder._run, folder._rest = f"{output.name}{SUFFIX}", f"{output.name}.json"
        folder._files = (_literally(output.name), _literally(folder._run))
        return folder

    @property
    def private_folder(self) -> Path:
        """`private/`, made if need be, and for nobody but its owner."""
        folder = self.path / PRIVATE
        if folder.is_symlink():
            raise InvalidInput(f"Expected a folder at {folder}, got a link: remove it.")
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.chmod(0o700)
        notice = folder / NOTICE
        if not notice.exists():
            with text_output(notice, mode=0o600) as stream:
                stream.write(_NOTICE_TEXT)
        return folder

    def public(self, name: str) -> Path:
        """Where a file lies that may be shared; other names are refused."""
        _check_plain(name)
        if not any(fnmatchcase(name, pattern) for pattern in self._files):
            raise InvalidInput(
                f"Expected a file that may be shared, got {name}: keep it in {PRIVATE}/, or add it "
                "to the list in sottovoce/io/allowed.py."
            )
        return self.path / name

    def private(self, name: str) -> Path:
        """Where a file or folder lies that stays here. Write it with `mode=0o600`."""
        _check_plain(name)
        path = self.private_folder / name
        if path.is_symlink():
            raise InvalidInput(f"Expected a file at {path}, got a link: remove it.")
        return path

    def find_private(self, name: str) -> Path:
        """Where `private` would be, without making the folder; older runs had it at the top."""
        _check_plain(name)
        inside, older = self.path / PRIVATE / name, self.path / name
        return older if older.exists() and not inside.exists() else inside

    def protect(self) -> None:
        """Take all rights but the owner's from what others have written into `private/`."""
        for path in self.private_folder.rglob("*"):
            if not path.is_symlink():
                path.chmod(0o700 if path.is_dir() else 0o600)

    def split(
        self, run: Mapping[str, Any], *, publish: Collection[str] = ()
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The public part of a run, by the keys that are declared or published here; the rest."""
        return split(run, KEYS | dict.fromkeys(publish, WHOLE))

    def write_run(self, run: Mapping[str, Any], *, publish: Collection[str] = ()) -> None:
        """Write the run file in two parts, each whole or not at all.

        Keys that somebody decided to `publish` belong into the statement, as not covered.
        """
        public, rest = self.split(run, publish=publish)
        self.write_private(self._rest, rest)
        _write(self.path / self._run, public, mode=None)

    def write_private(self, name: str, data: object) -> Path:
        """Write JSON into `private/`."""
        path = self.private(name)
        _write(path, data, mode=0o600)
        return path

    def read_run(self, *, private: bool = False) -> dict[str, Any]:
        """The run file as it may be shared, or with what is kept in `private/`, if it is there."""
        public = _read(self.path / self._run)
        rest = self.path / PRIVATE / self._rest
        if not private or not rest.is_file():
            return public
        both: dict[str, Any] = join(public, _read(rest))
        return both

    def private_part(self) -> dict[str, Any]:
        """What of the run is kept in `private/`; empty where there is none."""
        rest = self.path / PRIVATE / self._rest
        return _read(rest) if rest.is_file() else {}

    def keyed_hash(self, path: str | Path) -> str:
        """HMAC-SHA-256 of a file, with the key of this folder."""
        with Path(path).open("rb") as stream:
            return self.keyed_hash_of(iter(lambda: stream.read(_CHUNK), b""))

    def keyed_hash_of(self, chunks: Iterable[bytes]) -> str:
        """HMAC-SHA-256 of bytes that come in pieces."""
        digest = hmac.new(self._key(), digestmod=hashlib.sha256)
        for chunk in chunks:
            digest.update(chunk)
        return digest.hexdigest()

    def verify_hash(self, path: str | Path, stated: str) -> bool:
        """Is the file the one whose keyed hash was stated? Needs the key in `private/`."""
        if not (self.path / PRIVATE / KEY).is_file():
            raise InvalidInput(
                f"Expected the key of the hashes at {self.path / PRIVATE / KEY}, found none: only "
                "who has the private folder can check the original."
            )
        return hmac.compare_digest(self.keyed_hash(path), stated)

    def check(self, *, resume: bool, before_steps: Collection[str] = ()) -> None:
        """Refuse a folder that is not empty, because a ledger must not be restarted.

        `before_steps` are private files of a run that has spent nothing yet. With `resume`, refuse
        a folder without an interrupted run.
        """
        folder = self.path
        if folder.exists() and not folder.is_dir():
            raise InvalidInput(f"Expected a folder to write to, got the file {folder}.")
        begun = (folder / PRIVATE / BEGUN).is_file()
        if resume:
            if (folder / self._run).exists():
                raise InvalidInput(f"Expected an interrupted run in {folder}, got a finished one.")
            if not begun:
                raise InvalidInput(f"Expected an interrupted run in {folder}, found none.")
            return
        if not folder.exists():
            return
        others = sorted({path.name for path in folder.iterdir()} - {PRIVATE})
        if (folder / PRIVATE).is_dir():
            free = {BEGUN, KEY, LOCK, NOTICE, RESERVED, *before_steps}
            kept = {path.name for path in (folder / PRIVATE).iterdir()} - free
            others += sorted(f"{PRIVATE}/{name}" for name in kept)
        if not others:
            return
        if self._run in others:
            raise InvalidInput(
                f"Expected an empty folder, got a finished run in {folder}: name another folder."
            )
        if begun:
            raise InvalidInput(
                f"Expected an empty folder, got an interrupted run in {folder}: name another "
                "folder, or add --resume."
            )
        raise InvalidInput(f"Expected an empty folder, got {others[0]} in {folder}.")

    def begin(
        self,
        asked: Mapping[str, Any],
        hashes: Mapping[str, str],
        *,
        resume: bool,
        before_steps: Collection[str] = (),
    ) -> None:
        """Record what was asked for, or check that it matches the run to resume.

        `hashes` are keyed hashes (see `keyed_hash_of`) of the data, by what it is.
        """
        self.check(resume=resume, before_steps=before_steps)
        if not resume:
            self.write_private(BEGUN, {"asked": dict(asked), "hashes": dict(hashes)})
            return
        path = self.path / PRIVATE / BEGUN
        try:
            begun = json.loads(path.read_text(encoding="utf-8"))
            kept, known = dict(begun["asked"]), dict(begun["hashes"])
        except (ValueError, KeyError, TypeError) as problem:
            raise InvalidInput(
                f"Expected the settings of the interrupted run in {path}, but they cannot be read."
            ) from problem
        for name in sorted(kept.keys() | asked.keys()):
            if kept.get(name) != asked.get(name):
                raise InvalidInput(
                    f"Expected the settings of the interrupted run, which are in {path}, got "
                    f"another {name.replace('_', ' ')}: {asked.get(name)} instead of "
                    f"{kept.get(name)}."
                )
        for name in sorted(known.keys() | hashes.keys()):
            if known.get(name) != hashes.get(name):
                raise InvalidInput(
                    f"Expected the {name} of the interrupted run in {self.path}, got others: the "
                    "ledger covers the steps on the old ones, so restore them, or train in another "
                    "folder."
                )

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the folder while something is written to it; a second process is refused."""
        path = self.private(LOCK)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InvalidInput(
                    f"Expected {self.path} to be free, but another process is writing to it: wait "
                    "for it, or name another folder."
                ) from None
            yield
        finally:
            os.close(handle)

    def _key(self) -> bytes:
        path = self.private(KEY)
        while not path.exists():
            # Linked into place, so that of two processes one makes the key and both read it.
            made = path.with_name(f".{KEY}.{secrets.token_hex(4)}")
            handle = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                os.write(handle, secrets.token_bytes(_KEY_BYTES))
                os.fsync(handle)
                try:
                    path.hardlink_to(made)
                except FileExistsError:
                    continue
            finally:
                os.close(handle)
                made.unlink()
        key = path.read_bytes()
        if len(key) != _KEY_BYTES:
            raise InvalidInput(f"Expected a key of {_KEY_BYTES} bytes in {path}, got {len(key)}.")
        return key


def _check_plain(name: str) -> None:
    if not name or Path(name).name != name or name in (".", ".."):
        raise InvalidInput(f"Expected the name of a file in a run folder, got {name!r}.")


def _literally(name: str) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


def _write(path: Path, data: object, *, mode: int | None) -> None:
    with text_output(path, mode=mode) as stream:
        json.dump(data, stream, indent=2, ensure_ascii=False, allow_nan=False)
        stream.write("\n")


def _read(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise InvalidInput(f"Expected {path.name} in {path.parent}, found none.") from None
    except (ValueError, RecursionError) as problem:
        raise InvalidInput(f"Expected JSON in {path}, but {problem}.") from problem
    if not isinstance(data, dict):
        raise InvalidInput(f"Expected a JSON object in {path}, got a {type(data).__name__}.")
    return data
