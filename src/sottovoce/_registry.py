"""Tables of what can be chosen by name: detectors, strategies, formats, attacks, and so on.

Each folder that can be added to has one table. A thing in it is an object, or "module:attribute",
which is imported when it is first asked for. User code adds its own with `register`; an installed
package may name things under the table's entry point group. Nothing is ever imported because of a
name in a model folder or a corpus.
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

# No dots and slashes: where a name or a file may be given, a name never hides a file.
_NAME = re.compile(r"[a-z][a-z0-9_-]*")


class Registry(Generic[T]):
    """Things by name.

    `what` is what errors call them; `group` is the entry point group that installed packages use;
    `reserved` are names that mean something else where these names are used; `check` looks at
    everything that is added from outside and may refuse it. The names of this package stay what
    they are: a manifest that says "patterns" means them.

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
        self._own = frozenset((*entries, *reserved))
        self._entries: dict[str, T | str] = dict(entries)
        self._check = check

    @overload
    def register(self, name: str, *, replace: bool = False) -> Callable[[Given], Given]: ...
    @overload
    def register(self, name: str, thing: Given, *, replace: bool = False) -> Given: ...

    def register(self, name: str, thing: Any = None, *, replace: bool = False) -> Any:
        """Add a thing, or use it as a decorator: `@DETECTORS.register("badges")`."""
        if thing is None:
            return functools.partial(self.register, name, replace=replace)
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InvalidInput(
                f"Expected a name of small letters, digits, - and _ for the {self.what}, got "
                f"{name!r}."
            )
        if name in self._own:
            raise InvalidInput(
                f"Expected another name than {name!r}, which is a {self.what} of sottovoce."
            )
        if name in self._entries and not replace:
            raise InvalidInput(
                f"Expected another name than {name!r}, which is registered as a {self.what}; "
                "replace=True replaces it."
            )
        if self._check is not None and not isinstance(thing, str):
            self._check(name, thing)
        self._entries[name] = thing
        return thing

    def remove(self, name: str) -> None:
        """Take out what was registered."""
        if name in self._own or name not in self._entries:
            raise InvalidInput(f"Expected a registered {self.what} to remove, got {name!r}.")
        del self._entries[name]

    def get(self, name: str) -> T:
        """The thing of a name; imported now if it has not been before."""
        if name not in self._entries:
            if name not in self.installed():
                raise InvalidInput(self.unknown(name))
            return self._imported(name, self.installed()[name].value)
        thing = self._entries[name]
        if isinstance(thing, str) and ":" in thing:
            return self._imported(name, thing)
        return cast(T, thing)

    def _imported(self, name: str, where: str) -> T:
        module, _, attribute = where.partition(":")
        try:
            thing: T = getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError) as problem:
            if name in self._own:  # An extra that is not installed says so itself.
                raise
            raise InvalidInput(
                f"Expected the {self.what} {name} at {where}, but {problem}."
            ) from problem
        if self._check is not None and name not in self._own:
            self._check(name, thing)
        self._entries[name] = thing
        return thing

    def require(self, name: str) -> str:
        """The name, if it is in the table; nothing is imported."""
        if name not in self:
            raise InvalidInput(self.unknown(name))
        return name

    def unknown(self, name: object) -> str:
        """What to say of a name that is not in the table."""
        known = self.names()
        close = difflib.get_close_matches(str(name), known, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else "."
        return f"Expected {self.what} to be one of {', '.join(known)}, got {name!r}{hint}"

    def names(self, *, installed: bool = True) -> tuple[str, ...]:
        """Of this package, then what was registered, then what installed packages offer."""
        offered = self.installed() if installed else ()
        return tuple(dict.fromkeys((*self._entries, *offered)))

    def origin(self, name: str) -> str | None:
        """The module that a thing from outside comes from; None for those of this package."""
        if name in self._own:
            return None
        thing = self.get(name)
        return str(getattr(thing, "__module__", None) or type(thing).__module__)

    def installed(self) -> "Mapping[str, EntryPoint]":
        """What installed packages offer under the group; a name of this package is not theirs."""
        return {
            name: point for name, point in _installed(self.group).items() if name not in self._own
        }

    def __contains__(self, name: object) -> bool:
        return name in self._entries or name in self.installed()

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self.names())


@functools.cache
def _installed(group: str) -> "Mapping[str, EntryPoint]":
    from importlib.metadata import entry_points  # takes its time to load

    found = entry_points(group=group)
    return {point.name: point for point in found if _NAME.fullmatch(point.name)}
