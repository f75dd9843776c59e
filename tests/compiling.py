"""Kernels compiled for the tests, whether or not the installation has them."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

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
