"""Compile the noise kernel, where there is a C compiler for a processor it is written for.

`python -m sottovoce.privacy.noise.kernel.build` does it by hand; an installation does it by itself
(`hatch_build.py`), and goes on without a kernel if it cannot. This file is loaded before the
package exists, so it imports nothing but the standard library.
"""

import os
import platform
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parent
SOURCE = "gaussian.c"
FLAGS = ["-std=c11", "-O3", "-fPIC", "-shared"]
PROCESSORS = {"x86_64", "amd64"}


class NotBuilt(Exception):
    """Why there is no kernel. Nothing is broken: numpy draws the noise instead."""


def library(folder: Path = FOLDER) -> Path:
    """Where the compiled kernel lies: beside its source, with the platform in its name."""
    return folder / f"_gaussian.{sysconfig.get_platform()}.so"


def build(folder: Path = FOLDER) -> Path:
    """Compile the kernel into `folder`; `NotBuilt` says why that is not possible."""
    if os.name != "posix" or platform.machine().lower() not in PROCESSORS:
        raise NotBuilt(f"it is not written for {sysconfig.get_platform()}")
    built = library(folder)
    try:
        # Compiled beside its place and moved there whole: who uses the old library keeps it.
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            new = Path(scratch, built.name)
            _compile([*_compiler(), *FLAGS, "-o", str(new), str(FOLDER / SOURCE)])
            new.replace(built)
    except OSError as error:
        raise NotBuilt(f"nothing can be written to {folder}") from error
    return built


def _compiler() -> list[str]:
    """The compiler that the variable CC names, or Python's own, without its flags."""
    named = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    return shlex.split(named)[:1]


def _compile(command: list[str]) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=120)
    except FileNotFoundError as error:
        raise NotBuilt(f"there is no C compiler {command[0]!r}") from error
    except (OSError, subprocess.SubprocessError) as error:
        raise NotBuilt(f"{command[0]!r} could not compile it") from error


def main() -> None:
    try:
        print(f"Built {build()}")
    except NotBuilt as reason:
        sys.exit(f"The noise kernel was not built: {reason}. Noise is drawn by numpy instead.")


if __name__ == "__main__":
    main()
