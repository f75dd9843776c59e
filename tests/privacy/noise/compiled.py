"""The noise kernel compiled for the tests, whether or not the installation has one."""

from functools import cache

from tests.compiling import compiled_or_skip

from sottovoce.privacy.noise.kernel import SOURCE, Kernel


@cache
def compiled() -> Kernel:
    """A kernel from the source as it is now; where it cannot be built, the test is skipped."""
    return compiled_or_skip(SOURCE, Kernel)
