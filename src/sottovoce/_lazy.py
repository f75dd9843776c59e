"""Names that a package exports without importing their modules until they are used (PEP 562)."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from sottovoce._extras import explained


def lazily(package: str, exports: Mapping[str, str]) -> Callable[[str], Any]:
    """A module's `__getattr__`: `exports` says in which module each name is defined.

    >>> find = lazily("sottovoce", {"Ledger": "sottovoce.privacy.ledger"})
    >>> find("Ledger").__name__
    'Ledger'
    >>> find("ledger")
    Traceback (most recent call last):
    AttributeError: module 'sottovoce' has no attribute 'ledger'
    """

    def find(name: str) -> Any:
        if name not in exports:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            return getattr(importlib.import_module(exports[name]), name)
        except ModuleNotFoundError as missing:
            raise explained(missing) from missing

    return find
