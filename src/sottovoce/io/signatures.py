"""Ed25519 keys and signatures, in PEM files that openssl reads too."""

import base64
import binascii
import hashlib
import json
import os
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from sottovoce.errors import InvalidInput

PUBLIC = ".pub"


def make_key(path: str | Path) -> Path:
    """Write a new private key for its owner only, and its public key beside it."""
    path = Path(path)
    key = Ed25519PrivateKey.generate()
    content = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise InvalidInput(f"Expected a new file for the key, but {path} exists.") from None
    with os.fdopen(handle, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    public = path.with_name(f"{path.name}{PUBLIC}")
    public.write_bytes(
        key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    )
    return public


def read_private_key(path: str | Path) -> Ed25519PrivateKey:
    try:
        key = load_pem_private_key(Path(path).read_bytes(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as problem:
        raise InvalidInput(
            f"Expected an Ed25519 private key in PEM in {path}, got something else: make one with "
            "`sottovoce report key`."
        ) from problem
    if not isinstance(key, Ed25519PrivateKey):
        raise InvalidInput(f"Expected an Ed25519 key in {path}, got another kind.")
    return key


def read_public_key(path: str | Path) -> str:
    """The public key of a PEM file, as text."""
    try:
        key = load_pem_public_key(Path(path).read_bytes())
    except (ValueError, TypeError, UnsupportedAlgorithm) as problem:
        raise InvalidInput(f"Expected a public key in PEM in {path}, got something else.") from (
            problem
        )
    if not isinstance(key, Ed25519PublicKey):
        raise InvalidInput(f"Expected an Ed25519 key in {path}, got another kind.")
    return _text(key)


def public_key_of(key: Ed25519PrivateKey) -> str:
    """The public key as text."""
    return _text(key.public_key())


def canonical(content: Any) -> bytes:
    """The bytes that are signed: JSON with sorted keys and without spaces."""
    return json.dumps(
        content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


def sign(key: Ed25519PrivateKey, message: bytes) -> str:
    return base64.b64encode(key.sign(message)).decode()


def is_signed(public_key: str, message: bytes, signature: str) -> bool:
    """Whether this key signed the message.

    >>> key = Ed25519PrivateKey.generate()
    >>> is_signed(public_key_of(key), b"a", sign(key, b"a"))
    True
    >>> is_signed(public_key_of(key), b"b", sign(key, b"a"))
    False
    """
    try:
        known = Ed25519PublicKey.from_public_bytes(base64.b64decode(public_key, validate=True))
        known.verify(base64.b64decode(signature, validate=True), message)
    except (InvalidSignature, ValueError, TypeError, binascii.Error):
        return False
    return True


def fingerprint(public_key: str) -> str:
    """A short name of a key, to compare by eye."""
    digest = hashlib.sha256(public_key.encode()).hexdigest()[:16]
    return " ".join(digest[place : place + 4] for place in range(0, 16, 4))


def _text(key: Ed25519PublicKey) -> str:
    return base64.b64encode(key.public_bytes(Encoding.Raw, PublicFormat.Raw)).decode()
