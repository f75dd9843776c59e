"""Tables in memory: Arrow in and out, pandas via Arrow, and the blocks of a Ray dataset.

Only named columns are released: the text, the pseudonymised user, and the columns to keep. Any
other column might hold private data.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sottovoce import _validate
from sottovoce.corpora import Utterance
from sottovoce.deid.deidentifier import Deidentifier, rows_of
from sottovoce.deid.detect.detector import utterance_of
from sottovoce.deid.statement.release_statement import ReleaseStatement
from sottovoce.deid.statement.unit_counts import Rows, random_numbers
from sottovoce.errors import InvalidInput

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from ray.data import Dataset


@dataclass(frozen=True, kw_only=True)
class TextColumns:
    """The columns to release: the text, optionally the user, and others unchanged."""

    text: str = "text"
    user: str | None = None
    keep: tuple[str, ...] = ()

    def check(self, names: Sequence[str]) -> None:
        for name in (self.text, *((self.user,) if self.user else ()), *self.keep):
            if name not in names:
                raise InvalidInput(
                    f"Expected a column {name!r}, got {', '.join(map(repr, names)) or 'none'}."
                )

    def not_covered(self) -> tuple[str, ...]:
        """The released columns that no epsilon covers."""
        names = ", ".join(self.keep)
        return (f"columns released as they are: {names}",) if self.keep else ()


def utterances_of(table: "pa.Table", columns: TextColumns) -> list[Utterance | None]:
    """One utterance per row; None where there is no text."""
    columns.check(table.column_names)
    texts = table.column(columns.text).to_pylist()
    users = table.column(columns.user).to_pylist() if columns.user else [""] * len(texts)
    found: list[Utterance | None] = []
    for text, user in zip(texts, users, strict=True):
        if text is not None and not isinstance(text, str):
            raise InvalidInput(
                f"Expected text in column {columns.text!r}, got {type(text).__name__}."
            )
        name = "" if user is None else str(user)
        found.append(None if text is None else utterance_of(text, name))
    return found


def release_arrow(
    deid: Deidentifier, table: "pa.Table", columns: TextColumns | None = None
) -> "pa.Table":
    """Release the text of a table; rows without text stay empty.

    >>> import pyarrow as pa
    >>> from sottovoce.deid import Setting
    >>> deid = Deidentifier(detector="patterns", setting=Setting(strategy="typed"))
    >>> table = pa.table({"text": ["call 555-0123", None], "secret": [1, 2]})
    >>> release_arrow(deid, table).to_pylist()
    [{'text': 'call [PHONE]'}, {'text': None}]
    """
    import pyarrow as pa

    deid.refuse_plain_text()
    chosen = columns or TextColumns()
    rows = utterances_of(table, chosen)
    for sentence in chosen.not_covered():
        deid.leave_uncovered(sentence)
    released = iter(deid.release_all(row for row in rows if row is not None))
    outputs = [None if row is None else next(released).utterance for row in rows]
    out: dict[str, Any] = {
        chosen.text: pa.array([None if row is None else row.text for row in outputs], pa.string())
    }
    if chosen.user:
        out[chosen.user] = pa.array(
            [None if row is None else row.user for row in outputs], pa.string()
        )
    return pa.table(out | {name: table.column(name) for name in chosen.keep})


def release_frame(
    deid: Deidentifier, frame: "pd.DataFrame", columns: TextColumns | None = None
) -> "pd.DataFrame":
    """Like `release_arrow`, for a pandas frame."""
    import pyarrow as pa

    table = pa.Table.from_pandas(frame, preserve_index=False)
    return release_arrow(deid, table, columns).to_pandas()


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
    """Release a Ray dataset with de-identifiers that `make` builds in each worker.

    `check` receives the statement before anything is released, and may raise to refuse it.

    The dataset is read twice: the first pass counts private values, so that the statement is known
    before anything is released; the second replaces them. Every worker has randomness from its own
    operating system. The result is materialised: a lazy dataset that is evaluated twice would
    release everything twice, and cost twice.
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
