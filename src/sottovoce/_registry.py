"""Registries of components chosen by name: detectors, strategies, formats, attacks, and so on.

Each extensible folder has one registry. An entry is an object or "module:attribute", which is
imported on first use. User code adds entries with `register`; installed packages add them through
the registry's entry point group. A name in a model folder or a corpus never triggers an import.
"""

import difflib
import functools
import importlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

from sottovoce.errors import InvalidInput

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")
Given = TypeVar("Given")

# No dots or slashes: where a name or a file is accepted, a name cannot be mistaken for a file.
_NAME = re.compile(r"[a-z][a-z0-9_-]*")


class Registry(Generic[T]):
    """A mapping from names to components.

    `what` is the noun used in errors; `group` is the entry point group for installed packages;
    `reserved` are names with another meaning in the same place; `check` validates every component
    that is added from outside and may raise. Built-in names cannot be replaced: "patterns" in a
    manifest always means the built-in.

    >>> greetings = Registry("greeting", {"hello": "Hello!"}, group="sottovoce.greetings")
    >>> greetings.register("goodbye", "Goodbye!")
    'Goodbye!'
    >>> greetings.get("goodbye"), list(greetings)
    ('Goodbye!', ['hello', 'goodbye'])
    >>> greetings.get("helo")
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: Expected greeting to be one of hello, goodbye, got 'helo'; did
    you mean 'hello'?
    """

    def __init__(
        self,
        what: str,
        entries: Mapping[str, T | str],
        *,
        group: str,
        reserved: tuple[str, ...] = (),
        check: Callable[[str, T], None] | None = None,
    ) -> None:
        self.what, self.group = what, group
        self._builtin = frozenset((*entries, *reserved))
        self._entries: dict[str, T | str] = dict(entries)
        self._check = check

    @overload
    def register(self, name: str, *, replace: bool = False) -> Callable[[Given], Given]: ...
    @overload
    def register(self, name: str, component: Given, *, replace: bool = False) -> Given: ...

    def register(self, name: str, component: Any = None, *, replace: bool = False) -> Any:
        """Add a component, or use this as a decorator: `@DETECTORS.register("badges")`."""
        if component is None:
            return functools.partial(self.register, name, replace=replace)
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InvalidInput(
                f"Expected a name of lower-case letters, digits, - and _ for the {self.what}, got "
                f"{name!r}."
            )
        if name in self._builtin:
            raise InvalidInput(
                f"Expected another name than {name!r}, which is a built-in {self.what}."
            )
        if name in self._entries and not replace:
            raise InvalidInput(
                f"Expected another name than {name!r}, which is registered as a {self.what}; "
                "replace=True replaces it."
            )
        if self._check is not None and not isinstance(component, str):
            self._check(name, component)
        self._entries[name] = component
        return component

    def remove(self, name: str) -> None:
        """Remove a registered component; built-in ones stay."""
        if name in self._builtin or name not in self._entries:
            raise InvalidInput(f"Expected a registered {self.what} to remove, got {name!r}.")
        del self._entries[name]

    def get(self, name: str) -> T:
        """The component of this name, imported on first use."""
        if name not in self._entries:
            if name not in self.installed():
                raise InvalidInput(self.unknown(name))
            return self._imported(name, self.installed()[name].value)
        component = self._entries[name]
        if isinstance(component, str) and ":" in component:
            return self._imported(name, component)
        return cast(T, component)

    def _imported(self, name: str, where: str) -> T:
        module, _, attribute = where.partition(":")
        try:
            component: T = getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError) as problem:
            if name in self._builtin:  # a missing extra raises its own message
                raise
            raise InvalidInput(
                f"Expected the {self.what} {name} at {where}, but {problem}."
            ) from problem
        if self._check is not None and name not in self._builtin:
            self._check(name, component)
        self._entries[name] = component
        return component

    def require(self, name: str) -> str:
        """Return the name if it is registered, without importing anything."""
        if name not in self:
            raise InvalidInput(self.unknown(name))
        return name

    def unknown(self, name: object) -> str:
        """The error message for an unregistered name."""
        known = self.names()
        close = difflib.get_close_matches(str(name), known, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else "."
        return f"Expected {self.what} to be one of {', '.join(known)}, got {name!r}{hint}"

    def names(self, *, installed: bool = True) -> tuple[str, ...]:
        """Built-in names, then registered ones, then those of installed packages."""
        offered = self.installed() if installed else ()
        return tuple(dict.fromkeys((*self._entries, *offered)))

    def origin(self, name: str) -> str | None:
        """The module of an external component; None for built-in ones."""
        if name in self._builtin:
            return None
        component = self.get(name)
        return str(getattr(component, "__module__", None) or type(component).__module__)

    def installed(self) -> "Mapping[str, EntryPoint]":
        """Entry points of installed packages in the group, without built-in names."""
        return {
            name: point
            for name, point in _installed(self.group).items()
            if name not in self._builtin
        }

    def __contains__(self, name: object) -> bool:
        return name in self._entries or name in self.installed()

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self.names())


@functools.cache
def _installed(group: str) -> "Mapping[str, EntryPoint]":
    from importlib.metadata import entry_points  # slow to import

    found = entry_points(group=group)
    return {point.name: point for point in found if _NAME.fullmatch(point.name)}
