"""One logged-in connection to a mailbox: folders, selecting, searching, fetching, moving. Blocking, and for one thread at a time.

Imported only when a mailbox is used: it brings in imap-tools.
"""

from __future__ import annotations

import imaplib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from imap_tools.errors import ImapToolsError, MailboxTaggedResponseError
from imap_tools.mailbox import BaseMailBox
from imap_tools.utils import encode_folder

from channels.common.mail.bounded_imap import OPERATION_BYTES, BoundedIMAP
from channels.common.mail.explanations import LoginRefused
from channels.common.mail.imap_criteria import Criteria, imap_date, quoted
from channels.common.mail.imap_values import NotReadable, Value, body_of, check_of, fetched, uid_of
from channels.common.mail.login import MailLogin
from channels.errors import MailProblem

Use = str
"""What a folder is for: "sent", "drafts", "archive", "trash", "junk", or ""."""
_SPECIAL: Final[dict[str, Use]] = {
    "\\sent": "sent",
    "\\drafts": "drafts",
    "\\archive": "archive",
    "\\all": "all",
    "\\trash": "trash",
    "\\junk": "junk",
}
"""Special uses (RFC 6154)."""
_USUAL: Final[dict[Use, tuple[str, ...]]] = {
    "sent": ("sent", "sent items", "sent mail", "sent messages", "gesendet", "gesendete elemente", "gesendete objekte"),
    "drafts": ("drafts", "draft", "entwürfe"),
    "archive": ("archive", "archives", "archiv"),
    "trash": ("trash", "deleted items", "deleted messages", "bin", "papierkorb", "gelöschte elemente"),
}
"""Usual names of folders, for servers that do not say."""
MOST_FOLDERS: Final = 2000
FIRST_WINDOW: Final = 500
"""Mails that the first search command looks at, the newest ones; the next ones look at more."""
LARGEST_WINDOW: Final = 50_000
_GROWTH: Final = 4
_QUICK: Final = 1.0
"""Seconds: after a command that took less, the next one looks at more mails."""
_SHARE: Final = 0.6
"""The share of the time of an operation after which no further search command begins."""
_STRUCTURE: Final = "BODYSTRUCTURE "
SUMMARY: Final = "(UID FLAGS INTERNALDATE RFC822.SIZE BODYSTRUCTURE BODY.PEEK[HEADER.FIELDS (FROM TO SUBJECT DATE)]<0.8192>)"
CHUNK: Final = 524_288
"""Bytes of a part that are fetched at once."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of a mailbox, and what it is for, if that is known."""

    name: str
    use: Use = ""
    can_hold: bool = True


@dataclass(frozen=True, slots=True)
class Selected:
    """A folder that was opened. ``validity`` changes when the server numbers it anew, ``next_uid`` is the number of the next mail."""

    folder: str
    validity: int
    next_uid: int
    count: int


@dataclass(frozen=True, slots=True)
class Found:
    """The numbers that a search found, the newest first. ``looked``: how many of the ``count`` mails were looked at."""

    uids: tuple[int, ...]
    looked: int
    count: int


class _Box(BaseMailBox):
    """A mailbox of imap-tools over a connection that is there already."""

    def __init__(self, client: BoundedIMAP) -> None:
        self._given = client
        super().__init__()

    def _get_mailbox_client(self) -> imaplib.IMAP4:
        return self._given


class ImapConnection:
    """A connection that is logged in. Methods raise what ``BoundedIMAP``, imap-tools and ``imap_values`` raise.

    ``monotonic`` measures how long searches take.
    """

    def __init__(self, account: MailLogin, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._account = account
        self._monotonic = monotonic
        self.client = BoundedIMAP(account.imap, monotonic=monotonic)
        self._box = _Box(self.client)
        self._selected: tuple[str, bool] | None = None
        self._folders: list[Folder] | None = None
        try:
            self._log_in()
        except BaseException:
            self.close()
            raise

    def _log_in(self) -> None:
        user, password = self._account.user, self._account.password.get_secret_value()
        if any(ord(char) < ord(" ") for char in password):
            raise LoginRefused("the password holds a line end or another control character")
        offered = set(self._capabilities())
        try:
            if "AUTH=PLAIN" in offered and ("LOGINDISABLED" in offered or not (user + password).isascii()):
                self._box.login_utf8(user, password, None)
            else:
                self._box.login(user, password, None)
        except imaplib.IMAP4.abort:
            raise
        except (ImapToolsError, imaplib.IMAP4.error, UnicodeEncodeError) as error:
            raise LoginRefused(_server_words(error)) from error
        self.capabilities = frozenset(self._capabilities())

    def _capabilities(self) -> Iterator[str]:
        _, data = self.client.capability()
        for line in data:
            if isinstance(line, bytes):
                yield from line.decode("ascii", "replace").upper().split()

    def begin(self, seconds: float | None = None, most_bytes: int = OPERATION_BYTES) -> None:
        """Begin an operation: from now on it may take so long (default: as the account says) and receive so much."""
        self.client.allow(seconds or self._account.timeout_seconds, most_bytes)

    def close(self) -> None:
        """Close it, without waiting for the server's farewell."""
        try:
            self.client.shutdown()
        except OSError:
            return

    def alive(self) -> bool:
        """Ask the server whether it is still there."""
        try:
            self.begin(min(10.0, self._account.timeout_seconds))
            self.client.noop()
        except (imaplib.IMAP4.error, OSError):
            return False
        return True

    def folders(self) -> list[Folder]:
        """Return all folders."""
        if self._folders is None:
            listed = self._box.folder.list()[:MOST_FOLDERS]
            said = [
                Folder(one.name, _use(one.flags), not any(flag.lower() == "\\noselect" for flag in one.flags)) for one in listed
            ]
            self._folders = [self._guessed(one, said) for one in said]
        return self._folders

    def _guessed(self, folder: Folder, all_of_them: Sequence[Folder]) -> Folder:
        if folder.use or not folder.can_hold:
            return folder
        last = folder.name.replace("\\", "/").replace(".", "/").rpartition("/")[2].casefold()
        for use, names in _USUAL.items():
            if last in names and not any(one.use == use for one in all_of_them):
                return Folder(folder.name, use)
        return folder

    def folder_for(self, use: Use) -> str | None:
        """Return the folder for a use: by the settings, by the server's word, by its name; None where there is none."""
        chosen: str | None = getattr(self._account.folders, use, None)
        return chosen or next((one.name for one in self.folders() if one.use == use and one.can_hold), None)

    def named(self, folder: str) -> str:
        """Return the folder that a name or a use such as "archive" means. Raises MailProblem where there is none."""
        if folder.casefold() == "inbox":
            return "INBOX"
        known = [one.name for one in self.folders()]
        if folder in known:
            return folder
        if (used := self.folder_for(folder.casefold()) if folder.casefold() in {*_USUAL, "junk"} else None) is not None:
            return used
        alike = [one for one in known if one.casefold() == folder.casefold()]
        if len(alike) == 1:
            return alike[0]
        raise MailProblem(f"there is no folder {folder[:80]!r}", hint=f"there is {', '.join(known[:30])}", quotes=True)

    def select(self, folder: str, *, writing: bool = False) -> Selected:
        """Open a folder, and find out anew how many mails it has."""
        _, data = self._box.folder.set(folder, readonly=not writing)
        self._selected = (folder, writing)
        return Selected(
            folder,
            validity=self._number("UIDVALIDITY"),
            next_uid=self._number("UIDNEXT"),
            count=int(data[0] or 0) if str((data[0] or b"").decode("ascii", "replace")).isdigit() else 0,
        )

    def _number(self, name: str) -> int:
        _, data = self.client.response(name)
        last = next((one for one in reversed(data or []) if one), b"")
        text = last.decode("ascii", "replace") if isinstance(last, bytes) else str(last)
        return int(text) if text.isdigit() and len(text) < 20 else 0  # noqa: PLR2004 -- longer than any number of IMAP

    def select_checked(self, folder: str, check: str, *, writing: bool = False) -> Selected:
        """Open the folder of a mail's id. Raises MailProblem where the server has numbered it anew since."""
        found = self.select(folder, writing=writing)
        if check_of(found.validity) != check:
            raise MailProblem(
                f"the server has numbered the folder {folder} anew, so this id means nothing any more", hint="list it again"
            )
        return found

    def unread(self, folder: str) -> tuple[int, int]:
        """Return how many mails a folder has, and how many of them are unread."""
        found = self._box.folder.status(folder, ["MESSAGES", "UNSEEN"])
        return found.get("MESSAGES", 0), found.get("UNSEEN", 0)

    def search(self, selected: Selected, criteria: Criteria, wanted: int) -> Found:
        """Search the newest mails first until so many were found, all were looked at, or most of the time is over."""
        began, size = self._monotonic(), 50 if criteria.reads_mails else FIRST_WINDOW
        most = 2000 if criteria.reads_mails else LARGEST_WINDOW
        uids: list[int] = []
        top = selected.count
        while top > 0 and len(uids) < wanted:
            started = self._monotonic()
            if uids and started - began > self._account.timeout_seconds * _SHARE:
                break
            bottom = max(1, top - size + 1)
            uids += sorted(self._uids(f"{bottom}:{top} ".encode() + criteria.text), reverse=True)
            top = bottom - 1
            now = self._monotonic()
            if now - began > self._account.timeout_seconds * _SHARE:
                break
            size = min(size * _GROWTH, most) if now - started < _QUICK else max(size // 2, 50)
        return Found(tuple(uids[:wanted]), selected.count - top, selected.count)

    def _uids(self, criteria: bytes) -> list[int]:
        charset = None if criteria.isascii() else "UTF-8"
        encoded: Any = criteria
        return [int(one) for one in self._box.uids(encoded, charset) if one.isdigit()]

    def newer(self, since_uid: int) -> list[int]:
        """Return the numbers from ``since_uid`` on in the open folder, in ascending order."""
        return sorted(one for one in self._uids(f"UID {since_uid}:*".encode()) if one >= since_uid)

    def holding(self, message_id: str, day: datetime) -> list[int]:
        """Return the mails of the open folder with a Message-ID, of those stored since the day before ``day``."""
        since = imap_date((day - timedelta(days=1)).date())
        return self._uids(f"SINCE {since} HEADER Message-ID ".encode() + quoted(message_id))

    def with_message_id(self, message_id: str) -> list[int]:
        """Return the mails of the open folder with a Message-ID."""
        return self._uids(b"HEADER Message-ID " + quoted(message_id))

    def summaries(self, uids: Sequence[int]) -> list[dict[str, Value]]:
        """Return what a list shows of mails, in the order of ``uids``. Those that are gone or cannot be read are left out."""
        return self.fetch(uids, SUMMARY)

    def latest(self, selected: Selected, count: int, skip: int) -> list[dict[str, Value]]:
        """Return what a list shows of the newest mails without a search: the newest first, after ``skip`` of them."""
        top = selected.count - skip
        if top <= 0:
            return []
        data = self._done("FETCH", self.client.fetch(f"{max(1, top - count + 1)}:{top}", SUMMARY))
        try:
            found = fetched(data)
        except NotReadable:
            found = self.summaries(self._uids(f"{max(1, top - count + 1)}:{top}".encode()))
        return sorted((one for one in found if isinstance(one.get("UID"), int)), key=lambda one: -uid_of(one))

    def fetch(self, uids: Sequence[int], items: str) -> list[dict[str, Value]]:
        """Return items of mails, in the order of ``uids``. One that cannot be read spoils no other."""
        if not uids:
            return []
        data = self._done("FETCH", self.client.uid("FETCH", ",".join(map(str, uids)), items))
        try:
            found = {uid_of(one): one for one in fetched(data) if isinstance(one.get("UID"), int)}
        except NotReadable:
            if len(uids) == 1:  # what its sender made of its structure must not hide a mail
                return self.fetch(uids, items.replace(_STRUCTURE, "")) if _STRUCTURE in items else []
            return [one for uid in uids for one in self.fetch([uid], items)]
        return [found[uid] for uid in uids if uid in found]

    def part(self, uid: int, section: str, most: int) -> Iterator[bytes]:
        """Yield the content of a part as it is transferred, in pieces, at most ``most`` bytes."""
        place = 0
        while place < most:
            size = min(CHUNK, most - place)
            self.client.allow(self._account.timeout_seconds, OPERATION_BYTES)
            found = self.fetch([uid], f"(UID BODY.PEEK[{section}]<{place}.{size}>)")
            data = body_of(found[0]) if found else b""
            if data:
                yield data
            place += len(data)
            if len(data) < size:
                return

    def move(self, uid: int, target: str) -> None:
        """Move a mail of the open folder, which was opened for writing."""
        place = encode_folder(target)
        if "MOVE" in self.capabilities:
            self._done("MOVE", self.client.uid("MOVE", str(uid), _text(place)))
            return
        self._done("COPY", self.client.uid("COPY", str(uid), _text(place)))
        self.flag(uid, "\\Deleted", on=True)
        if "UIDPLUS" in self.capabilities:  # a plain EXPUNGE would also remove what others marked
            self._done("EXPUNGE", self.client.uid("EXPUNGE", str(uid)))

    def flag(self, uid: int, flag: str, *, on: bool) -> None:
        """Set or clear a flag of a mail of the open folder. Nothing is expunged."""
        self.flag_all([uid], flag, on=on)

    def flag_all(self, uids: Sequence[int], flag: str, *, on: bool) -> None:
        """Set or clear a flag of several mails."""
        numbers = ",".join(map(str, uids))
        self._done("STORE", self.client.uid("STORE", numbers, f"{'+' if on else '-'}FLAGS.SILENT", f"({flag})"))

    def append(self, folder: str, message: bytes, flag: str, at: datetime) -> None:
        """Store a mail in a folder."""
        self._box.append(message, folder, dt=at, flag_set=[flag])

    def _done(self, command: str, answer: tuple[str, list[Any]]) -> list[Any]:
        """Return the data of an answer. Raises IMAP4.error where the server did not do it."""
        if answer[0] != "OK":
            words = b" ".join(one for one in answer[1] if isinstance(one, bytes)).decode("utf-8", "replace")
            raise imaplib.IMAP4.error(f"{command}: {words}")
        return answer[1]

    def start_idle(self) -> bool:
        """Have the server tell of new mail in the open folder. Returns whether it has something to tell at once."""
        try:
            self._box.idle.start()  # type: ignore[no-untyped-call]
        except MailboxTaggedResponseError:  # what the library expects first comes behind it
            return True
        return False

    def stop_idle(self) -> None:
        """End that."""
        self.begin(min(20.0, self._account.timeout_seconds))
        self._box.idle.stop()  # type: ignore[no-untyped-call]


def _use(flags: Sequence[str]) -> Use:
    return next((_SPECIAL[flag.lower()] for flag in flags if flag.lower() in _SPECIAL), "")


def _text(folder: bytes) -> str:
    return folder.decode("ascii")


def _server_words(error: Exception) -> str:
    """Return what the server said, out of the text of an exception of imap-tools, which shows Python values."""
    result = getattr(error, "command_result", None)
    data = result[1] if isinstance(result, tuple) and len(result) > 1 else None
    first = next((one for one in data or [] if isinstance(one, bytes)), None)
    return first.decode("utf-8", "replace") if first else str(error) or type(error).__name__
