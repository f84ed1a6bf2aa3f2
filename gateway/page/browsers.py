"""Browsers that may open the page: one-time codes, cookies and roles, kept as hashes in ``state/browsers.json``.

A code is exchanged for a cookie once. Both have more than 128 random bits, so that plain hashes of them cannot be guessed back.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal

from gateway.base.atomic_file import stamp_of, write_atomically
from gateway.base.errors import StorageFailed, UsageError

log = logging.getLogger(__name__)

FILE_NAME: Final = "browsers.json"
CODE_LIFETIME: Final = timedelta(minutes=5)
COOKIE_LIFETIME: Final = timedelta(days=30)
MOST_CODES: Final = 20
MOST_BROWSERS: Final = 50
"""The one that was not used for the longest time makes room for another."""
SEEN_EVERY: Final = timedelta(hours=1)
"""How exactly it is noted when a browser was last used."""
_NAME_CHARS: Final = 60

BrowserRole = Literal["owner", "viewer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OneTimeCode:
    """A code that was not used yet."""

    hash: str
    role: BrowserRole
    expires: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Browser:
    """One browser that was let in. ``id`` is not secret. Times are in ISO 8601 with a zone."""

    id: str
    hash: str
    role: BrowserRole
    name: str
    created: str
    seen: str
    expires: str

    @property
    def facts(self) -> dict[str, Any]:
        """What may be shown of it."""
        return {one: getattr(self, one) for one in ("id", "name", "role", "created", "seen", "expires")}


@dataclass
class _Stored:
    codes: list[OneTimeCode] = field(default_factory=list)
    browsers: list[Browser] = field(default_factory=list)


class Browsers:
    """The browsers of one installation. ``now`` returns the time. Methods block for the time of a small file.

    The command line and a running gateway both use the file; a changed one is read again before the next request, so that a
    browser that was removed is let in no more. A file that cannot be read lets nobody in.
    """

    def __init__(self, state: Path, now: Callable[[], datetime]) -> None:
        self.path = state / FILE_NAME
        self._now = now
        self._by_hash: dict[str, Browser] = {}
        self._stamp: tuple[int, int, int] | None = None

    def code(self, role: BrowserRole = "owner") -> tuple[str, datetime]:
        """Make a code, and return it with the time until which it can be used. Raises StorageFailed."""
        made = secrets.token_urlsafe(24)
        expires = self._now() + CODE_LIFETIME
        with self._changing() as stored:
            stored.codes = [*stored.codes[-(MOST_CODES - 1) :], OneTimeCode(hash=_hash(made), role=role, expires=_at(expires))]
        return made, expires

    def enter(self, code: str, user_agent: str) -> tuple[Browser, str]:
        """Exchange a code, which is used up by it; return the browser and its cookie.

        Raises:
            UsageError: it is none, is too old, or was used before.
            StorageFailed: the file cannot be written.
        """
        cookie, now = secrets.token_urlsafe(32), self._now()
        with self._changing() as stored:
            found = next((one for one in stored.codes if secrets.compare_digest(one.hash, _hash(code))), None)
            if found is None:
                hint = "A code holds for 5 minutes and for one browser. Make another: homebody open"
                raise UsageError("this code cannot be used (any more)", hint=hint)
            stored.codes.remove(found)
            browser = Browser(
                id=secrets.token_hex(4),
                hash=_hash(cookie),
                role=found.role,
                name=browser_name(user_agent),
                created=_at(now),
                seen=_at(now),
                expires=_at(now + COOKIE_LIFETIME),
            )
            by_use = sorted(stored.browsers, key=lambda one: one.seen)
            stored.browsers = [*by_use[-(MOST_BROWSERS - 1) :], browser]
        return browser, cookie

    def find(self, cookie: str) -> Browser | None:
        """Return the browser with that cookie, or None. It is looked up by its hash, so timing tells nothing of it."""
        stamp = stamp_of(self.path)
        if stamp != self._stamp:
            self._by_hash = {one.hash: one for one in (self._read(strict=False).browsers if stamp else ())}
            self._stamp = stamp
        found = self._by_hash.get(_hash(cookie)) if cookie else None
        return found if found is not None and _time(found.expires) > self._now() else None

    def seen(self, cookie: str) -> Browser | None:
        """Return the browser with that cookie, as ``find`` does, and note that it is in use."""
        found = self.find(cookie)
        if found is not None:
            self.used(found)
        return found

    def used(self, browser: Browser) -> None:
        """Note that a browser is in use, if that was not noted lately. What cannot be written is noted another time."""
        now = self._now()
        if now - _time(browser.seen) < SEEN_EVERY:
            return
        try:
            with self._changing() as stored:
                stored.browsers = [replace(one, seen=_at(now)) if one.id == browser.id else one for one in stored.browsers]
        except StorageFailed as error:
            log.warning("%s", error)

    def all(self) -> list[Browser]:
        """Return the browsers, the one that was used last first. Raises StorageFailed."""
        now = self._now()
        alive = [one for one in self._read(strict=True).browsers if _time(one.expires) > now]
        return sorted(alive, key=lambda one: one.seen, reverse=True)

    def revoke(self, wanted: str) -> list[Browser]:
        """Remove the browser with an id, or ``all``; return what was removed. Unused codes stop, too. Raises UsageError, StorageFailed."""
        with self._changing() as stored:
            gone = [one for one in stored.browsers if wanted in {one.id, "all"}]
            if not gone and wanted != "all":
                raise UsageError(
                    f"there is no browser {wanted[:40]!r}", hint="The browsers and their names: homebody browsers list"
                )
            stored.browsers = [one for one in stored.browsers if one not in gone]
            stored.codes = []
        return gone

    @contextmanager
    def _changing(self) -> Iterator[_Stored]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            with os.fdopen(os.open(f"{self.path}.lock", flags, 0o600), "rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                stored, now = self._read(strict=True), self._now()
                stored.codes = [one for one in stored.codes if now < _time(one.expires) <= now + CODE_LIFETIME]
                stored.browsers = [one for one in stored.browsers if _time(one.expires) > now]
                yield stored
                fields = {
                    "version": 1,
                    "codes": list(map(asdict, stored.codes)),
                    "browsers": list(map(asdict, stored.browsers)),
                }
                write_atomically(self.path, json.dumps(fields, indent=2), durable=True)
        except OSError as error:
            raise StorageFailed.from_os(error, "write the list of browsers", self.path) from error

    def _read(self, *, strict: bool) -> _Stored:
        try:
            found = json.loads(self.path.read_text("utf-8"))
            return _Stored(
                [_made(OneTimeCode, one) for one in found["codes"]], [_made(Browser, one) for one in found["browsers"]]
            )
        except FileNotFoundError:
            return _Stored()
        except (OSError, ValueError, KeyError, TypeError) as error:
            if strict:
                hint = f"Move it away and let the browsers in again: mv {self.path} {self.path}.broken"
                raise StorageFailed("the list of browsers cannot be read", where=str(self.path), hint=hint) from error
            log.warning("%s cannot be read: no browser is let in (homebody browsers list)", self.path)
            return _Stored()


def csrf_of(cookie: str) -> str:
    """Return what the page sends with each change, and another site cannot know. It follows from the cookie."""
    return hashlib.sha256(b"csrf\0" + cookie.encode("utf-8", "replace")).hexdigest()[:32]


_BROWSERS: Final = (("Edg", "Edge"), ("OPR", "Opera"), ("Firefox", "Firefox"), ("FxiOS", "Firefox"), ("CriOS", "Chrome"))
_ENGINES: Final = (("Chrome", "Chrome"), ("Safari", "Safari"))
_SYSTEMS: Final = (
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Windows", "Windows"),
    ("Macintosh", "macOS"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
)


def browser_name(user_agent: str) -> str:
    """Return a browser in two words, such as "Firefox on Android", from what it says of itself."""
    name = next((shown for mark, shown in (*_BROWSERS, *_ENGINES) if mark in user_agent), "")
    system = next((shown for mark, shown in _SYSTEMS if mark in user_agent), "")
    known = " on ".join(filter(None, (name, system)))
    return known or re.sub(r"[^\x20-\x7e]", "", user_agent)[:_NAME_CHARS].strip() or "a browser"


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def _at(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _made(kind: Any, written: dict[str, Any]) -> Any:
    made = kind(**{one.name: written[one.name] for one in fields(kind)})
    if made.role not in {"owner", "viewer"} or not made.hash or _time(made.expires).tzinfo is None:
        raise ValueError(f"an entry of {FILE_NAME} is not whole")
    return made
