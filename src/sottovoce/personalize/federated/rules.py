"""The rules by which a client counts, as a short text that server and clients can compare.

The sensitivity in the ledger is that of the plan, so it is true only of clients that count by it:
the same words in the same places, the same kernel over ranks of the first pass, the same caps. A
client states its rules with what it sends, and the server refuses what was counted by others.
"""

import hashlib
import json
from typing import TYPE_CHECKING

from sottovoce.personalize.federated.caps import Caps
from sottovoce.personalize.federated.counting import Counting
from sottovoce.personalize.lm.vocabulary import Vocabulary

if TYPE_CHECKING:
    from sottovoce.personalize.federated.plan import ReleasePlan

_RANKS = "first pass"


def rules_of(vocabulary: Vocabulary, plan: "ReleasePlan | None") -> str:
    """What a server expects; without a plan nothing but its words."""
    return vocabulary.digest if plan is None else rules(vocabulary, plan.counting, plan.caps)


def rules(vocabulary: Vocabulary, counting: Counting, caps: Caps) -> str:
    """By which words, kernel and caps somebody counts.

    >>> words = Vocabulary(("call", "<unk>"), [0.5, 0.5])
    >>> ours = rules(words, Counting(), Caps())
    >>> same_rules(ours, rules(words, Counting(), Caps()))
    True
    >>> same_rules(ours, rules(words, Counting(sigma=9.0), Caps()))
    False
    """
    counted = {"counting": counting.to_json(), "caps": caps.to_json(), "ranks": _RANKS}
    return f"{vocabulary.digest}-{_short(json.dumps(counted, sort_keys=True))}"


def same_rules(stated: str, expected: str) -> bool:
    """Whether counts by the rules `stated` are what is expected."""
    if "-" not in expected:
        return stated.split("-")[0] == expected
    return stated == expected


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
