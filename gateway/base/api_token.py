"""The bearer token of the HTTP surface: made once, kept in a file of the owner's alone, never weak."""

from __future__ import annotations

import contextlib
import hmac
import os
import re
import secrets
import stat
from typing import TYPE_CHECKING

from gateway.base.errors import HomebodyError, StorageFailed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FILE_NAME = "gateway.token"
SHORTEST = 24
FEWEST_KINDS = 10
"""A token of 24 or more random characters has fewer kinds than this about never; one typed to get past a check often has."""

_READ_AT_MOST = 4096
_BYTES = 32  # 256 bits
_EXAMPLES = re.compile(
    r"(?i)(undefined|null|none|nan|true|false|example|sample|change|replace|insert|enter|your|my|the|this|with|here|me|a"
    r"|token|secret|password|passwd|key|test|default|admin|gateway|homebody|bearer|long|random|string|value|x|[-_.<>\d])+"
)


def fresh_token() -> str:
    """Return 256 random bits as text that any header and shell takes."""
    return secrets.token_urlsafe(_BYTES)


def checked(token: str, *, where: str, hint: str) -> str:
    """Return the token, without white space around it. Raises HomebodyError for one that is blank, short, or an example's.

    ``where`` names the file or setting it came from; the token itself is never told.
    """
    token = token.strip()
    problem = ""
    if not token:
        problem = "holds no token"
    elif not token.isascii() or not token.isprintable() or " " in token:
        problem = "holds a token with characters that no HTTP header takes"
    elif len(token) < SHORTEST:
        problem = f"holds a token of {len(token)} characters; {SHORTEST} are the least"
    elif len(set(token)) < FEWEST_KINDS or _EXAMPLES.fullmatch(token):
        problem = "holds a token that anyone could guess"
    if problem:
        raise HomebodyError(problem, where=where, hint=hint)
    return token


def token_from_settings(token: str) -> str:
    """Check a token that `gateway.auth.token` gives. Raises HomebodyError."""
    hint = "Remove the key, and a good token is made for you; or make one: openssl rand -hex 32"
    return checked(token, where="gateway.auth.token", hint=hint)


def token_from_file(file: Path, make: Callable[[], str] = fresh_token) -> str:
    """Return the token that is kept in the file, making both when the file is not there.

    The file comes into being whole, mode 0600, and is durable on return: one that a crash left half written would keep the house
    from starting. Raises HomebodyError for a weak token, a symbolic link, or a file that others can read; StorageFailed where the
    disk does not let it be read or written.
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
    return checked(token, where=str(file), hint="Delete it and start again.")


def _read(file: Path) -> str:
    again = f"Delete it, and a new token is made at the next start: rm {file}"
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if file.is_symlink():
            raise HomebodyError(
                "is a symbolic link, and a secret is not kept behind one", where=str(file), hint=again
            ) from error
        raise StorageFailed.from_os(error, "read the gateway's token", file) from error
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise HomebodyError("is not a plain file", where=str(file), hint=again)
        if found.st_mode & 0o077:
            raise HomebodyError("can be read by other users of this machine, so it may be known", where=str(file), hint=again)
        text = os.read(descriptor, _READ_AT_MOST).decode("utf-8", "replace")
    finally:
        os.close(descriptor)
    return checked(text, where=str(file), hint=again)


def same(offered: bytes, token: str) -> bool:
    """Compare in a time that does not tell how much of it was right."""
    return hmac.compare_digest(offered, token.encode("ascii"))
