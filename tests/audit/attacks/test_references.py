from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from sottovoce.audit.attacks import ReferenceScores, train_references
from sottovoce.errors import InvalidInput
from sottovoce.privacy.noise import NoiseSource

RECORDS = [f"record {i}" for i in range(20)]
Score = Callable[[Sequence[str]], list[float]]


class Trainer:
    """A model that knows its training data by heart; it stops working after `limit` trainings."""

    def __init__(self, limit: int = 99) -> None:
        self.limit = limit
        self.trained: list[int] = []

    def __call__(self, records: Sequence[str], index: int) -> Score:
        if len(self.trained) == self.limit:
            raise KeyboardInterrupt
        self.trained.append(index)
        known = set(records)
        return lambda asked: [-0.1 if record in known else -3.0 for record in asked]


def test_every_record_is_in_half_of_the_models() -> None:
    told: list[int] = []
    found = train_references(
        RECORDS, Trainer(), models=6, source=NoiseSource.seeded(1), progress=told.append
    )
    assert (found.included.sum(axis=0) == 3).all()
    assert 0 < found.included[0].sum() < len(RECORDS)
    assert (found.scores == np.where(found.included, -0.1, -3.0)).all()
    assert told == [1, 2, 3, 4, 5, 6]


def test_a_killed_attack_resumes(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        train_references(
            RECORDS, Trainer(limit=2), models=5, source=NoiseSource(), folder=tmp_path / "here"
        )
    second = Trainer()
    resumed = train_references(
        RECORDS, second, models=5, source=NoiseSource(), folder=tmp_path / "here"
    )
    assert second.trained == [2, 3, 4]
    # Scores of both trainings fit one plan, although each call had a source of its own.
    assert (resumed.scores == np.where(resumed.included, -0.1, -3.0)).all()
    third = Trainer()
    again = train_references(
        RECORDS, third, models=5, source=NoiseSource(), folder=tmp_path / "here"
    )
    assert third.trained == []
    assert (again.scores == resumed.scores).all()


def test_another_attack_needs_another_folder(tmp_path: Path) -> None:
    train_references(RECORDS, Trainer(), models=2, source=NoiseSource(), folder=tmp_path)
    for records, models in ((RECORDS[:-1], 2), (RECORDS, 3), ([*RECORDS[:-1], "new"], 2)):
        with pytest.raises(InvalidInput, match="belongs to another attack: use a new folder"):
            train_references(
                records, Trainer(), models=models, source=NoiseSource(), folder=tmp_path
            )


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    train_references(RECORDS, Trainer(), models=2, source=NoiseSource(), folder=tmp_path)
    (tmp_path / "reference-001.npz").write_bytes(b"nothing")
    with pytest.raises(InvalidInput, match=r"saved scores in .*reference-001.npz, but it cannot"):
        train_references(RECORDS, Trainer(), models=2, source=NoiseSource(), folder=tmp_path)


def test_bad_input() -> None:
    with pytest.raises(InvalidInput, match="Expected at least 2 reference models, got 1"):
        train_references(RECORDS, Trainer(), models=1, source=NoiseSource())
    with pytest.raises(InvalidInput, match="Expected at least one record"):
        train_references([], Trainer(), models=2, source=NoiseSource())
    with pytest.raises(InvalidInput, match="Expected 20 numbers in the log-probabilities, got 3"):
        train_references(
            RECORDS, lambda records, index: lambda asked: [0, 0, 0], models=2, source=NoiseSource()
        )
    with pytest.raises(InvalidInput, match="Expected included as booleans of shape"):
        ReferenceScores(np.zeros((2, 3)), np.zeros((2, 3), dtype=np.int64))
