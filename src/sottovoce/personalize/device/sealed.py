"""The encrypted state file of a device: owner-only, written atomically, protected from rollback.

AES-256-GCM under a 32-byte key, or under a passphrase via scrypt. A counter file next to it holds
the number of writes, so that a file restored from a backup is detected. Restoring the counter as
well is not detected; that would take hardware with a monotonic counter.
"""

import fcntl
import hmac
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from sottovoce.errors import InvalidInput
from sottovoce.io.atomic import output, outputs

Key = bytes | str
KEY_BYTES = 32
_MAGIC = b"sottovoce device 1\n"
_SALT_BYTES, _NONCE_BYTES = 16, 12
# 32 MiB and about 0.1 s: expensive to brute-force, cheap enough for a phone.
_SCRYPT = {"n": 2**15, "r": 8, "p": 1}
_OWNER_ONLY = 0o600


class SealedFile:
    """One encrypted file with its write counter.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     SealedFile(Path(folder, "me"), bytes(32)).write(b"call mum", 1)
    ...     SealedFile(Path(folder, "me"), bytes(32)).read()
    (b'call mum', 1)
    """

    def __init__(self, path: Path | str, key: Key) -> None:
        self.path = Path(path).resolve()
        self._key = checked_key(key)
        self._derived: tuple[bytes, bytes] | None = None

    def __repr__(self) -> str:
        # Without the key, which would end up in logs.
        return f"SealedFile({str(self.path)!r})"

    @property
    def counter(self) -> Path:
        return self.path.with_name(f"{self.path.name}.counter")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold an exclusive lock, so that reading the counter and writing the file are atomic."""
        lock = self.path.with_name(f"{self.path.name}.lock")
        if not lock.parent.is_dir():
            raise InvalidInput(
                f"Expected an existing folder for {self.path}, got none: create {lock.parent}."
            )
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, _OWNER_ONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def newest(self) -> int | None:
        """The number of writes according to the counter; None without a counter."""
        try:
            return int(self.counter.read_text("ascii"))
        except FileNotFoundError:
            return None
        except ValueError as problem:
            raise InvalidInput(f"Expected a number in {self.counter}, got other content.") from (
                problem
            )

    def write(self, plain: bytes, serial: int) -> None:
        """Write `plain` with that serial number; the caller holds the lock."""
        salt, key = self._derived or self._derive(os.urandom(_SALT_BYTES))
        head = _MAGIC + self._mode + salt + serial.to_bytes(8, "big")
        nonce = os.urandom(_NONCE_BYTES)
        if not self.counter.exists():
            # A crash during the first write must not look like a lost counter.
            with output(self.counter, mode=_OWNER_ONLY) as stream:
                stream.write(f"{serial - 1}\n".encode("ascii"))
        # The file is renamed first: a crash in between leaves the counter too low, never too high.
        with outputs(self.path, self.counter, mode=_OWNER_ONLY) as (file, counter):
            file.write(head + nonce + AESGCM(key).encrypt(nonce, plain, head))
            counter.write(f"{serial}\n".encode("ascii"))

    def read(self) -> tuple[bytes, int]:
        """The decrypted content and its serial number."""
        content = self.path.read_bytes()
        salt_at = len(_MAGIC) + 1
        serial_at = salt_at + _SALT_BYTES
        end = serial_at + 8
        head, rest = content[:end], content[end:]
        try:
            if head[:salt_at] != _MAGIC + self._mode or len(head) < end:
                raise InvalidTag
            _, key = self._derive(head[salt_at:serial_at])
            plain = AESGCM(key).decrypt(rest[:_NONCE_BYTES], rest[_NONCE_BYTES:], head)
        except (InvalidTag, ValueError) as problem:
            self._derived = None
            raise InvalidInput(
                f"Expected a device state saved with this key in {self.path}, got another key or "
                "an altered file."
            ) from problem
        return plain, int.from_bytes(head[serial_at:], "big")

    @property
    def _mode(self) -> bytes:
        return b"p" if isinstance(self._key, str) else b"k"

    def _derive(self, salt: bytes) -> tuple[bytes, bytes]:
        if isinstance(self._key, str):
            derived = Scrypt(salt=salt, length=KEY_BYTES, **_SCRYPT).derive(self._key.encode())
        else:
            derived = hmac.digest(self._key, _MAGIC + salt, "sha256")
        self._derived = salt, derived
        return self._derived


def checked_key(key: Key) -> Key:
    """Validate a 32-byte key or passphrase; the error does not quote it."""
    if isinstance(key, str):
        if not key:
            raise InvalidInput("Expected a passphrase, got an empty one.")
    elif not isinstance(key, bytes) or len(key) != KEY_BYTES:
        raise InvalidInput(f"Expected a key of {KEY_BYTES} bytes or a passphrase, got neither.")
    return key
