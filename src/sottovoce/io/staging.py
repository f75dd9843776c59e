"""Several files of one folder that change together, or not at all.

New files are written to a hidden folder inside of it and forced to disk. Renaming that folder to
`.saved` is the one moment at which they become valid; then they are moved into place. Whoever
reads looks into `.saved` first, so a save that was killed has either not happened or is complete.
"""

import os
import secrets
import shutil
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from sottovoce.errors import InvalidInput
from sottovoce.io.atomic import sync_folder

VALID = ".saved"
_UNFINISHED = ".saving-"


def write_together(folder: str | Path, files: Mapping[str, bytes]) -> None:
    """Write the files into the folder, which is made if need be; other files in it stay.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_together(folder, {"a.txt": b"new", "b.txt": b"new"})
    ...     find(folder, "a.txt").read_text(), sorted(path.name for path in Path(folder).iterdir())
    ('new', ['a.txt', 'b.txt'])
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise InvalidInput(f"Expected a folder to write to, got the file {folder}.")
    folder.mkdir(parents=True, exist_ok=True)
    settle(folder)
    hidden = folder / f"{_UNFINISHED}{secrets.token_hex(4)}"
    hidden.mkdir()
    with ExitStack() as undo:
        undo.callback(shutil.rmtree, hidden, ignore_errors=True)
        for name, content in files.items():
            with (hidden / name).open("xb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
        sync_folder(hidden)
        hidden.rename(folder / VALID)
        undo.pop_all()
    sync_folder(folder)
    settle(folder)


def settle(folder: str | Path) -> None:
    """Finish what a killed save had begun to move, and clear away what it had not."""
    folder = Path(folder)
    valid = folder / VALID
    if valid.is_dir():
        for path in sorted(valid.iterdir()):
            path.replace(folder / path.name)
        sync_folder(folder)
        valid.rmdir()
    if folder.is_dir():
        for left in folder.glob(f"{_UNFINISHED}*"):
            shutil.rmtree(left, ignore_errors=True)


def find(folder: str | Path, name: str) -> Path:
    """Where the valid version of a file is, whether or not it is there at all."""
    valid = Path(folder) / VALID / name
    return valid if valid.is_file() else Path(folder) / name
