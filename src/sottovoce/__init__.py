"""Private language understanding: release, train, audit, personalise, and know what it cost.

The objects that matter, imported when they are first used (torch only for training and models):

    from sottovoce import Deidentifier, Ledger, Plan, PrivateTraining, Report, audit_model
"""

from typing import TYPE_CHECKING

from sottovoce._lazy import lazily

if TYPE_CHECKING:
    from sottovoce.audit import audit_model as audit_model
    from sottovoce.deid import Deidentifier as Deidentifier
    from sottovoce.privacy.budget import Budget as Budget
    from sottovoce.privacy.guarantee import Guarantee as Guarantee
    from sottovoce.privacy.ledger import Ledger as Ledger
    from sottovoce.report import Report as Report
    from sottovoce.training import Plan as Plan
    from sottovoce.training import PrivateTraining as PrivateTraining

__version__ = "0.1.0"

_EXPORTS = {
    "Budget": "sottovoce.privacy",
    "Deidentifier": "sottovoce.deid",
    "Guarantee": "sottovoce.privacy",
    "Ledger": "sottovoce.privacy",
    "Plan": "sottovoce.training",
    "PrivateTraining": "sottovoce.training",
    "Report": "sottovoce.report",
    "audit_model": "sottovoce.audit",
}

__all__ = [
    "Budget",
    "Deidentifier",
    "Guarantee",
    "Ledger",
    "Plan",
    "PrivateTraining",
    "Report",
    "__version__",
    "audit_model",
]

__getattr__ = lazily(__name__, _EXPORTS)


def __dir__() -> list[str]:
    return __all__
