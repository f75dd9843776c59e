"""What a reader does with a record it cannot take: stop (strict) or count and go on (lenient)."""

from dataclasses import dataclass, field
from typing import NamedTuple

from sottovoce.errors import InvalidInput

REASONS_KEPT = 10


class Problem(NamedTuple):
    """One rejected record: where it stood, and why it was refused."""

    place: int
    reason: str


@dataclass(slots=True)
class Problems:
    """The count of what was rejected or repaired in one file, and the first reasons.

    >>> problems = Problems("calls.jsonl", strict=False)
    >>> problems.reject(3, "Expected a JSON object, got [].")
    >>> problems.rejected, problems.first
    (1, [Problem(place=3, reason='Expected a JSON object, got [].')])
    >>> Problems("calls.jsonl", strict=True).reject(3, "Expected a JSON object, got [].")
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: calls.jsonl, line 3: Expected a JSON object, got []. Mend it, or
    read leniently to skip it.
    """

    name: str
    strict: bool
    unit: str = "line"
    rejected: int = 0
    repaired: int = 0
    blank: int = 0
    first: list[Problem] = field(default_factory=list)

    def reject(self, place: int, reason: InvalidInput | str) -> None:
        """Refuse the record at this line or row: raise when strict, else remember it."""
        if self.strict:
            raise InvalidInput(
                f"{self.name}, {self.unit} {place}: {reason} Mend it, or read leniently to skip it."
            )
        self.rejected += 1
        if len(self.first) < REASONS_KEPT:
            self.first.append(Problem(place, str(reason)))
