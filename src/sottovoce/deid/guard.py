"""A guard for conversations with a language model.

It hides private values in a prompt behind numbered placeholders (<PER_1>) and restores them in the
answer, also while the answer is streamed. Values stay in memory, apart for each conversation, and
only until it is forgotten. What the detector misses is sent as it is: the statement says so.
"""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sottovoce.corpora import Span, Utterance
from sottovoce.deid.deidentifier import Deidentifier
from sottovoce.deid.detect import Combination, Detector, detector
from sottovoce.deid.files.fields import Fields
from sottovoce.deid.replace import Mechanism, Vault
from sottovoce.deid.replace.placeholders import NUMBERED, Numbered, Numbering
from sottovoce.deid.replace.strategies import Resources, Setting
from sottovoce.deid.statement.release_statement import ReleaseStatement
from sottovoce.errors import InvalidInput

_TEXT = "TEXT"


class Guard:
    """Hides values in prompts, and restores them in answers; thread-safe.

    >>> guard = Guard(detector="gazetteer+patterns")
    >>> guard.hide("Call Maria at 555-0199, or text Maria")
    'Call <PER_1> at <PHONE_1>, or text <PER_1>'
    >>> guard.restore("Shall I call <PER_1> now?")
    'Shall I call Maria now?'
    >>> "".join(guard.restore_stream(["I called <P", "ER_1", "> at ", "noon."]))
    'I called Maria at noon.'
    """

    def __init__(self, *, detector: Detector | str = "fast") -> None:
        self._detector = _with_literals(detector)
        self._lock = threading.Lock()
        self._conversations: dict[str, _Conversation] = {}

    def hide(self, text: str, conversation: str = "") -> str:
        """The text with numbered placeholders instead of its private values."""
        return self._of(conversation).hide(text)

    def hide_messages(
        self, messages: Iterable[Mapping[str, Any]], conversation: str = ""
    ) -> list[dict[str, Any]]:
        """Messages with `content` as a text, or as parts with a `text`; all else stays.

        >>> Guard(detector="gazetteer").hide_messages([{"role": "user", "content": "I am Maria"}])
        [{'role': 'user', 'content': 'I am <PER_1>'}]
        """
        found = []
        for message in messages:
            content = message.get("content")
            if isinstance(content, str):
                content = self.hide(content, conversation)
            elif isinstance(content, list):
                content = [self._part(part, conversation) for part in content]
            found.append({**message, "content": content})
        return found

    def restore(self, text: str, conversation: str = "") -> str:
        """The text with values instead of the placeholders of this conversation."""
        return restored(text, self._of(conversation).numbering.values)

    def restore_stream(self, chunks: Iterable[str], conversation: str = "") -> Iterator[str]:
        """The pieces of a streamed answer, restored; placeholders may be split over pieces."""
        pending = self.restorer(conversation)
        for chunk in chunks:
            if out := pending.feed(chunk):
                yield out
        if out := pending.close():
            yield out

    def restorer(self, conversation: str = "") -> "StreamRestorer":
        """Restores a stream piece by piece, for asynchronous code."""
        return StreamRestorer(self._of(conversation).numbering.values)

    def statement(self, conversation: str = "") -> ReleaseStatement:
        """What the hidden texts of a conversation tell their reader."""
        return self._of(conversation).deid.statement()

    def forget(self, conversation: str = "") -> None:
        """Forget the values of a conversation; its placeholders cannot be restored any more."""
        with self._lock:
            self._conversations.pop(conversation, None)

    def _of(self, conversation: str) -> "_Conversation":
        with self._lock:
            if conversation not in self._conversations:
                self._conversations[conversation] = _Conversation(self._detector)
            return self._conversations[conversation]

    def _part(self, part: Any, conversation: str) -> Any:
        if isinstance(part, Mapping) and isinstance(part.get("text"), str):
            return {**part, "text": self.hide(part["text"], conversation)}
        return part

    def __reduce__(self) -> Any:
        raise TypeError("A Guard cannot be pickled or copied: it holds private values.")


class StreamRestorer:
    """Restores a stream: a piece that may be the start of a placeholder waits for the rest."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values
        self._held = ""

    def feed(self, chunk: str) -> str:
        """What is certain after one more piece."""
        self._held += chunk
        cut = self._held.rfind("<")
        tail = self._held[cut:] if cut >= 0 else ""
        if not tail or not any(name.startswith(tail) and name != tail for name in self._values):
            cut = len(self._held)
        sure, self._held = self._held[:cut], self._held[cut:]
        return restored(sure, self._values)

    def close(self) -> str:
        """The rest, at the end of the stream."""
        rest, self._held = self._held, ""
        return restored(rest, self._values)


def restored(text: str, values: Mapping[str, str]) -> str:
    """The text with values instead of their placeholders; unknown placeholders stay."""
    return NUMBERED.sub(lambda found: values.get(found[0], found[0]), text)


class _Conversation:
    def __init__(self, found: Combination, numbering: Numbering | None = None) -> None:
        self.numbering = numbering or Numbering()
        self.deid = _Guarded(found, self.numbering)

    def hide(self, text: str) -> str:
        if not isinstance(text, str):
            raise InvalidInput(f"Expected a text to hide values in, got {type(text).__name__}.")
        return self.deid.release(text).text


def hidden(
    found: Combination, texts: Sequence[str], values: Mapping[str, str]
) -> tuple[list[str], dict[str, str], ReleaseStatement]:
    """Texts of one conversation with placeholders, the values behind them, and the statement.

    `values` are those of earlier texts of the conversation.
    """
    conversation = _Conversation(_with_literals(found), Numbering(values))
    told = [conversation.hide(text) for text in texts]
    return told, conversation.numbering.values, conversation.deid.statement()


class _Guarded(Deidentifier):
    """A de-identifier whose mechanisms are the numbered placeholders of a conversation."""

    def __init__(self, found: Combination, numbering: Numbering) -> None:
        self._numbering = numbering
        super().__init__(
            detector=found,
            setting=Setting(strategy="consistent"),
            resources=Resources(vault=Vault.fresh(within="corpus")),
            fields=Fields(user="drop", id="drop"),
        )

    def mechanism(self, kind: str) -> Mechanism:
        made = Numbered(kind=kind, numbering=self._numbering)
        return self._mechanisms.setdefault(kind, made)


class _Literals:
    """Finds what looks like a placeholder in the text itself, so that it comes back as it was."""

    name = "literals"
    types = (_TEXT,)

    def find(self, batch: Sequence[Utterance]) -> list[list[Span]]:
        return [
            [Span(*found.span(), _TEXT) for found in NUMBERED.finditer(utterance.text)]
            for utterance in batch
        ]

    def to_json(self) -> dict[str, Any]:
        return {"detector": self.name}


def _with_literals(chosen: Detector | str) -> Combination:
    found = detector(chosen) if isinstance(chosen, str) else chosen
    return Combination([found, _Literals()])
