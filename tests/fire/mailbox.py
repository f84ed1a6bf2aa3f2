"""A mailbox of the agent's own as a platform: a real dovecot and a real SMTP server, which keeps copies of what it sends or does not."""

from __future__ import annotations

import asyncio
import atexit
import email
import email.policy
import secrets
import shutil
import tempfile
import time
from email.message import EmailMessage
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from aiosmtpd.smtp import SMTP

from tests.mail.dovecot import PASSWORD, Dovecot, make
from tests.mail.smtp_peer import Peer

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fire.platforms import Document, Outage, Watcher

MAIL_OWNER = "anna@example.org"
AGENT = "agent@example.net"
CHECKS = "mx.example.net; dmarc=pass header.from=example.org"
_PATIENCE = 45.0
"""Seconds of doing nothing after which a house that owes an answer is taken to owe it for ever."""
_running: list[Dovecot] = []


def dovecot() -> Dovecot:
    """Return the server of this process."""
    if not _running:
        base = Path(tempfile.mkdtemp(prefix="dc"))  # sockets need a short path
        server = make(base)
        server.start()
        _running.append(server)
        atexit.register(lambda: (server.stop(), shutil.rmtree(base, ignore_errors=True)))
    return _running[0]


class _Away(asyncio.Protocol):
    """Nobody is there: the connection ends as it begins."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


class WatchedMail(Peer):
    """The person writes all their mails in one thread. Nothing of a mail that was sent is kept but a copy, where the server keeps one."""

    kind = "email"
    heavy = ("channels.email.receiving", "channels.email.sending", "channels.common.mail.imap_connection", "aiosmtplib")
    tells_all = False
    port_of_house = 0
    keeps_copies = True
    outage: Outage | None = None
    sends = 0
    fetches = 0
    watcher: Watcher

    def __init__(self) -> None:
        super().__init__(self._filed)
        self.user = f"u{secrets.token_hex(6)}"
        self.server: asyncio.Server | None = None
        self.port = 0
        self.door: asyncio.Server | None = None
        self._passing: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._sessions: list[SMTP] = []
        self._away = False
        self._returning: asyncio.Task[None] | None = None
        self._acquainted = False
        self._held: list[tuple[str, Document | None]] = []
        self._said = 0
        self._moved_at = -_PATIENCE
        self._changed = asyncio.Event()
        self._texts: dict[str, list[str]] = {}
        self._read = 0

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(lambda: dovecot().maildir(self.user))
        loop = asyncio.get_running_loop()
        self.door = await asyncio.start_server(self._pass, "127.0.0.1", 0)
        self.server = await loop.create_server(lambda: self._answering(loop), "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    def _answering(self, loop: asyncio.AbstractEventLoop) -> asyncio.Protocol:
        if self._away:
            return _Away()
        session = SMTP(self, auth_require_tls=False, authenticator=self.let_in, loop=loop)
        self._sessions.append(session)
        return session

    async def __aexit__(self, *_: object) -> None:
        if self._returning is not None:
            self._returning.cancel()
        for server in (self.server, self.door):
            if server is not None:
                server.close()
        for session in self._sessions:
            if session.transport is not None:
                session.transport.abort()
        for one in self._passing:
            one.cancel()
        if self._passing:
            await asyncio.wait(self._passing, timeout=5)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass a connection on to dovecot, and see when a house waits for mail: what comes from then on it has to read."""
        if self._away:
            writer.close()
            return
        behind_reader, behind_writer = await asyncio.open_connection("127.0.0.1", dovecot().port)
        self._writers |= {writer, behind_writer}
        both = [
            asyncio.ensure_future(self._copy(reader, behind_writer, watched=True)),
            asyncio.ensure_future(self._copy(behind_reader, writer, watched=False)),
        ]
        self._passing.update(both)
        await asyncio.wait(both)
        self._passing.difference_update(both)
        self._writers -= {writer, behind_writer}

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, watched: bool) -> None:
        try:
            while data := await reader.read(65_536):
                writer.write(data)
                if watched and not self._acquainted and b"IDLE" in data:
                    self._acquainted = True
                    held, self._held = self._held, []
                    for text, file in held:
                        await self._delivered(text, file)
        except OSError:
            pass
        finally:
            writer.close()

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802 -- aiosmtpd calls it
        if self._cut("before", server):
            return "250 OK"  # nobody hears it
        answer = await super().handle_DATA(server, session, envelope)
        self.sends += 1
        self._moved_at = time.monotonic()
        self._changed.set()
        self._cut("after", server)
        await self.watcher(self.kind, self.sends)
        return answer

    def _cut(self, when: str, server: Any) -> bool:
        """Let an outage of both servers begin where this is its moment; whoever sent gets no answer."""
        outage = self.outage
        if outage is None or outage.cut != when or outage.send != self.sends + (when == "before"):
            return False
        self.outage, self._away = None, True
        self._drop(server)
        for one in self._writers:
            one.transport.abort()
        self._returning = asyncio.ensure_future(self._return(outage.seconds))
        return True

    async def _return(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self._away, self._moved_at = False, time.monotonic()

    def _filed(self, mail: bytes) -> None:
        if self.keeps_copies:
            dovecot().deliver(self.user, mail, folder="Sent Messages", seen=True)

    @property
    def unconfirmed(self) -> int:
        owed = self._said > sum(not text.startswith("⚠️") for text in self.shown())
        return len(self._held) + int(owed and time.monotonic() - self._moved_at < _PATIENCE)

    def settings(self) -> dict[str, Any]:
        return {
            "imap": {"host": "127.0.0.1", "port": self._imap_port, "security": "none"},
            "smtp": {"host": "127.0.0.1", "port": self.port, "security": "none"},
            "user": self.user,
            "password": PASSWORD,
            "fromAddress": AGENT,
            "authServer": "mx.example.net",
            "allowFrom": [MAIL_OWNER],
            "saveSent": "never" if self.keeps_copies else "always",
        }

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    @property
    def _imap_port(self) -> int:
        return self.door.sockets[0].getsockname()[1] if self.door is not None else 0

    def age(self) -> None:
        self._acquainted = True

    async def hear(self, text: str, file: Document | None = None) -> None:
        if self._acquainted:
            await self._delivered(text, file)
        else:  # what is in a mailbox before the first start is left alone
            self._held.append((text, file))

    async def _delivered(self, text: str, file: Document | None) -> None:
        await self.write(MAIL_OWNER, text, file)

    async def write(self, sender: str, text: str, file: Document | None = None) -> None:
        """Deliver a mail of somebody, all of whose mails are one thread."""
        self._said += 1
        self._moved_at = time.monotonic()
        mail = EmailMessage()
        mail["Authentication-Results"], mail["From"], mail["To"], mail["Subject"] = CHECKS, sender, AGENT, "Re: chat"
        mail["Message-ID"], mail["References"] = (
            f"<{self.user}.{self._said}.{secrets.token_hex(4)}@example.org>",
            f"<root.{sender}>",
        )
        mail.set_content(text)
        if file is not None:
            major, _, minor = file.media_type.partition("/")
            mail.add_attachment(file.content, maintype=major, subtype=minor, filename=file.name)
        await asyncio.to_thread(dovecot().deliver, self.user, mail.as_bytes(policy=email.policy.SMTP))

    async def correct(self, before: str, text: str) -> None:
        raise NotImplementedError("a mail cannot be changed")

    def shown(self, recipient: str = MAIL_OWNER) -> list[str]:
        for people, mail in self.taken[self._read :]:
            text = _text_of(mail)
            for one in people:
                self._texts.setdefault(one, []).append(text)
            self._read += 1
        return list(self._texts.get(recipient, ()))


def _text_of(mail: bytes) -> str:
    read = email.message_from_bytes(mail, policy=email.policy.default)
    body = read.get_body(("plain",)) if isinstance(read, EmailMessage) else None
    return str(body.get_content()).replace("\r\n", "\n").rstrip("\n") if body is not None else ""


class ForgetfulMail(WatchedMail):
    """Keeps no copies: a mail in doubt cannot be looked for, and is repeated with a mark."""

    keeps_copies = False
