"""The de-identifier: find, replace and count private values, then state the privacy cost.

It works in batches of about a thousand utterances: one detector call per batch, one draw of random
numbers per type. All randomness comes from one cryptographic stream, never from per-sentence seeds,
so equal sentences are released independently. Values are counted before they are released, also
across threads and forked processes. Earlier releases made elsewhere can be absorbed, so that the
statement covers both.
"""

import os
import re
import threading
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from operator import itemgetter
from types import MappingProxyType
from typing import Any, NoReturn, cast

from sottovoce import _validate
from sottovoce.corpora import OUTSIDE, Span, Utterance
from sottovoce.corpora.records import Blank
from sottovoce.corpora.spans import token_offsets
from sottovoce.deid.detect import Combination, Detector, Evaluation, detector
from sottovoce.deid.detect.detector import fingerprint, types_of, utterance_of
from sottovoce.deid.detect.labels import TYPES, LabelMap
from sottovoce.deid.files.alignment import Offsets, Piece, apply_pieces, apply_to_text, realign
from sottovoce.deid.files.fields import Fields
from sottovoce.deid.replace import Cost, Mechanism, Scope, Vault
from sottovoce.deid.replace.forms import canonical
from sottovoce.deid.replace.strategies import Resources, Setting, mechanism_for
from sottovoce.deid.statement.derivation import Released, missed_by
from sottovoce.deid.statement.release_statement import ReleaseStatement
from sottovoce.deid.statement.shared_counts import SharedCounts
from sottovoce.deid.statement.unit_counts import (
    Rows,
    UnitCounts,
    key_of,
    normalized_user,
    random_numbers,
)
from sottovoce.errors import InvalidInput
from sottovoce.privacy.noise import NoiseSource

BATCH = 1024
Place = tuple[int, int, str, int, str]
"""Start, end and type of a replaced span, its index among the values of the type, and the prefix of
its replacement."""
_KIND = itemgetter(2)
_WORD = re.compile(r"\w+(?:['’]\w+)*")


@dataclass(frozen=True, slots=True)
class Release:
    """One released utterance. `offsets` map between it and the original, so keep them private."""

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

    `setting` applies to every type that is not in `per_type`. `delta` is the failure probability of
    the statement. With an `evaluation` of the detector (see `detect.evaluate`) the statement also
    accounts for missed values. A de-identifier is thread-safe. A forked process may release with
    its copy, and the original counts that. It cannot be pickled or copied in any other way.

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
        self._shared_counts = SharedCounts()
        self._past: dict[str, Cost] = {}
        self._past_seeded = False
        self._past_not_covered: tuple[str, ...] = ()
        self._past_detectors: frozenset[str] = frozenset()
        self._lock = threading.RLock()
        self._owner = os.getpid()
        self._source = source or NoiseSource()
        self._names = self.resources.vault or Vault.fresh(within="corpus")
        self._mechanisms: dict[str, Mechanism] = {}
        for kind in self.per_type:
            self.mechanism(kind)
        self._is_made = True

    def __setattr__(self, name: str, value: object) -> None:
        # A statement covers everything released so far, so the configuration is fixed.
        if not name.startswith("_") and getattr(self, "_is_made", False):
            raise InvalidInput(
                f"Expected {name} to stay unchanged, got a new value: make another de-identifier "
                "and let it absorb the record of this one."
            )
        super().__setattr__(name, value)

    def release(self, text: str, user: str = "", id: str = "") -> Release:
        """Release one text. Releasing it again (with the same id, or without one) costs again."""
        self.refuse_plain_text()
        return next(self.release_all([replace(utterance_of(text, user), id=id)]))

    def release_texts(self, texts: Iterable[str]) -> Iterator[str]:
        """Release texts lazily, in order."""
        self.refuse_plain_text()
        if self._names.reversible:
            yield from (each.text for each in self.release_all(map(utterance_of, texts)))
            return
        source, (call,) = iter(texts), random_numbers(1)
        while batch := [_BareText(text) for text in islice(source, BATCH)]:
            for utterance, pieces in self._replaced(cast(list[Utterance], batch), call):
                yield apply_to_text(utterance.text, pieces) if pieces else utterance.text

    def release_all(
        self,
        utterances: Iterable[Utterance],
        *,
        call: int | None = None,
        waits: Callable[[], bool] = lambda: False,
    ) -> Iterator[Release]:
        """Release utterances; labels stay aligned with tokens.

        Calls with the same `call` are parts of one release: within it, equal texts without an id
        count as different utterances, not as one text released twice. What has been read is
        released at once when `waits` says that the next utterance is not there yet.
        """
        source = iter(utterances)
        if call is None:
            (call,) = random_numbers(1)
        while batch := _batch(source, waits):
            for utterance in batch:
                _check_tokens(utterance)
            for utterance, pieces in self._replaced(batch, call):
                release = self._assembled(utterance, pieces)
                if self._names.reversible:
                    self._remember(utterance, release)
                yield release

    def statement(self) -> ReleaseStatement:
        """The privacy statement for everything released so far."""
        with self._shared_counts.all_counted() as counts, self._lock:
            self._ensure_mechanisms(counts)
            if self.evaluation is not None:
                _check_evaluated(self.detector, self.evaluation)  # it may have changed since
            return Released(
                unit_counts=counts,
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
        """Add to the statement something that is released besides the text."""
        with self._lock:
            self._past_not_covered = tuple(dict.fromkeys([*self._past_not_covered, sentence]))

    @property
    def unit_counts(self) -> UnitCounts:
        """Counts of everything released so far; as private as the text."""
        with self._shared_counts.all_counted() as counts:
            return counts

    def record(self) -> dict[str, Any]:
        """Everything a statement needs about what was released so far, for `absorb`.

        It is as private as the text: store it with the text.
        """
        with self._shared_counts.all_counted() as counts, self._lock:
            self._ensure_mechanisms(counts)
            return {
                "record": "deid",
                "tally": counts.to_json(),
                "costs": {
                    kind: cost.to_json()
                    for kind, cost in self._costs().items()
                    if kind in counts.types
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
        """Extend the statement to what another de-identifier has released.

        Utterances with the same id (or, without one, the same words) and users of the same name are
        identified; their costs add up.

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
        with self._shared_counts.all_counted() as counts, self._lock:
            names = {}
            for kind, cost in costs.items():
                names[kind] = self._absorbed_name(other.original(kind), cost)
                if names[kind] not in self._mechanisms:
                    self._past[names[kind]] = cost
            counts.merge(other, names)
            self._past_seeded |= seeded
            self._past_detectors |= detectors
            for sentence in sentences:
                self.leave_uncovered(sentence)

    def _absorbed_name(self, kind: str, cost: Cost) -> str:
        """The name for a type of another release: unchanged only if its cost is identical.

        Two histograms are never identical, unless both releases drew from the same one.
        """
        if cost.histogram or not cost.histogram_epsilon:
            try:
                if self.mechanism(kind).cost() == cost:
                    return kind
            except InvalidInput:
                pass  # This type cannot have that strategy here.
            for name, known in self._past.items():
                if known == cost and name.startswith(f"{kind} of release "):
                    return name
        return f"{kind} of release {1 + len(self._past)}"

    def _costs(self) -> dict[str, Cost]:
        return self._past | {kind: each.cost() for kind, each in self._mechanisms.items()}

    def _ensure_mechanisms(self, counts: UnitCounts) -> None:
        """Create mechanisms for types that only forked copies have seen, or that were evaluated."""
        for kind in counts.types:
            if kind not in self._past:
                self.mechanism(kind)
        for kind in self.evaluation.types if self.evaluation else ():
            with suppress(InvalidInput):
                self.mechanism(kind)

    def _check_types(self) -> None:
        """Reject settings or lists for types that the detector never finds."""
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
            "A Deidentifier cannot be pickled or copied: releases of the copy would not be "
            "counted. Make one in each process, and absorb their records."
        )

    def refuse_plain_text(self) -> None:
        """Reject plain text with the detector gold, which only finds annotated values."""
        if "gold" in self.detector.name.split("+"):
            raise InvalidInput(
                "Expected annotated utterances for the detector gold, got plain text: release "
                "utterances, or choose another detector."
            )

    def private_types(self, batch: Sequence[Utterance]) -> list[list[str]]:
        """The type of every value that would be replaced, per utterance; nothing is released."""
        jobs: dict[str, _Job] = {}
        return [
            [kind for _, _, kind, *_ in self._found(utterance, spans, jobs)]
            for utterance, spans in zip(batch, self.detector.find(batch), strict=True)
        ]

    def mechanism(self, kind: str) -> Mechanism:
        """The mechanism of a type, created on first use."""
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
            "types": sorted(types_of(self.detector) or ()),
            "setting": self.setting.to_json(),
            "per_type": {kind: each.to_json() for kind, each in sorted(self.per_type.items())},
            "mechanisms": {kind: each.to_json() for kind, each in sorted(self._mechanisms.items())},
            "fields": self.fields.to_json(),
            "delta": self.delta,
            "random_numbers": self._source.stamp or "AES-CTR, keyed by the operating system",
        }

    def released_name(self, purpose: str, name: str) -> str:
        """A user or an id as it is released."""
        return self.fields.released_name(purpose, name, self._names)

    def _setting(self, kind: str) -> Setting:
        return self.per_type.get(kind, self.setting)

    def _replaced(
        self, batch: Sequence[Utterance], call: int
    ) -> Iterator[tuple[Utterance, list[Piece]]]:
        """The utterances with their replacements; counted before they are yielded."""
        jobs: dict[str, _Job] = {}
        with self._lock:  # Detectors have caches and need not be thread-safe.
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
            pieces = [
                (start, end, kind, before + outputs[kind][place])
                for start, end, kind, place, before in own
            ]
            yield utterance, pieces

    def _remember(self, utterance: Utterance, release: Release) -> None:
        self._names.remember(
            release.utterance,
            utterance,
            [
                (piece.new_start, piece.new_end, utterance.text[piece.start : piece.end])
                for piece in release.offsets.replacements
            ],
        )

    @property
    def is_reversible(self) -> bool:
        """Whether a vault remembers what is replaced."""
        return self._names.reversible

    @property
    def is_seeded(self) -> bool:
        """Whether its random numbers can be repeated."""
        return self._source.is_seeded

    @property
    def _is_forked(self) -> bool:
        return os.getpid() != self._owner

    def _count(self, batch: Sequence[Utterance], types: list[tuple[str, ...]], call: int) -> None:
        if self._is_forked and self._names.reversible:
            raise InvalidInput(
                "Expected no reversible vault in a forked process, got one: the parent would miss "
                "its surrogate map, so release in the parent."
            )
        self.count(rows_of(batch, types, call))

    def count_apart(self) -> None:
        """In a forked process: count in this process alone; the parent merges the counts."""
        if not self._shared_counts.is_copy:
            raise InvalidInput("Expected a forked process to count apart, got the first one.")
        self._shared_counts = SharedCounts()

    def merge_counts(self, counts: UnitCounts) -> None:
        """Add what a forked process has counted apart."""
        with self._shared_counts.all_counted() as mine:
            mine.merge(counts, {kind: kind for kind in counts.types})

    def count(self, rows: Rows) -> None:
        """Count utterances that are released elsewhere with this configuration."""
        self._shared_counts.add(rows)

    def _found(
        self, utterance: Utterance, spans: Sequence[Span], jobs: dict[str, _Job]
    ) -> list[Place]:
        """The spans to replace, with their indices among the values of their type."""
        found: list[Place] = []
        text = utterance.text
        for start, end, kind in spans:
            job = jobs.get(kind)
            if job is None:
                job = jobs[kind] = _Job(self.mechanism(kind))
            values = [(start, end)]
            if not job.mechanism.whole:
                values = [word.span() for word in _WORD.finditer(text, start, end)] or values
            # Each word also replaces the gap before it, so that no part of the value remains.
            edges = [start, *(last for _, last in values[:-1]), end]
            for number, (first, last) in enumerate(values):
                before = " " if number else ""
                found.append((edges[number], edges[number + 1], kind, len(job.values), before))
                job.values.append(text[first:last])
                if job.mechanism.scoped:
                    job.scopes.append(_scope(kind, utterance))
        return found

    def _assembled(self, utterance: Utterance, pieces: Sequence[Piece]) -> Release:
        fields = self.fields.released(utterance, self._names)
        if isinstance(utterance, Blank):
            return Release(Blank(text=utterance.text, intent=utterance.intent, **fields), _SAME)
        tokens: Sequence[str] = utterance.tokens
        labels: Sequence[str] = utterance.slots
        text, offsets = utterance.text, _SAME
        if pieces:
            text, offsets = apply_pieces(utterance.text, pieces)
            if _UNLABELLED.issuperset(labels) and " ".join(tokens) == utterance.text:
                tokens = text.split()
                labels = (OUTSIDE,) * len(tokens)
            else:
                tokens, labels = realign(utterance, text, offsets)
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


def _scope(kind: str, utterance: Utterance) -> Scope:
    document = getattr(utterance, "document", "") or utterance.id
    return Scope(type=kind, user=utterance.user, document=document)


def _batch(source: Iterator[Utterance], waits: Callable[[], bool]) -> list[Utterance]:
    """The next utterances, at most `BATCH`, and no more than there are before the next wait."""
    batch: list[Utterance] = []
    for utterance in source:
        batch.append(utterance)
        if len(batch) == BATCH or waits():
            break
    return batch


class _BareText:
    """Duck-types `Utterance` for plain text, since building full utterances is slow."""

    __slots__ = ("text",)
    tokens: tuple[str, ...] = ()
    slots: tuple[str, ...] = ()
    intent = user = id = ""

    def __init__(self, text: str) -> None:
        self.text = text


_SAME = Offsets()
_UNLABELLED = frozenset({OUTSIDE})


def rows_of(batch: Sequence[Utterance], types: Sequence[tuple[str, ...]], call: int) -> Rows:
    """The rows to count for utterances that are released in this call."""
    keys, releases = [], random_numbers(len(batch))
    for place, (utterance, kinds) in enumerate(zip(batch, types, strict=True)):
        if not kinds:
            keys.append(0)
        elif utterance.id:
            keys.append(key_of("id", utterance.id))
        else:
            keys.append(
                key_of("text", normalized_user(utterance.user), _same_words(utterance.text))
            )
            releases[place] = call
    users = [normalized_user(utterance.user) for utterance in batch]
    return Rows(types=types, users=users, keys=keys, releases=releases)


def _same_words(text: str) -> str:
    """Normalise blanks, case and Unicode form."""
    return canonical(text if text.isascii() else unicodedata.normalize("NFKC", text).casefold())


def _check_tokens(utterance: Utterance) -> None:
    """Reject tokens that do not match the text, because detection only sees the text."""
    if " ".join(utterance.tokens) != utterance.text:
        token_offsets(utterance.text, utterance.tokens)


def _check_evaluated(detector: Detector, evaluation: Evaluation) -> None:
    if evaluation.detector != detector.name:
        raise InvalidInput(
            f"Expected an evaluation of {detector.name}, got one of {evaluation.detector}: "
            "evaluate the detector that is used."
        )
    if evaluation.fingerprint != fingerprint(detector):
        raise InvalidInput(
            f"Expected an evaluation of this {detector.name}, got one of another model or "
            "list of the same name: evaluate the detector that is used."
        )


def _combined(chosen: Detector | str, labels: LabelMap | None) -> Detector:
    if isinstance(chosen, str):
        return detector(chosen, labels)
    return chosen if isinstance(chosen, Combination) else Combination([chosen])
