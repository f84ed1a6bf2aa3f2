"""Checks the clock: the time zone, whether it is kept by a time server, and whether it is far off."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from agent.models.catalog.model_listing import standings
from gateway.agents.memory_stores import machine_zone
from gateway.doctor.checked_installation import Installation
from gateway.doctor.finding import Check, Finding, ok
from gateway.models.key_profiles import Profiles

FAR: Final = timedelta(minutes=2)
VERY_FAR: Final = timedelta(hours=1)
BEHIND: Final = timedelta(days=1)
"""How much older than its own files the clock may be: some file systems round, and a zone may have been wrong."""
_SECONDS: Final = 5.0
_MATTERS: Final = (
    "Reminders come at the wrong time, and platforms and providers refuse connections whose certificates seem invalid."
)
_SET: Final = "Set it by a time server: sudo timedatectl set-ntp true"
_TIME_ERROR: Final = 5
_UTC: Final = {"UTC", "Etc/UTC", "Etc/UCT", "Etc/Universal", "Etc/Zulu"}


def _examine(installation: Installation) -> Iterator[Finding]:
    yield from _zone(installation)
    wrong = list(_behind_files(installation)) or ([] if installation.offline else list(_far_off(installation)))
    yield from wrong
    kept = _kept_by_time_server()
    if kept is False:
        why = "It is off by seconds a day, so reminders come too early or too late after some weeks."
        yield Finding(
            level="note",
            what="no time server keeps the clock (the kernel says that it is not synchronised)",
            why=why,
            mend=_SET,
        )
    elif not wrong:
        said = "it is kept by a time server" if kept else "whether a time server keeps it cannot be known here"
        yield ok(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC; {said}")


def _zone(installation: Installation) -> Iterator[Finding]:
    try:
        zone = str(machine_zone())
    except (ZoneInfoNotFoundError, ValueError, LookupError) as error:
        mend = "sudo timedatectl set-timezone Europe/Berlin, or: homebody config set agents.defaults.userTimezone Europe/Berlin"
        yield Finding(level="error", what=f"the time zone of this machine is unknown: {error}", why=_MATTERS, mend=mend)
        return
    named = {zone}
    if installation.valid_settings is not None:
        named = {profile.settings.user_timezone or zone for profile in installation.profiles}
    shown = ", ".join(f"{name} ({datetime.now(ZoneInfo(name)):%H:%M})" for name in sorted(named))
    if named <= _UTC and not os.environ.get("TZ"):
        mend = "homebody config set agents.defaults.userTimezone Europe/Berlin"
        yield Finding(
            level="note",
            what="the time zone is UTC, as on machines where none was chosen",
            why="“At 9” means 9 o'clock UTC.",
            mend=mend,
        )
    else:
        yield ok(f"time zone {shown}")


def _behind_files(installation: Installation) -> Iterator[Finding]:
    """A machine without a battery starts in the past; its own newest file tells."""
    folders = [installation.paths.state, installation.paths.logs, Path(__file__).parent]
    newest, path = max(
        ((one.stat().st_mtime, one) for folder in folders if folder.is_dir() for one in folder.iterdir()), default=(0.0, None)
    )
    ahead = datetime.fromtimestamp(newest, UTC) - datetime.now(UTC)
    if path is not None and ahead > BEHIND:
        dated = f"a file is from {datetime.fromtimestamp(newest, UTC):%Y-%m-%d}"
        what = f"the clock is wrong: it says {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, but {dated}"
        yield Finding(level="error", what=what, where=str(path), why=_MATTERS, mend=_SET)


def _far_off(installation: Installation) -> Iterator[Finding]:
    """Compare with the hour in the answers of the model providers that have a key; nobody else is asked."""
    settings = installation.valid_settings
    if settings is None:
        return
    key_source = Profiles(installation.paths, settings.auth).key_source(settings.default_agent)
    for standing in standings(settings.models, installation.env, key_source):
        if standing.key in {"missing", "none needed"}:
            continue
        if (off := _difference(standing.address)) is not None:
            if abs(off) > FAR:
                level = "error" if abs(off) > VERY_FAR else "warning"
                side = "behind" if off > timedelta() else "ahead of"
                host = urlsplit(standing.address).hostname
                what = f"the clock is {_words(abs(off))} {side} that of {host}"
                yield Finding(level=level, what=what, why=_MATTERS, mend=_SET)  # type: ignore[arg-type]  # one of the levels
            return


def _difference(address: str) -> timedelta | None:
    """Return how far a server's clock is ahead of ours; None where it does not say."""
    parts = urlsplit(address)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    try:
        connection = kind(parts.hostname or "", parts.port, timeout=_SECONDS)
        try:
            connection.request("HEAD", parts.path or "/")
            said = connection.getresponse().getheader("Date")
        finally:
            connection.close()
        return parsedate_to_datetime(said) - datetime.now(UTC) if said else None
    except (OSError, HTTPException, ValueError, TypeError):
        return None


def _words(off: timedelta) -> str:
    minutes = round(off / timedelta(minutes=1))
    if off < timedelta(hours=3):
        return f"{minutes} minutes"
    return f"{round(off / timedelta(hours=1))} hours" if off < timedelta(days=3) else f"{round(off / timedelta(days=1))} days"


def _kept_by_time_server() -> bool | None:
    """Ask the kernel, as ``timedatectl`` does: adjtimex returns TIME_ERROR for a clock that nobody keeps. None where it cannot be asked."""
    try:
        state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.create_string_buffer(512))
    except (OSError, AttributeError):
        return None
    return None if state < 0 else state != _TIME_ERROR


CLOCK = Check(name="clock", examine=_examine, quick=True)
