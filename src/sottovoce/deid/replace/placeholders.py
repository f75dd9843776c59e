"""Placeholders: a fixed text instead of the value (redact, typed and named placeholder).

With p = 1 the output is independent of the value. With p < 1 a kept value is never the output of
another input, so a reader who sees it knows it is real: epsilon is infinite for any p < 1.
"""

import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from sottovoce import _validate
from sottovoce.deid.replace.mechanism import Cost, Scope
from sottovoce.errors import InvalidInput
from sottovoce.privacy.noise import NoiseSource, keep_or_replace

REDACTED = "[REDACTED]"
EXEMPLARS = {
    "PER": "Alex",
    "ORG": "Acme",
    "LOC": "London",
    "ADDRESS": "1 High Street",
    "DATE": "Monday",
    "TIME": "noon",
    "PHONE": "555-0100",
    "EMAIL": "alex@mail.example",
    "URL": "www.page.example",
    "IP": "192.0.2.1",
    "CARD": "4111 1111 1111 1111",
    "MONEY": "$10",
    "ID": "12345",
    "MEDICAL": "aspirin",
    "TITLE": "Hamlet",
    "TEXT": "hello",
    "MISC": "something",
}
"""The named placeholders: one exemplar per type, as in Pestian et al. (2007)."""


@dataclass(frozen=True, kw_only=True)
class Placeholder:
    """Replaces a whole value by a fixed text, with probability p.

    >>> hidden = Placeholder(text="[PER]")
    >>> hidden.replace(["anna", "ben lee"], [Scope(type="PER")] * 2, NoiseSource())
    ['[PER]', '[PER]']
    """

    text: str
    p: float = 1.0
    whole: bool = True
    scoped: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _validate.probability("p", self.p)
        if not self.text.strip():
            raise InvalidInput("Expected a visible placeholder, got a blank one.")

    def replace(
        self, values: Sequence[str], scopes: Sequence[Scope], source: NoiseSource
    ) -> list[str]:
        if self.p == 1:
            return [self.text] * len(values)
        coins = keep_or_replace(len(values), self.p, source).tolist()
        return [self.text if coin else value for value, coin in zip(values, coins, strict=True)]

    def channel(self, value: str) -> dict[str, float]:
        """M(.|value)."""
        if value == self.text:
            return {value: 1.0}
        return {value: 1 - self.p, self.text: self.p} if self.p < 1 else {self.text: 1.0}

    def cost(self) -> Cost:
        return Cost(replace_probability=self.p, smallest_probability=0.0)

    def to_json(self) -> dict[str, Any]:
        return {"mechanism": "placeholder", "text": self.text, "p": self.p}


EQUALITY = (
    "equal values have equal surrogates, so a change to a single occurrence is always visible; "
    "what holds is the guarantee for renaming a value everywhere"
)
NUMBERED = re.compile(r"<([\w-]{1,64})_([1-9][0-9]{0,5})>")
"""A numbered placeholder, such as <PER_1>."""


class Numbering:
    """The numbered placeholders of one conversation, and the values behind them; thread-safe.

    >>> numbering = Numbering()
    >>> numbering.placeholder("PER", "Maria"), numbering.placeholder("PER", "Maria")
    ('<PER_1>', '<PER_1>')
    """

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, str] = {}
        self._names: dict[tuple[str, str], str] = {}
        self._last: dict[str, int] = {}
        for name, value in (values or {}).items():
            found = NUMBERED.fullmatch(name)
            if found is None:
                raise InvalidInput(f"Expected a placeholder such as <PER_1>, got {name[:40]!r}.")
            self._values[name] = value
            self._names[found[1], value] = name
            self._last[found[1]] = max(self._last.get(found[1], 0), int(found[2]))

    @property
    def values(self) -> dict[str, str]:
        """The value behind each placeholder; as private as the text."""
        with self._lock:
            return dict(self._values)

    def placeholder(self, kind: str, value: str) -> str:
        """The placeholder of a value, the same whenever it occurs."""
        label = re.sub(r"[^\w-]", "-", kind)[:64]
        with self._lock:
            name = self._names.get((label, value))
            if name is None:
                self._last[label] = self._last.get(label, 0) + 1
                name = f"<{label}_{self._last[label]}>"
                if not NUMBERED.fullmatch(name):
                    raise InvalidInput(f"Expected fewer values of {kind} in one conversation.")
                self._names[label, value] = name
                self._values[name] = value
            return name


@dataclass(frozen=True, kw_only=True)
class Numbered:
    """Replaces values by numbered placeholders: equal values are seen to be equal."""

    kind: str
    numbering: Numbering
    whole: bool = True
    scoped: ClassVar[bool] = False

    def replace(
        self, values: Sequence[str], scopes: Sequence[Scope], source: NoiseSource
    ) -> list[str]:
        return [self.numbering.placeholder(self.kind, value) for value in values]

    def cost(self) -> Cost:
        return Cost(why_none=EQUALITY)

    def to_json(self) -> dict[str, Any]:
        return {"mechanism": "numbered placeholder"}


def exemplar(kind: str) -> str:
    """The named placeholder of a type; unknown types share one."""
    return EXEMPLARS.get(kind, EXEMPLARS["MISC"])
