"""The encoder interface: words in, one vector per word and one per utterance out.

Callers pass words. However an encoder splits them internally, it returns one vector per word, so
labels and vectors always align.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from torch import Tensor, nn

from sottovoce.errors import InvalidInput
from sottovoce.nlu.encoders import ENCODERS

if TYPE_CHECKING:
    from sottovoce.nlu.fit.settings import Settings

Prepared = dict[str, Tensor]
"""One utterance as encoder input, without padding."""


@dataclass(frozen=True, eq=False)
class Encoded:
    """Vectors of a batch. `mask` is true for words, which precede the padding."""

    words: Tensor
    """[examples, words, width]"""
    utterance: Tensor
    """[examples, summary width]"""
    mask: Tensor
    """[examples, words]"""

    def to(self, device: torch.device | str) -> "Encoded":
        return Encoded(self.words.to(device), self.utterance.to(device), self.mask.to(device))


class Encoder(nn.Module, ABC):
    """Turns words into vectors. `kind` is its name in `ENCODERS`, under which it is saved."""

    kind: ClassVar[str]
    width: int
    summary_width: int

    @property
    def uncovered(self) -> tuple[str, ...]:
        """Statements for the guarantee about what was taken from private text."""
        return ()

    @property
    def frozen(self) -> bool:
        """Whether no parameter is trained, so that vectors can be cached."""
        return not any(parameter.requires_grad for parameter in self.parameters())

    @abstractmethod
    def prepare(self, tokens: Sequence[str]) -> Prepared:
        """The input of `collate` for one utterance."""

    @abstractmethod
    def collate(self, prepared: Sequence[Prepared]) -> dict[str, Tensor]:
        """A batch with minimal padding."""

    @abstractmethod
    def forward(self, inputs: dict[str, Tensor]) -> Encoded: ...

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """The architecture, without weights."""

    def files(self) -> dict[str, bytes]:
        """Files besides the weights, by name: a vocabulary, a tokeniser."""
        return {}

    @classmethod
    def from_settings(cls, settings: "Settings") -> Self:
        """An encoder to train. It is built from settings only, so it holds no private data."""
        raise InvalidInput(
            f"Expected an encoder that implements from_settings, got {cls.__name__}."
        )

    @classmethod
    @abstractmethod
    def from_json(cls, data: Mapping[str, Any], files: Mapping[str, bytes]) -> Self:
        """The same architecture, without weights."""


def encoder_from_json(data: Mapping[str, Any], files: Mapping[str, bytes]) -> Encoder:
    """Build the encoder described by `data`."""
    kind = data.get("kind")
    # A model folder must not decide which installed package is imported.
    known = ENCODERS.names(installed=False)
    if kind not in known:
        raise InvalidInput(
            f"Expected an encoder of kind {', '.join(known)}, got {kind!r}: for a custom encoder, "
            "import the module that registers it first (--plugin MODULE)."
        )
    return ENCODERS.get(kind).from_json(data, files)


def padded(rows: Sequence[Tensor], fill: int = 0) -> Tensor:
    """[rows, longest] one-dimensional tensors, stacked with padding.

    >>> padded([torch.tensor([1, 2]), torch.tensor([3])]).tolist()
    [[1, 2], [3, 0]]
    """
    return nn.utils.rnn.pad_sequence(list(rows), batch_first=True, padding_value=fill)


def prefix_mask(lengths: Tensor, longest: int | None = None) -> Tensor:
    """[rows, longest] true for the first `lengths` positions of each row.

    >>> prefix_mask(torch.tensor([2, 1])).tolist()
    [[True, True], [True, False]]
    """
    size = int(lengths.max()) if longest is None else longest
    return torch.arange(size, device=lengths.device) < lengths[:, None]


def check_words(tokens: Sequence[str]) -> None:
    if not tokens:
        raise InvalidInput("Expected an utterance with at least one token, got none.")
