"""A server that hangs, dies, floods or lies costs one operation its time, and nothing else."""

from __future__ import annotations

import threading
import time
import tracemalloc
from datetime import date
from typing import TYPE_CHECKING

import pytest

from agent.errors import MailRefused
from channels.common.mail.stored_mail import summary_of
from gateway.mail.account_connections import AccountConnections
from gateway.mail.search_query import criteria_of
from gateway.settings.mail_settings import MailSettings
from tests.mail.imap_peer import MoodyImap
from tests.sampling import parametrize_some

if TYPE_CHECKING:
    from channels.common.mail.imap_connection import ImapConnection


def connections(port: int, **account: object) -> AccountConnections:
    given = {
        "imap": {"host": "127.0.0.1", "port": port, "security": "none"},
        "user": "ann@example.net",
        "password": "x",
        "timeoutSeconds": 5,
    }
    settings = MailSettings.model_validate({"accounts": {"home": given | account}})
    return AccountConnections(lambda: settings)


def look(connection: ImapConnection) -> list[str]:
    selected = connection.select("INBOX")
    found = connection.search(selected, criteria_of("from:anna", date(2026, 11, 24)), 10)
    return [summary_of(one).headers.subject for one in connection.summaries(found.uids)]


@parametrize_some(
    4,
    ("mood", "said"),
    [
        ("refuses login", "refused the login"),
        ("dies in fetch", "broke"),
        ("hangs up", "broke"),
        ("huge literal", "more than is read"),
        ("endless line", "more than is read"),
        ("floods", "more than is read|in time"),
        ("garbage", "broke"),
        ("hangs", "in time"),
    ],
)
def test_what_a_server_does_is_told_and_the_next_call_begins_anew(mood: str, said: str) -> None:
    with MoodyImap(mood).serving() as server:
        open_ones = connections(server.port)
        tracemalloc.start()
        try:
            with pytest.raises(MailRefused, match=said):
                open_ones.use("home", look)
            most = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert most < 200_000_000
        server.mood = ""
        assert open_ones.use("home", look) == ["hello"] * 3
        open_ones.close()


def test_a_mail_that_cannot_be_read_is_left_out() -> None:
    with MoodyImap("nonsense").serving() as server:
        open_ones = connections(server.port)
        assert open_ones.use("home", look) == []
        open_ones.close()


def test_a_connection_that_died_meanwhile_is_opened_anew_and_nobody_sees_it() -> None:
    with MoodyImap().serving() as server:
        open_ones = connections(server.port)
        assert len(open_ones.use("home", look)) == 3
        server.mood = "hangs up"
        threading.Timer(0.0, lambda: None).start()

        def once(connection: ImapConnection) -> list[str]:
            if server.connections > 1:
                server.mood = ""
            return look(connection)

        assert len(open_ones.use("home", once)) == 3
        assert server.connections == 2
        open_ones.close()


def test_a_connection_is_closed_when_nobody_uses_it() -> None:
    with MoodyImap().serving() as server:
        settings = MailSettings.model_validate(
            {
                "accounts": {
                    "home": {
                        "imap": {"host": "127.0.0.1", "port": server.port, "security": "none"},
                        "user": "a@b.example",
                        "password": "x",
                    }
                }
            }
        )
        open_ones = AccountConnections(lambda: settings, kept=0.05)
        open_ones.use("home", look)
        end = time.monotonic() + 60
        while open_ones.is_open("home") and time.monotonic() < end:
            time.sleep(0.01)
        assert not open_ones.is_open("home")
