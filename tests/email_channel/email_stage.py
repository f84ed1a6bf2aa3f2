"""A mailbox on a real dovecot and a real SMTP server, as a stage for the published rules: Anna writes to the agent and reads its answers.

The server signs its check of senders, as a mail provider does, and keeps a copy of each mail that it sends, unless it is told not to.
"""

from __future__ import annotations

import asyncio
import email
import email.policy
import secrets
import socket
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from typing import TYPE_CHECKING, Any

from aiosmtpd.controller import Controller

from channels.email.channel import EmailChannel
from channels.email.settings import EmailSettings
from tests.mail.dovecot import PASSWORD, free_port
from tests.mail.smtp_peer import Peer
from tests.patience import PATIENCE
from tests.peers.hasty import FastClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from channels.testing import Trouble
    from tests.mail.dovecot import Dovecot

ANNA = "anna@example.org"
AGENT = "agent@example.net"
NESTED = b"--a\r\nContent-Type: multipart/mixed; boundary=a\r\n\r\n"
SIGNER = "mx.example.net"
VOUCHED = f"{SIGNER}; dmarc=pass (p=reject) header.from=example.org; spf=pass smtp.mailfrom={ANNA}"


class Relay:
    """A port in front of dovecot that can be shut, and whose connections can be cut."""

    def __init__(self, behind: int) -> None:
        self._behind = behind
        self.port = free_port()
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._pass, "127.0.0.1", self.port)

    async def shut(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        self.cut()

    def cut(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            behind_reader, behind_writer = await asyncio.open_connection("127.0.0.1", self._behind)
        except OSError:
            writer.close()
            return
        self._writers |= {writer, behind_writer}
        try:
            await asyncio.gather(_copy(reader, behind_writer), _copy(behind_reader, writer))
        except asyncio.CancelledError:  # the test is over
            return
        finally:
            self._writers -= {writer, behind_writer}


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


class Hurried(FastClock):
    """Waiting takes no time; the time of day is that of the mail server."""

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self.monotonic())


class EmailStage:
    lacks = (
        "tells_who_is_meant_in_a_group",  # mail has no groups: an answer goes to its sender alone, and mail of lists is left
        "tells_what_programs_wrote",  # the same; mail that says that a program wrote it is not delivered at all
        "tells_of_an_edit",  # what was sent cannot be changed
        "tells_of_a_reaction",  # there are none
        "puts_one_reaction",
        "answers_in_the_thread",  # threads of mails are private ones; test_email.py shows that answers stay in theirs
        "shows_buttons_and_tells_of_a_press",
        "offers_its_menu_once",
        "shows_typing",
    )
    limit = 3000
    events = ("bounce", "vacation", "list", "invitation", "winmail", "own", "empty", "html", "flags", "deleted")
    patience = PATIENCE

    def __init__(self, dovecot: Dovecot, *, files: bool = True) -> None:
        self.dovecot = dovecot
        self.user = f"u{secrets.token_hex(6)}"
        self.files_copies = files
        self.peer = Peer(self._file)
        self.smtp_port = free_port()
        self.relay = Relay(dovecot.port)
        self._controller: Controller | None = None
        self._said = 0
        self._last = b""
        dovecot.maildir(self.user)

    def _file(self, mail: bytes) -> None:
        if self.files_copies:
            self.dovecot.deliver(self.user, mail, folder="Sent Messages", seen=True)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[EmailStage]:
        await self.come_back()
        try:
            yield self
        finally:
            await self.go_away()

    def settings(self, **changed: Any) -> dict[str, Any]:
        given = {
            "imap": {"host": "127.0.0.1", "port": self.relay.port, "security": "none"},
            "smtp": {"host": "127.0.0.1", "port": self.smtp_port, "security": "none"},
            "user": self.user,
            "password": PASSWORD,
            "fromAddress": f"Homebody <{AGENT}>",
            "authServer": SIGNER,
            "saveSent": "never" if self.files_copies else "always",
            "mostPerMinute": 1000,
            "textChunkLimit": self.limit,
            "timeoutSeconds": 60,
        }
        return given | changed

    def channel(self, **changed: Any) -> EmailChannel:
        return EmailChannel(
            EmailSettings.model_validate(self.settings(**changed)), "default", clock=Hurried(), random=lambda: 1.0
        )

    def intruder(self) -> EmailChannel:
        return self.channel(password="wrong")

    def mail(self, text: str, *, checks: str = VOUCHED, sender: str = f"Anna <{ANNA}>", **headers: str) -> EmailMessage:
        self._said += 1
        made = EmailMessage()
        if checks:
            made["Authentication-Results"] = checks
        made["From"], made["To"] = sender, AGENT
        made["Message-ID"] = headers.pop("Message_ID", f"<{self.user}.{self._said}@example.org>")
        for name, value in headers.items():
            made[name.replace("_", "-")] = value
        made.set_content(text)
        return made

    async def deliver(self, mail: EmailMessage | bytes) -> None:
        self._last = mail if isinstance(mail, bytes) else mail.as_bytes(policy=email.policy.SMTP)
        await asyncio.to_thread(self.dovecot.deliver, self.user, self._last)

    async def say(self, text: str) -> None:
        await self.deliver(self.mail(text))

    async def repeat(self) -> None:
        await self.deliver(self._last)

    async def disconnect(self) -> None:
        self.relay.cut()

    async def happen(self, event: str) -> None:
        mail = self.mail(f"of {event}")
        match event:
            case "bounce":
                mail["Return-Path"] = "<>"
                mail.set_type("multipart/report") if mail.is_multipart() else None
            case "vacation":
                mail["Auto-Submitted"] = "auto-replied (vacation)"
            case "list":
                mail["List-Id"] = "<talk.example.org>"
            case "invitation":
                mail.add_attachment(b"BEGIN:VCALENDAR\r\nEND:VCALENDAR\r\n", maintype="text", subtype="calendar")
            case "winmail":
                mail.add_attachment(b"\x78\x9f\x3e\x22", maintype="application", subtype="ms-tnef", filename="winmail.dat")
            case "own":
                del mail["From"]
                mail["From"] = AGENT
            case "empty":
                mail.set_content("")
            case "html":
                mail.set_content("<p>hello</p>", subtype="html")
            case "flags" | "deleted":
                await asyncio.to_thread(self._change, event)
                return
        await self.deliver(mail)

    def _change(self, event: str) -> None:
        """Let the person who owns the mailbox look at it with another program: mark a mail, or delete one."""
        import imaplib

        with imaplib.IMAP4("127.0.0.1", self.dovecot.port) as client:
            client.login(self.user, PASSWORD)
            client.select("INBOX")
            client.store("1", "+FLAGS", "\\Flagged" if event == "flags" else "\\Deleted")
            if event == "deleted":
                client.expunge()

    async def garble(self) -> None:
        for broken in (
            b"",
            b"\0\xff\xfe\x00garbage" * 50,
            b"From: \r\nSubject: =?x-unknown?q?=ff?=\r\n\r\nno sender",
            b"From: eve@evil.example\r\nContent-Type: multipart/mixed; boundary=\r\n\r\n--\r\n--\r\n",
            b"From: eve@evil.example\r\nContent-Type: text/plain; charset=nonsense\r\nContent-Transfer-Encoding: base64\r\n\r\n=!!!=",
            b"Content-Type: multipart/mixed; boundary=a\r\nFrom: a@b.example\r\n\r\n"
            + b"--a\r\nContent-Type: multipart/mixed; boundary=a\r\n\r\n" * 120,
            b"From: a@b.example, c@d.example\r\nDate: never\r\nMessage-ID: <<>>\r\n\r\nx",
        ):
            await asyncio.to_thread(self.dovecot.deliver, self.user, broken)

    async def go_away(self) -> None:
        await self.relay.shut()
        if self._controller is not None:
            controller, self._controller = self._controller, None
            await asyncio.to_thread(controller.stop)

    async def come_back(self) -> None:
        await self.relay.open()
        self._controller = Controller(
            self.peer,
            hostname="127.0.0.1",
            port=self.smtp_port,
            auth_require_tls=False,
            authenticator=self.peer.let_in,
            ready_timeout=60,
        )
        await asyncio.to_thread(self._controller.start)

    def trouble(self, kind: Trouble) -> None:
        self.peer.mood = {
            "refused": "refuse",
            "rate limit": "later",
            "cut before": "drop before once",
            "cut after": "drop after once",
        }[kind]

    def answers(self) -> list[EmailMessage]:
        """Return the mails that Anna received."""
        found = [email.message_from_bytes(mail, policy=email.policy.default) for to, mail in self.peer.taken if to == [ANNA]]
        return [one for one in found if isinstance(one, EmailMessage)]

    def heard(self) -> list[str]:
        bodies = [one.get_body(("plain",)) for one in self.answers()]
        return ["" if body is None else str(body.get_content()).replace("\r\n", "\n").rstrip("\n") for body in bodies]

    def typed(self) -> int:
        return 0

    def length(self, text: str) -> int:
        return len(text)

    async def attach(self, name: str, media_type: str, content: bytes) -> None:
        mail = self.mail("")
        major, _, minor = media_type.partition("/")
        mail.add_attachment(content, maintype=major, subtype=minor, filename=name)
        await self.deliver(mail)

    def files(self) -> list[tuple[str, bytes]]:
        return [
            (part.get_filename() or "", part.get_payload(decode=True))
            for one in self.answers()
            for part in one.iter_attachments()
        ]


def is_open(port: int) -> bool:
    """Return whether something listens there."""
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0
