"""The errors a person may meet. Each says what was expected, what came, and what to do.

All of them are `ValueError`s, so a caller who knows nothing of this package can still catch them;
the command line prints their text as one sentence and exits with 2.
"""


class SottovoceError(ValueError):
    """Errors users can fix."""


class InvalidInput(SottovoceError):
    """An argument, an option or a file is not what it has to be."""


class MissingExtra(ModuleNotFoundError, SottovoceError):
    """An optional package is not installed."""


class CannotAccount(SottovoceError):
    """These facts may not be combined into one statement (a wrong unit, relation or notion)."""


class BudgetExceeded(SottovoceError):
    """Spending was refused, before anything was released, because it would overrun the budget."""


class LedgerDamaged(SottovoceError):
    """A ledger on disk cannot be trusted: a line was altered, or it belongs to something else."""


class UnchainedLedger(UserWarning):
    """A ledger of an earlier version was read: nothing proves that it is whole."""
