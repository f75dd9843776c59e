"""Before-and-after examples: the first changed utterances of a release.

The "before" side is private text, so a manifest with examples must be protected like the original.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from sottovoce.corpora import Utterance
from sottovoce.deid.files.alignment import Offsets

WARNING = "The folder private/ holds examples of the original text: guard it like the original."


class Examples:
    """Collects up to `limit` pairs during a release.

    >>> from sottovoce.deid import Deidentifier, Setting
    >>> from sottovoce.deid.detect.detector import utterance_of
    >>> deid = Deidentifier(detector="patterns", setting=Setting(strategy="typed"))
    >>> shown = Examples(1)
    >>> for released in deid.release_all(shown.watch([utterance_of("wake me at noon")])):
    ...     shown.add(released.text, released.offsets)
    >>> shown.found[0]["after"], shown.found[0]["spans_before"]
    ('wake me at [TIME]', [[11, 15, 'TIME']])
    """

    def __init__(self, limit: int = 0) -> None:
        self.limit = limit
        self.found: list[dict[str, Any]] = []
        self._waiting: deque[str] = deque()

    @property
    def is_full(self) -> bool:
        return len(self.found) >= self.limit

    def watch(self, utterances: Iterable[Utterance]) -> Iterator[Utterance]:
        """Pass utterances through, and queue their texts until their release is added."""
        for utterance in utterances:
            if not self.is_full:
                self._waiting.append(utterance.text)
            yield utterance

    def add(self, after: str, offsets: Offsets) -> None:
        """Add the release of the oldest queued utterance."""
        if not self._waiting:
            return
        before = self._waiting.popleft()
        if self.is_full:
            self._waiting.clear()
        elif offsets.replacements:
            pieces = offsets.replacements
            self.found.append(
                {
                    "before": before,
                    "after": after,
                    "spans_before": [[each.start, each.end, each.type] for each in pieces],
                    "spans_after": [[each.new_start, each.new_end, each.type] for each in pieces],
                }
            )
