"""Errors shown to users. Each states what was expected, what was found, and what to do.

All are `ValueError`s, so callers can catch them without importing this package; the command line
prints the message and exits with status 2.
"""


class SottovoceError(ValueError):
    """Errors users can fix."""


class InvalidInput(SottovoceError):
    """An argument, an option or a file is invalid."""


class MissingExtra(ModuleNotFoundError, SottovoceError):
    """An optional package is not installed."""


class CannotAccount(SottovoceError):
    """Facts of different units, relations or notions cannot be combined into one statement."""


class BudgetExceeded(SottovoceError):
    """A release was refused before it happened because it would exceed the budget."""


class LedgerDamaged(SottovoceError):
    """A ledger file fails its integrity checks: altered, truncated, or a different ledger."""


class UnchainedLedger(UserWarning):
    """A ledger of an earlier version was read, without a hash chain to verify it."""
