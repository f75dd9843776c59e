"""`--plugin MODULE`: import user code that registers things by name (see docs/how-to/adding.md).

Only what the person at the keyboard names is imported, from where Python looks for modules; never
what a model folder or a corpus names, and nothing from the working directory.
"""

import importlib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from sottovoce.errors import InvalidInput

Command = TypeVar("Command", bound=Callable[..., Any])
VARIABLE = "SOTTOVOCE_PLUGINS"


def plugin_option(command: Command) -> Command:
    # A callback, because options are read before the verb is imported: its pages of help then list
    # what was registered.
    return click.option(
        "--plugin",
        metavar="MODULE",
        multiple=True,
        expose_value=False,
        callback=lambda ctx, param, modules: load_plugins(modules),
        envvar=VARIABLE,
        show_envvar=True,
        help="Import a module that registers detectors, strategies, formats ... of your own. May "
        "be given several times.",
    )(command)


def load_plugins(modules: Sequence[str]) -> None:
    """Import the modules; one that cannot be imported is refused, with the reason."""
    for name in modules:
        try:
            importlib.import_module(name)
        except (ImportError, TypeError, ValueError) as problem:
            if isinstance(problem, InvalidInput):
                raise
            raise InvalidInput(
                f"Expected a module that can be imported as a plug-in, got {name!r}: {problem}. "
                "Install it, or put its folder on PYTHONPATH."
            ) from problem
