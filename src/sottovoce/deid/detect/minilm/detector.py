"""The detector `accurate`: a small Transformer that labels words, with the caution of a tagger."""

from collections.abc import Sequence
from copy import copy
from functools import cache, cached_property
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sottovoce import _validate
from sottovoce.corpora import Span, Utterance
from sottovoce.deid.detect.crf.general import without_small, without_title
from sottovoce.deid.detect.crf.tagger import runs, trimmed, without_ending
from sottovoce.deid.detect.detector import Detector
from sottovoce.deid.detect.findings import Finding, explained
from sottovoce.deid.detect.labels import LabelMap
from sottovoce.deid.detect.minilm.adapter import merged, read_adapter
from sottovoce.deid.detect.minilm.network import (
    Network,
    Rounded,
    Shape,
    base_weights,
    minilm_folder,
    multiplies_bytes,
)
from sottovoce.deid.detect.minilm.pieces import Pieces, Read, Window, batches, windows
from sottovoce.deid.detect.patterns import Patterns
from sottovoce.deid.detect.thresholds import Thresholds, checked, decided

_PIECES = 2_048
"""Read at once: more of them leave the cache of the processor."""
_SHIPPED = "accurate.safetensors"


class Minilm:
    """MiniLM with an adapter, ready to find spans.

    `caution` is that of `Tagger`: a word is public only if its probability of being so is at least
    that. `rounded` says whether matrices are kept in 8 bits; by default where that is faster.
    """

    def __init__(
        self,
        path: str | Path,
        name: str = "accurate",
        *,
        caution: float | None = None,
        thresholds: Thresholds | None = None,
        rounded: bool | None = None,
    ) -> None:
        self._path, self._name = Path(path), name
        tensors, self.about, self._hash = read_adapter(self._path)
        self._folder = minilm_folder()
        chosen = self.own_caution if caution is None else caution
        self.caution = _validate.probability("caution", chosen)
        self.thresholds = checked(thresholds or {}, self.about["types"])
        self._rounded = multiplies_bytes() if rounded is None else rounded
        shape = Shape.of(self._folder)
        weights = merged(base_weights(self._folder), tensors, shape)
        self._network: Network = (
            Rounded(weights, shape, shape.matrices()) if self._rounded else Network(weights, shape)
        )

    @classmethod
    def shipped(cls) -> "Minilm":
        """The one inside this package."""
        with resources.as_file(resources.files(__package__).joinpath(_SHIPPED)) as path:
            return cls(path)

    @property
    def name(self) -> str:
        """Another caution belongs to it: an evaluation with its own one says nothing of that."""
        own = self.caution == self.own_caution
        name = self._name if own else f"{self._name} at caution {self.caution:g}"
        return name + "".join(f" {kind}={least:g}" for kind, least in self.thresholds.items())

    @property
    def own_caution(self) -> float:
        """The caution that it came with."""
        return float(self.about["caution"])

    def with_caution(self, caution: float) -> "Minilm":
        """The same network with another caution."""
        other = copy(self)
        other.caution = _validate.probability("caution", caution)
        return other

    def with_thresholds(self, thresholds: Thresholds) -> "Minilm":
        """The same network with a threshold for some types (see `thresholds.decided`)."""
        other = copy(self)
        other.thresholds = checked(thresholds, self.types)
        return other

    @property
    def types(self) -> tuple[str, ...]:
        return tuple(self.about["types"])

    def find(self, batch: Sequence[Utterance]) -> list[list[Span]]:
        texts = [utterance.text for utterance in batch]
        reads = self._pieces.read(texts)
        shares = self._shares(reads)
        return [
            self._spans(text, read, share)
            for text, read, share in zip(texts, reads, shares, strict=True)
        ]

    def explain(self, text: str) -> list[Finding]:
        """Every span with the probability of its least probable word being private."""
        (read,) = self._pieces.read([text])
        (shares,) = self._shares([read])
        rows = [(*place, share) for place, share in zip(read.words, shares, strict=True)]
        spans = self._spans(text, read, shares)
        return [explained(self.name, span, rows, self.about["labels"]) for span in spans]

    @cached_property
    def _pieces(self) -> Pieces:
        return Pieces(self._folder)

    def _shares(self, reads: Sequence[Read]) -> list[NDArray[np.float32]]:
        """The probabilities of labels for every word; a word without pieces is public."""
        labels = len(self.about["labels"])
        found = []
        for read in reads:
            empty = np.zeros((len(read.words), labels), dtype=np.float32)
            empty[:, 0] = 1.0
            found.append(empty)
        places = [dict(zip(read.firsts, range(len(read.firsts)), strict=True)) for read in reads]
        for group in batches(list(windows(reads)), _PIECES):
            told = self._labelled(group, reads)
            for window, rows in zip(group, told, strict=True):
                first, last = window.core
                for piece in range(first, last):
                    word = places[window.text].get(piece)
                    if word is not None:
                        found[window.text][word] = rows[piece - window.start]
        return found

    def _labelled(self, group: Sequence[Window], reads: Sequence[Read]) -> NDArray[np.float32]:
        longest = max(window.end - window.start for window in group) + 2
        ids = np.zeros((len(group), longest), dtype=np.int64)
        cases = np.zeros_like(ids)
        mask = np.zeros((len(group), longest), dtype=bool)
        for number, window in enumerate(group):
            read, size = reads[window.text], window.end - window.start
            ids[number, 0], ids[number, size + 1] = self._pieces.start, self._pieces.end
            ids[number, 1 : size + 1] = read.ids[window.start : window.end]
            cases[number, 1 : size + 1] = read.cases[window.start : window.end]
            mask[number, : size + 2] = True
        seen = None if mask.all() else torch.from_numpy(mask)
        with torch.inference_mode():
            logits = self._network.logits(torch.from_numpy(ids), torch.from_numpy(cases), seen)
            shares: NDArray[np.float32] = logits.softmax(-1)[:, 1:].numpy()
        return shares

    def _spans(self, text: str, read: Read, shares: NDArray[np.float32]) -> list[Span]:
        if not len(shares):
            return []
        names = self.about["labels"]
        labels = decided(shares.argmax(1), shares, names, self.caution, self.thresholds)
        if not labels.any():
            return []
        kinds = np.where(labels > 0, (labels - 1) // 2, -1)
        begins = labels % 2 == 1
        firsts, lasts = runs(kinds, begins, np.array([0]))
        spans = [
            Span(read.words[first][0], read.words[last][1], names[labels[first]][2:])
            for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True)
        ]
        whole = (without_ending(text, span) for span in trimmed(text, spans))
        named = (each for span in whole if (each := without_title(text, span)))
        return [kept for span in named if (kept := without_small(text, span))]

    def to_json(self) -> dict[str, Any]:
        return {
            "detector": self.name,
            "types": list(self.types),
            "caution": self.caution,
            **({"thresholds": self.thresholds} if self.thresholds else {}),
            "rounded": self._rounded,
            "sha256": self._hash,
        }


@cache
def _shipped() -> Minilm:
    return Minilm.shipped()


def accurate(_labels: LabelMap | None) -> tuple[Detector, ...]:
    """The detector `accurate`: the shipped network and the patterns."""
    return _shipped(), Patterns()
