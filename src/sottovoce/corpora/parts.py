"""A corpus in parts: a folder of train, valid and test files, or one file and a rule to split."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sottovoce.corpora.formats import format_of, read
from sottovoce.corpora.records import Utterance
from sottovoce.corpora.splits import PARTS, Split
from sottovoce.errors import InvalidInput

ALSO_CALLED = {"valid": ("valid", "dev", "validation"), "train": ("train",), "test": ("test",)}
PARTITION = "partition"
"""The key that says in which part a record belongs, as in MASSIVE."""


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What is learnt from, what is tuned on, and what is measured on; the last two may be empty."""

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
    training data as a whole, unless `split` says how to part it or every record names its
    `partition`; `valid` and `test` add files.

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
    """By the partition that every record names; all are training data if one names none.

    >>> said = [Utterance(tokens=("stop",), slots=("O",), extra={"partition": part})
    ...         for part in ("train", "dev", "train")]
    >>> {part: len(found) for part, found in partitioned(said).items()}
    {'train': 2, 'valid': 1}
    """
    part_of = {name: part for part, names in ALSO_CALLED.items() for name in names}
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
    """By a rule; an empty training part is refused."""
    drawn: dict[str, list[Utterance]] = {part: [] for part in PARTS}
    for utterance in utterances:
        drawn[split.part(utterance)].append(utterance)
    if not drawn["train"]:
        raise InvalidInput(f"Expected enough utterances in {name} to split, found too few.")
    return {part: tuple(found) for part, found in drawn.items()}


def _file_of(folder: Path, part: str) -> Path | None:
    candidates = []
    for file in sorted(folder.iterdir()):
        if file.is_file() and file.name.partition(".")[0] in ALSO_CALLED[part]:
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
