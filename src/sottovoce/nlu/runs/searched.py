"""What a search for settings did to the data, for the training that uses its result.

The file of the best settings carries this, so that whoever trains with it pays for the search, or
is told that nobody did.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from sottovoce.errors import InvalidInput
from sottovoce.privacy.ledger import Ledger

UNCHARGED = "choosing among {count} trials by their scores on the valid part is not charged"
VALID_READ = "the records of the valid part, by whose scores the settings were chosen"


@dataclass(frozen=True, kw_only=True)
class Searched:
    """How many trials there were, and the ledger of all of them if they are charged."""

    trials: int
    ledger: Ledger | None

    @property
    def uncovered(self) -> tuple[str, ...]:
        """What no guarantee covers of a model that was trained with the best settings."""
        return () if self.ledger is not None else (UNCHARGED.format(count=self.trials),)

    def to_json(self) -> dict[str, Any]:
        return {
            "trials": self.trials,
            "charged": self.ledger is not None,
            "ledger": None if self.ledger is None else self.ledger.to_json(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self | None:
        """The search of a file of best settings; None where there was none.

        >>> Searched.from_json({"settings": {}}) is None
        True
        >>> Searched.from_json({"settings": {}, "trials": 3, "charged": False}).uncovered
        ('choosing among 3 trials by their scores on the valid part is not charged',)
        """
        if not data.keys() & {"trials", "charged", "ledger"}:
            return None
        trials, charged, ledger = (data.get(key) for key in ("trials", "charged", "ledger"))
        if not isinstance(trials, int) or not isinstance(charged, bool):
            raise InvalidInput(
                "Expected how many trials found these settings and whether they are charged, got "
                f"{trials!r} and {charged!r}: tune again."
            )
        if charged and not isinstance(ledger, Mapping):
            raise InvalidInput(
                "Expected the ledger of the trials beside settings whose search is charged, found "
                "none: call tune --charge again, which trains nothing anew."
            )
        return cls(
            trials=trials, ledger=Ledger.from_json(ledger) if isinstance(ledger, Mapping) else None
        )
