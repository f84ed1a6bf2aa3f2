"""One dovecot for all tests of a process; each test has a mailbox of its own."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.settings.mail_settings import MailAccount
from tests.mail.dovecot import PASSWORD, Dovecot, make


@pytest.fixture(scope="session")
def dovecot() -> Iterator[Dovecot]:
    base = Path(tempfile.mkdtemp(prefix="dc"))  # sockets need a short path
    server = make(base)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(base, ignore_errors=True)


@pytest.fixture
def user() -> str:
    return f"u{secrets.token_hex(6)}"


@pytest.fixture
def account(dovecot: Dovecot, user: str) -> MailAccount:
    return account_of(dovecot, user)


def account_of(dovecot: Dovecot, user: str, **changed: Any) -> MailAccount:
    given = {
        "imap": {"host": "127.0.0.1", "port": dovecot.port, "security": "none"},
        "user": user,
        "password": PASSWORD,
        "fromAddress": "Ann <ann@example.net>",
        "timeoutSeconds": 120,
    }
    return MailAccount.model_validate(given | changed)


Deliver = Callable[..., None]


@pytest.fixture
def deliver(dovecot: Dovecot, user: str) -> Deliver:
    def put(mail: bytes, **given: Any) -> None:
        dovecot.deliver(user, mail, **given)

    return put
