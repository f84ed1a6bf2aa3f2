"""Checks the ledger: whole, copied lately, nothing given up, no message that waits for long. And the crash loop's record."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import apsw

from gateway.api.handlers.hook_requests import HookHandlers
from gateway.api.handlers.job_requests import stored_jobs
from gateway.api.handlers.queues import QueueHandlers
from gateway.base.clock import SystemClock
from gateway.base.errors import StorageFailed
from gateway.doctor.checked_installation import Installation, in_thread
from gateway.doctor.finding import Check, Finding, NotChecked, ok
from gateway.ledger.ledger_backup import copies_of
from gateway.ledger.ledger_file import examined
from gateway.ledger.open_ledger import LEDGER, open_file, open_ledger
from gateway.ledger.protocol import Ledger
from gateway.queue.pause import OTHERS_WORK
from gateway.supervision import crash_loop

OLD_COPY: Final = timedelta(days=1)
"""Age of the newest copy of a ledger that changed since: the gateway copies every hour and when it stops."""
LONG_WAIT: Final = timedelta(minutes=30)
_RECOVERS: Final = "The gateway recovers what can be read when it starts, and tells you what is missing: homebody start"


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerFacts:
    """What the checks need of the ledger, read once. ``damage``: why it cannot be used, and ``mend`` what to do; then the rest is empty."""

    damage: str = ""
    mend: str = ""
    missing: bool = False
    outbox: list[dict[str, Any]] = field(default_factory=list)
    inbox: list[dict[str, Any]] = field(default_factory=list)
    failed: list[dict[str, Any]] = field(default_factory=list)
    hooks: list[dict[str, Any]] = field(default_factory=list)
    people: list[dict[str, Any]] = field(default_factory=list)
    jobs: list[dict[str, Any]] = field(default_factory=list)


_CALLS: Final[Mapping[str, str]] = {
    "outbox": "outbox.list",
    "inbox": "inbox.list",
    "failed": "inbox.missed",
    "hooks": "hooks.list",
    "people": "pairing.list",
    "jobs": "jobs.list",
}
_KEYS: Final = {"outbox": "outbox", "inbox": "inbox", "failed": "inbox", "hooks": "hooks", "people": "approved", "jobs": "jobs"}


async def ledger_facts(installation: Installation) -> LedgerFacts:
    """Return what the ledger holds: from the running gateway, else read with the lock held. It is never repaired here.

    Raises NotChecked where another process than a gateway has it.
    """
    return await installation.once("ledger", lambda: _facts(installation))


async def _facts(installation: Installation) -> LedgerFacts:
    if installation.gateway_runs:
        return LedgerFacts(**{name: (await installation.ask(call))[_KEYS[name]] for name, call in _CALLS.items()})
    path = installation.paths.state / LEDGER
    if installation.settings.storage.url is not None:
        async with installation.alone():
            return await _of_database(installation)
    if not path.parent.is_dir() or not (path.exists() or copies_of(path)):
        return LedgerFacts(missing=True)
    async with installation.alone():
        condition = await in_thread(examined, path)
        if condition.damage:
            return LedgerFacts(damage=condition.damage, mend=condition.mend)
        if condition.older:
            raise NotChecked("the ledger is of an earlier version; the next start of the gateway converts it")
        ledger = await open_file(path, SystemClock())
        try:
            return await _of_ledger(ledger, installation)
        finally:
            await ledger.close()


async def _of_database(installation: Installation) -> LedgerFacts:
    try:
        ledger = await open_ledger(installation.paths.state, installation.settings.storage, SystemClock())
    except StorageFailed as error:
        return LedgerFacts(damage=str(error), mend=error.hint)
    try:
        return await _of_ledger(ledger, installation)
    finally:
        await ledger.close()


async def _of_ledger(ledger: Ledger, installation: Installation) -> LedgerFacts:
    settings = installation.settings
    calls: dict[str, Callable[..., Any]] = {
        **QueueHandlers(ledger).calls(),
        **stored_jobs(ledger, settings).calls(),
        **HookHandlers(ledger.hooks, lambda: settings, SystemClock()).calls(),
    }
    found = {name: (await calls[call]())[_KEYS[name]] for name, call in _CALLS.items() if call in calls}
    people = [{"channel": one.channel, "sender": one.sender, "role": one.role} for one in await ledger.pairing.approved()]
    return LedgerFacts(**found, people=people)


async def _examine(installation: Installation) -> list[Finding]:
    path = installation.paths.state / LEDGER
    if installation.settings.storage.url is not None and installation.gateway_runs:
        lasts = (await installation.ask("ledger.outage"))["outage"]
        if lasts is not None:
            return [
                Finding(
                    level="error",
                    what=f"the gateway can store nothing since {lasts['since'][:16]}: {lasts['text']}",
                    where="storage.url",
                    why="It takes no messages meanwhile, and goes on by itself.",
                    mend=lasts["mend"] or "homebody storage status",
                )
            ]
    facts = await ledger_facts(installation)
    if installation.settings.storage.url is not None:
        return _in_database(facts, running=installation.gateway_runs)
    if facts.missing:
        return [ok("there is no ledger yet; the first start makes it")]
    if facts.damage:
        why = "It holds messages that wait for an answer, and replies that were not sent yet."
        what = f"the ledger cannot be used: {facts.damage}" if facts.mend else f"the ledger is damaged: {facts.damage}"
        damaged = Finding(level="error", what=what, where=str(path), why=why, mend=facts.mend or _RECOVERS)
        return [damaged, *await in_thread(_copies, path)]
    found = [
        *await in_thread(_copies, path),
        *_waiting(facts, running=installation.gateway_runs),
        *await in_thread(_set_aside, path),
    ]
    return found or [ok(f"the ledger is whole, its newest copy is {_age_of_copy(path)} old, nothing was given up")]


def _in_database(facts: LedgerFacts, *, running: bool) -> list[Finding]:
    """What holds of a ledger in PostgreSQL. Its copies are a matter of the server."""
    if facts.damage:
        return [
            Finding(
                level="error",
                what=f"the ledger cannot be used: {facts.damage}",
                where="storage.url",
                why="Without it the gateway takes no messages.",
                mend=facts.mend or "homebody storage status",
            )
        ]
    text = "the ledger is in PostgreSQL, which makes no copies by itself (docs/postgresql.md); nothing was given up"
    return [*_waiting(facts, running=running)] or [ok(text)]


def _copies(path: Path) -> Iterator[Finding]:
    copies = copies_of(path)
    bad = [copy for copy in copies if _unreadable(copy)]
    for copy in bad:
        mend = f"rm {copy}"
        yield Finding(
            level="warning",
            what="this copy of the ledger cannot be read",
            where=str(copy),
            why="It would not help if the ledger were lost.",
            mend=mend,
        )
    if not path.exists():
        return
    changed = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    newest = max((datetime.fromtimestamp(copy.stat().st_mtime, UTC) for copy in copies), default=None)
    why = "If the ledger is lost, what came since then is lost."
    if newest is None and datetime.now(UTC) - changed > timedelta(hours=2):
        yield Finding(
            level="warning",
            what="the ledger has no copy",
            where=str(path),
            why=why,
            mend="Restart the gateway: it copies the ledger when it stops.",
        )
    elif newest is not None and changed - newest > OLD_COPY:
        days = (changed - newest).total_seconds() / 86_400
        what = f"the newest copy of the ledger is {days:.0f} days older than the ledger"
        yield Finding(
            level="warning",
            what=what,
            where=str(path.parent),
            why=why,
            mend="homebody logs --grep 'ledger could not be copied' --since 7d",
        )


def _unreadable(copy: Path) -> bool:
    """Whether a copy, which no process has open, is no whole database."""
    try:
        db = apsw.Connection(f"file:{quote(str(copy))}?immutable=1", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
        try:
            return bool(db.pragma("integrity_check", 1) != "ok")
        finally:
            db.close()
    except apsw.Error:
        return True


def _age_of_copy(path: Path) -> str:
    newest = max((copy.stat().st_mtime for copy in copies_of(path)), default=None)
    if newest is None:
        return "not"
    hours = max(0.0, datetime.now(UTC).timestamp() - newest) / 3600
    return f"{hours:.0f} hours" if hours < 72 else f"{hours / 24:.0f} days"  # noqa: PLR2004


def _waiting(facts: LedgerFacts, *, running: bool) -> Iterator[Finding]:
    for job in facts.jobs:
        if job["state"] == "paused" and job["reason"]:
            yield Finding(
                level="warning",
                what=f"the job “{job['name']}” was paused: {job['reason']}",
                why="It does nothing until it is resumed.",
                mend=f"homebody cron resume {job['id']}, or homebody cron remove {job['id']}",
            )
    dead = [row for row in facts.outbox if row["state"] == "dead" and row["reason"] != "dropped by the owner"]
    if dead:
        what = f"{len(dead)} replies were given up; the last: {dead[-1]['reason'] or 'no reason is known'}"
        yield Finding(
            level="warning",
            what=what,
            why="The people they are for never got them.",
            mend="homebody outbox list, then: homebody outbox retry NUMBER",
        )
    doubtful = [row for row in facts.failed if row["state"] == "failed" and "doubt" in (row["reason"] or "")]
    if doubtful:
        yield Finding(
            level="warning",
            what=f"{len(doubtful)} messages are in doubt since the ledger was damaged",
            why="Nobody answers them.",
            mend="homebody inbox missed, then: homebody inbox retry NUMBER",
        )
    late = [row for row in facts.inbox if datetime.now(UTC) - datetime.fromisoformat(row["receivedAt"]) > LONG_WAIT]
    if late and running:
        yield Finding(
            level="warning",
            what=f"{len(late)} messages have waited for more than 30 minutes",
            why="Their senders have no answer.",
            mend="homebody status",
        )
    elif late:
        yield Finding(level="note", what=f"{len(late)} messages wait for the gateway to be started", mend="homebody start")


def _set_aside(path: Path) -> Iterator[Finding]:
    kept = sorted(
        one for one in path.parent.glob(f"{path.name}.bad-*") if not one.name.endswith(("-wal", "-shm", "-open", "-journal"))
    )
    if kept:
        what = f"{len(kept)} damaged ledgers were set aside; the last is {kept[-1].name}"
        why = "A disk that damages files does it again. What could be read was recovered."
        yield Finding(
            level="note",
            what=what,
            where=str(path.parent),
            why=why,
            mend=f"Check the disk (sudo dmesg | grep -i error). Not needed any more: rm {path}.bad-*",
        )


async def _examine_crashes(installation: Installation) -> list[Finding]:
    status = await installation.status()
    causes = (status or {}).get("paused", ())
    found = [
        Finding(
            level="error",
            what=f"the gateway is paused: {cause}",
            why="" if cause.endswith(OTHERS_WORK) else "It stores messages and does not answer.",
            mend="Free some space on that disk" if "no space is left" in cause.casefold() else "homebody resume",
        )
        for cause in causes
    ]
    lives = await in_thread(_lives, installation.paths.local / crash_loop.NAME)
    last = [(at, clean) for at, clean in lives[:-1] if datetime.now(UTC) - at < timedelta(days=1)]
    crashed = sum(not clean for _, clean in last)
    if lives and not installation.gateway_runs and not lives[-1][1] and datetime.now(UTC) - lives[-1][0] < timedelta(days=30):
        crashed += 1
    if crashed >= crash_loop.TOO_OFTEN:
        what = f"the gateway ended {crashed} times without being stopped in the last day"
        found.append(
            Finding(
                level="error",
                what=what,
                why="It crashes, or something ends it (no memory left, say).",
                mend="homebody logs --level error --since 1d",
            )
        )
    elif crashed:
        what = "the gateway ended without being stopped" + (f" {crashed} times" if crashed > 1 else "")
        found.append(
            Finding(level="note", what=what, why="A power cut, a crash, or no memory left.", mend="homebody logs --since 1d")
        )
    return found or [ok("the gateway did not crash in the last day")]


def _lives(path: Path) -> list[tuple[datetime, bool]]:
    try:
        return [(datetime.fromtimestamp(float(one[0]), UTC), bool(one[1])) for one in json.loads(path.read_text())]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError, IndexError) as error:
        raise NotChecked(f"{path} cannot be read: {error}") from error


LEDGER_CHECK = Check(name="ledger", examine=_examine, seconds=60.0, quick=True)
CRASHES = Check(name="crashes", examine=_examine_crashes, quick=True)
