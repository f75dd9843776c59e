"""Utterances from files, lists, pandas, polars, Arrow and Hugging Face datasets.

None of these packages is imported: tables and datasets are recognised by their methods. Rows are
validated like the rows of a file (see `tables` and `objects`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, cast

from sottovoce import _validate
from sottovoce.corpora.formats import read
from sottovoce.corpora.lines import Problems
from sottovoce.corpora.objects import accept
from sottovoce.corpora.published import is_massive
from sottovoce.corpora.records import Utterance
from sottovoce.corpora.splits import (
    PART_ALIASES,
    PARTS,
    Parts,
    Split,
    load_parts,
    partitioned,
    split_up,
)
from sottovoce.corpora.tables import FIELDS, Columns
from sottovoce.errors import InvalidInput

NAME = "data"
"""Name of in-memory data in messages and runs."""

_ALIASES = {
    "text": ("utterance", "sentence", "query"),
    "tokens": ("words",),
    "intent": ("label",),
    "slots": ("tags", "ner_tags", "slot_labels"),
}
"""Common column names; used if there is no column with the name of the field."""

OnError = Literal["strict", "lenient"]


def read_utterances(
    data: Any,
    *,
    columns: Columns | Mapping[str, str] | None = None,
    on_error: OnError = "strict",
) -> tuple[Utterance, ...]:
    """All utterances of a file, a list of utterances or dicts, a table, or a dataset.

    >>> read_utterances([{"text": "call mum", "intent": "call"}])[0].tokens
    ('call', 'mum')
    >>> read_utterances([{"said": "hang up"}], columns={"text": "said"})[0].text
    'hang up'
    >>> read_utterances([{"said": "hang up"}])
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: data, row 1: Expected tokens, text or reference, got the keys
    said. Fix it, or read leniently to skip it.
    """
    _validate.one_of("on_error", on_error, ("strict", "lenient"))
    named = _columns(columns)
    if isinstance(data, str | Path):
        return tuple(read(data, on_error=on_error, columns=named))
    problems = Problems(NAME, strict=on_error == "strict", unit="row")
    found = tuple(_utterances(data, named, problems))
    if not found:
        raise InvalidInput(f"Expected utterances in {NAME}, found none.")
    return found


def read_parts(
    data: Any,
    *,
    split: Split | None = None,
    valid: Any = None,
    test: Any = None,
    columns: Columns | Mapping[str, str] | None = None,
) -> Parts:
    """The parts of a folder, of a mapping with train (a DatasetDict), or of data to split.

    >>> calls = [{"text": "call mum"}, {"text": "call dad"}]
    >>> read_parts({"train": calls, "validation": calls[:1]}).sizes()
    {'train': 2, 'valid': 1, 'test': 0}
    """
    if isinstance(data, Parts):
        parts = data
    elif isinstance(data, str | Path):
        if columns is None or Path(data).is_dir():
            parts = load_parts(data, split=split)
        else:
            parts = _in_parts(read_utterances(data, columns=columns), split, Path(data).stem)
    elif isinstance(data, Mapping):
        if split is not None:
            raise InvalidInput("Expected a single dataset to split, got a mapping of parts.")
        parts = _of_mapping(data, columns)
    else:
        parts = _in_parts(read_utterances(data, columns=columns), split, NAME)
    given = {
        part: read_utterances(other, columns=columns)
        for part, other in (("valid", valid), ("test", test))
        if other is not None
    }
    return replace(parts, **cast(Any, given))


def _in_parts(utterances: Sequence[Utterance], split: Split | None, name: str) -> Parts:
    found = partitioned(utterances) if split is None else split_up(utterances, split, name)
    return Parts(name=name, **found)


def _of_mapping(data: Mapping[str, Any], columns: Columns | Mapping[str, str] | None) -> Parts:
    found = {}
    for part in PARTS:
        names = [name for name in PART_ALIASES[part] if data.get(name) is not None]
        if len(names) > 1:
            raise InvalidInput(f"Expected one part for {part}, got {names[0]} and {names[1]}.")
        if names:
            found[part] = read_utterances(data[names[0]], columns=columns)
    if "train" not in found:
        raise InvalidInput(
            f"Expected a part named train, got {', '.join(map(str, data)) or 'none'}."
        )
    return Parts(name=NAME, **found)


def _columns(given: Columns | Mapping[str, str] | None) -> Columns | None:
    if given is None or isinstance(given, Columns):
        return given
    for name in given:
        _validate.one_of("every key of columns", name, FIELDS)
    return Columns(**given)


def _utterances(data: Any, columns: Columns | None, problems: Problems) -> Iterator[Utterance]:
    names = _column_names(data)
    rows = _rows(data)
    if names is not None and not is_massive(names):
        columns = columns or _usual(names)
        columns.check(names)
    for number, row in enumerate(rows, 1):
        if isinstance(row, Utterance):
            yield row
            continue
        if not isinstance(row, Mapping):
            raise InvalidInput(
                f"{problems.name}, row {number}: Expected an Utterance or a dict, got "
                f"{type(row).__name__}."
            )
        chosen = columns or (Columns() if is_massive(row) else _usual(list(row)))
        try:
            plain = {str(name): _plain(value) for name, value in row.items()}
            utterance = accept(chosen.record(plain), problems)
        except InvalidInput as problem:
            problems.reject(number, problem)
        else:
            yield utterance


def _column_names(data: Any) -> list[str] | None:
    """The columns of a table or a dataset; None for an iterable of rows."""
    names = getattr(data, "column_names", None)  # Arrow, datasets
    if names is None and hasattr(data, "to_dict"):
        names = getattr(data, "columns", None)  # pandas
    return None if names is None else [str(name) for name in names]


def _rows(data: Any) -> Iterable[Any]:
    if hasattr(data, "to_dicts"):  # polars
        return cast(Iterable[Any], data.to_dicts())
    if hasattr(data, "to_dict") and hasattr(data, "columns"):  # pandas
        return cast(Iterable[Any], data.to_dict("records"))
    if hasattr(data, "to_pylist"):
        return cast(Iterable[Any], data.to_pylist())
    if isinstance(features := getattr(data, "features", None), Mapping):
        return _with_names(data, features)
    if isinstance(data, Utterance | Mapping | bytes) or not isinstance(data, Iterable):
        raise InvalidInput(
            "Expected a path, a list of utterances or dicts, a table or a dataset, got "
            f"{type(data).__name__}."
        )
    return data


def _with_names(rows: Iterable[Mapping[str, Any]], features: Mapping[str, Any]) -> Iterator[Any]:
    """Rows of a Hugging Face dataset, with class labels replaced by their names."""
    labels = {name: found for name, feature in features.items() if (found := _label_names(feature))}
    for row in rows:
        named = {name: _named(row[name], labels[name]) for name in labels if name in row}
        yield {**row, **named}


def _label_names(feature: Any) -> Sequence[str] | None:
    """The names of a class label, or of the class labels in a sequence."""
    inner = getattr(feature, "feature", feature)
    if isinstance(inner, list) and len(inner) == 1:
        inner = inner[0]
    return getattr(inner, "names", None)


def _named(value: Any, names: Sequence[str]) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return names[value] if 0 <= value < len(names) else None  # -1: no label
    if isinstance(value, list | tuple):
        return [_named(each, names) for each in value]
    return value


def _usual(names: Sequence[str]) -> Columns:
    """Columns by common names, for fields without a column of the same name."""
    has_words = {"text", "tokens", "reference"} & {*names}
    chosen = {}
    for field, aliases in _ALIASES.items():
        if field in names or (field in ("text", "tokens") and has_words):
            continue
        found = [alias for alias in aliases if alias in names]
        if found:
            chosen[field] = found[0]
    return Columns(**chosen)


def _plain(value: Any) -> Any:
    """A cell as a JSON value: numpy types become Python types, and NaN becomes None."""
    if isinstance(value, str):
        return value
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, float) and value != value:
        return None
    if isinstance(value, tuple):
        return list(value)
    return None if type(value).__name__ in ("NAType", "NaTType") else value
