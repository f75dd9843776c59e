"""Reference models: the audited training, repeated on random halves of the records.

Each model is trained, scored and discarded before the next, so the attack needs the memory of one
training. With a folder, the plan and the scores of each finished model are saved atomically; an
interrupted attack resumes with the missing models.
"""

import hashlib
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from sottovoce.audit import _checks
from sottovoce.audit._checks import Flags, Scores
from sottovoce.audit.scoring import TrainReference, log_probabilities
from sottovoce.errors import InvalidInput
from sottovoce.io.atomic import output
from sottovoce.privacy.noise import NoiseSource

Record = TypeVar("Record")
Arrays = dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]]


@dataclass(frozen=True, eq=False)
class ReferenceScores:
    """Log-probabilities by reference model (row) and record (column), and training membership."""

    scores: Scores
    included: Flags

    def __post_init__(self) -> None:
        _checks.table("the reference scores", self.scores)
        _checks.flags("included", self.included, self.scores.shape)


def train_references(
    records: Sequence[Record],
    train: TrainReference[Record],
    *,
    models: int,
    source: NoiseSource,
    folder: Path | str | None = None,
    identity: Callable[[Record], str] = repr,
    progress: Callable[[int], None] | None = None,
) -> ReferenceScores:
    """Train `models` references, each on half of the records, with each record in half of them.

    `identity` identifies records when an attack is resumed; `progress` receives the number of
    finished models. A resumed attack uses the halves of its saved plan, not those of `source`.

    >>> def train(records, index):
    ...     return lambda asked: [-0.1 if record in records else -2.0 for record in asked]
    >>> references = train_references("abcdef", train, models=4, source=NoiseSource.seeded(1))
    >>> references.included.sum(axis=0).tolist()
    [2, 2, 2, 2, 2, 2]
    """
    if models < 2:
        raise InvalidInput(f"Expected at least 2 reference models, got {models}.")
    if not records:
        raise InvalidInput("Expected at least one record to train reference models on, got none.")
    place = None if folder is None else Path(folder)
    included = _plan(place, records, models, source, identity)
    rows = []
    for index, chosen in enumerate(included):
        file = None if place is None else place / f"reference-{index:03d}.npz"
        if file is not None and file.exists():
            row = log_probabilities(_load(file)["scores"], len(records))
        else:
            score = train([records[i] for i in np.flatnonzero(chosen).tolist()], index)
            row = log_probabilities(score(records), len(records))
            if file is not None:
                _save(file, {"scores": row})
        rows.append(row)
        if progress is not None:
            progress(index + 1)
    return ReferenceScores(np.stack(rows), included)


def _plan(
    place: Path | None,
    records: Sequence[Record],
    models: int,
    source: NoiseSource,
    identity: Callable[[Record], str],
) -> Flags:
    """Draw the halves, or load those of the interrupted attack."""
    if place is not None:
        place.mkdir(parents=True, exist_ok=True)
    file = None if place is None else place / "plan.npz"
    digest = hashlib.blake2b(digest_size=16)
    for record in records:
        digest.update(identity(record).encode() + b"\0")
    if file is not None and file.exists():
        saved = _load(file)
        if str(saved["records"]) != digest.hexdigest() or len(saved["included"]) != models:
            raise InvalidInput(
                f"Expected {file} to plan {models} reference models of these records, but it "
                "belongs to another attack: use a new folder."
            )
        return _checks.flags("the saved plan", saved["included"], (models, len(records)))
    # Each column is a random permutation of the models; the first half includes the record.
    order = source.words(models * len(records)).reshape(models, -1).argsort(axis=0).argsort(axis=0)
    included: Flags = order < models // 2
    if file is not None:
        _save(file, {"records": np.array(digest.hexdigest()), "included": included})
    return included


def _save(file: Path, arrays: Arrays) -> None:
    with output(file, mode=0o600) as stream:
        np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]


def _load(file: Path) -> Arrays:
    try:
        with np.load(file, allow_pickle=False) as saved:
            return dict(saved)
    except (OSError, ValueError, KeyError, zipfile.BadZipFile, EOFError) as problem:
        raise InvalidInput(
            f"Expected saved scores in {file}, but it cannot be read: delete it to train that "
            "model again."
        ) from problem
