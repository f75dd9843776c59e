"""Old option names: hidden, accepted for one more version, with a warning on stderr."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from sottovoce.errors import InvalidInput

Command = TypeVar("Command", bound=Callable[..., Any])


def deprecated_option(
    old: str,
    new: str,
    *,
    parameter: str | None = None,
    hint: Callable[[Any], str] = lambda value: "",
    **details: Any,
) -> Callable[[Command], Command]:
    """Accept the option `old` as another name of the option `new`.

    `parameter` is the Python name of the new option, where it differs. `hint` adds the value to
    use with the new option to the warning, where it differs. `details` go to `click.option`.
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
