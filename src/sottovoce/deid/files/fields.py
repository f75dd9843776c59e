"""Fields released besides the text: pseudonymised user and id, other fields only if named.

A user name or session id identifies a person as well as any word does. By default users and ids get
keyed pseudonyms (equal names get equal pseudonyms), and a record with further fields is refused
until the caller says which of them to keep or to drop.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sottovoce import _validate
from sottovoce.corpora import Utterance
from sottovoce.deid.replace import Vault
from sottovoce.errors import InvalidInput

POLICIES = ("keep", "pseudonym", "drop")


@dataclass(frozen=True, kw_only=True)
class Fields:
    """How each field is released.

    >>> call = Utterance(tokens=("call",), slots=("O",), user="ann", extra={"room": 7})
    >>> Fields(user="drop").released(call, Vault(bytes(32)))
    Traceback (most recent call last):
    sottovoce.errors.InvalidInput: Expected no fields other than those to keep, got 'room':
    keep it if it is harmless (--keep room), or drop the rest (--drop-rest).
    >>> Fields(user="drop", keep=frozenset({"room"})).released(call, Vault(bytes(32)))
    {'user': '', 'id': '', 'extra': {'room': 7}}
    """

    user: str = "pseudonym"
    id: str = "pseudonym"
    keep: frozenset[str] = frozenset()
    drop_rest: bool = False

    def __post_init__(self) -> None:
        _validate.one_of("user", self.user, POLICIES)
        _validate.one_of("id", self.id, POLICIES)

    def released(self, utterance: Utterance, vault: Vault) -> dict[str, Any]:
        """The fields of the released utterance."""
        return {
            "user": self.released_name("user", utterance.user, vault),
            "id": self.released_name("id", utterance.id, vault),
            "extra": self._extra(utterance.extra) if utterance.extra else {},
        }

    def released_name(self, purpose: str, name: str, vault: Vault) -> str:
        """A user or an id as it is released; `purpose` is user or id."""
        way = self.user if purpose == "user" else self.id
        if not name or way == "drop":
            return ""
        return name if way == "keep" else vault.pseudonym(name, purpose)

    def _extra(self, extra: Mapping[str, Any]) -> dict[str, Any]:
        if not self.drop_rest:
            for name in extra:
                if name not in self.keep:
                    raise InvalidInput(
                        f"Expected no fields other than those to keep, got {name!r}: "
                        f"keep it if it is harmless (--keep {name}), or drop the rest "
                        "(--drop-rest)."
                    )
        return {name: value for name, value in extra.items() if name in self.keep}

    def not_covered(self) -> tuple[str, ...]:
        """The released fields that no epsilon covers."""
        kept = sorted(self.keep) + [
            name for name, way in (("user", self.user), ("id", self.id)) if way == "keep"
        ]
        linked = [
            name for name, way in (("users", self.user), ("ids", self.id)) if way == "pseudonym"
        ]
        found = ["intents and labels are released as they are"]
        if kept:
            found.append(f"fields released as they are: {', '.join(kept)}")
        if linked:
            found.append(f"pseudonyms of {' and '.join(linked)} show which records belong together")
        return tuple(found)

    def to_json(self) -> dict[str, Any]:
        return {
            "user": self.user,
            "id": self.id,
            "keep": sorted(self.keep),
            "drop_rest": self.drop_rest,
        }
