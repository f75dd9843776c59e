"""The noise kernel compiled for the tests, whether or not the installation has one."""

from functools import cache

from tests.compiling import compiled_or_skip

from sottovoce.privacy.noise.kernel import SOURCE, Kernel


@cache
def compiled() -> Kernel:
    """A kernel built from the current source; skips the test if it cannot be built."""
    return compiled_or_skip(SOURCE, Kernel)
