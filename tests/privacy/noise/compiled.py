"""The noise kernel compiled for the tests, whether or not the installation has one."""

import tempfile
from functools import cache
from pathlib import Path

import pytest

from sottovoce.privacy.noise.kernel import Kernel, Unusable
from sottovoce.privacy.noise.kernel.build import NotBuilt, build


def compiled() -> Kernel:
    """A kernel from the source as it is now; where it cannot be built, the test is skipped."""
    kernel = _compiled()
    if isinstance(kernel, str):
        pytest.skip(f"no noise kernel: {kernel}")
    return kernel


@cache
def _compiled() -> Kernel | str:
    with tempfile.TemporaryDirectory() as folder:
        try:
            return Kernel(build(Path(folder)))
        except (NotBuilt, Unusable) as reason:
            return str(reason)
