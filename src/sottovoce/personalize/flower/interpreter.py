"""Paths that Ray can live with.

Ray starts its workers by a shell command in which the path of the interpreter is not quoted: in a
folder such as "My project (1)" no worker ever starts, every node is late, and nobody is told why.
So the interpreter is lent a name without such letters. Ray keeps sockets in a temporary folder,
whose path has to be plain as well, and short.
"""

import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sottovoce.errors import InvalidInput

# A socket's path has at most 107 bytes; Ray puts some 80 after the folder.
_LONGEST = 25
_PLACES = ("/tmp", "/var/tmp", "/dev/shm")


@contextmanager
def ready_for_ray() -> Iterator[Path]:
    """A temporary folder for Ray, while `sys.executable` is a path that Ray can start."""
    with tempfile.TemporaryDirectory(prefix="sv-", dir=_place(), ignore_cleanup_errors=True) as own:
        real = Path(sys.executable)
        lent = str(real)
        if shlex.quote(lent) != lent:
            # The whole environment is linked: Python looks for its packages beside its own name.
            link = Path(own, "env")
            link.symlink_to(real.parent.parent, target_is_directory=True)
            lent = str(link / real.parent.name / real.name)
        _check_starts(lent)
        sys.executable = lent
        try:
            yield Path(own)
        finally:
            sys.executable = str(real)


def _place() -> str:
    """A folder whose path is plain and short: that for temporary files, or another."""
    for place in (tempfile.gettempdir(), *_PLACES):
        if shlex.quote(place) == place and len(place) <= _LONGEST and Path(place).is_dir():
            try:
                with tempfile.TemporaryFile(dir=place):
                    return place
            except OSError:
                continue
    raise InvalidInput(
        f"Expected a writable folder for temporary files with a short path without spaces, got "
        f"{tempfile.gettempdir()}: set TMPDIR to one, or use --runner in-process."
    )


def _check_starts(interpreter: str) -> None:
    """Start the interpreter as Ray does, and refuse before anything else is started."""
    code = shlex.quote("import ray")
    done = subprocess.run(
        ["bash", "-c", f"exec {interpreter} -c {code}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        why = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise InvalidInput(
            f"Expected a Python at {sys.executable} that Ray can start, but: {why}. Use --runner "
            "in-process, or an environment in a folder without spaces."
        )
