"""What is known of each mail that is to be sent, on disk before it matters, so that a repeat after a crash sends none twice.

prepared   it is written and shown; nothing was sent
doubt      its last byte is about to be sent: from here on nobody knows, until the server answers
accepted   the SMTP server took it
filed      a copy is in the folder of sent mail, or need not be
unknown    it was in doubt and nothing tells whether it arrived; it is not sent again
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal

from agent import fault_injection
from agent.errors import MailRefused
from gateway.base.atomic_file import sync, write_atomically, write_synced

log = logging.getLogger(__name__)

OUTGOING: Final = "mail/outgoing"
"""The folder of the records, below the state."""
SendState = Literal["prepared", "doubt", "accepted", "filed", "unknown"]
FORGOTTEN_AFTER: Final[dict[str, timedelta]] = {
    "prepared": timedelta(days=2),
    "filed": timedelta(days=14),
    "unknown": timedelta(days=60),
}
"""How long records are kept: questions are open for half an hour, and turns are not resumed after days."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendRecord:
    """One mail. ``key`` names the call that sends it; ``original`` is the id of the mail that it answers, or empty.

    ``draft``: it is saved as a draft and not sent. ``details`` is what the owner is shown. ``kept``: of one that is "unknown", a copy is
    among the drafts.
    """

    key: str
    account: str
    state: SendState
    message_id: str
    sender: str
    recipients: tuple[str, ...]
    summary: str
    details: str
    made: str
    wish: str
    original: str = ""
    draft: bool = False
    kept: bool = False


def record_key(session: str, turn: str, call: str) -> str:
    """Return the name of the record of a call."""
    return hashlib.blake2b(f"{session}\0{turn}\0{call}".encode("utf-8", "replace"), digest_size=16).hexdigest()


class SendRecords:
    """The records of all accounts in ``folder``. Blocking."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, key: str) -> SendRecord | None:
        """Return a record, or None."""
        try:
            return _read(json.loads(self._about(key).read_bytes()))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise MailRefused(f"the record of this mail cannot be read, so it is not sent: {error}") from error

    def prepare(self, record: SendRecord, mail: bytes) -> None:
        """Keep a mail that is to be sent. Raises MailRefused."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_synced(self._mail(record.key), mail)
            self._write(record)
        except OSError as error:
            raise MailRefused(f"the mail cannot be stored before it is sent: {error.strerror}") from error

    def mail(self, key: str) -> bytes:
        """Return a mail that was prepared. Raises MailRefused."""
        try:
            return self._mail(key).read_bytes()
        except OSError as error:
            raise MailRefused(f"the stored mail is gone: {error.strerror}") from error

    def advance(self, record: SendRecord, state: SendState, *, kept: bool = False) -> SendRecord:
        """Record that a mail came to a state, durably. Raises MailRefused."""
        fresh = replace(record, state=state, kept=kept)
        try:
            self._write(fresh)
            if state == "filed":
                self._mail(record.key).unlink(missing_ok=True)
        except OSError as error:
            raise MailRefused(f"the record of the mail cannot be written: {error.strerror}") from error
        return fresh

    def all(self) -> Iterator[SendRecord]:
        """Yield all records that can be read."""
        for path in sorted(self._folder.glob("*.json")):
            try:
                yield _read(json.loads(path.read_bytes()))
            except (OSError, ValueError, TypeError, KeyError) as error:
                log.warning("the record %s of a mail cannot be read: %s", path.name, error)

    def sweep(self, now: datetime) -> None:
        """Delete records that no call can ask for any more."""
        for record in list(self.all()):
            kept = FORGOTTEN_AFTER.get(record.state)
            if kept is not None and now - datetime.fromisoformat(record.made) > kept:
                self._about(record.key).unlink(missing_ok=True)
                self._mail(record.key).unlink(missing_ok=True)

    def _write(self, record: SendRecord) -> None:
        fault_injection.point("before", f"mail_{record.state}")
        write_atomically(self._about(record.key), json.dumps(asdict(record), ensure_ascii=False), durable=True)
        sync(self._folder)
        fault_injection.point("after", f"mail_{record.state}")

    def _about(self, key: str) -> Path:
        return self._folder / f"{key}.json"

    def _mail(self, key: str) -> Path:
        return self._folder / f"{key}.eml"


def _read(raw: dict[str, Any]) -> SendRecord:
    known = {name: value for name, value in raw.items() if name in SendRecord.__dataclass_fields__}
    return SendRecord(**known | {"recipients": tuple(raw["recipients"])})
