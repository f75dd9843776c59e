"""Secrets to plant: utterances in which a number of so many digits is the only thing unknown.

Exposure asks whether a model prefers the number it was trained on to all others that could have
stood in its place, so the places are spelled out: 10^digits candidates, all equally likely.
"""

from dataclasses import dataclass

from sottovoce import _validate
from sottovoce.corpora import Utterance
from sottovoce.corpora.records import OUTSIDE
from sottovoce.errors import InvalidInput
from sottovoce.privacy.noise import NoiseSource

HOLE = "#"
_MOST_DIGITS = 18  # candidates are numbered with 63 bits


@dataclass(frozen=True, kw_only=True)
class SecretFormat:
    """A carrier such as "call # # #", in which each # is one digit, a token of its own.

    >>> calls = SecretFormat(carrier="call # # #", intent="call", slot="phone_number")
    >>> calls.size, calls.utterance(42).text, calls.utterance(42).slots
    (1000, 'call 0 4 2', ('O', 'B-phone_number', 'I-phone_number', 'I-phone_number'))
    """

    carrier: str
    intent: str
    slot: str

    def __post_init__(self) -> None:
        if not 1 <= self.digits <= _MOST_DIGITS:
            raise InvalidInput(
                f'Expected 1 to {_MOST_DIGITS} places "{HOLE}" among the words of the carrier, '
                f"got {self.digits} in {self.carrier!r}."
            )

    @property
    def digits(self) -> int:
        return self.carrier.split().count(HOLE)

    @property
    def size(self) -> int:
        """How many secrets are possible."""
        return int(10**self.digits)

    def utterance(self, secret: int) -> Utterance:
        """The utterance with this secret in it."""
        if not 0 <= secret < self.size:
            raise InvalidInput(f"Expected a secret from 0 to {self.size - 1}, got {secret}.")
        written = iter(f"{secret:0{self.digits}d}")
        tokens: list[str] = []
        slots: list[str] = []
        for word in self.carrier.split():
            begun = bool(slots) and slots[-1] != OUTSIDE
            slots.append(OUTSIDE if word != HOLE else f"{'I' if begun else 'B'}-{self.slot}")
            tokens.append(next(written) if word == HOLE else word)
        return Utterance(tokens=tuple(tokens), slots=tuple(slots), intent=self.intent)

    def draw(self, count: int, source: NoiseSource) -> list[int]:
        """Distinct secrets to plant."""
        _validate.at_least_one("count", count)
        if count > self.size:
            raise InvalidInput(f"Expected at most {self.size} distinct secrets, got {count}.")
        drawn: dict[int, None] = {}
        while len(drawn) < count:
            drawn.update(dict.fromkeys(source.integers(self.size, count - len(drawn)).tolist()))
        return list(drawn)
