"""How docstrings are read for the API reference (an extension of griffe, named in mkdocs.yml).

Examples stand in our docstrings as they are, without a heading; here they become blocks of code.
What a package hands on from its modules is listed once at its top and described where it is
defined, not twice.
"""

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"(?:^|\n)(>>> .*?)(?=\n\s*\n|\Z)", re.DOTALL)


def with_blocks(text: str) -> str:
    """A docstring with its examples as blocks of code.

    >>> with_blocks("Adds.\\n\\n>>> 1 + 1\\n2")
    'Adds.\\n\\n```pycon\\n>>> 1 + 1\\n2\\n```'
    """
    return _EXAMPLE.sub(lambda found: f"\n```pycon\n{found[1].strip()}\n```", text)


class Docstrings(griffe.Extension):
    """Examples as code, and every object described in one place."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = with_blocks(obj.docstring.value)

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        _list_exports(pkg)


def _list_exports(module: griffe.Module) -> None:
    for child in module.modules.values():
        if not child.is_alias:
            _list_exports(child)
    if module.is_init_module and module.exports:
        names = ", ".join(f"`{name}`" for name in sorted(map(str, module.exports)))
        said = module.docstring.value if module.docstring else ""
        listed = f"{said}\n\nTo import from `{module.path}`: {names}."
        module.docstring = griffe.Docstring(listed, parent=module)
        module.exports = None
