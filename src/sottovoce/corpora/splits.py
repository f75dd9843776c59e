"""Training, validation and test parts, by default 45:5:50 as in the paper, in one pass.

The part of a record is determined by a keyed hash of its id, user or words. So the same salt gives
the same split on every machine, adding a record does not move others, and records of the same user
(or with the same words) are in the same part. The sizes hold in expectation; with few users or many
duplicates they deviate.
"""

import hashlib
import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Literal

from sottovoce import _validate
from sottovoce.corpora.formats import format_of, read
from sottovoce.corpora.objects import to_object
from sottovoce.corpora.records import Utterance
from sottovoce.errors import InvalidInput

PARTS = ("train", "valid", "test")
RATIOS = (45, 5, 50)
SALT = "sottovoce"

By = Literal["id", "user", "text"]
_RANGE = 1 << 64


@dataclass(frozen=True, kw_only=True)
class Split:
    """A rule that assigns records to parts.

    `by="id"` hashes the id, or the whole record if it has none; `by="user"` keeps each user in one
    part and refuses records without a user; `by="text"` keeps equal token sequences in one part.

    >>> calls = [Utterance(tokens=("call",), slots=("O",), id=str(i)) for i in range(1000)]
    >>> parts = [Split().part(call) for call in calls]
    >>> {part: parts.count(part) for part in PARTS}
    {'train': 446, 'valid': 54, 'test': 500}
    """

    ratios: tuple[float, float, float] = RATIOS
    by: By = "id"
    salt: str = SALT

    def __post_init__(self) -> None:
        _validate.one_of("by", self.by, ("id", "user", "text"))
        if len(self.ratios) != len(PARTS):
            raise InvalidInput(f"Expected three ratios, train:valid:test, got {self.ratios}.")
        for part, ratio in zip(PARTS, self.ratios, strict=True):
            _validate.positive(f"the ratio of {part}", ratio)

    def part(self, utterance: Utterance) -> str:
        """The part of a record; it does not depend on other records."""
        digest = hashlib.blake2b(self._identity(utterance), digest_size=8, key=self._key).digest()
        return PARTS[bisect_right(self._bounds, int.from_bytes(digest, "big"))]

    @cached_property
    def _bounds(self) -> tuple[int, ...]:
        """The upper limit of each part, in the range of the 64-bit hash."""
        exact = [Fraction(ratio) for ratio in self.ratios]
        return tuple(int(_RANGE * sum(exact[:n]) / sum(exact)) for n in (1, 2, 3))

    @cached_property
    def _key(self) -> bytes:
        return hashlib.blake2b(self.salt.encode("utf-8", "surrogatepass")).digest()

    def _identity(self, utterance: Utterance) -> bytes:
        identity: object
        if self.by == "text":
            identity = list(utterance.tokens)
        elif self.by == "user":
            if not utterance.user:
                raise InvalidInput(
                    "Expected a user in every record to split by user, got a record without one: "
                    "add users, or split by id or text."
                )
            identity = utterance.user
        else:
            identity = utterance.id or to_object(utterance)
        return json.dumps(identity, sort_keys=True).encode()


def split(
    utterances: Iterable[Utterance],
    ratios: tuple[float, float, float] = RATIOS,
    by: By = "id",
    salt: str = SALT,
) -> Iterator[tuple[str, Utterance]]:
    """Pairs of part and utterance, one at a time.

    >>> calls = [Utterance(tokens=("call", who), slots=("O", "O"), user=who) for who in "abcab"]
    >>> [part for part, _ in split(calls, by="user")]
    ['train', 'train', 'test', 'train', 'train']
    """
    rule = Split(ratios=ratios, by=by, salt=salt)
    return ((rule.part(utterance), utterance) for utterance in utterances)


def parse_ratios(text: str) -> tuple[float, float, float]:
    """Parse "train:valid:test".

    >>> parse_ratios("45:5:50")
    (45.0, 5.0, 50.0)
    >>> parse_ratios("80:20")
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: Expected ratios train:valid:test such as 45:5:50, got '80:20'.
    """
    try:
        train, valid, test = map(float, text.split(":"))
    except ValueError:
        raise InvalidInput(
            f"Expected ratios train:valid:test such as 45:5:50, got {text!r}."
        ) from None
    return train, valid, test


PART_ALIASES = {"valid": ("valid", "dev", "validation"), "train": ("train",), "test": ("test",)}
PARTITION = "partition"
"""The key that names the part of a record, as in MASSIVE."""


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Training, validation and test data; the last two may be empty."""

    name: str
    train: tuple[Utterance, ...]
    valid: tuple[Utterance, ...] = ()
    test: tuple[Utterance, ...] = ()

    def sizes(self) -> dict[str, int]:
        return {part: len(getattr(self, part)) for part in PARTS}


def load_parts(
    path: Path | str,
    *,
    split: Split | None = None,
    valid: Path | str | None = None,
    test: Path | str | None = None,
) -> Parts:
    """Read the parts of a corpus.

    A folder holds train.jsonl (or .conll, .csv, ...; also .gz), valid or dev, and test. A file is
    training data, unless `split` is given or every record has a `partition`; `valid` and `test`
    name additional files.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "train.txt").write_text("call mum\\nhang up\\n")
    ...     _ = Path(folder, "dev.txt").write_text("call dad\\n")
    ...     load_parts(folder).sizes()
    {'train': 2, 'valid': 1, 'test': 0}
    """
    path = Path(path)
    if path.is_dir():
        if split is not None:
            raise InvalidInput(f"Expected one file to split, got the folder {path}.")
        files = {part: _file_of(path, part) for part in PARTS}
        if files["train"] is None:
            raise InvalidInput(f"Expected a file such as train.jsonl in {path}, found none.")
        found = {part: tuple(read(file)) for part, file in files.items() if file is not None}
    elif split is None:
        found = partitioned(tuple(read(path)))
    else:
        found = split_up(read(path), split, str(path))
    for part, given in (("valid", valid), ("test", test)):
        if given is not None:
            found[part] = tuple(read(given))
    return Parts(name=path.name.partition(".")[0] or path.resolve().name, **found)


def partitioned(utterances: Sequence[Utterance]) -> dict[str, tuple[Utterance, ...]]:
    """The parts by `partition`; all records are training data if one of them has none.

    >>> found = [Utterance(tokens=("stop",), slots=("O",), extra={"partition": part})
    ...          for part in ("train", "dev", "train")]
    >>> {part: len(records) for part, records in partitioned(found).items()}
    {'train': 2, 'valid': 1}
    """
    part_of = {name: part for part, names in PART_ALIASES.items() for name in names}
    named = [part_of.get(str(u.extra.get(PARTITION))) for u in utterances]
    if None in named or "train" not in named:
        return {"train": tuple(utterances)}
    return {
        part: tuple(u for u, name in zip(utterances, named, strict=True) if name == part)
        for part in PARTS
        if part in named
    }


def split_up(
    utterances: Iterable[Utterance], split: Split, name: str
) -> dict[str, tuple[Utterance, ...]]:
    """The parts by a rule; an empty training part is refused."""
    drawn: dict[str, list[Utterance]] = {part: [] for part in PARTS}
    for number, utterance in enumerate(utterances, 1):
        try:
            part = split.part(utterance)
        except InvalidInput as problem:
            raise InvalidInput(f"{name}, utterance {number}: {problem}") from problem
        drawn[part].append(utterance)
    if not drawn["train"]:
        raise InvalidInput(f"Expected enough utterances in {name} to split, found too few.")
    return {part: tuple(found) for part, found in drawn.items()}


def _file_of(folder: Path, part: str) -> Path | None:
    candidates = []
    for file in sorted(folder.iterdir()):
        if file.is_file() and file.name.partition(".")[0] in PART_ALIASES[part]:
            try:
                format_of(file)
            except InvalidInput:
                continue
            candidates.append(file)
    if len(candidates) > 1:
        raise InvalidInput(
            f"Expected one file for {part} in {folder}, got {candidates[0].name} and "
            f"{candidates[1].name}."
        )
    return candidates[0] if candidates else None
