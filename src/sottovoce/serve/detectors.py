"""The detectors of a service: built once, used by one thread at a time.

A caller may name built-in detectors only. A name may also be a file, and reading files by name is
for whoever starts the service.
"""

import threading
from collections.abc import Sequence
from typing import Any

from sottovoce.corpora import Span, Utterance
from sottovoce.deid.detect import Detector, detector

OFFERED = ("tagger", "gazetteer", "patterns")
PATTERN = rf"^({'|'.join(OFFERED)})(\+({'|'.join(OFFERED)})){{0,2}}$"
_RENEWED_AFTER = 250_000  # characters


class SharedDetector:
    """A detector for all threads, which forgets what it read.

    A tagger remembers the words it met, to be quick; callers' words should neither stay in memory
    for long nor fill it. So the detector is made anew after some text.

    >>> from sottovoce.deid.detect.detector import utterance_of
    >>> SharedDetector("patterns").find([utterance_of("at half past three")])
    [[Span(start=3, end=18, type='TIME')]]
    """

    def __init__(self, name: str) -> None:
        self._asked = name
        self._lock = threading.Lock()
        self._detector: Detector = detector(name)
        self._read = 0

    @property
    def name(self) -> str:
        return self._detector.name

    def find(self, batch: Sequence[Utterance]) -> list[list[Span]]:
        with self._lock:
            if self._read > _RENEWED_AFTER:
                self._detector = detector(self._asked)
                self._read = 0
            self._read += sum(len(utterance.text) for utterance in batch)
            return self._detector.find(batch)

    def to_json(self) -> dict[str, Any]:
        return self._detector.to_json()


class Detectors:
    """The default of the service, and those that callers may ask for, made when first asked."""

    def __init__(self, default: str) -> None:
        self._default = SharedDetector(default)
        self._made: dict[str, SharedDetector] = {default: self._default}
        self._lock = threading.Lock()

    @property
    def default(self) -> SharedDetector:
        return self._default

    def named(self, name: str | None) -> SharedDetector:
        """The detector of a name that fits `PATTERN`; the order of its parts does not matter."""
        if name is None:
            return self._default
        parts = set(name.split("+"))
        ordered = "+".join(part for part in OFFERED if part in parts)
        with self._lock:
            if ordered not in self._made:
                self._made[ordered] = SharedDetector(ordered)
            return self._made[ordered]
