"""The parse of a text: intent and slots, with character offsets and scores."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sottovoce.corpora import OUTSIDE, Utterance, spans_of
from sottovoce.corpora.spans import token_offsets
from sottovoce.errors import InvalidInput

if TYPE_CHECKING:
    from sottovoce.nlu.model import Prediction


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """`text[start:end]` fills this slot; the score is the lowest probability of its words."""

    name: str
    value: str
    start: int
    end: int
    score: float

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "value": self.value,
            "start": self.start,
            "end": self.end,
            "score": round(self.score, 6),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Parse:
    """The intent of a text with its probability, and its slots in text order.

    >>> parse = Parse(text="call mum", intent="call", score=0.9,
    ...               slots=(Slot(name="who", value="mum", start=5, end=8, score=0.8),))
    >>> print(parse)
    call (0.90): who = 'mum' (0.80)
    >>> parse.to_json()["slots"]
    [{'name': 'who', 'value': 'mum', 'start': 5, 'end': 8, 'score': 0.8}]
    """

    text: str
    intent: str
    score: float
    slots: tuple[Slot, ...] = ()

    def __str__(self) -> str:
        found = ", ".join(f"{s.name} = {s.value!r} ({s.score:.2f})" for s in self.slots)
        return f"{self.intent} ({self.score:.2f})" + (f": {found}" if found else "")

    def to_json(self) -> dict[str, Any]:
        return {
            "text": self.text,
            "intent": self.intent,
            "score": round(self.score, 6),
            "slots": [slot.to_json() for slot in self.slots],
        }


def utterance_of(text: str) -> Utterance:
    """A text as model input, split into words at white space.

    >>> utterance_of("call  mum").tokens
    ('call', 'mum')
    """
    if not isinstance(text, str):
        raise InvalidInput(f"Expected a text, got {type(text).__name__}.")
    tokens = tuple(text.split())
    if not tokens:
        raise InvalidInput(f"Expected some words in the text, got {text!r}.")
    return Utterance(tokens=tokens, slots=(OUTSIDE,) * len(tokens), text=text)


def parse_of(utterance: Utterance, prediction: "Prediction") -> Parse:
    """Convert a prediction to character offsets in the text."""
    text = utterance.text
    labelled = Utterance(tokens=utterance.tokens, slots=prediction.slots, text=text)
    words = list(
        zip(token_offsets(text, utterance.tokens), prediction.slot_probabilities, strict=True)
    )
    slots = tuple(
        Slot(
            name=span.type,
            value=text[span.start : span.end],
            start=span.start,
            end=span.end,
            score=min(p for (start, end), p in words if span.start <= start and end <= span.end),
        )
        for span in spans_of(labelled)
    )
    return Parse(text=text, intent=prediction.intent, score=prediction.probability, slots=slots)
