"""`--plugin MODULE`: import user code that registers components (see docs/how-to/adding.md).

Only modules that the user names are imported, from Python's module path. Model folders and corpora
cannot name modules, and nothing is imported from the working directory.
"""

import importlib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from sottovoce.errors import InvalidInput

Command = TypeVar("Command", bound=Callable[..., Any])
VARIABLE = "SOTTOVOCE_PLUGINS"


def plugin_option(command: Command) -> Command:
    # A callback, because it runs before the verb is imported: `--help` then lists what the
    # plug-ins registered.
    return click.option(
        "--plugin",
        metavar="MODULE",
        multiple=True,
        expose_value=False,
        callback=lambda ctx, param, modules: load_plugins(modules),
        envvar=VARIABLE,
        show_envvar=True,
        help="Import a module that registers your own detectors, strategies, formats ...; "
        "repeatable.",
    )(command)


def load_plugins(modules: Sequence[str]) -> None:
    """Import the modules; raise `InvalidInput` with the reason if one cannot be imported."""
    for name in modules:
        try:
            importlib.import_module(name)
        except (ImportError, TypeError, ValueError) as problem:
            if isinstance(problem, InvalidInput):
                raise
            raise InvalidInput(
                f"Expected a plug-in module that can be imported, got {name!r}: {problem}. "
                "Install it, or add its folder to PYTHONPATH."
            ) from problem
