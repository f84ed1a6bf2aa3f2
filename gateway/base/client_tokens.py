"""Tokens of programs that call the API: made, listed and revoked by the owner, kept as hashes in ``state/api-tokens.json``.

The command line and a running gateway both read the file; a changed one is read again before the next request, so that a revoked
token stops at once.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal

from gateway.base.atomic_file import stamp_of, write_atomically
from gateway.base.errors import StorageFailed, UsageError

log = logging.getLogger(__name__)

FILE_NAME: Final = "api-tokens.json"
PREFIX: Final = "hb_"
"""What every token begins with, so that people and scanners recognise one."""
MOST: Final = 100
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_.-]{0,39}")
_RESERVED: Final = frozenset({"owner"})

TokenRole = Literal["owner", "guest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientToken:
    """One token, without the secret.

    ``id`` is random and never used again; sessions are named after it. ``guest`` is the name of the guest whose it is, empty for one of
    the owner's. ``agent`` is the only agent that it may use; empty for all.
    """

    id: str
    name: str
    role: TokenRole
    hash: str
    created_at: str
    guest: str = ""
    agent: str = ""

    @property
    def facts(self) -> dict[str, Any]:
        """What may be shown of it."""
        shown = {"id": self.id, "name": self.name, "role": self.role, "createdAt": self.created_at}
        return shown | {"guest": self.guest or None, "agent": self.agent or None}


class ClientTokens:
    """The tokens of one installation. Methods block for the time of a small file. A file that cannot be read lets nobody in."""

    def __init__(self, state: Path) -> None:
        self.path = state / FILE_NAME
        self._by_hash: Mapping[str, ClientToken] = {}
        self._stamp: tuple[int, int, int] | None = None

    def find(self, offered: bytes) -> ClientToken | None:
        """Return the token that ``offered`` is, or None. It is looked up by its hash, so timing tells nothing of it."""
        stamp = stamp_of(self.path)
        if stamp != self._stamp:
            found = self._read(strict=False) if stamp else {}
            self._by_hash, self._stamp = {one.hash: one for one in found.values()}, stamp
        return self._by_hash.get(hash_of(offered)) if offered else None

    def all(self) -> list[ClientToken]:
        """Return all tokens by name. Raises StorageFailed."""
        return sorted(self._read(strict=True).values(), key=lambda one: one.name)

    def add(self, name: str, *, role: TokenRole, guest: str, agent: str, now: datetime) -> tuple[ClientToken, str]:
        """Make a token; return it with its secret, which is kept nowhere. Raises UsageError, StorageFailed."""
        name, guest = checked(name, "the name of a token"), checked(guest, "the name of a guest") if guest else ""
        secret = PREFIX + secrets.token_urlsafe(32)
        with self._changing() as known:
            if name in known:
                raise UsageError(f"there is a token {name!r} already", hint="Take another name, or: homebody api tokens list")
            if len(known) >= MOST:
                raise UsageError(f"there are {MOST} tokens already", hint="Revoke one: homebody api tokens revoke NAME")
            created = now.isoformat(timespec="seconds")
            made = ClientToken(
                id=secrets.token_hex(4),
                name=name,
                role=role,
                hash=hash_of(secret.encode()),
                created_at=created,
                guest=guest,
                agent=agent,
            )
            known[name] = made
        return made, secret

    def rotate(self, name: str) -> tuple[ClientToken, str]:
        """Give a token a new secret; its sessions stay. Raises UsageError, StorageFailed."""
        secret = PREFIX + secrets.token_urlsafe(32)
        with self._changing() as known:
            known[name] = made = replace(_found(known, name), hash=hash_of(secret.encode()))
        return made, secret

    def revoke(self, name: str) -> ClientToken:
        """Delete a token. Raises UsageError, StorageFailed."""
        with self._changing() as known:
            return known.pop(_found(known, name).name)

    @contextmanager
    def _changing(self) -> Iterator[dict[str, ClientToken]]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            with os.fdopen(os.open(f"{self.path}.lock", flags, 0o600), "rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                known = self._read(strict=True)
                yield known
                stored = {"version": 1, "tokens": [asdict(one) for one in known.values()]}
                write_atomically(self.path, json.dumps(stored, indent=2), durable=True)
        except OSError as error:
            raise StorageFailed.from_os(error, "write the tokens of the API", self.path) from error

    def _read(self, *, strict: bool) -> dict[str, ClientToken]:
        try:
            found = json.loads(self.path.read_text("utf-8"))["tokens"]
            return {one["name"]: _token(one) for one in found}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError) as error:
            if strict:
                hint = f"Move it away and make the tokens again: mv {self.path} {self.path}.broken"
                raise StorageFailed("the tokens of the API cannot be read", where=str(self.path), hint=hint) from error
            log.warning("%s cannot be read: no token of the API holds (homebody api tokens list)", self.path)
            return {}


def hash_of(secret: bytes) -> str:
    """Return what is kept of a token: it has 256 random bits, so a plain hash cannot be guessed back."""
    return hashlib.sha256(secret).hexdigest()


def checked(name: str, what: str) -> str:
    """Return a name that was typed. Raises UsageError."""
    if _NAME.fullmatch(name) is None or name in _RESERVED:
        hint = "Use 1 to 40 of a-z, 0-9, - _ and ., beginning with a letter or a digit; `owner` is taken."
        raise UsageError(f"{name[:60]!r} is not {what}", hint=hint)
    return name


def _token(written: Mapping[str, Any]) -> ClientToken:
    one = ClientToken(**{field.name: written[field.name] for field in fields(ClientToken)})
    if one.role not in {"owner", "guest"} or (one.role == "guest") != bool(one.guest) or not one.hash:
        raise ValueError(f"the token {one.name!r} is not whole")
    return one


def _found(known: Mapping[str, ClientToken], name: str) -> ClientToken:
    if name not in known:
        hint = f"There are: {', '.join(sorted(known))}." if known else "There are none: homebody api tokens add NAME"
        raise UsageError(f"there is no token {name[:60]!r}", hint=hint)
    return known[name]
