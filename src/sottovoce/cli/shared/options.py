"""Options that several verbs share: choices from a registry, plug-ins, and old names."""

import importlib
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from sottovoce._registry import Registry
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


_LOADED: list[str] = []


def loaded_plugins() -> tuple[str, ...]:
    """The modules that were imported, for processes that have to import them too."""
    return tuple(_LOADED)


def load_plugins(modules: Sequence[str]) -> None:
    """Import the modules; raise `InvalidInput` with the reason if one cannot be imported.

    Only modules that the user names with `--plugin` are imported, from Python's module path (see
    docs/how-to/adding.md). Model folders and corpora cannot name modules, and nothing is imported
    from the working directory.
    """
    for name in modules:
        try:
            importlib.import_module(name)
            _LOADED.append(name)
        except (ImportError, TypeError, ValueError) as problem:
            if isinstance(problem, InvalidInput):
                raise
            raise InvalidInput(
                f"Expected a plug-in module that can be imported, got {name!r}: {problem}. "
                "Install it, or add its folder to PYTHONPATH."
            ) from problem


class Named(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions
    """A name in a registry, or one of the names in `also`, which the option handles itself.

    The registry may be given as "module:attribute". It is then imported on first use, because
    `--help` of other verbs must not load it.
    """

    name = "choice"

    def __init__(self, table: Registry[Any] | str, also: tuple[str, ...] = ()) -> None:
        self._table, self._also = table, also

    def _choice(self) -> click.Choice[str]:
        if isinstance(self._table, str):
            module, _, attribute = self._table.partition(":")
            self._table = getattr(importlib.import_module(module), attribute)
        return click.Choice([*self._table, *self._also])

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return self._choice().convert(value, param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        return self._choice().get_metavar(param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return self._choice().shell_complete(ctx, param, incomplete)


def deprecated_option(
    old: str,
    new: str,
    *,
    parameter: str | None = None,
    hint: Callable[[Any], str] = lambda value: "",
    **details: Any,
) -> Callable[[Command], Command]:
    """Accept the option `old` as another name of the option `new`.

    The old name is hidden, and accepted for one more version with a warning on stderr.

    `parameter` is the Python name of the new option, where it differs. `hint` adds the value to use
    with the new option to the warning, where it differs. `details` go to `click.option`.
    """
    old_name = f"deprecated_{_python_name(old)}"
    new_name = parameter or _python_name(new)

    def decorate(command: Command) -> Command:
        @wraps(command)
        def wrapper(*args: Any, **options: Any) -> Any:
            value = options.pop(old_name)
            context = click.get_current_context()
            if context.get_parameter_source(old_name) is ParameterSource.COMMANDLINE:
                if context.get_parameter_source(new_name) is ParameterSource.COMMANDLINE:
                    raise InvalidInput(f"Expected {new} or {old}, got both: drop {old}.")
                click.echo(
                    f"Warning: {old} is deprecated and will be removed in the next version; use "
                    f"{new}{hint(value)} instead.",
                    err=True,
                )
                options[new_name] = value
                context.set_parameter_source(new_name, ParameterSource.COMMANDLINE)
            return command(*args, **options)

        return click.option(old, old_name, hidden=True, **details)(wrapper)  # type: ignore[return-value]

    return decorate


def _python_name(option: str) -> str:
    return option.removeprefix("--").replace("-", "_")
