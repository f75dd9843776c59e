"""The picture of the layers, drawn from the contract that import-linter checks.

The contract is in pyproject.toml: one line a layer, the highest first, siblings between bars. What
is drawn is what is enforced, so the picture cannot disagree with the code.
"""

import re
import tomllib
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).parents[2]

WIDTH, ROW, GAP, LEFT = 760, 52, 26, 24
TITLE = "The layers of sottovoce: imports point down only"
# What a layer is for, by one of its members.
PURPOSE = {
    "cli": "the command",
    "report": "what users see",
    "deid": "the four areas; none imports another",
    "training": "private optimisation of any torch model; utterances in and out",
    "privacy": "guarantees: facts, accountants, noise, ledger; files of a run",
}


def layers() -> list[tuple[str, ...]]:
    """The layers of the contract, highest first, each with its packages.

    >>> layers()[0], layers()[-1]
    (('cli',), ('privacy', 'io'))
    """
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (contract,) = (each for each in contracts["contracts"] if each["type"] == "layers")
    return [tuple(re.findall(r"sottovoce\.(\w+)", line)) for line in contract["layers"]]


def picture() -> str:
    """The layers as SVG, with a title and a description for those who do not see it."""
    rows = layers()
    height = LEFT + len(rows) * (ROW + GAP + 18)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        'aria-labelledby="title description" font-family="system-ui, sans-serif">',
        f'<title id="title">{TITLE}</title>',
        f'<desc id="description">{escape(described(rows))}</desc>',
        f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#f7f5f0"/>',
    ]
    for place, names in enumerate(rows):
        top = LEFT + place * (ROW + GAP + 18)
        parts += _layer(names, top)
        if place + 1 < len(rows):
            parts.append(_arrow(top + ROW + 22))
    return "\n".join([*parts, "</svg>"]) + "\n"


def described(rows: list[tuple[str, ...]]) -> str:
    """The same in words.

    >>> described([("cli",), ("deid", "nlu")])
    'From top to bottom: cli; deid and nlu.'
    """
    return f"From top to bottom: {'; '.join(' and '.join(names) for names in rows)}."


def _layer(names: tuple[str, ...], top: int) -> list[str]:
    room = WIDTH - 2 * LEFT
    wide = (room - (len(names) - 1) * 12) / len(names)
    parts = []
    for place, name in enumerate(names):
        left = LEFT + place * (wide + 12)
        parts.append(
            f'<rect x="{left:g}" y="{top}" width="{wide:g}" height="{ROW}" rx="6" fill="#24405c"/>'
        )
        parts.append(
            f'<text x="{left + wide / 2:g}" y="{top + ROW / 2 + 6:g}" text-anchor="middle" '
            f'font-size="18" fill="#ffffff">{escape(name)}</text>'
        )
    purpose = next((PURPOSE[name] for name in names if name in PURPOSE), "")
    parts.append(
        f'<text x="{LEFT}" y="{top + ROW + 18}" font-size="14" fill="#33302a">'
        f"{escape(purpose)}</text>"
    )
    return parts


def _arrow(top: int) -> str:
    middle = WIDTH - LEFT - 20
    return (
        f'<path d="M {middle} {top - 16} V {top + 6} m -6 -8 l 6 8 l 6 -8" '
        'fill="none" stroke="#8a5a1f" stroke-width="2.5"/>'
    )
