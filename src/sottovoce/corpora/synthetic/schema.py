"""What a domain declares in public: its intents, its slot types, and which of them are private.

Label sets that are read off private data leak what occurs in them, so models and de-identifiers
take them from here. It is also where a domain says how often a user repeats himself.
"""

from dataclasses import dataclass, field

MOODS = ("act", "do", "ask", "say")


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotType:
    """A slot type, the kind of entity that it holds, and whether it tells on the speaker."""

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
        """Names of the slot types that a de-identifier has to remove."""
        return tuple(slot.name for slot in self.slots if slot.private)

    @property
    def labels(self) -> tuple[str, ...]:
        """Every BIO label, `O` first."""
        return ("O", *(f"{prefix}-{name}" for name in self.slot_types for prefix in "BI"))

    def entity(self, slot_type: str) -> str:
        """The kind of entity of a slot type: person, phone, medicine ..."""
        return next(slot.entity for slot in self.slots if slot.name == slot_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """An intent: its share of the traffic, and its carrier phrases by mood (see `speech`).

    `act` lines may be done by the assistant or the speaker ("call {contact}": "please ...", "i want
    to ..."); `do` lines only by the assistant ("remind me ..."); `ask` lines are questions; `say`
    lines are statements and bare fragments.
    """

    weight: float
    act: str = ""
    do: str = ""
    ask: str = ""
    say: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """A domain: intents, the kind of value of each slot type, and named parts of its templates."""

    name: str
    intents: dict[str, Intent]
    slots: dict[str, str]
    parts: dict[str, str] = field(default_factory=dict)
