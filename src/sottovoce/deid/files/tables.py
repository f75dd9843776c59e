"""Tables in memory: Arrow in and out, and pandas via Arrow.

Only named columns are released: the text, the pseudonymised user, and the columns to keep. Any
other column might hold private data.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sottovoce.corpora import Utterance
from sottovoce.deid.deidentifier import Deidentifier
from sottovoce.deid.detect.detector import utterance_of
from sottovoce.errors import InvalidInput

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


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
