"""Waits for new mail of one account in a thread of its own: by IDLE (RFC 2177), or by asking where the server has none."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Protocol

from agent.errors import MailRefused
from channels.common.mail.explanations import LoginRefused, is_of_mail
from channels.common.mail.imap_values import check_of
from channels.common.mail.stored_mail import StoredMail, Summary, read_mail, summary_of
from gateway.base.errors import StorageFailed
from gateway.mail.account_connections import imap_connection
from gateway.mail.agent_mail import trusted_of
from gateway.mail.message_ids import MessageId
from gateway.mail.refusals import refused
from gateway.mail.watch_cursor import Cursor, CursorFile
from gateway.settings.mail_settings import MailAccount

if TYPE_CHECKING:
    from channels.common.mail.imap_connection import ImapConnection, Selected

log = logging.getLogger(__name__)

RENEWED_AFTER: Final = 540.0
"""Seconds of one IDLE. Servers end it after half an hour, and home routers forget silent connections sooner."""
FIRST_WAIT: Final = 5.0
LONGEST_WAIT: Final = 900.0
"""Seconds before connecting again: doubled with each failure in a row."""
MOST_SHOWN: Final = 20
"""Mails of one announcement that are described; the others are counted."""
MOST_READ: Final = 5
"""Mails of one announcement whose beginning is read for the agent."""
_LOOKED_BACK: Final = 200
"""Mails that are looked at when the server has numbered a folder anew."""


@dataclass(frozen=True, slots=True)
class NewMail:
    """Mails to be announced together. ``key`` is the same for the same mails. ``count``: how many there are, of which some are shown."""

    account: str
    key: str
    count: int
    shown: tuple[tuple[str, Summary], ...]
    texts: tuple[tuple[str, StoredMail], ...] = ()


class Announce(Protocol):
    """Announces new mail. Called in the watcher's thread, and returns when the announcement is stored.

    Raises:
        StorageFailed: it could not be stored.
    """

    def __call__(self, mail: NewMail) -> None:
        """Announce it; what is known already by its key is not announced again."""
        ...


class MailWatcher:
    """Watches one account. ``trouble`` says what keeps it from doing so, for people; "" while it works."""

    def __init__(
        self,
        name: str,
        account: MailAccount,
        cursors: CursorFile,
        announce: Announce,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        first_wait: float = FIRST_WAIT,
    ) -> None:
        self.name, self.account = name, account
        self.trouble = ""
        self.state = "connecting"
        self._cursors = cursors
        self._announce = announce
        self._monotonic = monotonic
        self._first_wait = first_wait
        self._stopped = threading.Event()
        self._connection: ImapConnection | None = None
        self._announced_at: float | None = None
        self._thread = threading.Thread(target=self.run, name=f"mail watch {name}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End it soon, without waiting for that."""
        self._stopped.set()
        if (connection := self._connection) is not None:
            connection.client.abort_waiting()

    def join(self, seconds: float) -> None:
        """Wait until it has ended."""
        self._thread.join(seconds)

    def run(self) -> None:
        """Watch until ``stop``."""
        wait = self._first_wait
        while not self._stopped.is_set():
            try:
                self._connect_and_watch()
                wait = self._first_wait
            except Exception as error:  # noqa: BLE001 -- whatever a server does must not end the watch
                wait = self._failed(error, wait)
            self._stopped.wait(wait * random.uniform(0.8, 1.2))  # noqa: S311 -- to spread connections, not to hide anything
        self.state = "stopped"

    def _failed(self, error: Exception, wait: float) -> float:
        """Note what is wrong, and return how long to wait."""
        worked = self.state == "watching"
        if isinstance(error, MailRefused | StorageFailed):
            self.trouble = str(error)
        elif is_of_mail(error):
            self.trouble = str(refused(error, self.name, self.account.imap))
        else:
            log.error("the watch of the mail account %s failed", self.name, exc_info=error)
            self.trouble = f"a defect ({type(error).__name__}); the log has the details"
        log.warning("new mail of %s is not seen at present: %s", self.name, self.trouble)
        self.state = "waiting"
        if isinstance(error, LoginRefused):
            return LONGEST_WAIT
        return self._first_wait if worked else min(wait * 2, LONGEST_WAIT)

    def _connect_and_watch(self) -> None:
        connection = self._connection = imap_connection()(self.account, monotonic=self._monotonic)
        try:
            while not self._stopped.is_set():
                self._announce_new(connection)
                self.state, self.trouble = "watching", ""
                self._wait(connection)
        finally:
            self._connection = None
            connection.close()

    def _wait(self, connection: ImapConnection) -> None:
        """Return when there may be new mail, and not too soon after the last announcement."""
        every = self.account.watch_every_seconds
        if self._announced_at is not None and (rest := self._announced_at + every - self._monotonic()) > 0:
            self._stopped.wait(rest)
            return
        if "IDLE" not in connection.capabilities:
            self._stopped.wait(every)
            return
        connection.begin()
        connection.start_idle()
        end = self._monotonic() + RENEWED_AFTER
        while not self._stopped.is_set() and (left := end - self._monotonic()) > 0:
            line = connection.client.wait_for_line(left)
            if line is None or b"EXISTS" in line.upper() or line.upper().startswith(b"* BYE"):
                break
        if not self._stopped.is_set():
            connection.stop_idle()

    def _announce_new(self, connection: ImapConnection) -> None:
        """Announce what came since the last look."""
        connection.begin()
        selected = connection.select(connection.named(self.account.watch_folder))
        cursor = self._cursors.load()
        if cursor is None or cursor.folder != selected.folder:
            self._cursors.save(self._begun(connection, selected))
            return
        if cursor.first and cursor.validity == selected.validity:
            cursor = self._announced(connection, selected, cursor, range(cursor.first, cursor.last + 1))
        if cursor.validity != selected.validity:
            log.warning("the server has numbered %s of %s anew", selected.folder, self.name)
            uids = self._arrived_since(connection, selected, datetime.fromisoformat(cursor.seen))
            cursor = replace(self._begun(connection, selected), seen=cursor.seen)
        elif selected.next_uid and selected.next_uid <= cursor.next_uid:
            return
        else:
            uids = connection.newer(cursor.next_uid)
        if uids:
            cursor = replace(cursor, first=uids[0], last=uids[-1])
            self._cursors.save(cursor)
            self._announced(connection, selected, cursor, uids)
        else:
            self._cursors.save(replace(cursor, next_uid=max(cursor.next_uid, selected.next_uid), first=0, last=0))

    def _begun(self, connection: ImapConnection, selected: Selected) -> Cursor:
        """Return a cursor behind all that is there."""
        next_uid = selected.next_uid or max((one for one in connection.newer(1)), default=0) + 1
        return Cursor(folder=selected.folder, validity=selected.validity, next_uid=next_uid, seen=datetime.now(UTC).isoformat())

    def _arrived_since(self, connection: ImapConnection, selected: Selected, seen: datetime) -> list[int]:
        found = [summary_of(one) for one in connection.latest(selected, _LOOKED_BACK, 0)]
        return sorted(one.uid for one in found if one.arrived is not None and one.arrived > seen)

    def _announced(self, connection: ImapConnection, selected: Selected, cursor: Cursor, uids: Sequence[int]) -> Cursor:
        """Announce mails, and return the cursor behind them."""
        trusted = trusted_of(self.account)
        found = [summary_of(one, trusted) for one in connection.summaries(uids[-_LOOKED_BACK:])]
        unread = [one for one in found if one.unread and not one.flags & {"\\deleted", "\\draft"}]
        more = max(0, len(uids) - _LOOKED_BACK)
        if unread:
            named = [(MessageId(self.name, selected.folder, check_of(selected.validity), one.uid), one) for one in unread]
            shown = named[-MOST_SHOWN:]
            read = shown[-MOST_READ:] if self.account.watch == "agent" else []
            self._announce(
                NewMail(
                    self.name,
                    f"mail:{self.name}:{selected.folder}:{selected.validity}:{cursor.first}-{cursor.last}",
                    len(unread) + more,
                    tuple((one.written(alone=False), summary) for one, summary in shown),
                    tuple((one.written(alone=False), read_mail(connection, one.uid, trusted)) for one, _ in read),
                )
            )
            self._announced_at = self._monotonic()
        latest = max((one.arrived for one in found if one.arrived is not None), default=None)
        seen = max(filter(None, (latest, datetime.fromisoformat(cursor.seen))))
        behind = replace(cursor, next_uid=max(cursor.last + 1, cursor.next_uid), seen=seen.isoformat(), first=0, last=0)
        self._cursors.save(behind)
        return behind
