"""Values of a JSON file as Markdown tables."""

from collections.abc import Iterator, Sequence
from typing import Any

Rows = list[dict[str, Any]]

_WIDEST = 12  # columns that still fit on a page


def told(value: Any) -> str:
    """A value as a reader wants it: four digits, thousands apart, no value as "none".

    >>> told(411187), told(0.05939818), told(None), told([-16.0, -7.0]), told(2549.75)
    ('411,187', '0.0594', 'none', '[-16, -7]', '2,550')
    """
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    if isinstance(value, list):
        return f"[{', '.join(map(told, value))}]"
    return " ".join(str(value).split()).replace("|", "\\|")


def table(rows: Rows) -> str:
    """Rows with the union of their columns, in order of first appearance; a gap stays empty.

    >>> print(table([{"a": 1, "b": 2.5}, {"a": 3}]))
    | a | b |
    |---|---|
    | 1 | 2.5 |
    | 3 |  |
    """
    columns = list(dict.fromkeys(column for row in rows for column in row))
    lines = [f"| {' | '.join(column.replace('_', ' ') for column in columns)} |"]
    lines.append("|" + "---|" * len(columns))
    for row in rows:
        cells = (told(row[column]) if column in row else "" for column in columns)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def rows_at(value: Any, path: Sequence[str], keys: tuple[str, ...] = ()) -> Iterator[Any]:
    """What stands at a path in which `*` is any key, with the keys that the stars matched.

    >>> list(rows_at({"a": {"x": 1, "y": 2}}, ["a", "*"]))
    [(('x',), 1), (('y',), 2)]
    """
    if not path:
        yield keys, value
        return
    first, *rest = path
    if isinstance(value, list) and first == "*":
        for each in value:
            yield from rows_at(each, rest, keys)
    elif isinstance(value, dict):
        for key, each in value.items():
            if first == "*":
                yield from rows_at(each, rest, (*keys, key))
            elif first == key:
                yield from rows_at(each, rest, keys)


def laid_out(data: Any, *, without: Sequence[str] = (), heading: str = "") -> list[str]:
    """Any JSON value as headings and tables: what is alike in shape becomes rows of one table."""
    rows = _alike(data)
    if rows is not None:
        return [*([f"### {heading}"] if heading else []), table(rows)]
    if not isinstance(data, dict):
        return [told(data)]
    kept = {key: value for key, value in data.items() if key not in without}
    single = {key: told(value) for key, value in kept.items() if _is_single(value)}
    parts = [f"### {heading}"] if heading and single else []
    if single:
        parts.append("; ".join(f"{key.replace('_', ' ')}: {said}" for key, said in single.items()))
    for key, value in kept.items():
        if key not in single:
            title = key.replace("_", " ")
            parts += laid_out(value, heading=f"{heading}: {title}" if heading else title)
    return parts


def _alike(data: Any) -> Rows | None:
    """Rows, if the value is a list or a dictionary of small records that share a column."""
    if isinstance(data, list) and data and all(isinstance(each, dict) for each in data):
        rows = [_flat(each) for each in data]
    elif isinstance(data, dict) and data and all(isinstance(each, dict) for each in data.values()):
        rows = [{"case": key, **_flat(each)} for key, each in data.items()]
        if not set.intersection(*(set(row) for row in rows)) - {"case"}:
            return None
    else:
        return None
    columns = {column for row in rows for column in row}
    small = all(_is_single(cell) for row in rows for cell in row.values())
    return rows if small and (len(columns) <= _WIDEST or isinstance(data, list)) else None


def _flat(record: dict[str, Any], before: str = "") -> dict[str, Any]:
    cells: dict[str, Any] = {}
    for key, value in record.items():
        if isinstance(value, dict):
            cells |= _flat(value, f"{before}{key}: ")
        else:
            cells[before + key] = value
    return cells


def _is_single(value: Any) -> bool:
    """A cell: no dictionary, and no list but a short one of numbers or words."""
    if isinstance(value, list):
        return len(value) <= 4 and not any(isinstance(each, dict | list) for each in value)
    return not isinstance(value, dict)
