"""A real SMTP server (aiosmtpd) that takes mail, and can misbehave at every step."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, Session

from tests.mail.dovecot import PASSWORD, free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Peer:
    """``mood``: "" takes mail; "refuse", "later", "refuse one", "drop after" and "drop before" do what they say, with "once" behind
    them a single time; "enough" refuses the next mail of whatever connection.

    ``files`` is called with each mail that was taken, as a server does that keeps copies of what it sends.
    """

    def __init__(self, files: Callable[[bytes], None] = lambda _: None) -> None:
        self.taken: list[tuple[list[str], bytes]] = []
        self.mood = ""
        self.files = files
        self.logins: list[str] = []
        self.data_seen = threading.Event()

    async def handle_RCPT(  # noqa: N802 -- aiosmtpd calls it
        self, _server: SMTP, _session: Session, envelope: Envelope, address: str, _options: list[str]
    ) -> str:
        if self.mood == "enough":
            self.mood = ""
            return "452 too many mails for one connection"
        if self.mood == "refuse one" and address.startswith("b"):
            return "550 no such person"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802 -- aiosmtpd calls it
        self.data_seen.set()
        if self.mood == "refuse":
            return "554 this smells"
        if self.mood == "later":
            self.mood = ""
            return "451 come back"
        if self.mood.startswith("drop before"):
            self.mood = "" if self.mood.endswith("once") else self.mood
            self._drop(server)
            return "250 OK"
        content = envelope.content if isinstance(envelope.content, bytes) else str(envelope.content).encode()
        self.taken.append((list(envelope.rcpt_tos), content))
        self.files(content)
        if self.mood.startswith("drop after"):
            self.mood = "" if self.mood.endswith("once") else self.mood
            self._drop(server)
        return "250 OK"

    def _drop(self, server: SMTP) -> None:
        if server.transport is not None:
            server.transport.abort()

    def let_in(self, _server: SMTP, _session: Session, _envelope: Envelope, _mechanism: str, data: Any) -> AuthResult:
        login, password = data.login.decode(), data.password.decode()
        self.logins.append(login)
        return AuthResult(success=password == PASSWORD, handled=False)  # the server says 535 itself


@contextlib.contextmanager
def serving(peer: Peer) -> Iterator[int]:
    """Serve on loopback; yields the port."""
    port = free_port()
    controller = Controller(
        peer, hostname="127.0.0.1", port=port, auth_require_tls=False, authenticator=peer.let_in, ready_timeout=60
    )
    controller.start()
    try:
        yield port
    finally:
        controller.stop()
