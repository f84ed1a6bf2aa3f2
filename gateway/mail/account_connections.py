"""The connections of all accounts: opened when first used, used again for a while, closed when nobody needs them."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

from agent.errors import MailRefused
from channels.common.mail.explanations import is_broken, is_of_mail
from channels.errors import MailProblem
from gateway.mail.refusals import missing, refused
from gateway.settings.mail_settings import MailAccount, MailSettings

if TYPE_CHECKING:
    from channels.common.mail.imap_connection import ImapConnection

log = logging.getLogger(__name__)

KEPT_SECONDS: Final = 60.0
"""How long a connection stays open after its last use."""
THREADS: Final = 4
T = TypeVar("T")


@dataclass
class _Open:
    """The connection of one account, and the settings that it was opened with. ``lock`` is held by whoever uses it."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    account: MailAccount | None = None
    connection: ImapConnection | None = None
    closer: threading.Timer | None = None

    def close(self) -> None:
        """Close the connection, if there is one. The lock is held."""
        if self.closer is not None:
            self.closer.cancel()
        if self.connection is not None:
            self.connection.close()
        self.connection = self.closer = self.account = None


class AccountConnections:
    """Gives work a connection to an account. ``settings`` returns those in force. Safe to use from several threads."""

    def __init__(self, settings: Callable[[], MailSettings], *, kept: float = KEPT_SECONDS) -> None:
        self._settings = settings
        self._kept = kept
        self._opened: dict[str, _Open] = {}
        self._lock = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None
        self._closed = False

    def names(self) -> Collection[str]:
        """Return the names of the accounts that there are."""
        return self._settings().accounts.keys()

    def account(self, name: str) -> MailAccount:
        """Return an account. Raises MailRefused where there is none with this name."""
        accounts = self._settings().accounts
        if name not in accounts:
            known = ", ".join(accounts) or "none"
            raise MailRefused(f"there is no mail account {name[:40]!r}", hint=f"there is {known}")
        return accounts[name]

    async def run(self, name: str, work: Callable[[ImapConnection], T]) -> T:
        """Do blocking work with a connection, in a thread. Raises MailRefused."""
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(THREADS, "mail")
        return await asyncio.get_running_loop().run_in_executor(self._threads, self.use, name, work)

    def use(self, name: str, work: Callable[[ImapConnection], T]) -> T:
        """Do work with a connection, here. Where one that was open already proves broken, the work is done again with a new one.

        Raises:
            MailRefused: the server cannot be reached or refuses it.
        """
        account = self.account(name)
        with self._lock:
            opened = self._opened.setdefault(name, _Open())
        if not opened.lock.acquire(timeout=account.timeout_seconds):
            raise MailRefused(f"the account {name} is busy with something that takes long", hint="try again later")
        try:
            return self._work(name, account, opened, work)
        except Exception as error:  # ``is_of_mail`` knows the classes, of libraries that are loaded only when used
            if isinstance(error, MailRefused) or not is_of_mail(error):
                raise
            raise refused(error, name, account.imap) from error
        finally:
            if opened.connection is not None:
                self._close_later(opened)
            opened.lock.release()

    def _work(self, name: str, account: MailAccount, opened: _Open, work: Callable[[ImapConnection], T]) -> T:
        if opened.closer is not None:
            opened.closer.cancel()
        if opened.account is not account and opened.account != account:
            opened.close()
        again = opened.connection is not None
        try:
            return work(self._connection(account, opened))
        except (MailRefused, MailProblem):
            raise
        except Exception as error:  # raised again: it only decides whether the connection can be used any longer
            broken = is_broken(error)
            if broken:
                opened.close()
            if not (broken and again) or isinstance(error, TimeoutError):
                raise
            log.debug("the connection of the mail account %s was gone; it is opened anew", name)
            try:
                return work(self._connection(account, opened))
            except Exception:  # raised again: after whatever failed, nobody knows in which state the connection is
                opened.close()
                raise

    def _connection(self, account: MailAccount, opened: _Open) -> ImapConnection:
        if self._closed:
            raise MailRefused("the gateway is stopping")
        if opened.connection is None:
            ImapConnection = imap_connection()  # noqa: N806 -- a class
            opened.connection, opened.account = ImapConnection(account), account
        opened.connection.begin()
        return opened.connection

    def _close_later(self, opened: _Open) -> None:
        if opened.closer is not None:
            opened.closer.cancel()
        opened.closer = threading.Timer(self._kept, self._close_idle, [opened])
        opened.closer.daemon = True
        opened.closer.start()

    def _close_idle(self, opened: _Open) -> None:
        if opened.lock.acquire(blocking=False):
            try:
                if opened.closer is threading.current_thread():
                    opened.close()
            finally:
                opened.lock.release()

    def is_open(self, name: str) -> bool:
        """Return whether an account has a connection at present."""
        return (opened := self._opened.get(name)) is not None and opened.connection is not None

    def close(self) -> None:
        """Close all connections; what is being done with one fails."""
        self._closed = True
        for opened in list(self._opened.values()):
            if opened.lock.acquire(timeout=0.5):
                try:
                    opened.close()
                finally:
                    opened.lock.release()
            elif opened.connection is not None:
                opened.connection.close()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)


def imap_connection() -> type[ImapConnection]:
    """Return the class that connects. Raises MailRefused where its package is not installed."""
    try:
        from channels.common.mail.imap_connection import ImapConnection
    except ImportError as error:
        raise missing(error) from error
    return ImapConnection
