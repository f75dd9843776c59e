"""Consistent surrogates: equal values get equal surrogates, chosen by a secret key.

The surrogate is chosen by HMAC-SHA-256 of the scope (a document, a user or the whole corpus), the
type and the value, so no state is needed and all processes agree. Consistency reveals which values
are equal, so a change to a single occurrence is always visible. What does hold is a guarantee for
renaming a value everywhere in its scope, against anyone without the key.

A reversible vault also stores the map from surrogates to values, encrypted with the key, and gives
different values of a scope different surrogates.
"""

import hmac
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from sottovoce import _validate
from sottovoce.deid.replace.forms import canonical, match_case
from sottovoce.deid.replace.mechanism import Cost, Scope, source_cost
from sottovoce.deid.replace.surrogates import Surrogates
from sottovoce.errors import InvalidInput
from sottovoce.io.atomic import output
from sottovoce.privacy.noise import NoiseSource

KEY_BYTES = 32
WITHIN = ("document", "user", "corpus")
_NONCE_BYTES = 12
_EQUALITY = (
    "equal values have equal surrogates, so a change to a single occurrence is always visible; "
    "what holds is the guarantee for renaming a value everywhere"
)


class Vault:
    """The key, and the surrogates chosen with it.

    >>> vault = Vault(bytes(32), within="user")
    >>> from sottovoce.deid.replace.surrogates import uniform
    >>> cities = Consistent(vault=vault, surrogates=uniform(["rome", "oslo", "lima"]))
    >>> scope = Scope(type="LOC", user="u1")
    >>> once, again = cities.replace(["Paris", "paris"], [scope] * 2, NoiseSource())
    >>> once.lower() == again
    True
    """

    def __init__(self, key: bytes, *, within: str = "user", reversible: bool = False) -> None:
        if len(key) != KEY_BYTES:
            raise InvalidInput(f"Expected a key of {KEY_BYTES} bytes, got {len(key)}.")
        self._key = key
        self.within = _validate.one_of("within", within, WITHIN)
        self.reversible = reversible
        self._known: dict[str, dict[str, str]] = {}

    @classmethod
    def fresh(cls, *, within: str = "user", reversible: bool = False) -> "Vault":
        """A vault with a new random key."""
        return cls(os.urandom(KEY_BYTES), within=within, reversible=reversible)

    def prf(self, purpose: str, *parts: str) -> int:
        """64 pseudorandom bits, keyed by the vault and determined by the arguments."""
        message = json.dumps([purpose, *parts]).encode()
        return int.from_bytes(self._hmac(message)[:8], "big")

    def pseudonym(self, name: str, purpose: str = "user") -> str:
        """A keyed pseudonym: equal names get equal pseudonyms.

        >>> Vault(bytes(32)).pseudonym("ann") == Vault(bytes(32)).pseudonym("ann")
        True
        """
        return self._hmac(json.dumps([f"pseudonym of {purpose}", name]).encode()).hex()[:16]

    def scope_name(self, scope: Scope) -> str:
        """The identifier of a scope; a scope without a name is an error."""
        if self.within == "corpus":
            return scope.type
        name = scope.user if self.within == "user" else scope.document
        if not name:
            raise InvalidInput(
                f"Expected a {self.within} in every utterance for surrogates that are consistent "
                f"within a {self.within}, got none: use the whole corpus instead."
            )
        return f"{scope.type}\t{name}"

    def surrogate_map(self, scope: Scope) -> dict[str, str]:
        """The map from surrogates to values in one scope."""
        return self._known.setdefault(self.scope_name(scope), {})

    def original(self, surrogate: str, scope: Scope) -> str:
        """The value behind a surrogate of a reversible vault."""
        known = self._known.get(self.scope_name(scope), {})
        if canonical(surrogate) not in known:
            raise InvalidInput(f"Expected a surrogate of this vault, got {surrogate!r}.")
        return known[canonical(surrogate)]

    def save(self, path: str | Path) -> None:
        """Write the surrogate map, encrypted with the key (AES-GCM)."""
        nonce = os.urandom(_NONCE_BYTES)
        plain = json.dumps({"within": self.within, "known": self._known}).encode()
        with output(path) as stream:
            stream.write(nonce + AESGCM(self._hmac(b"vault file")).encrypt(nonce, plain, None))

    @classmethod
    def load(cls, path: str | Path, key: bytes) -> "Vault":
        """Read a saved vault; a wrong key or an altered file is an error."""
        content = Path(path).read_bytes()
        vault = cls(key, reversible=True)
        cipher = AESGCM(vault._hmac(b"vault file"))
        try:
            plain = cipher.decrypt(content[:_NONCE_BYTES], content[_NONCE_BYTES:], None)
        except (InvalidTag, ValueError) as problem:
            raise InvalidInput(
                f"{path}: Expected a vault saved with this key, got another key or an altered file."
            ) from problem
        saved = json.loads(plain)
        vault.within, vault._known = saved["within"], saved["known"]
        return vault

    def _hmac(self, message: bytes) -> bytes:
        return hmac.digest(self._key, message, "sha256")


class Consistent:
    """Replaces every value by the surrogate that the vault chooses for it."""

    whole = True
    scoped = True

    def __init__(self, *, vault: Vault, surrogates: Surrogates, keep_case: bool = True) -> None:
        self.vault, self.surrogates, self.keep_case = vault, surrogates, keep_case

    def replace(
        self, values: Sequence[str], scopes: Sequence[Scope], source: NoiseSource
    ) -> list[str]:
        outputs = []
        for value, scope in zip(values, scopes, strict=True):
            surrogate = self._surrogate(canonical(value), scope)
            outputs.append(match_case(surrogate, value) if self.keep_case else surrogate)
        return outputs

    def _surrogate(self, value: str, scope: Scope) -> str:
        listed = self.surrogates.values
        # The modulo bias of 2^64 over a few thousand values is negligible.
        place = self.vault.prf("surrogate", self.vault.scope_name(scope), value) % len(listed)
        if not self.vault.reversible:
            return listed[place]
        known = self.vault.surrogate_map(scope)
        for step in range(len(listed)):
            surrogate = listed[(place + step) % len(listed)]
            if known.setdefault(surrogate, value) == value:
                return surrogate
        surrogate = f"{scope.type.lower()}-{self.vault.pseudonym(value, scope.type)}"
        known[surrogate] = value
        return surrogate

    def cost(self) -> Cost:
        return Cost(why_none=_EQUALITY, **source_cost(self.surrogates))

    def to_json(self) -> dict[str, Any]:
        return {
            "mechanism": "consistent surrogates (HMAC)",
            "within": self.vault.within,
            "reversible": self.vault.reversible,
            "surrogates": self.surrogates.to_json(),
        }
