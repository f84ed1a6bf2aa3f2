"""``homebody mail``, as a person runs it, against real servers."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

from gateway.cli import main
from tests import programs
from tests.mail.dovecot import PASSWORD
from tests.mail.letters import letter
from tests.mail.smtp_peer import Peer, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.mail.conftest import Deliver
    from tests.mail.dovecot import Dovecot


class CommandLine:
    def __init__(self, home: Path, account: dict[str, Any]) -> None:
        self.home, self.account = home, account

    def run(self, *words: str, **changed: Any) -> tuple[int, str]:
        self.home.mkdir(exist_ok=True)
        settings = self.home / "homebody.json"
        settings.write_text(json.dumps({"mail": {"accounts": {"home": self.account | changed}}}))
        settings.chmod(0o600)
        env = {**os.environ, "HOMEBODY_HOME": str(self.home), "MAIL_PASSWORD": PASSWORD}
        command = [sys.executable, "-m", "gateway", "mail", *words]
        done = programs.run(command, capture_output=True, env=env, timeout=300, check=False)
        return done.returncode, done.stdout.decode() + done.stderr.decode()


@pytest.fixture
def command_line(tmp_path: Path, dovecot: Dovecot, user: str) -> Iterator[CommandLine]:
    with serving(Peer()) as port:
        plain = {"host": "127.0.0.1", "security": "none"}
        account = {
            "imap": plain | {"port": dovecot.port},
            "smtp": plain | {"port": port},
            "user": user,
            "password": "env:MAIL_PASSWORD",
            "fromAddress": "ann@example.net",
        }
        yield CommandLine(tmp_path / "home", account)


async def test_an_account_is_tried_out_and_listed(command_line: CommandLine, deliver: Deliver) -> None:
    deliver(letter(subject="read me"))
    code, told = await asyncio.to_thread(command_line.run, "test")
    assert code == 0, told
    assert "logged in" in told
    assert PASSWORD not in told
    code, listed = await asyncio.to_thread(command_line.run, "list", "--unread", "--json")
    assert code == 0, listed
    (mail,) = json.loads(listed)
    assert (mail["subject"], mail["from"], mail["unread"]) == ("read me", ["anna@example.org"], True)
    code, told = await asyncio.to_thread(command_line.run, "accounts", "--json")
    assert json.loads(told)[0]["address"] == "ann@example.net"


async def test_what_is_wrong_is_told_with_what_mends_it(command_line: CommandLine) -> None:
    code, told = await asyncio.to_thread(command_line.run, "test", password="wrong")
    assert code == 1
    assert told.count("refused the login") == 2, "of both servers"
    assert "app password" in told
    code, told = await asyncio.to_thread(command_line.run, "test", smtp={"host": "127.0.0.1", "port": 1, "security": "none"})
    assert code == 1
    assert "nothing answers at 127.0.0.1:1" in told
    assert not [line for line in told.splitlines() if line.strip().startswith("ok") and "127.0.0.1:1" in line], (
        "nothing is ok there"
    )
    code, told = await asyncio.to_thread(command_line.run, "test", imap={"host": "mail.example.org", "security": "none"})
    assert code == 3
    assert "unencrypted" in told


def test_without_an_account_there_is_nothing_that_works(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--home", str(tmp_path), "mail", "test"]) == 1
    assert "docs/mail.md" in capsys.readouterr().out
