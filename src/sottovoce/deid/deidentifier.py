"""The de-identifier: find, replace, count; then say what it cost.

Everything runs in batches: one call of the detector, and one draw of random numbers a type, for
a thousand utterances. Numbers are drawn from one cryptographic stream and never from a seed a
sentence, so that equal sentences are released independently. What is released is counted before it
is released, by threads and by forked processes too; what was released before, elsewhere, can be
absorbed, so that the statement covers both.
"""

import re
import threading
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from operator import itemgetter
from types import MappingProxyType
from typing import Any, NoReturn, cast

from sottovoce import _validate
from sottovoce.corpora import OUTSIDE, Span, Utterance
from sottovoce.corpora.spans import token_offsets
from sottovoce.deid.detect import Combination, Detector, Evaluation, detector
from sottovoce.deid.detect.detector import fingerprint, types_of, utterance_of
from sottovoce.deid.detect.labels import TYPES, LabelMap
from sottovoce.deid.files.alignment import Offsets, Piece, realigned, text_with, with_pieces
from sottovoce.deid.files.fields import Fields
from sottovoce.deid.replace import Cost, Mechanism, Scope, Vault
from sottovoce.deid.replace.letters import canonical
from sottovoce.deid.replace.strategies import Resources, Setting, mechanism_for
from sottovoce.deid.statement.derivation import Released, missed_by
from sottovoce.deid.statement.release_statement import ReleaseStatement
from sottovoce.deid.statement.shared_counts import TallyKeeper
from sottovoce.deid.statement.unit_counts import Rows, UnitCounts, key_of, one_name, random_numbers
from sottovoce.errors import InvalidInput
from sottovoce.privacy.noise import NoiseSource

BATCH = 1024
Place = tuple[int, int, str, int, str]
"""Start, end and type of what is replaced, its place among the values of the type, and what goes
before its replacement."""
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
    what it misses. Threads may share a de-identifier. A forked process may release with its copy:
    the original counts that. It cannot be pickled or copied otherwise.

    >>> deid = Deidentifier(detector="patterns", setting=Setting(strategy="typed"))
    >>> deid.release("meet me at half past three").text
    'meet me at [TIME]'
    >>> print(deid.statement().guarantees["token"].epsilon)
    0.0
    """

    def __init__(
        self,
        *,
        detector: Detector | str = "fast",
        setting: Setting | None = None,
        per_type: Mapping[str, Setting] | None = None,
        labels: LabelMap | None = None,
        resources: Resources | None = None,
        fields: Fields | None = None,
        delta: float = 0.0,
        evaluation: Evaluation | None = None,
        source: NoiseSource | None = None,
    ) -> None:
        self.detector = _combined(detector, labels)
        self.setting = setting or Setting()
        self.per_type = MappingProxyType(dict(per_type or {}))
        self.resources = resources or Resources()
        self.fields = fields or Fields()
        self.delta = _validate.delta(delta)
        self.evaluation = evaluation
        if evaluation is not None:
            _check_evaluated(self.detector, evaluation)
        self._check_types()
        self._keeper = TallyKeeper()
        self._past: dict[str, Cost] = {}
        self._past_seeded = False
        self._past_not_covered: tuple[str, ...] = ()
        self._past_detectors: frozenset[str] = frozenset()
        self._lock = threading.RLock()
        self._source = source or NoiseSource()
        self._names = self.resources.vault or Vault.fresh(within="corpus")
        self._mechanisms: dict[str, Mechanism] = {}
        for kind in self.per_type:
            self.mechanism(kind)
        self._is_made = True

    def __setattr__(self, name: str, value: object) -> None:
        # A statement speaks of everything that was released, so of one configuration for good.
        if not name.startswith("_") and getattr(self, "_is_made", False):
            raise InvalidInput(
                f"Expected {name} to stay as it is, since something may have been released with "
                "it: make another de-identifier, and let it absorb the record of this one."
            )
        super().__setattr__(name, value)

    def release(self, text: str, user: str = "", id: str = "") -> Release:
        """Release one text. Released again (with the same id, or without one), it costs again."""
        self.refuse_plain_text()
        return next(self.release_all([replace(utterance_of(text, user), id=id)]))

    def release_texts(self, texts: Iterable[str]) -> Iterator[str]:
        """Release texts, one at a time, in the order they come."""
        self.refuse_plain_text()
        source, (call,) = iter(texts), random_numbers(1)
        while batch := [_Bare(text) for text in islice(source, BATCH)]:
            for utterance, pieces in self._told(cast(list[Utterance], batch), call):
                yield text_with(utterance.text, pieces) if pieces else utterance.text

    def release_all(
        self, utterances: Iterable[Utterance], *, call: int | None = None
    ) -> Iterator[Release]:
        """Release utterances; their labels stay aligned with their tokens.

        Calls with the same `call` are parts of one release: equal texts without an id stand side
        by side in it, and are not one text that is released again.
        """
        source = iter(utterances)
        if call is None:
            (call,) = random_numbers(1)
        while batch := list(islice(source, BATCH)):
            for utterance in batch:
                _check_tokens(utterance)
            for utterance, pieces in self._told(batch, call):
                yield self._assembled(utterance, pieces)

    def statement(self) -> ReleaseStatement:
        """What may be said of everything that was released so far."""
        with self._keeper.all_counted() as tally, self._lock:
            self._know(tally)
            if self.evaluation is not None:
                _check_evaluated(self.detector, self.evaluation)  # as it is by now
            return Released(
                tally=tally,
                mechanisms=dict(self._mechanisms),
                settings={kind: self._setting(kind) for kind in self._mechanisms},
                costs=self._costs(),
                detector=self.detector.name,
                seeded=self._source.is_seeded or self._past_seeded,
                delta=self.delta,
                evaluation=self.evaluation,
                not_covered=(*self.fields.not_covered(), *self._past_not_covered),
                same_detector=self._past_detectors <= {fingerprint(self.detector)},
            ).statement()

    def leave_uncovered(self, sentence: str) -> None:
        """Let the statement name something else that is released beside the text."""
        with self._lock:
            self._past_not_covered = tuple(dict.fromkeys([*self._past_not_covered, sentence]))

    @property
    def tally(self) -> UnitCounts:
        """What was released so far, counted; as private as the text."""
        with self._keeper.all_counted() as tally:
            return tally

    def record(self) -> dict[str, Any]:
        """All that a statement needs of what was released so far, for `absorb`.

        It is as private as the text: keep it where the text is kept.
        """
        with self._keeper.all_counted() as tally, self._lock:
            self._know(tally)
            return {
                "record": "deid",
                "tally": tally.to_json(),
                "costs": {
                    kind: cost.to_json()
                    for kind, cost in self._costs().items()
                    if kind in tally.types
                },
                "seeded": self._source.is_seeded or self._past_seeded,
                "not_covered": [
                    *self.fields.not_covered(),
                    *missed_by(self.detector.name),
                    *self._past_not_covered,
                ],
                "detectors": sorted({fingerprint(self.detector), *self._past_detectors}),
            }

    def absorb(self, record: Mapping[str, Any]) -> None:
        """Let the statement cover what another de-identifier has released as well.

        Utterances with the same id (or, without one, the same words) and users of the same name are
        the same; what both releases cost them adds up.

        >>> def made(): return Deidentifier(detector="gazetteer", setting=Setting(epsilon=1))
        >>> first, second = made(), made()
        >>> for each in (first, second):
        ...     _ = each.release("call maria", user="ann", id="1")
        >>> second.absorb(first.record())
        >>> round(second.statement().guarantees["token"].epsilon, 6)
        2.0
        """
        try:
            if record["record"] != "deid":
                raise KeyError("record")
            other = UnitCounts.from_json(record["tally"])
            costs = {kind: Cost.from_json(cost) for kind, cost in record["costs"].items()}
            seeded, sentences = bool(record["seeded"]), tuple(map(str, record["not_covered"]))
            detectors = frozenset(map(str, record["detectors"]))
            if missing := {*other.types} - {*costs}:
                raise KeyError(missing.pop())
        except (KeyError, TypeError, AttributeError) as problem:
            raise InvalidInput(f"Expected the record of a release, but {problem!r}.") from problem
        with self._keeper.all_counted() as tally, self._lock:
            names = {}
            for kind, cost in costs.items():
                names[kind] = self._name_of(other.original(kind), cost)
                if names[kind] not in self._mechanisms:
                    self._past[names[kind]] = cost
            tally.merge(other, names)
            self._past_seeded |= seeded
            self._past_detectors |= detectors
            for sentence in sentences:
                self.leave_uncovered(sentence)

    def _name_of(self, kind: str, cost: Cost) -> str:
        """What to call a type of another release: the same only if it costs just the same.

        Two histograms are never the same, unless they are one that both have drawn from.
        """
        if cost.histogram or not cost.histogram_epsilon:
            try:
                if self.mechanism(kind).cost() == cost:
                    return kind
            except InvalidInput:
                pass  # A strategy that this type cannot have here.
            for name, known in self._past.items():
                if known == cost and name.startswith(f"{kind} of release "):
                    return name
        return f"{kind} of release {1 + len(self._past)}"

    def _costs(self) -> dict[str, Cost]:
        return self._past | {kind: each.cost() for kind, each in self._mechanisms.items()}

    def _know(self, tally: UnitCounts) -> None:
        """Make the mechanisms of types that only copies have met, or that may have been missed."""
        for kind in tally.types:
            if kind not in self._past:
                self.mechanism(kind)
        for kind in self.evaluation.types if self.evaluation else ():
            with suppress(InvalidInput):
                self.mechanism(kind)

    def _check_types(self) -> None:
        """A setting or a list for a type that nothing finds would be ignored in silence."""
        known = types_of(self.detector)
        if known is None:
            return
        for kind in (*self.per_type, *self.resources.surrogates):
            if kind not in known and kind not in TYPES:
                raise InvalidInput(
                    f"Expected a type that {self.detector.name} finds "
                    f"({', '.join(sorted(known))}), got {kind!r}."
                )

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "A Deidentifier cannot be pickled or copied: nobody would count what the copy "
            "releases. Make one in each process, and absorb their records."
        )

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
            [kind for _, _, kind, *_ in self._found(utterance, spans, jobs)]
            for utterance, spans in zip(batch, self.detector.find(batch), strict=True)
        ]

    def mechanism(self, kind: str) -> Mechanism:
        """The mechanism of a type; made when the type is first met."""
        found = self._mechanisms.get(kind)
        if found is None:
            with self._lock:
                found = mechanism_for(kind, self._setting(kind), self.resources)
                found = self._mechanisms.setdefault(kind, found)
        return found

    def to_json(self) -> dict[str, Any]:
        """The configuration, for the release manifest; hashes of lists and models stay private."""
        return {
            "detector": {"detector": self.detector.name},
            "setting": self.setting.to_json(),
            "per_type": {kind: each.to_json() for kind, each in sorted(self.per_type.items())},
            "mechanisms": {kind: each.to_json() for kind, each in sorted(self._mechanisms.items())},
            "fields": self.fields.to_json(),
            "delta": self.delta,
            "random_numbers": self._source.stamp or "AES-CTR, keyed by the operating system",
        }

    def _setting(self, kind: str) -> Setting:
        return self.per_type.get(kind, self.setting)

    def _told(
        self, batch: Sequence[Utterance], call: int
    ) -> Iterator[tuple[Utterance, list[Piece]]]:
        """The utterances with what is to be put into them; counted before they are told."""
        jobs: dict[str, _Job] = {}
        with self._lock:  # Detectors remember words; nobody promised that threads may share them.
            marked = self.detector.find(batch)
        places = [
            self._found(utterance, spans, jobs) if spans else []
            for utterance, spans in zip(batch, marked, strict=True)
        ]
        self._count(batch, [tuple(map(_KIND, own)) for own in places], call)
        outputs = {
            kind: job.mechanism.replace(job.values, job.scopes, self._source)
            for kind, job in jobs.items()
        }
        for utterance, own in zip(batch, places, strict=True):
            told = [
                (start, end, kind, before + outputs[kind][place])
                for start, end, kind, place, before in own
            ]
            yield utterance, told

    def _count(self, batch: Sequence[Utterance], types: list[tuple[str, ...]], call: int) -> None:
        if self._keeper.is_copy and self._names.reversible:
            raise InvalidInput(
                "Expected no reversible vault in a forked process, got one: the parent would not "
                "know who became whom there."
            )
        self.count(rows_of(batch, types, call))

    def count(self, rows: Rows) -> None:
        """Let the statement cover what others release with this configuration."""
        self._keeper.add(rows)

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
            values = [(start, end)]
            if not job.mechanism.whole:
                values = [word.span() for word in _WORD.finditer(text, start, end)] or values
            # Nothing of a value is left between its words: each replaces what is before it too.
            edges = [start, *(last for _, last in values[:-1]), end]
            for number, (first, last) in enumerate(values):
                before = " " if number else ""
                found.append((edges[number], edges[number + 1], kind, len(job.values), before))
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


def rows_of(batch: Sequence[Utterance], types: Sequence[tuple[str, ...]], call: int) -> Rows:
    """How utterances count that are released in this call; these are the types of their values."""
    keys, releases = [], random_numbers(len(batch))
    for place, (utterance, kinds) in enumerate(zip(batch, types, strict=True)):
        if not kinds:
            keys.append(0)
        elif utterance.id:
            keys.append(key_of("id", utterance.id))
        else:
            keys.append(key_of("text", one_name(utterance.user), _same_words(utterance.text)))
            releases[place] = call
    users = [one_name(utterance.user) for utterance in batch]
    return Rows(types=types, users=users, keys=keys, releases=releases)


def _same_words(text: str) -> str:
    """What two spellings of one text have in common: blanks, case and code points may differ."""
    return canonical(text if text.isascii() else unicodedata.normalize("NFKC", text).casefold())


def _check_tokens(utterance: Utterance) -> None:
    """Private values are looked for in the text, so tokens of another text would pass unseen."""
    if " ".join(utterance.tokens) != utterance.text:
        token_offsets(utterance.text, utterance.tokens)


def _check_evaluated(detector: Detector, evaluation: Evaluation) -> None:
    if evaluation.detector != detector.name:
        raise InvalidInput(
            f"Expected an evaluation of {detector.name}, got one of {evaluation.detector}; "
            "evaluate the detector that is used."
        )
    if evaluation.fingerprint != fingerprint(detector):
        raise InvalidInput(
            f"Expected an evaluation of this very {detector.name}, got one of another model or "
            "list of that name; evaluate the detector that is used."
        )


def _combined(chosen: Detector | str, labels: LabelMap | None) -> Detector:
    if isinstance(chosen, str):
        return detector(chosen, labels)
    return chosen if isinstance(chosen, Combination) else Combination([chosen])
