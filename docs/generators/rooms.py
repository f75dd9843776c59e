"""The table of folders on the architecture page, in the words of their own docstrings."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "sottovoce"
PAGE = ROOT / "docs" / "architecture.md"

_BLOCK = re.compile(r"(<!-- rooms: .*? -->\n).*?(<!-- /rooms -->)", re.DOTALL)


def rooms() -> dict[str, str]:
    """Every package below sottovoce with the first sentence of its docstring, or nothing.

    >>> rooms()["training/layers/"].startswith("Rules for layers")
    True
    """
    found = {}
    for path in sorted(SOURCE.rglob("__init__.py")):
        if path.parent != SOURCE:
            said = ast.get_docstring(ast.parse(path.read_text())) or ""
            paragraph = " ".join(said.split("\n\n")[0].split())
            found[f"{path.parent.relative_to(SOURCE).as_posix()}/"] = paragraph
    return found


def page() -> str:
    """The architecture page as it is, with the table of folders made anew."""
    rows = [f"| `{name}` | {said.replace('|', chr(92) + '|')} |" for name, said in rooms().items()]
    made = "\n".join(["| folder | what is in it |", "|---|---|", *rows])
    text = PAGE.read_text()
    if len(_BLOCK.findall(text)) != 1:
        raise ValueError(f"Expected one block of rooms in {PAGE.name}, got another number.")
    return _BLOCK.sub(lambda found: f"{found[1]}\n{made}\n\n{found[2]}", text)
