"""Compiled kernels: optional C code, each with an equivalent Python fallback.

`python -m sottovoce.kernels` compiles them by hand; installation compiles them automatically
(`hatch_build.py`) and skips a kernel that fails to compile. The build hook runs before the package
is installed, so this file imports only the standard library.
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
    """A kernel could not be compiled; numpy or torch computes the same."""


class Unusable(Exception):
    """A compiled library cannot be used on this machine."""


class FailedCheck(Unusable):
    """The library runs, but its results are wrong."""


def library(source: Path, folder: Path | None = None) -> Path:
    """Path of the compiled kernel: beside its source, with the platform in its name."""
    return (folder or source.parent) / f"_{source.stem}.{sysconfig.get_platform()}.so"


def build(source: Path, folder: Path | None = None) -> Path:
    """Compile a kernel into `folder`; raises `NotBuilt` with the reason."""
    if os.name != "posix" or platform.machine().lower() not in PROCESSORS:
        raise NotBuilt(f"{sysconfig.get_platform()} is not supported")
    built = library(source, folder)
    try:
        # Compile to a temporary file and rename: processes that use the old library keep it.
        with tempfile.TemporaryDirectory(dir=built.parent) as scratch:
            new = Path(scratch, built.name)
            _compile([*_compiler(), *FLAGS, "-o", str(new), str(source)])
            new.replace(built)
    except OSError as error:
        raise NotBuilt(f"{built.parent} is not writable") from error
    return built


def load(source: Path, open_library: Callable[[Path], Kernel]) -> Kernel | None:
    """The kernel built for this installation; None if there is none or it cannot be used.

    `open_library` checks the library and raises `Unusable` or `FailedCheck`.
    """
    path = library(source)
    if not path.exists():
        return None
    try:
        return open_library(path)
    except FailedCheck as reason:
        warnings.warn(
            f"The compiled kernel {source.stem} is not used: {reason}. Results are the same but "
            "slower without it. Rebuild it with `python -m sottovoce.kernels`.",
            RuntimeWarning,
            stacklevel=3,
        )
    except Unusable:  # unsupported processor: nothing to fix
        pass
    return None


def functions(path: Path, *names: str, needs: str) -> list[Any]:
    """Load functions of a library; the first of `names` tests for processor support."""
    try:
        library = ctypes.CDLL(str(path))
        supported, *found = (getattr(library, name) for name in names)
    except (OSError, AttributeError) as error:
        raise Unusable(f"{path.name} cannot be loaded") from error
    if not supported():
        raise Unusable(f"the processor lacks {needs} instructions")
    return found


def _compiler() -> list[str]:
    """The compiler in the variable CC, or the one Python was built with, without its flags."""
    named = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    return shlex.split(named)[:1]


def _compile(command: list[str]) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=120)
    except FileNotFoundError as error:
        raise NotBuilt(f"no C compiler {command[0]!r} was found") from error
    except (OSError, subprocess.SubprocessError) as error:
        raise NotBuilt(f"{command[0]!r} failed to compile it") from error


def main() -> None:
    failures = []
    for source in KERNELS:
        try:
            print(f"Built {build(source)}")
        except NotBuilt as reason:
            failures.append(f"The kernel {source.stem} was not built: {reason}.")
    if failures:
        sys.exit("\n".join([*failures, "sottovoce works without them, more slowly."]))


if __name__ == "__main__":
    main()
