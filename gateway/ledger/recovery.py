"""Recovers rows from a damaged ledger and decides which to trust.

Nothing may be sent or answered twice. So open messages and replies continue by themselves only when the last process ended in order and
the row is sure (see ``raw_tables``). All other open rows become in doubt (``IN_DOUBT``): they do nothing until somebody asks for them.
Messages that were seen stay known, whatever their state.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal

import apsw
from msgspec.structs import replace

from gateway.ledger.hook_rows import from_json
from gateway.ledger.job_columns import read_details
from gateway.ledger.ledger_backup import newest_copy
from gateway.ledger.raw_tables import SHAPES, RawPages, RawTables, Row
from gateway.ledger.rows import IN_DOUBT
from gateway.ledger.unasked import is_readable
from gateway.ledger.values import account_of, clean, read_conversation, read_payload, stamp

Ending = Literal["closed", "crashed", "lost"]
"""How the last process left the ledger: in order, not in order, or with its write-ahead log missing."""

_YOUNG: Final = timedelta(days=7)
_EARLIEST, _LATEST = 1_400_000_000_000_000, 4_100_000_000_000_000
_MOST_ROWS: Final = 1 << 40
_MOST_DOLLARS: Final = 100_000.0
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")
_PREVIEWS: Final = "previews"
"""The cursor that names messages which are no answers yet; one of them may have become an answer since, and must not be deleted."""
_OPEN_APPROVAL = ("pending", "approved")
"""An approved act may have been done or not."""
_OPEN_SUBAGENT = ("open",)
_TIMES_OF_JOB: Final = ("created_at", "changed_at", "next_at", "last_at", "unsure_until")
_OPEN_UNASKED = ("held", "kept")
_OPEN_INBOX, _OPEN_OUTBOX = ("waiting", "claimed"), ("ready", "sending", "ambiguous")


@dataclass
class Recovered:
    """What was recovered. The owner decides about doubtful rows; ``shut_out`` are the people who must pair again.

    ``paused`` are the hooks whose token or rules may have been changed since. ``copy`` is the name of the copy that was used beside the
    damaged file.
    """

    waiting: int = 0
    to_send: int = 0
    let_in: int = 0
    known: int = 0
    doubtful_messages: int = 0
    doubtful_replies: int = 0
    doubtful_unasked: int = 0
    shut_out: list[str] = field(default_factory=list)
    hooks: int = 0
    paused: list[str] = field(default_factory=list)
    jobs: int = 0
    unsure_jobs: int = 0
    copy: str = ""

    def __str__(self) -> str:
        saved = [
            words
            for count, words in (
                (self.waiting, _many(self.waiting, "message that waits", "messages that wait")),
                (self.to_send, _many(self.to_send, "reply to be sent", "replies to be sent")),
                (self.let_in, _many(self.let_in, "person who was let in", "people who were let in")),
                (self.hooks, _many(self.hooks, "hook", "hooks")),
                (self.jobs, _many(self.jobs, "job", "jobs")),
                (self.known, _many(self.known, "message that was dealt with", "messages that were dealt with")),
            )
            if count
        ]
        lines = [f"Saved from it: {', '.join(saved)}." if saved else "Nothing could be saved from it."]
        if self.copy:
            lines.append(f"What could not be read was taken from the copy {self.copy}, if it was there already.")
        if self.doubtful_messages:
            messages = _many(self.doubtful_messages, "message", "messages")
            lines.append(
                f"{messages} may have been answered already or not: `homebody inbox missed`, `homebody inbox retry NUMBER`."
            )
        if self.doubtful_replies:
            replies = _many(self.doubtful_replies, "reply", "replies")
            lines.append(
                f"{replies} may have been sent already or not: `homebody outbox list`, `homebody outbox retry NUMBER`, "
                "or /missed in their conversation."
            )
        if self.doubtful_unasked:
            held = _many(self.doubtful_unasked, "message that was held", "messages that were held")
            lines.append(f"{held} may have been sent already or not: `homebody outbox held`, `homebody outbox send NUMBER`.")
        if self.shut_out:
            lines.append(
                f"Whether these people may still speak is not sure, so they must ask anew: {', '.join(self.shut_out)}."
            )
        if self.paused:
            lines.append(
                f"These hooks are paused, because they may have been changed or removed since: {', '.join(self.paused)}. "
                "Let one go on with `homebody hooks resume NAME`, or give it a new token with `homebody hooks rotate NAME`."
            )
        if self.unsure_jobs:
            jobs = _many(self.unsure_jobs, "job", "jobs")
            lines.append(f"{jobs} may have been changed or removed since, or be missing: `homebody cron list` shows all.")
        lines.append("Other messages and replies may be missing altogether: whoever got no answer should write again.")
        return " ".join(lines)


def recover(db: apsw.Connection, damaged: Path, ending: Ending, now: datetime, ledger: Path) -> Recovered:
    """Insert what can be recovered into a new ledger, in one transaction. Blocking.

    Rows that cannot be read in the damaged file are taken from the newest copy of ``ledger``, but nothing open in it is believed.

    Raises:
        OSError, apsw.Error: the damaged file cannot be read, or the new ledger cannot be written; nothing is changed then.
    """
    readable = damaged.exists() or Path(f"{damaged}-wal").exists()
    tables = RawTables(RawPages(damaged)).tables if readable else {name: [] for name in SHAPES}
    copy = newest_copy(ledger)
    if copy is not None:
        _add_copy(tables, copy[1])
    work = _Recovery(db, tables, ending, now)
    with db:
        work.run()
    work.result.copy = copy[0].name if copy is not None else ""
    return work.result


def _add_copy(tables: dict[str, list[Row]], copy: dict[str, list[Row]]) -> None:
    """Add a copy's rows, which count only where the damaged file has none.

    Its list of approved senders is used where none can be read in the file, because somebody in it may have been revoked since. Owners are
    believed then, if the file is lost altogether.
    """
    lost = not any(row.sure for row in tables["meta"])
    for table in ("inbox", "outbox", "spending", "approval", "hook", "subagent", "unasked"):
        tables[table] += copy[table]
    known = {row.values["id"] for row in copy["job"]}
    strays = [row for row in tables["job"] if not row.sure and row.values["id"] not in known]
    for row in strays:  # it may be on an old page, and have been removed long ago
        row.values.update(state="paused", reason="the ledger was damaged, and this job may have been removed before")
    tables["job"] += copy["job"]
    tables["moved"] += [replace(row, sure=True) for row in copy["moved"]]
    if not any(row.sure for row in tables["approved"]):
        tables["approved"] += [replace(row, sure=lost and row.values["role"] == "owner") for row in copy["approved"]]


class _Recovery:
    def __init__(self, db: apsw.Connection, tables: dict[str, list[Row]], ending: Ending, now: datetime) -> None:
        self._db = db
        self._tables = tables
        self._ending = ending
        self._now = stamp(now)
        self._young = stamp(now - _YOUNG)
        self._epochs = {row.values["value"] for row in tables["meta"] if row.sure and row.values["name"] == "epoch"}
        self.result = Recovered()

    def run(self) -> None:
        for row in _final_first(self._tables["inbox"], _OPEN_INBOX):
            self._message(dict(row.values), believed=self._believed(row))
        for row in _final_first(self._tables["outbox"], _OPEN_OUTBOX):
            self._reply(dict(row.values), believed=self._believed(row))
        self._people()
        self._hooks()
        self._jobs()
        self._plain("pairing", lambda row: row.sure and row.values["expires"] > self._now and _placed(row.values))
        self._plain(
            "cursor",
            lambda row: row.sure and self._ending != "lost" and (row.values["name"] != _PREVIEWS or self._believed(row)),
        )
        self._plain("moved", lambda row: row.sure and _timely(row.values["moved_at"]))
        self._plain(
            "aside",
            lambda row: self._believed(row) and _timely(row.values["noted_at"]) and _is_json(row.values["sources"] or "[]"),
        )
        self._plain(
            "meta",
            lambda row: (
                self._believed(row)
                and row.values["name"].startswith(("noted:", "allowed:", "heartbeat:", "activation:", "forget:"))
            ),
        )
        self._plain("spending", lambda row: _plausible(row.values))
        for row in _final_first(self._tables["approval"], _OPEN_APPROVAL):
            self._approval(dict(row.values))
        for row in _final_first(self._tables["subagent"], _OPEN_SUBAGENT):
            self._subagent(dict(row.values), believed=self._believed(row))
        for row in _final_first(self._tables["unasked"], _OPEN_UNASKED):
            self._unasked(dict(row.values), believed=self._believed(row))

    def _believed(self, row: Row) -> bool:
        return row.sure and self._ending == "closed"

    def _message(self, row: dict[str, Any], *, believed: bool) -> None:
        """Insert a message, at least as a known one, so that it is a duplicate when the platform offers it again."""
        was_open = row["state"] in _OPEN_INBOX
        if not (_timely(row["received_at"]) and _timely(row["ended_at"])):
            row |= {"received_at": self._now, "ended_at": self._now}
        row["payload"] = row["payload"] if _is_json(row["payload"]) else None
        row |= {"turn": None, "id": _number(row["id"])}
        goes_on = row["state"] == "waiting" and believed and row["payload"] is not None
        if was_open and not goes_on:
            row |= {"state": "failed", "reason": IN_DOUBT, "ended_at": self._now}
        if not self._insert("inbox", row):
            return
        if goes_on:
            self.result.waiting += 1
        elif not was_open:
            self.result.known += 1
        elif row["received_at"] >= self._young:
            self.result.doubtful_messages += 1

    def _reply(self, row: dict[str, Any], *, believed: bool) -> None:
        was_open = row["state"] in _OPEN_OUTBOX
        times = ("created_at", "not_before", "expires", "ended_at")
        if not (_placed(row) and _readable(row) and all(_timely(row[name]) for name in times)):
            return
        goes_on = was_open and believed and row["epoch"] in self._epochs
        if goes_on and (row["state"] != "ready" or row["doubts"]):
            row |= {"state": "ambiguous", "doubts": max(row["doubts"], 1)}
        elif was_open and not goes_on:
            row |= {"state": "dead", "reason": IN_DOUBT, "ended_at": self._now, "doubts": max(row["doubts"], 1)}
        row |= {"turn": None, "id": _number(row["id"])}
        epoch = self._db.execute("SELECT value FROM meta WHERE name = 'epoch'").fetchall()[0][0]
        if self._insert("outbox", row | {"epoch": epoch}) and was_open:
            self.result.to_send += goes_on
            self.result.doubtful_replies += not goes_on and row["created_at"] >= self._young

    def _unasked(self, row: dict[str, Any], *, believed: bool) -> None:
        """Insert a message that nobody asked for. One that may have been sent since it was held is kept, and its owner decides."""
        if not (is_readable(row) and _timely(row["made_at"]) and _timely(row["ended_at"])):
            return
        doubtful = row["state"] in _OPEN_UNASKED and not believed
        if doubtful:
            row |= {"state": "kept", "told": 1}
        if self._insert("unasked", row | {"turn": None, "id": _number(row["id"])}):
            self.result.doubtful_unasked += doubtful

    def _approval(self, row: dict[str, Any]) -> None:
        """Insert a question as one that cannot be decided any more: its turn is gone, and a yes must not hold for another one."""
        if not all(_timely(row[name]) for name in ("asked_at", "expires", "decided_at")):
            return
        if row["state"] in _OPEN_APPROVAL:
            row |= {"state": "withdrawn", "reason": IN_DOUBT, "always": 0}
        self._insert("approval", row | {"turn": None, "decided_at": row["decided_at"] or self._now})

    def _subagent(self, row: dict[str, Any], *, believed: bool) -> None:
        """Insert a sub-agent. One that was open goes on only with its messages: nobody knows whether its result was told."""
        if not (_timely(row["created_at"]) and _timely(row["ended_at"]) and _is_json(row["payload"])):
            return
        if row["state"] in _OPEN_SUBAGENT and not believed:
            row |= {"state": "failed", "reason": IN_DOUBT, "ended_at": self._now}
        self._insert("subagent", row)

    def _people(self) -> None:
        """Insert approved senders. Whoever was revoked must stay so, and an older version of a page may hold a revoked sender."""
        unsure: dict[tuple[str, str], str] = {}
        for row in self._tables["approved"]:
            values = row.values
            who = (values["channel"], values["sender"])
            if (
                row.sure
                and (self._ending != "lost" or values["role"] == "owner")
                and _placed(values)
                and _timely(values["approved_at"])
            ):
                self.result.let_in += self._insert("approved", dict(values))
            else:
                unsure[who] = values["name"] or values["sender"]
        known = set(self._db.execute("SELECT channel, sender FROM approved").fetchall())
        self.result.shut_out = sorted(name for who, name in unsure.items() if who not in known)

    def _hooks(self) -> None:
        """Insert hooks. One that may have got another token since, or was removed, is paused: an old token must not open anything."""
        newest_first = sorted(self._tables["hook"], key=lambda row: (row.sure, row.values["changed_at"]), reverse=True)
        for row in newest_first:
            values = dict(row.values)
            if not (_timely(values["created_at"]) and _timely(values["changed_at"]) and _ruled(values["rules"])):
                continue
            believed = row.sure and self._ending != "lost"
            if self._insert("hook", values if believed else values | {"state": "paused"}):
                self.result.hooks += 1
                self.result.paused += [] if believed else [values["name"]]

    def _jobs(self) -> None:
        """Insert jobs. Instants up to now may have fired already, unless the ledger was closed in order and the row is sure."""
        newest_first = sorted(
            self._tables["job"],
            key=lambda row: (row.sure, row.values["changed_at"], row.values["last_at"] or 0),
            reverse=True,
        )
        for row in newest_first:
            values = dict(row.values)
            if not (all(_timely(values[name]) for name in _TIMES_OF_JOB) and _is_job(values)):
                continue
            if not self._believed(row):
                values["unsure_until"] = self._now
            if values["state"] == "paused":
                values["next_at"] = None
            if self._insert("job", values):
                self.result.jobs += 1
                self.result.unsure_jobs += not row.sure

    def _plain(self, table: str, wanted: Callable[[Row], bool]) -> None:
        for row in sorted(self._tables[table], key=lambda row: not row.sure):
            if wanted(row):
                self._insert(table, dict(row.values))

    def _insert(self, table: str, row: dict[str, Any]) -> bool:
        """Insert a row unless the table's constraints forbid it or it exists; return whether it was inserted."""
        row = {name: clean(value) if isinstance(value, str) else value for name, value in row.items()}
        query = f"INSERT OR IGNORE INTO {table} ({', '.join(row)}) VALUES ({', '.join(f':{name}' for name in row)})"
        try:
            self._db.execute(query, row)
        except (apsw.ConstraintError, apsw.MismatchError, apsw.RangeError):
            return False
        return self._db.changes() == 1


def _final_first(rows: Iterable[Row], still_open: tuple[str, ...]) -> list[Row]:
    """Return the sure rows in order, then the others, ended ones first: of two versions of a row the ended one is the later."""
    return sorted(rows, key=lambda row: (not row.sure, not row.sure and row.values["state"] in still_open, row.values["id"]))


def _number(row: int) -> int | None:
    return row if 0 < row < _MOST_ROWS else None


def _timely(moment: int | None) -> bool:
    return moment is None or _EARLIEST < moment < _LATEST


def _is_json(payload: str | None) -> bool:
    try:
        return payload is not None and isinstance(json.loads(payload), dict)
    except (ValueError, RecursionError):
        return False


def _placed(row: dict[str, Any]) -> bool:
    """Return whether a row's address can be read and matches its other columns."""
    try:
        place = read_conversation(row["target"])
        named = place.address
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return False
    if "conversation" in row:
        return bool(account_of(place) == row["account"] and clean(named) == row["conversation"])
    return bool((place.channel, place.account) == (row["channel"], row["account"]))


def _is_job(row: dict[str, Any]) -> bool:
    """Return whether a job can be read and has an instant if it is active."""
    try:
        read_details(row["details"])
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return False
    return row["state"] != "active" or row["next_at"] is not None


def _ruled(rules: str) -> bool:
    """Return whether the rules of a hook can be read."""
    try:
        from_json(rules)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _readable(row: dict[str, Any]) -> bool:
    """Return whether the rest of a reply can be read."""
    try:
        read_payload(row["extras"])
        if row["missed"] is not None:
            missed = json.loads(row["missed"])
            return isinstance(missed["count"], int) and all(isinstance(item, str) for item in missed["items"])
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return False
    return all(0 <= int(row[name]) < _MOST_ROWS for name in ("attempt", "doubts"))


def _plausible(row: dict[str, Any]) -> bool:
    """Return whether a call's figures are possible. Impossible ones would use up the day's budget."""
    counts = [row[name] for name in ("tokens", "input", "output", "cache_read", "cache_write")]
    return (
        _timely(row["at"])
        and all(0 <= count < _MOST_ROWS for count in counts)
        and 0 <= (row["cost"] or 0) < _MOST_DOLLARS
        and row["background"] in (0, 1)
        and row["settled"] in (0, 1, 2)
        and _DAY.fullmatch(row["day"]) is not None
    )


def _many(count: int, one: str, several: str) -> str:
    return f"{count} {one if count == 1 else several}"
