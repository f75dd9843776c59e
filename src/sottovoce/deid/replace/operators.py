"""Operators known from other tools: mask, hash, encrypt, keep, and functions of your own.

Each states what is true of it. A mask releases the characters that it keeps, and the length if it
keeps that. A keyed hash and a ciphertext are pseudonyms: equal values look equal, so they have the
guarantee of consistent surrogates for renaming, and none for one occurrence. A kept value has no
guarantee, and neither has a function that states none.
"""

import base64
import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from sottovoce import _validate
from sottovoce.deid.replace.forms import canonical
from sottovoce.deid.replace.mechanism import Cost, Scope
from sottovoce.deid.replace.placeholders import EQUALITY
from sottovoce.deid.replace.vault import Vault
from sottovoce.errors import InvalidInput
from sottovoce.privacy.noise import NoiseSource

_SIGN = "*"
_FIXED = 8
_BLOCK = 16
_SEALED = re.compile(r"<([A-Za-z_]+):([A-Za-z0-9_-]{16,}={0,2})>")


@dataclass(frozen=True, kw_only=True)
class Mask:
    """Stars instead of the value; the last characters may stay, and then its length does too.

    >>> Mask(last=4).replace(["4111 1111 1111 1234", "12"], [], NoiseSource())
    ['***************1234', '**']
    >>> Mask().replace(["Maria", "Al"], [], NoiseSource())
    ['********', '********']
    """

    last: int = 0
    whole: bool = True
    scoped: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _validate.between("last", self.last, 0, 8)

    def replace(
        self, values: Sequence[str], scopes: Sequence[Scope], source: NoiseSource
    ) -> list[str]:
        if not self.last:
            return [_SIGN * _FIXED] * len(values)
        return [self._masked(value) for value in values]

    def _masked(self, value: str) -> str:
        # At least half of a value is hidden.
        shown = self.last if len(value) >= 2 * self.last else 0
        return _SIGN * (len(value) - shown) + value[len(value) - shown :]

    def channel(self, value: str) -> dict[str, float]:
        """M(.|value)."""
        return {self.replace([value], [], NoiseSource())[0]: 1.0}

    def cost(self) -> Cost:
        if not self.last:
            return Cost()
        return Cost(
            assumptions=(
                f"epsilon compares private values of the same length with the same last "
                f"{self.last} characters: both may be known",
            ),
            reveals=(f"the length and the last {self.last} characters are released as they are",),
        )

    def to_json(self) -> dict[str, Any]:
        return {"mechanism": "mask", "last": self.last}


@dataclass(frozen=True, kw_only=True)
class Hash:
    """A keyed hash (HMAC-SHA-256) of the value, the same for equal values of a scope.

    Without a key, a hash of a name or a number is found by trying them all.
    """

    vault: Vault
    whole: bool = True
    scoped: ClassVar[bool] = True

    def replace(
        self, values: Sequence[str], scopes: Sequence[Scope], source: NoiseSource
    ) -> list[str]:
        return [
            self.vault.pseudonym(canonical(value), f"value {self.vault.scope_name(scope)}")
            for value, scope in zip(values, scopes, strict=True)
        ]

    def cost(self) -> Cost:
        return Cost(why_none=EQUALITY)

    def to_json(self) -> dict[str, Any]:
        return {"mechanism": "keyed hash (HMAC-SHA-256)", "within": self.vault.within}


@dataclass(frozen=True, kw_only=True)
class Encrypt:
    """The value encrypted with the key (AES-SIV), as <TYPE:...>; `decrypted` gives it back.

    Equal values of a scope have equal ciphertexts. Values are padded to 16 bytes, so that only
    their rough length is released.

    >>> secret = Encrypt(vault=Vault(bytes(32), within="corpus"))
    >>> [told] = secret.replace(["Maria"], [Scope(type="PER")], NoiseSource())
    >>> decrypted(f"call {told} now", secret.vault)
    'call Maria now'
    """

    vault: Vault
    whole: bool = True
    scoped: ClassVar[bool] = True

    def replace(
        self, values: Sequence[str], scopes: Sequence[Scope], source: NoiseSource
    ) -> list[str]:
        cipher = _cipher(self.vault)
        return [
            _sealed(cipher, value, scope, self.vault.scope_name(scope))
            for value, scope in zip(values, scopes, strict=True)
        ]

    def cost(self) -> Cost:
        return Cost(
            why_none=EQUALITY,
            assumptions=("AES-SIV hides values from anyone without the key, but for their length",),
            reveals=("the length of a value, rounded up to 16 bytes, is released",),
        )

    def to_json(self) -> dict[str, Any]:
        return {"mechanism": "encryption (AES-SIV)", "within": self.vault.within}


def decrypted(text: str, vault: Vault) -> str:
    """The text with all its encrypted values in clear; a wrong key is an error."""
    cipher = _cipher(vault)

    def opened(found: re.Match[str]) -> str:
        try:
            sealed = base64.urlsafe_b64decode(found[2])
            plain = cipher.decrypt(sealed, [found[1].encode()]).rstrip(b"\0")
        except (InvalidTag, ValueError) as problem:
            raise InvalidInput(
                "Expected values that were encrypted with this key, got others."
            ) from problem
        return plain.partition(b"\1")[2].decode()

    return _SEALED.sub(opened, text)


def _cipher(vault: Vault) -> AESSIV:
    return AESSIV(vault.derived_key("encrypt 1") + vault.derived_key("encrypt 2"))


def _sealed(cipher: AESSIV, value: str, scope: Scope, name: str) -> str:
    # The scope is part of the plain text, so equal values of two scopes look different.
    plain = b"\1".join([_short(name), value.encode()])
    plain += b"\0" * (-len(plain) % _BLOCK)
    sealed = cipher.encrypt(plain, [scope.type.encode()])
    return f"<{scope.type}:{base64.urlsafe_b64encode(sealed).decode()}>"


def _short(name: str) -> bytes:
    """A short name of a scope for the inside of a ciphertext."""
    return hashlib.blake2b(name.encode(), digest_size=6).hexdigest().encode()


@dataclass(frozen=True, kw_only=True)
class Keep:
    """The value as it is, without any guarantee."""

    kind: str
    whole: bool = True
    scoped: ClassVar[bool] = False

    def replace(
        self, values: Sequence[str], scopes: Sequence[Scope], source: NoiseSource
    ) -> list[str]:
        return list(values)

    def cost(self) -> Cost:
        return Cost(why_none=f"values of {self.kind} are released as they are, as asked")

    def to_json(self) -> dict[str, Any]:
        return {"mechanism": "keep"}


@dataclass(frozen=True, kw_only=True)
class Custom:
    """What a function makes of the value; nothing is known about it, so nothing is guaranteed.

    >>> Custom(function=str.upper).replace(["maria"], [], NoiseSource())
    ['MARIA']
    """

    function: Callable[[str], str]
    whole: bool = True
    scoped: ClassVar[bool] = False

    def replace(
        self, values: Sequence[str], scopes: Sequence[Scope], source: NoiseSource
    ) -> list[str]:
        outputs = [self.function(value) for value in values]
        for output in outputs:
            if not isinstance(output, str):
                raise InvalidInput(
                    f"Expected text from {self.name}, got {type(output).__name__}: return a string."
                )
        return outputs

    @property
    def name(self) -> str:
        return getattr(self.function, "__qualname__", type(self.function).__name__)

    def cost(self) -> Cost:
        return Cost(why_none=f"the function {self.name} states no cost")

    def to_json(self) -> dict[str, Any]:
        return {"mechanism": "function", "function": self.name}
