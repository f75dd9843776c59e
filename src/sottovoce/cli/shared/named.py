"""Options whose choices come from a registry, so that plug-ins can add to them."""

import importlib
from typing import Any

import click
from click.shell_completion import CompletionItem

from sottovoce._registry import Registry


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
