"""The keys that clients come with: read from a file, read again when it changes, compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sureact.errors import ConfigError, SureactError

MIN_KEY_CHARS = 16
_CHECK_EVERY_S = 1.0
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_KEY = re.compile(rf"[!-9;-~]{{{MIN_KEY_CHARS},512}}")  # printable ASCII but blanks and ":"
_LIMITS = {"running": "max_running", "queued": "max_queued", "rpm": "max_requests_per_minute"}

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyLimits:
    """What one key may ask for; None is no limit but the server's own."""

    max_running: int | None = None
    """Requests that run at once."""
    max_queued: int | None = None
    """Requests that wait at once."""
    max_requests_per_minute: int | None = None
    """Requests within any sixty seconds."""


@dataclass(frozen=True, slots=True)
class ClientKey:
    """A key, as the server keeps it: its digest alone."""

    name: str
    digest: bytes
    limits: KeyLimits

    @property
    def salt(self) -> str:
        """With whom its prompts share what is cached: with nobody else."""
        return self.digest.hex()


def read_keys(text: str, defaults: KeyLimits) -> list[ClientKey]:
    """Read a file of keys: one a line as `key` or `name:key`, and behind it limits such as `running=4 rpm=60`.

    Lines that are empty or begin with `#` are skipped.

    Raises:
        ConfigError: a line is none of these, a name or a key comes twice, or there is no key. Keys are never shown.
    """
    keys: list[ClientKey] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if words and not words[0].startswith("#"):
            keys.append(_read_line(words, f"Line {number} of the file of keys", defaults))
    if not keys:
        raise ConfigError("The file of keys holds no key. Write one a line, as NAME:KEY.")
    for attribute in ("name", "digest"):
        values = [getattr(key, attribute) for key in keys]
        if len(set(values)) < len(values):
            raise ConfigError(f"The file of keys holds a {'key' if attribute == 'digest' else attribute} twice.")
    return keys


def _read_line(words: Sequence[str], place: str, defaults: KeyLimits) -> ClientKey:
    name, separator, key = words[0].partition(":")
    if not separator:
        name, key = "", name
    if not _KEY.fullmatch(key):
        raise ConfigError(
            f"{place} holds no key: a key has {MIN_KEY_CHARS} to 512 printable ASCII characters, without blanks and "
            "colons. Make one with: python -c 'import secrets; print(secrets.token_urlsafe(32))'"
        )
    digest = digest_of(key)
    if separator and not _NAME.fullmatch(name):
        raise ConfigError(
            f"{place} names its key {name[:80]!r}; a name has 1 to 64 of the characters A-Z a-z 0-9 . _ -"
        )
    limits = defaults
    for word in words[1:]:
        limit, _, value = word.partition("=")
        if limit not in _LIMITS or not re.fullmatch(r"[0-9]{1,9}", value) or (int(value) < 1 and limit != "queued"):
            raise ConfigError(
                f"{place} holds {word[:80]!r} behind its key; it may hold running=N, queued=N and rpm=N, whole numbers."
            )
        limits = replace(limits, **{_LIMITS[limit]: int(value)})
    return ClientKey(name or f"key-{digest.hex()[:8]}", digest, limits)


def digest_of(key: str) -> bytes:
    """Return what is kept of a key; of equal length for all, so that comparing tells nothing."""
    return hashlib.sha256(key.encode()).digest()


class KeyFile:
    """A file of keys, read again when it changes. One that cannot be read leaves the keys as they were."""

    def __init__(self, path: str, defaults: KeyLimits) -> None:
        """Read the file.

        Args:
            path: of the file.
            defaults: limits of keys that have none of their own.

        Raises:
            ConfigError: it cannot be read, or holds something else.
        """
        self._path = Path(path)
        self._defaults = defaults
        self._stamp = self._stamp_now()
        self._keys = self._read()
        self._checked_at = time.monotonic()

    def find(self, presented: str) -> ClientKey | None:
        """Return the key that a client presents, or None if it is none of the file."""
        self._reload_if_changed()
        digest, found = digest_of(presented), None
        for key in self._keys:  # all of them, whichever it is
            if hmac.compare_digest(key.digest, digest):
                found = key
        return found

    def reload(self) -> None:
        """Read the file again at the next request, whether it looks changed or not. Safe in a signal handler."""
        self._stamp = None
        self._checked_at = -_CHECK_EVERY_S

    def _reload_if_changed(self) -> None:
        now = time.monotonic()
        if now - self._checked_at < _CHECK_EVERY_S and self._stamp is not None:
            return
        self._checked_at = now
        stamp = self._stamp_now()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._keys = self._read()
        except SureactError as error:
            _logger.error("The keys stay as they were: %s", error)
            return
        _logger.info("Keys read from the file: %d", len(self._keys))

    def _stamp_now(self) -> tuple[int, int, int]:
        """Return what changes when the file is written or replaced."""
        try:
            status = self._path.stat()
        except OSError:
            return (0, 0, 0)
        return (status.st_mtime_ns, status.st_size, status.st_ino)

    def _read(self) -> list[ClientKey]:
        try:
            text = self._path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"The file of keys {self._path} cannot be read: {error}.") from error
        return read_keys(text, self._defaults)
