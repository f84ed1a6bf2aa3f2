"""The bearer token of the HTTP API: generated once, stored with mode 0600, checked for strength, and read again when it changes."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterable
from pathlib import Path

from gateway.base.atomic_file import stamp_of
from gateway.base.errors import HomebodyError, StorageFailed

log = logging.getLogger(__name__)

FILE_NAME = "gateway.token"
SHORTEST = 24
FEWEST_KINDS = 10
"""Minimum number of different characters. A random token practically always has more; one typed by hand often has not."""

_READ_AT_MOST = 4096
_BYTES = 32  # 256 bits
_EXAMPLES = re.compile(
    r"(?i)(undefined|null|none|nan|true|false|example|sample|change|replace|insert|enter|your|my|the|this|with|here|me|a"
    r"|token|secret|password|passwd|key|test|default|admin|gateway|homebody|bearer|long|random|string|value|x|[-_.<>\d])+"
)


def fresh_token() -> str:
    """Return 256 random bits as text that is safe in HTTP headers and shells."""
    return secrets.token_urlsafe(_BYTES)


def checked(token: str, *, where: str, hint: str) -> str:
    """Return the token without surrounding white space. Raises HomebodyError if it is blank, too short, or a known example.

    ``where`` is the file or setting it came from, for the error text, which never contains the token.
    """
    token = token.strip()
    problem = ""
    if not token:
        problem = "contains no token"
    elif not token.isascii() or not token.isprintable() or " " in token:
        problem = "contains a token with characters that are not allowed in HTTP headers"
    elif len(token) < SHORTEST:
        problem = f"contains a token of {len(token)} characters; at least {SHORTEST} are required"
    elif len(set(token)) < FEWEST_KINDS or _EXAMPLES.fullmatch(token):
        problem = "contains a token that is easy to guess"
    if problem:
        raise HomebodyError(problem, where=where, hint=hint)
    return token


def token_from_settings(token: str) -> str:
    """Check a token that `gateway.auth.token` gives. Raises HomebodyError."""
    hint = "Remove the key to have a token generated, or generate one: openssl rand -hex 32"
    return checked(token, where="gateway.auth.token", hint=hint)


def token_from_file(file: Path, make: Callable[[], str] = fresh_token) -> str:
    """Return the token in the file. If the file does not exist, generate a token and write it.

    The file is written atomically with mode 0600 and synced, because a half-written one would prevent the gateway
    from starting. Raises HomebodyError for a weak token, a symbolic link, or a file that others can read; StorageFailed if it
    cannot be read or written.
    """
    if os.path.lexists(file):
        return _read(file)
    token = make()
    fresh = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    try:
        fresh.unlink(missing_ok=True)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w", encoding="ascii") as sink:  # noqa: PTH123 - a descriptor has no path
            sink.write(token + "\n")
            sink.flush()
            os.fsync(sink.fileno())
        os.link(fresh, file)
    except FileExistsError:
        return _read(file)
    except OSError as error:
        raise StorageFailed.from_os(error, "make the gateway's token", file) from error
    finally:
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)
    return checked(token, where=str(file), hint="Delete it and restart the gateway.")


def _read(file: Path) -> str:
    again = f"Delete it; a new token is generated at the next start: rm {file}"
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if file.is_symlink():
            raise HomebodyError(
                "is a symbolic link, which is not allowed for a file with a secret", where=str(file), hint=again
            ) from error
        raise StorageFailed.from_os(error, "read the gateway's token", file) from error
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise HomebodyError("is not a regular file", where=str(file), hint=again)
        if found.st_mode & 0o077:
            raise HomebodyError("can be read by other users of this machine", where=str(file), hint=again)
        text = os.read(descriptor, _READ_AT_MOST).decode("utf-8", "replace")
    finally:
        os.close(descriptor)
    return checked(text, where=str(file), hint=again)


def same(offered: bytes, token: str) -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(offered, token.encode("ascii"))


class GatewayToken:
    """The token that holds at the moment: that of the settings, which ``given`` returns, or else that of ``file``.

    A replaced token holds from the next request on. A file that is gone is made anew; one that cannot be used lets nobody in.
    ``learn`` gets a token that was replaced in the file, which may be in no log and no reply.
    """

    def __init__(
        self, file: Path, given: Callable[[], str | None], learn: Callable[[Iterable[str]], None] = lambda _: None
    ) -> None:
        self._file = file
        self._given = given
        self._learn = learn
        self._stamp: tuple[int, int, int] | None = None
        self._token: str | None = None

    async def open(self) -> None:
        """Read or make the token. Raises HomebodyError for one that cannot be used."""
        given = self._given()
        if given is None:
            self._token = await asyncio.to_thread(token_from_file, self._file)
            self._stamp = stamp_of(self._file)
        else:
            token_from_settings(given)

    async def holds(self, offered: bytes) -> bool:
        """Return whether ``offered`` is the token, compared in constant time."""
        token = self._given()
        if token is not None:
            return same(offered, token.strip())
        if self._stamp is None or stamp_of(self._file) != self._stamp:
            await self._read_again()
        return self._token is not None and same(offered, self._token)

    async def _read_again(self) -> None:
        try:
            self._token = await asyncio.to_thread(token_from_file, self._file)
        except HomebodyError as error:
            log.warning("the gateway's token cannot be used, so no token holds: %s", error.as_text())
            self._token = None
        else:
            self._learn([self._token])
            log.info("the gateway's token was read again, because %s changed", self._file.name)
        self._stamp = stamp_of(self._file)


class FixedToken:
    """A token that never changes."""

    def __init__(self, token: str) -> None:
        self._token = token

    async def holds(self, offered: bytes) -> bool:
        """Return whether ``offered`` is the token, compared in constant time."""
        return same(offered, self._token)
