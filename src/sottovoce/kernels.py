"""The compiled kernels: optional parts in C, each beside the Python that computes the same.

`python -m sottovoce.kernels` compiles them by hand; an installation does it by itself
(`hatch_build.py`), and goes on without a kernel if it cannot. That happens before the package
exists, so this file imports nothing but the standard library.
"""

import ctypes
import os
import platform
import shlex
import subprocess
import sys
import sysconfig
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

PACKAGE = Path(__file__).parent
KERNELS = (
    PACKAGE / "privacy" / "noise" / "kernel" / "gaussian.c",
    PACKAGE / "training" / "kernel" / "lstm.c",
    PACKAGE / "training" / "kernel" / "products.c",
)
FLAGS = ["-std=c11", "-O3", "-fno-math-errno", "-fPIC", "-shared", "-pthread"]
PROCESSORS = {"x86_64", "amd64"}

Kernel = TypeVar("Kernel")


class NotBuilt(Exception):
    """Why there is no kernel. Nothing is broken: numpy or torch computes the same."""


class Unusable(Exception):
    """Why a library is not used."""


class FailedCheck(Unusable):
    """The library runs, and does not compute what it should."""


def library(source: Path, folder: Path | None = None) -> Path:
    """Where the compiled kernel lies: beside its source, with the platform in its name."""
    return (folder or source.parent) / f"_{source.stem}.{sysconfig.get_platform()}.so"


def build(source: Path, folder: Path | None = None) -> Path:
    """Compile a kernel into `folder`; `NotBuilt` says why that is not possible."""
    if os.name != "posix" or platform.machine().lower() not in PROCESSORS:
        raise NotBuilt(f"it is not written for {sysconfig.get_platform()}")
    built = library(source, folder)
    try:
        # Compiled beside its place and moved there whole: who uses the old library keeps it.
        with tempfile.TemporaryDirectory(dir=built.parent) as scratch:
            new = Path(scratch, built.name)
            _compile([*_compiler(), *FLAGS, "-o", str(new), str(source)])
            new.replace(built)
    except OSError as error:
        raise NotBuilt(f"nothing can be written to {built.parent}") from error
    return built


def load(source: Path, open_library: Callable[[Path], Kernel]) -> Kernel | None:
    """The kernel that was built for this installation, if it can be used.

    `open_library` checks it, and raises `Unusable` or `FailedCheck`.
    """
    path = library(source)
    if not path.exists():
        return None
    try:
        return open_library(path)
    except FailedCheck as reason:
        warnings.warn(
            f"The compiled kernel {source.stem} is not used: {reason}. The same is computed more "
            "slowly without it. Build it anew with `python -m sottovoce.kernels`.",
            RuntimeWarning,
            stacklevel=3,
        )
    except Unusable:  # another processor: nothing to mend
        pass
    return None


def functions(path: Path, *names: str, needs: str) -> list[Any]:
    """Functions of a library; the first of `names` says whether the processor has what it needs."""
    try:
        library = ctypes.CDLL(str(path))
        supported, *found = (getattr(library, name) for name in names)
    except (OSError, AttributeError) as error:
        raise Unusable(f"{path.name} cannot be loaded") from error
    if not supported():
        raise Unusable(f"the processor lacks {needs} instructions")
    return found


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
    failures = []
    for source in KERNELS:
        try:
            print(f"Built {build(source)}")
        except NotBuilt as reason:
            failures.append(f"The kernel {source.stem} was not built: {reason}.")
    if failures:
        sys.exit("\n".join([*failures, "All is computed without them, more slowly."]))


if __name__ == "__main__":
    main()
