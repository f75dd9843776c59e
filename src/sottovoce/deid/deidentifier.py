"""The de-identifier: find, replace, count; then say what it cost.

Everything runs in batches: one call of the detector, and one draw of random numbers a type, for
a thousand utterances. Numbers are drawn from one cryptographic stream and never from a seed a
sentence, so that equal sentences are released independently.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import itemgetter
from typing import Any, cast

from sottovoce import _validate
from sottovoce.corpora import OUTSIDE, Span, Utterance
from sottovoce.deid.alignment import Offsets, Piece, realigned, text_with, with_pieces
from sottovoce.deid.derivation import Released
from sottovoce.deid.detect import Combination, Detector, Evaluation, detector
from sottovoce.deid.detect.detector import utterance_of
from sottovoce.deid.fields import Fields
from sottovoce.deid.labels import LabelMap
from sottovoce.deid.replace import Mechanism, Scope, Vault
from sottovoce.deid.statement import ReleaseStatement
from sottovoce.deid.strategies import Materials, Setting, mechanism_for
from sottovoce.deid.tally import Tally
from sottovoce.errors import InvalidInput
from sottovoce.privacy.noise import NoiseSource

BATCH = 1024
Place = tuple[int, int, str, int]
"""Start, end and type of what is replaced, and its place among the values of the type."""
_KIND = itemgetter(2)
_WORD = re.compile(r"\w+(?:['’]\w+)*")


@dataclass(frozen=True, slots=True)
class Release:
    """One released utterance. `offsets` map between it and its original: keep them to yourself."""

    utterance: Utterance
    offsets: Offsets

    @property
    def text(self) -> str:
        return self.utterance.text


@dataclass(slots=True)
class _Job:
    """The values of one type in a batch."""

    mechanism: Mechanism
    values: list[str] = field(default_factory=list)
    scopes: list[Scope] = field(default_factory=list)


class Deidentifier:
    """Releases text with a stated epsilon.

    `setting` holds for every type that `per_type` does not name. `delta` is what a statement may
    fail by. An `evaluation` of the detector (see `detect.evaluate`) makes the statement allow for
    what it misses.

    >>> deid = Deidentifier(detector="patterns", setting=Setting(strategy="typed"))
    >>> deid.release("meet me at half past three").text
    'meet me at [TIME]'
    >>> print(deid.statement().guarantees["token"].epsilon)
    0.0
    """

    def __init__(
        self,
        *,
        detector: Detector | str = "tagger",
        setting: Setting | None = None,
        per_type: Mapping[str, Setting] | None = None,
        labels: LabelMap | None = None,
        materials: Materials | None = None,
        fields: Fields | None = None,
        delta: float = 0.0,
        evaluation: Evaluation | None = None,
        source: NoiseSource | None = None,
    ) -> None:
        self.detector = _combined(detector, labels)
        self.setting = setting or Setting()
        self.per_type = dict(per_type or {})
        self.materials = materials or Materials()
        self.fields = fields or Fields()
        self.delta = _validate.delta(delta)
        self.evaluation = evaluation
        if evaluation is not None and evaluation.detector != self.detector.name:
            raise InvalidInput(
                f"Expected an evaluation of {self.detector.name}, got one of "
                f"{evaluation.detector}; evaluate the detector that is used."
            )
        self.tally = Tally()
        self._source = source or NoiseSource()
        self._names = self.materials.vault or Vault.fresh(within="corpus")
        self._mechanisms: dict[str, Mechanism] = {}
        for kind in self.per_type:
            self.mechanism(kind)

    def release(self, text: str, user: str = "") -> Release:
        """Release one text."""
        self.refuse_plain_text()
        return next(self.release_all([utterance_of(text, user)]))

    def release_texts(self, texts: Iterable[str]) -> Iterator[str]:
        """Release texts, one at a time, in the order they come."""
        self.refuse_plain_text()
        source = iter(texts)
        while batch := [_Bare(text) for text in islice(source, BATCH)]:
            for utterance, pieces in self._told(cast(list[Utterance], batch)):
                yield text_with(utterance.text, pieces) if pieces else utterance.text

    def release_all(self, utterances: Iterable[Utterance]) -> Iterator[Release]:
        """Release utterances; their labels stay aligned with their tokens."""
        source = iter(utterances)
        while batch := list(islice(source, BATCH)):
            for utterance, pieces in self._told(batch):
                yield self._assembled(utterance, pieces)

    def statement(self) -> ReleaseStatement:
        """What may be said of everything that was released so far."""
        return Released(
            tally=self.tally,
            mechanisms=self._mechanisms,
            settings={kind: self._setting(kind) for kind in self._mechanisms},
            detector=self.detector.name,
            seeded=self._source.is_seeded,
            delta=self.delta,
            evaluation=self.evaluation,
            not_covered=self.fields.not_covered(),
        ).statement()

    def refuse_plain_text(self) -> None:
        """Annotations are all that the detector gold sees; text without them would pass whole."""
        if "gold" in self.detector.name.split("+"):
            raise InvalidInput(
                "Expected annotated utterances for the detector gold, got plain text; release "
                "utterances, or choose another detector."
            )

    def private_types(self, batch: Sequence[Utterance]) -> list[list[str]]:
        """The type of every value that would be replaced, utterance by utterance; none is."""
        jobs: dict[str, _Job] = {}
        return [
            [kind for _, _, kind, _ in self._found(utterance, spans, jobs)]
            for utterance, spans in zip(batch, self.detector.find(batch), strict=True)
        ]

    def mechanism(self, kind: str) -> Mechanism:
        """The mechanism of a type; made when the type is first met."""
        found = self._mechanisms.get(kind)
        if found is None:
            found = mechanism_for(kind, self._setting(kind), self.materials)
            self._mechanisms[kind] = found
        return found

    def to_json(self) -> dict[str, Any]:
        """The configuration, for the release manifest."""
        return {
            "detector": self.detector.to_json(),
            "setting": self.setting.to_json(),
            "per_type": {kind: each.to_json() for kind, each in sorted(self.per_type.items())},
            "mechanisms": {kind: each.to_json() for kind, each in sorted(self._mechanisms.items())},
            "fields": self.fields.to_json(),
            "delta": self.delta,
            "random_numbers": self._source.stamp or "AES-CTR, keyed by the operating system",
        }

    def _setting(self, kind: str) -> Setting:
        return self.per_type.get(kind, self.setting)

    def _told(self, batch: Sequence[Utterance]) -> Iterator[tuple[Utterance, list[Piece]]]:
        """The utterances with what is to be put into them."""
        jobs: dict[str, _Job] = {}
        places = [
            self._found(utterance, spans, jobs) if spans else []
            for utterance, spans in zip(batch, self.detector.find(batch), strict=True)
        ]
        self.tally.add_all(
            [tuple(map(_KIND, own)) for own in places], [utterance.user for utterance in batch]
        )
        outputs = {
            kind: job.mechanism.replace(job.values, job.scopes, self._source)
            for kind, job in jobs.items()
        }
        for utterance, own in zip(batch, places, strict=True):
            told = [(start, end, kind, outputs[kind][place]) for start, end, kind, place in own]
            yield utterance, told

    def _found(
        self, utterance: Utterance, spans: Sequence[Span], jobs: dict[str, _Job]
    ) -> list[Place]:
        """Where something is to be replaced, and which of the type's values it is."""
        found: list[Place] = []
        text = utterance.text
        for start, end, kind in spans:
            job = jobs.get(kind)
            if job is None:
                job = jobs[kind] = _Job(self.mechanism(kind))
            places = [(start, end)]
            if not job.mechanism.whole:
                places = [word.span() for word in _WORD.finditer(text, start, end)] or places
            for first, last in places:
                found.append((first, last, kind, len(job.values)))
                job.values.append(text[first:last])
                if job.mechanism.scoped:
                    job.scopes.append(Scope(type=kind, user=utterance.user, document=utterance.id))
        return found

    def _assembled(self, utterance: Utterance, pieces: Sequence[Piece]) -> Release:
        fields = self.fields.released(utterance, self._names)
        tokens: Sequence[str] = utterance.tokens
        labels: Sequence[str] = utterance.slots
        text, offsets = utterance.text, _SAME
        if pieces:
            text, offsets = with_pieces(utterance.text, pieces)
            if _UNLABELLED.issuperset(labels) and " ".join(tokens) == utterance.text:
                tokens = text.split()
                labels = (OUTSIDE,) * len(tokens)
            else:
                tokens, labels = realigned(utterance, text, offsets)
        return Release(
            Utterance(
                tokens=tuple(tokens),
                slots=tuple(labels),
                intent=utterance.intent,
                text=text,
                **fields,
            ),
            offsets,
        )


class _Bare:
    """A text of which nobody will ask more: all that an utterance has, without making one.

    Making a whole utterance would cost as much as looking through it.
    """

    __slots__ = ("text",)
    tokens: tuple[str, ...] = ()
    slots: tuple[str, ...] = ()
    intent = user = id = ""

    def __init__(self, text: str) -> None:
        self.text = text


_SAME = Offsets()
_UNLABELLED = frozenset({OUTSIDE})


def _combined(chosen: Detector | str, labels: LabelMap | None) -> Detector:
    if isinstance(chosen, str):
        return detector(chosen, labels)
    return chosen if isinstance(chosen, Combination) else Combination([chosen])
