"""Lazy exports of a package: a module is imported when one of its names is first used (PEP 562)."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from sottovoce._extras import explained


def lazily(package: str, exports: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package that exports these names.

    `exports` maps each name to the module that defines it, or to "module:attribute" if it is
    defined under another name. A missing optional package raises `MissingExtra`.

    >>> find = lazily("sottovoce", {"Ledger": "sottovoce.privacy.ledger", "root": "math:sqrt"})
    >>> find("Ledger").__name__, find("root")(9)
    ('Ledger', 3.0)
    >>> find("ledger")
    Traceback (most recent call last):
    AttributeError: module 'sottovoce' has no attribute 'ledger'
    """

    def find(name: str) -> Any:
        if name not in exports:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, _, attribute = exports[name].partition(":")
        try:
            return getattr(importlib.import_module(module), attribute or name)
        except ModuleNotFoundError as missing:
            raise explained(missing) from missing

    return find
