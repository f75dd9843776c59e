"""Kernels compiled for the tests, whether or not the installation has them."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pytest

from sottovoce import kernels
from sottovoce.kernels import FailedCheck, NotBuilt, Unusable, build

Kernel = TypeVar("Kernel")


def compiled_or_skip(source: Path, open_library: Callable[[Path], Kernel]) -> Kernel:
    """The kernel, from its source as it is now."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            return open_library(build(source, Path(folder)))
        except FailedCheck:  # it runs here, and is wrong
            raise
        except (NotBuilt, Unusable) as reason:
            pytest.skip(f"no kernel {source.stem}: {reason}")


@cache
def why_not_compiled(source: Path) -> str:
    """An empty string, or why this kernel cannot be compiled; tried once."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            build(source, Path(folder))
        except NotBuilt as reason:
            return f"no kernel {source.stem}: {reason}"
    return ""


def build_with_defect(source: Path, defect: tuple[str, str], folder: Path) -> Path:
    """Compile a source into `folder` in which one piece of text, which it has once, is another."""
    right, wrong = defect
    text = source.read_text()
    assert text.count(right) == 1
    changed = folder / source.name
    changed.write_text(text.replace(right, wrong))
    with pytest.MonkeyPatch.context() as patch:
        # Compiles sooner, and finds the headers where they are.
        patch.setattr(kernels, "FLAGS", [*kernels.FLAGS, "-O0", f"-I{source.parent}"])
        return build(changed)


@contextmanager
def installation(module: Any, folder: Path) -> Iterator[Path]:
    """Where the module of a kernel looks for its library, in an installation of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SOURCE", folder / module.SOURCE.name)
        module.load.cache_clear()
        yield kernels.library(module.SOURCE)
    module.load.cache_clear()


def assert_left_alone(module: Any, folder: Path) -> None:
    """Neither a missing library nor one for another machine is a reason to worry."""
    with installation(module, folder) as library:
        assert module.load() is None
        library.write_bytes(b"not a library")
        with pytest.raises(Unusable, match="cannot be loaded"):
            module.Kernel(library)
        module.load.cache_clear()
        assert module.load() is None


def assert_refused(module: Any, defect: tuple[str, str], folder: Path) -> None:
    """A library with this defect compiles, and its checks notice."""
    source = module.SOURCE
    with installation(module, folder) as library:
        assert build_with_defect(source, defect, folder) == library
        with pytest.raises(FailedCheck):
            module.Kernel(library)
        with pytest.warns(RuntimeWarning, match=f"kernel {source.stem} is not used"):
            assert module.load() is None
