"""Waiting for new mail: each is announced once, over restarts, failures and servers that number anew."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

import pytest

from gateway.base.errors import StorageFailed
from gateway.mail.watch_cursor import CursorFile
from gateway.mail.watching import MailWatcher, NewMail
from tests.mail.conftest import account_of
from tests.mail.imap_peer import MoodyImap
from tests.mail.letters import letter

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gateway.settings.mail_settings import MailAccount
    from tests.mail.dovecot import Dovecot


class Announced:
    """Takes announcements, as the ledger does: what it knows by its key it does not take again."""

    def __init__(self) -> None:
        self.keys: set[str] = set()
        self.subjects: list[str] = []
        self.failing = 0
        self.dying = False
        self.changed = threading.Condition()

    def __call__(self, mail: NewMail) -> None:
        with self.changed:
            if self.failing:
                self.failing -= 1
                raise StorageFailed("the disk is full")
            if mail.key not in self.keys:
                self.keys.add(mail.key)
                self.subjects += [summary.headers.subject for _, summary in mail.shown]
                self.changed.notify_all()
            if self.dying:
                self.dying = False
                raise KeyboardInterrupt  # the process ends after the announcement was stored

    def wait_for(self, *subjects: str) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.subjects) >= len(subjects), 120), self.subjects
        assert sorted(self.subjects) == sorted(subjects)


class Desk:
    def __init__(self, place: Path, account: MailAccount) -> None:
        self.cursors, self.account, self.announced = CursorFile(place / "cursor.json"), account, Announced()

    @contextlib.contextmanager
    def watching(self) -> Iterator[MailWatcher]:
        watcher = MailWatcher("home", self.account, self.cursors, self.announced, first_wait=0.05)
        watcher.start()
        try:
            yield watcher
        finally:
            watcher.stop()
            watcher.join(60)
            assert watcher.state in {"stopped", "connecting", "watching", "waiting"}

    def begin(self) -> None:
        """Watch until there is a cursor."""
        with self.watching():
            pause = threading.Event()
            for _ in range(1200):
                if self.cursors.load() is not None:
                    return
                pause.wait(0.05)
        raise AssertionError("no cursor")


@pytest.fixture
def desk(tmp_path: Path, dovecot: Dovecot, user: str) -> Desk:
    return Desk(tmp_path, account_of(dovecot, user, watch="notify", watchEverySeconds=10))


def test_mail_that_was_there_is_not_announced_and_new_mail_is(desk: Desk, dovecot: Dovecot, user: str) -> None:
    dovecot.deliver(user, letter(subject="old"))
    desk.begin()
    with desk.watching():
        dovecot.deliver(user, letter(subject="new"))
        desk.announced.wait_for("new")


def test_what_came_while_nobody_watched_is_announced_once(desk: Desk, dovecot: Dovecot, user: str) -> None:
    desk.begin()
    for number in range(30):
        dovecot.deliver(user, letter(subject=f"mail {number}"), seen=number == 7)
    with desk.watching(), desk.announced.changed:
        assert desk.announced.changed.wait_for(lambda: desk.announced.subjects, 120)
    assert len(desk.announced.subjects) == 20
    assert len(desk.announced.keys) == 1
    with desk.watching():
        dovecot.deliver(user, letter(subject="later"))
        with desk.announced.changed:
            assert desk.announced.changed.wait_for(lambda: "later" in desk.announced.subjects, 120)
    assert len(desk.announced.subjects) == 21


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_death_after_the_announcement_announces_nothing_twice(desk: Desk, dovecot: Dovecot, user: str) -> None:
    desk.begin()
    dovecot.deliver(user, letter(subject="first"))
    desk.announced.dying = True
    with desk.watching():
        desk.announced.wait_for("first")
    dovecot.deliver(user, letter(subject="second"))
    with desk.watching():
        desk.announced.wait_for("first", "second")


def test_what_could_not_be_stored_is_announced_later(desk: Desk, dovecot: Dovecot, user: str) -> None:
    desk.begin()
    desk.announced.failing = 2
    dovecot.deliver(user, letter(subject="first"))
    with desk.watching():
        desk.announced.wait_for("first")


def test_a_folder_that_is_numbered_anew_loses_and_doubles_nothing(desk: Desk, dovecot: Dovecot, user: str) -> None:
    dovecot.deliver(user, letter(subject="old"))
    desk.begin()
    with desk.watching():
        dovecot.deliver(user, letter(subject="first"), at=4_000_000_000)
        desk.announced.wait_for("first")
    for path in dovecot.maildir(user).glob("dovecot*"):
        path.unlink()
    dovecot.deliver(user, letter(subject="second"), at=4_000_001_000)
    with desk.watching():
        desk.announced.wait_for("first", "second")


def test_a_server_without_idle_is_asked_at_intervals(tmp_path: Path) -> None:
    with MoodyImap(capabilities="IMAP4rev1").serving() as server:
        account: Any = {
            "imap": {"host": "127.0.0.1", "port": server.port, "security": "none"},
            "user": "a@b.example",
            "password": "x",
            "watch": "notify",
        }
        from gateway.settings.mail_settings import MailAccount

        desk = Desk(tmp_path, MailAccount.model_validate(account))
        desk.begin()
        assert not any("IDLE" in command for command in server.commands)


def test_a_refused_login_is_told_and_not_repeated_at_once(tmp_path: Path) -> None:
    with MoodyImap("refuses login").serving() as server:
        from gateway.settings.mail_settings import MailAccount

        account = MailAccount.model_validate(
            {
                "imap": {"host": "127.0.0.1", "port": server.port, "security": "none"},
                "user": "a@b.example",
                "password": "x",
                "watch": "notify",
            }
        )
        desk = Desk(tmp_path, account)
        with desk.watching() as watcher:
            pause = threading.Event()
            for _ in range(1200):
                if watcher.state == "waiting":
                    break
                pause.wait(0.05)
            pause.wait(0.3)
            assert "refused the login" in watcher.trouble
            assert server.connections == 1
