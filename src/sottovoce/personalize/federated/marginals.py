"""Released federated marginals: q_bar over its words, with the ledger of the release."""

import hashlib
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np

from sottovoce import _validate
from sottovoce.errors import InvalidInput, SottovoceError
from sottovoce.io.atomic import text_output
from sottovoce.personalize.lm.vocabulary import Vector, Vocabulary, distribution
from sottovoce.privacy.guarantee import Guarantee, Relation, Unit, Verdict
from sottovoce.privacy.ledger import Ledger


@dataclass(frozen=True, eq=False)
class Marginals:
    """The released shared distribution; `mass` is the total count, including noise.

    >>> released = Marginals(("call", "mum", "<unk>"), np.array([0.5, 0.3, 0.2]))
    >>> words = Vocabulary(("mum", "dad", "<unk>"), [0.25, 0.25, 0.5])
    >>> released.over(words).round(3).tolist()
    [0.3, 0.25, 0.45]
    """

    words: tuple[str, ...]
    q_bar: Vector
    about: dict[str, Any] = field(default_factory=dict)
    mass: float | None = None

    def __post_init__(self) -> None:
        distribution(self.q_bar, len(self.words))

    def over(self, vocabulary: Vocabulary) -> Vector:
        """The same distribution over another vocabulary.

        Words missing from the marginals keep their background probability; the remainder goes to
        the unknown word.
        """
        if vocabulary.words == self.words:
            return self.q_bar
        known = dict(zip(self.words, self.q_bar.tolist(), strict=True))
        unknown = vocabulary.index["<unk>"]
        values = np.array(
            [known.get(w, u) for w, u in zip(vocabulary.words, vocabulary.unigram, strict=True)]
        )
        values[unknown] = 0.0
        rest = 1.0 - values.sum()
        if rest > 0:
            values[unknown] = rest
        spread: Vector = values / values.sum()
        return spread

    @property
    def digest(self) -> str:
        """A short hash of the released numbers, to check whether two files hold the same ones."""
        text = json.dumps([self.words, self.q_bar.tolist()]).encode()
        return hashlib.sha256(text).hexdigest()[:16]

    def guarantee(self) -> Guarantee:
        """The guarantee of these marginals, derived again from their ledger.

        >>> released = Marginals(("call", "<unk>"), np.array([0.5, 0.5]))
        >>> released.guarantee().reasons
        ('the marginals come without the ledger of their release',)
        """
        return guarantee_of(self)

    def save(self, path: Path | str) -> None:
        with text_output(path) as stream:
            data = {
                "words": self.words,
                "q_bar": self.q_bar.tolist(),
                # Binds the ledger to these numbers.
                "about": {**self.about, "of": self.digest},
                "mass": self.mass,
            }
            json.dump(data, stream, ensure_ascii=False)

    def to_bytes(self) -> bytes:
        """The numbers alone, for devices."""
        return json.dumps(
            {"words": self.words, "q_bar": self.q_bar.tolist(), "about": {}, "mass": self.mass}
        ).encode()

    @classmethod
    def load(cls, path: Path | str) -> Self:
        return cls.from_bytes(Path(path).read_bytes(), str(path))

    @classmethod
    def from_bytes(cls, content: bytes, origin: str = "a message") -> Self:
        try:
            data = json.loads(content)
            if not isinstance(data["about"], dict):
                raise TypeError("about is not an object")
            return cls(
                tuple(map(str, data["words"])),
                np.array(data["q_bar"]),
                # A ledger that is not bound to these numbers does not count.
                {"of": "", **data["about"]} if "ledger" in data["about"] else data["about"],
                None if data.get("mass") is None else float(data["mass"]),
            )
        except (KeyError, TypeError, ValueError) as problem:
            raise InvalidInput(f"Expected marginals in {origin}, but {problem!r}.") from problem


def ledger_of(*released: Marginals) -> Ledger:
    """The merged ledger of several releases."""
    ledgers = [Ledger.from_json(each.about["ledger"]) for each in released]
    if not ledgers:
        raise InvalidInput("Expected at least one release, got none.")
    merged = ledgers[0]
    for each in ledgers[1:]:
        merged = merged.union(each)
    return merged


def guarantee_of(*released: Marginals) -> Guarantee:
    """The joint guarantee of several releases; shared ledger entries are charged once."""
    try:
        for each in released:
            if "ledger" not in each.about:
                return _none("the marginals come without the ledger of their release")
            if each.about.get("of") not in (None, each.digest):
                return _none("the marginals are not those that their ledger paid for")
            if not Ledger.from_json(each.about["ledger"]).entries:
                return _none("the ledger of the marginals contains no release")
        deltas = [_validate.delta(each.about.get("delta", 0.0)) for each in released]
        return ledger_of(*released).guarantee(max(deltas, default=0.0))
    except SottovoceError as problem:
        return _none(f"the ledger of the marginals cannot be trusted ({problem})")


def _none(reason: str) -> Guarantee:
    return Guarantee(
        epsilon=math.inf,
        delta=0.0,
        unit=Unit.USER,
        relation=Relation.ADD_OR_REMOVE,
        accountant="none",
        verdict=Verdict.NO_GUARANTEE,
        reasons=(reason,),
    )
