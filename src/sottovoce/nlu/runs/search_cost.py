"""The privacy cost of a search for settings.

It is stored with the best settings, so that a training with them is charged for the search, or
lists it as not covered.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from sottovoce.errors import InvalidInput
from sottovoce.privacy.ledger import Ledger

UNCHARGED = "choosing among {count} trials by their scores on the valid part is not charged"
VALID_READ = "the records of the valid part, by whose scores the settings were chosen"


@dataclass(frozen=True, kw_only=True)
class SearchCost:
    """The number of trials, and their joint ledger if the search is charged."""

    trials: int
    ledger: Ledger | None

    @property
    def uncovered(self) -> tuple[str, ...]:
        """Statements for the guarantee of a model that is trained with the best settings."""
        return () if self.ledger is not None else (UNCHARGED.format(count=self.trials),)

    def to_json(self) -> dict[str, Any]:
        return {
            "trials": self.trials,
            "charged": self.ledger is not None,
            "ledger": None if self.ledger is None else self.ledger.to_json(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self | None:
        """The search recorded in a file of best settings; None if there is none.

        >>> SearchCost.from_json({"settings": {}}) is None
        True
        >>> SearchCost.from_json({"settings": {}, "trials": 3, "charged": False}).uncovered
        ('choosing among 3 trials by their scores on the valid part is not charged',)
        """
        if not data.keys() & {"trials", "charged", "ledger"}:
            return None
        trials, charged, ledger = (data.get(key) for key in ("trials", "charged", "ledger"))
        if not isinstance(trials, int) or not isinstance(charged, bool):
            raise InvalidInput(
                "Expected the number of trials behind these settings and whether they are charged, "
                f"got {trials!r} and {charged!r}: tune again."
            )
        if charged and not isinstance(ledger, Mapping):
            raise InvalidInput(
                "Expected the ledger of the trials with settings whose search is charged, found "
                "none: run tune --charge again, which reuses the finished trials."
            )
        return cls(
            trials=trials, ledger=Ledger.from_json(ledger) if isinstance(ledger, Mapping) else None
        )
