"""Values of a JSON file as Markdown tables."""

from typing import Any

Rows = list[dict[str, Any]]


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


def records(data: Any) -> Rows:
    """The first list or dictionary of records in a JSON value, without their nested parts.

    >>> records({"machine": "x", "cases": [{"n": 1, "all": [1, 2]}, {"n": 2}]})
    [{'n': 1}, {'n': 2}]
    """
    if isinstance(data, list) and data and all(isinstance(each, dict) for each in data):
        return [_single(each) for each in data]
    if isinstance(data, dict):
        if data and all(isinstance(each, dict) for each in data.values()):
            return [{"case": key, **_single(each)} for key, each in data.items()]
        for value in data.values():
            found = records(value)
            if len(found) > 1:
                return found
        return [_single(data)] if _single(data) else []
    return []


def _single(record: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if not isinstance(value, dict | list)}
