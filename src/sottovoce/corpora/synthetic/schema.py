"""The public declaration of a domain: its intents, its slot types, and which hold private values.

Label sets inferred from private data leak which labels occur, so models and de-identifiers take
them from here.
"""

from dataclasses import dataclass, field

MOODS = ("act", "do", "ask", "say")


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotType:
    """A slot type, its kind of entity, and whether its values may identify the speaker."""

    name: str
    entity: str
    private: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainSchema:
    """The declared label sets of a domain.

    >>> from sottovoce.corpora.synthetic import schema
    >>> health = schema("health")
    >>> health.entity("medicine"), "medicine" in health.private
    ('medicine', True)
    >>> health.labels[:3]
    ('O', 'B-address', 'I-address')
    """

    domain: str
    intents: tuple[str, ...]
    slots: tuple[SlotType, ...]

    @property
    def slot_types(self) -> tuple[str, ...]:
        return tuple(slot.name for slot in self.slots)

    @property
    def private(self) -> tuple[str, ...]:
        """Names of the slot types that a de-identifier must remove."""
        return tuple(slot.name for slot in self.slots if slot.private)

    @property
    def labels(self) -> tuple[str, ...]:
        """All BIO labels, `O` first."""
        return ("O", *(f"{prefix}-{name}" for name in self.slot_types for prefix in "BI"))

    def entity(self, slot_type: str) -> str:
        """The kind of entity of a slot type: person, phone, medicine ..."""
        return next(slot.entity for slot in self.slots if slot.name == slot_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """An intent: its weight, and its carrier phrases by mood (see `carriers`).

    The actor of `act` lines is the assistant or the speaker ("call {contact}": "please ...", "i
    want to ..."); of `do` lines only the assistant ("remind me ..."); `ask` lines are questions;
    `say` lines are statements and fragments.
    """

    weight: float
    act: str = ""
    do: str = ""
    ask: str = ""
    say: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """A domain: intents, the kind of value of each slot type, and named parts of templates."""

    name: str
    intents: dict[str, Intent]
    slots: dict[str, str]
    parts: dict[str, str] = field(default_factory=dict)
