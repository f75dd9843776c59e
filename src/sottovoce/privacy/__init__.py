"""Privacy accounting: executed mechanisms, their guarantees, and the ledger that records them.

Facts (`privacy.facts`) describe what was executed, recipes (`privacy.recipes`) what is planned. The
names below are imported on first use.
"""

from typing import TYPE_CHECKING

from sottovoce._extras import lazily

if TYPE_CHECKING:
    from sottovoce.privacy.accounting import Entry as Entry
    from sottovoce.privacy.accounting import account as account
    from sottovoce.privacy.groups import group_guarantee as group_guarantee
    from sottovoce.privacy.guarantee import Budget as Budget
    from sottovoce.privacy.guarantee import Claim as Claim
    from sottovoce.privacy.guarantee import Guarantee as Guarantee
    from sottovoce.privacy.guarantee import Relation as Relation
    from sottovoce.privacy.guarantee import Statement as Statement
    from sottovoce.privacy.guarantee import Unit as Unit
    from sottovoce.privacy.guarantee import Verdict as Verdict
    from sottovoce.privacy.ledger import Ledger as Ledger

_EXPORTS = {
    "Budget": "sottovoce.privacy.guarantee",
    "Claim": "sottovoce.privacy.guarantee",
    "Entry": "sottovoce.privacy.accounting",
    "Guarantee": "sottovoce.privacy.guarantee",
    "Ledger": "sottovoce.privacy.ledger",
    "Relation": "sottovoce.privacy.guarantee",
    "Statement": "sottovoce.privacy.guarantee",
    "Unit": "sottovoce.privacy.guarantee",
    "Verdict": "sottovoce.privacy.guarantee",
    "account": "sottovoce.privacy.accounting",
    "group_guarantee": "sottovoce.privacy.groups",
}

__all__ = [
    "Budget",
    "Claim",
    "Entry",
    "Guarantee",
    "Ledger",
    "Relation",
    "Statement",
    "Unit",
    "Verdict",
    "account",
    "group_guarantee",
]

__getattr__ = lazily(__name__, _EXPORTS)
