"""Before and after, for people to look at: the first utterances of a release that were changed.

What stands before is private text. Whoever asks for examples gets a manifest that must be guarded
like the original.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from sottovoce.corpora import Utterance
from sottovoce.deid.files.alignment import Offsets

WARNING = "The folder private/ holds examples of the original text: guard it like the original."


class Examples:
    """Collects up to `most` pairs while a release goes by.

    >>> from sottovoce.deid import Deidentifier, Setting
    >>> from sottovoce.deid.detect.detector import utterance_of
    >>> deid = Deidentifier(detector="patterns", setting=Setting(strategy="typed"))
    >>> shown = Examples(1)
    >>> for released in deid.release_all(shown.seen([utterance_of("wake me at noon")])):
    ...     shown.add(released.text, released.offsets)
    >>> shown.found[0]["after"], shown.found[0]["spans_before"]
    ('wake me at [TIME]', [[11, 15, 'TIME']])
    """

    def __init__(self, most: int = 0) -> None:
        self.most = most
        self.found: list[dict[str, Any]] = []
        self._waiting: deque[str] = deque()

    @property
    def is_full(self) -> bool:
        return len(self.found) >= self.most

    def seen(self, utterances: Iterable[Utterance]) -> Iterator[Utterance]:
        """The same utterances; their texts wait for what becomes of them."""
        for utterance in utterances:
            if not self.is_full:
                self._waiting.append(utterance.text)
            yield utterance

    def add(self, after: str, offsets: Offsets) -> None:
        """The release of the utterance that has waited longest."""
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
