"""Private language understanding: release, train, audit, personalise, and know what it cost.

The objects that matter, imported when they are first used (torch only for training and models):

    from sottovoce import Deidentifier, Ledger, Personaliser, Plan, PrivateTraining, Report
    from sottovoce import audit_model, load, train
"""

from typing import TYPE_CHECKING

from sottovoce._extras import lazily

if TYPE_CHECKING:
    from sottovoce.audit import audit_model as audit_model
    from sottovoce.deid import Deidentifier as Deidentifier
    from sottovoce.nlu import load as load
    from sottovoce.nlu import train as train
    from sottovoce.personalize import Personaliser as Personaliser
    from sottovoce.privacy.guarantee import Budget as Budget
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
    "Personaliser": "sottovoce.personalize",
    "Plan": "sottovoce.training",
    "PrivateTraining": "sottovoce.training",
    "Report": "sottovoce.report",
    "audit_model": "sottovoce.audit",
    "load": "sottovoce.nlu",
    "train": "sottovoce.nlu",
}

__all__ = [
    "Budget",
    "Deidentifier",
    "Guarantee",
    "Ledger",
    "Personaliser",
    "Plan",
    "PrivateTraining",
    "Report",
    "__version__",
    "audit_model",
    "load",
    "train",
]

__getattr__ = lazily(__name__, _EXPORTS)


def __dir__() -> list[str]:
    return __all__
