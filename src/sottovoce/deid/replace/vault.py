"""The vault: a secret key, and with it pseudorandom choices that all processes agree on.

A reversible vault also remembers what was released: the map from surrogates to values, and for each
text the places and values that were replaced. The file is encrypted with the key (AES-GCM). It
gives back every released text exactly, also where two originals were released alike: texts come
back in the order in which they were released.
"""

import hmac
import json
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from sottovoce import _validate
from sottovoce.corpora import Utterance
from sottovoce.deid.replace.forms import canonical, match_case
from sottovoce.deid.replace.mechanism import Scope
from sottovoce.errors import InvalidInput
from sottovoce.io.atomic import output

KEY_BYTES = 32
WITHIN = ("document", "user", "corpus")
_NONCE_BYTES = 12
Original = dict[str, Any]
Kept = tuple[int, int, str]


class Vault:
    """The key, and in a reversible vault what was replaced with it.

    >>> vault = Vault(bytes(32), within="user")
    >>> vault.prf("surrogate", "ann") == Vault(bytes(32)).prf("surrogate", "ann")
    True
    """

    def __init__(self, key: bytes, *, within: str = "user", reversible: bool = False) -> None:
        if len(key) != KEY_BYTES:
            raise InvalidInput(f"Expected a key of {KEY_BYTES} bytes, got {len(key)}.")
        self._key = key
        self.within = _validate.one_of("within", within, WITHIN)
        self.reversible = reversible
        self._known: dict[str, dict[str, str]] = {}
        self._released: dict[str, list[Original]] = {}

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

    def remember(self, released: Utterance, original: Utterance, pieces: Sequence[Kept]) -> None:
        """Keep what is needed to restore a released text.

        `pieces` are start and end in the released text, and the original value.
        """
        if not self.reversible:
            return
        kept: Original = {"pieces": [list(piece) for piece in pieces]}
        for name in ("user", "id"):
            if getattr(original, name) != getattr(released, name):
                kept[name] = getattr(original, name)
        if original.tokens != tuple(original.text.split()) or {*original.slots} - {"O"}:
            kept |= {"tokens": original.tokens, "slots": original.slots}
        self._released.setdefault(self._name_of(released), []).append(kept)

    def restored(self, released: Utterance) -> Utterance | None:
        """The original of a released text, the next one if several were released alike.

        None if this text was not released with the vault.
        """
        waiting = self._released.get(self._name_of(released))
        if not waiting:
            return None
        kept = waiting.pop(0)
        parts, place = [], 0
        for start, end, value in kept["pieces"]:
            parts += [released.text[place:start], value]
            place = end
        text = "".join([*parts, released.text[place:]])
        tokens = tuple(kept.get("tokens", text.split()))
        return replace(
            released,
            text=text,
            tokens=tokens,
            slots=tuple(kept.get("slots", ("O",) * len(tokens))),
            user=kept.get("user", released.user),
            id=kept.get("id", released.id),
        )

    def restored_text(self, text: str) -> str:
        """The text with every known surrogate replaced by its value, for text that was edited.

        A surrogate of several values is left as it is.
        """
        values: dict[str, set[str]] = {}
        for known in self._known.values():
            for surrogate, value in known.items():
                values.setdefault(surrogate, set()).add(value)
        unique = {name: found.pop() for name, found in values.items() if len(found) == 1}
        if not unique:
            return text
        longest = sorted(unique, key=lambda name: (-len(name), name))
        pattern = "|".join(map(re.escape, longest))
        return re.sub(
            rf"(?<!\w)(?:{pattern})(?!\w)",
            lambda found: match_case(unique[canonical(found[0])], found[0]),
            text,
            flags=re.IGNORECASE,
        )

    def _name_of(self, released: Utterance) -> str:
        message = json.dumps(["released", released.text, released.user, released.id])
        return self._hmac(message.encode()).hex()[:24]

    def save(self, path: str | Path) -> None:
        """Write the surrogate map, encrypted with the key (AES-GCM)."""
        nonce = os.urandom(_NONCE_BYTES)
        content = {"within": self.within, "known": self._known, "released": self._released}
        plain = json.dumps(content).encode()
        with output(path, mode=0o600) as stream:
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
        vault._released = saved.get("released", {})
        return vault

    def derived_key(self, purpose: str) -> bytes:
        """A key of 32 bytes for another purpose."""
        return self._hmac(f"key {purpose}".encode())

    def _hmac(self, message: bytes) -> bytes:
        return hmac.digest(self._key, message, "sha256")
