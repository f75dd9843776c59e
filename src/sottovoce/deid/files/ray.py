"""Large corpora: release the blocks of a Ray dataset.

Two passes: the first counts private values, so that the statement is known before anything is
released; the second replaces them. Every worker builds its own de-identifier, with randomness from
its own operating system. The result is materialised: a lazy dataset that is evaluated twice would
release everything twice, and cost twice.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from sottovoce import _validate
from sottovoce.deid.deidentifier import Deidentifier, rows_of
from sottovoce.deid.files.tables import TextColumns, release_arrow, utterances_of
from sottovoce.deid.statement.release_statement import ReleaseStatement
from sottovoce.deid.statement.unit_counts import Rows, random_numbers
from sottovoce.errors import InvalidInput

if TYPE_CHECKING:
    import pyarrow as pa
    from ray.data import Dataset

_TWO_PASSES = "rows that the dataset has in only one of its two passes: both have to read the same"
Make = Callable[[], Deidentifier]


def release_dataset(
    dataset: "Dataset",
    make: Make,
    columns: TextColumns | None = None,
    *,
    workers: int = 2,
    check: Callable[[ReleaseStatement], None] | None = None,
) -> "tuple[Dataset, ReleaseStatement]":
    """Release a dataset with de-identifiers that `make` builds in each worker.

    `check` receives the statement before anything is released, and may raise to refuse it.
    """
    chosen = columns or TextColumns()
    deid = make()
    if chosen.user and deid.fields.user == "pseudonym" and deid.resources.vault is None:
        raise InvalidInput(
            "Expected a vault with a key for user pseudonyms, got none: pass one, or every worker "
            "would use its own key."
        )
    counted = _mapped(dataset, _Counting, make, chosen, workers)
    for rows in _counted(counted):
        deid.count(rows)
    for sentence in (*chosen.not_covered(), _TWO_PASSES):
        deid.leave_uncovered(sentence)
    statement = deid.statement()
    if check is not None:
        check(statement)
    released = _mapped(dataset, _Releasing, make, chosen, workers)
    return released.materialize(), statement


def _mapped(
    dataset: "Dataset", work: type, make: Make, columns: TextColumns, workers: int
) -> "Dataset":
    """Run a pass in actors, each of which loads the detector once."""
    from ray.data import ActorPoolStrategy

    return dataset.map_batches(
        work,
        fn_constructor_args=(make, columns),
        batch_format="pyarrow",
        compute=ActorPoolStrategy(min_size=1, max_size=_validate.at_least_one("workers", workers)),
    )


class _Counting:
    """First pass: count the types of the private values in each row."""

    def __init__(self, make: Make, columns: TextColumns) -> None:
        self._deid, self._columns = make(), columns

    def __call__(self, table: "pa.Table") -> "pa.Table":
        import pyarrow as pa

        rows = [row for row in utterances_of(table, self._columns) if row is not None]
        types = [tuple(own) for own in self._deid.private_types(rows)]
        counted = rows_of(rows, types, call=0)
        return pa.table(
            {
                "user": pa.array(counted.users, pa.string()),
                "types": pa.array(list(map(list, types)), pa.list_(pa.string())),
                "key": pa.array(counted.keys, pa.uint64()),
                "release": pa.array(counted.releases, pa.uint64()),
            }
        )


class _Releasing:
    """Second pass: release the rows."""

    def __init__(self, make: Make, columns: TextColumns) -> None:
        self._deid, self._columns = make(), columns

    def __call__(self, table: "pa.Table") -> "pa.Table":
        return release_arrow(self._deid, table, self._columns)


def _counted(counted: Any) -> Iterator[Rows]:
    """The workers' counts; release 0 stands for the current release."""
    (call,) = random_numbers(1)
    for batch in counted.iter_batches(batch_format="pyarrow"):
        yield Rows(
            types=[tuple(own) for own in batch.column("types").to_pylist()],
            users=batch.column("user").to_pylist(),
            keys=batch.column("key").to_pylist(),
            releases=[release or call for release in batch.column("release").to_pylist()],
        )
