"""Hands one mail to an SMTP server, and tells apart: it was taken, it was not, nobody knows."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from channels.common.control_characters import visible
from channels.common.mail.bounded_imap import tls_context
from channels.common.mail.explanations import LoginRefused, explained
from channels.common.mail.login import MailboxNames, MailLogin
from channels.common.mail.server_settings import DEFAULT_PORTS, MailServer
from channels.common.mail.smtp_connections import Lent, SmtpConnections
from channels.errors import MailProblem

if TYPE_CHECKING:
    from aiosmtplib import SMTP, SMTPResponse
    from aiosmtplib.protocol import SMTPProtocol

WAITS: Final = (2.0, 5.0)
_CHUNK: Final = 65_536
_QUICK: Final = 16_384
"""Bytes that take less time than a thread does."""
_START: Final = 354
_DONE: Final = 250
_TEMPORARY: Final = 400
_PERMANENT: Final = 500
_NO_CODE: Final = 600
_DOT: Final = re.compile(rb"(?m)^\.")
_LINE_END: Final = re.compile(rb"\r?\n|\r")


class NotTaken(Exception):
    """The mail was certainly not sent. ``again``: the same may work a little later. ``code``: the server's answer, 0 where it gave none.

    ``early``: it was refused before the server had all of it.
    """

    def __init__(self, told: MailProblem, *, again: bool = False, code: int = 0, early: bool = False) -> None:
        super().__init__(str(told))
        self.told = told
        self.again = again
        self.code = code
        self.early = early


class InDoubt(Exception):
    """The connection ended after the last byte: the server may have taken the mail."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A mail for the SMTP server of a mailbox. ``sender`` is an address without a name."""

    names: MailboxNames
    account: MailLogin
    sender: str
    recipients: Sequence[str]
    mail: bytes


async def _nothing() -> None:
    return


async def hand_over(
    submission: Submission,
    *,
    last_byte: Callable[[], Awaitable[None]] = _nothing,
    written: Callable[[], None] = lambda: None,
    waits: Sequence[float] = WAITS,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    connections: SmtpConnections | None = None,
) -> None:
    """Send a mail to all recipients or to none.

    ``last_byte`` is awaited before the server can take it: what fails earlier was not sent. ``written`` is called when the server has it
    all and has not answered yet. ``waits`` are seconds before each repetition of what the server refused for a while. ``connections``
    are those that may be used; without any, one is made for this mail.

    Raises:
        NotTaken: the server, or the network, refused it.
        InDoubt: nobody knows.
    """
    names, server = submission.names, submission.account.smtp
    if server is None:
        raise NotTaken(
            MailProblem(f"{names.title} has no SMTP server", hint=f"homebody config set {names.settings}.smtp.host HOST")
        )
    data = (
        await asyncio.to_thread(_on_the_wire, submission.mail)
        if len(submission.mail) > _QUICK
        else _on_the_wire(submission.mail)
    )
    usable = connections or SmtpConnections(lambda: connected(names, submission.account, server))

    async def attempt(lent: Lent) -> None:
        await _transaction(lent.client, submission, server, data, last_byte=last_byte, written=written)
        lent.done = True

    try:
        for wait in (*waits, None):
            try:
                await _attempt(usable, attempt)
            except NotTaken as error:
                if not error.again or wait is None:
                    raise
                await sleep(wait)
            else:
                return
    finally:
        if connections is None:
            usable.close()


async def _attempt(connections: SmtpConnections, attempt: Callable[[Lent], Awaitable[None]]) -> None:
    """Try once; again where a connection that was kept open turns out to be of no use any more."""
    async with connections.lend() as lent:
        try:
            return await attempt(lent)
        except NotTaken as error:
            if not (lent.kept and error.early):
                raise
    async with connections.lend(fresh=True) as lent:
        return await attempt(lent)


async def _transaction(
    client: SMTP,
    submission: Submission,
    server: MailServer,
    data: bytes,
    *,
    last_byte: Callable[[], Awaitable[None]],
    written: Callable[[], None],
) -> None:
    from aiosmtplib.errors import SMTPException, SMTPResponseException

    ending, seconds = False, submission.account.timeout_seconds
    try:
        async with asyncio.timeout(seconds) as limit:
            await client.mail(submission.sender, options=[f"SIZE={len(data)}"] if client.supports_extension("size") else None)
            for one in submission.recipients:
                try:
                    await client.rcpt(one)
                except SMTPResponseException as error:  # servers do not all name whom they refuse
                    raise SMTPResponseException(error.code, f"{one}: {error.message}") from error
            _expect(_START, await client.execute_command(b"DATA"))
            await _write(client, data, limit, seconds)
            await last_byte()
            ending = True
            limit.reschedule(asyncio.get_running_loop().time() + seconds)
            _protocol(client).write(b".\r\n")
            written()
            _expect(_DONE, await _protocol(client).read_response(timeout=seconds))
    except SMTPResponseException as error:
        if ending and not _TEMPORARY <= error.code < _NO_CODE:
            raise InDoubt(_line(error.message)) from error
        problem = MailProblem(f"{server.host} did not take the mail: {error.code} {_line(error.message)}")
        raise NotTaken(problem, again=error.code < _PERMANENT and not ending, code=error.code, early=not ending) from error
    except (SMTPException, OSError, ValueError) as error:
        if ending:
            raise InDoubt(_line(str(error))) from error
        problem = explained(_plain(error), submission.names, server, "smtp")
        raise NotTaken(problem, again=not isinstance(error, ValueError), early=not isinstance(error, ValueError)) from error


def _expect(code: int, response: SMTPResponse) -> None:
    from aiosmtplib.errors import SMTPResponseException

    if response.code != code:
        raise SMTPResponseException(response.code, response.message)


async def connected(names: MailboxNames, account: MailLogin, server: MailServer) -> SMTP:
    """Return a connection that is encrypted as the settings say, and logged in.

    Raises:
        NotTaken: there is none to be had.
        ImportError: the package that speaks SMTP is not installed.
    """
    from aiosmtplib import SMTP
    from aiosmtplib.errors import SMTPAuthenticationError, SMTPException

    user = account.user if account.smtp_user is None else account.smtp_user
    password = (account.smtp_password or account.password).get_secret_value()
    try:
        context = await asyncio.to_thread(tls_context, server) if server.security != "none" else None
        client = SMTP(
            hostname=server.host,
            port=server.port or DEFAULT_PORTS["smtp", server.security],
            timeout=account.timeout_seconds,
            use_tls=server.security == "tls",
            start_tls=server.security == "starttls",
            tls_context=context,
            local_hostname="localhost",
        )
        await client.connect()
        try:
            if user:
                await client.login(user, password)
        except BaseException:
            client.close()
            raise
    except SMTPAuthenticationError as error:
        raise NotTaken(explained(LoginRefused(_line(error.message)), names, server, "smtp")) from error
    except (SMTPException, OSError, ValueError) as error:
        again = isinstance(error, OSError | SMTPException) and not isinstance(_plain(error), ssl.SSLError)
        raise NotTaken(explained(_plain(error), names, server, "smtp"), again=again) from error
    return client


async def _write(client: SMTP, data: bytes, limit: asyncio.Timeout, seconds: float) -> None:
    """Write the mail piece by piece. The limit of time counts from the latest progress."""
    protocol, loop = _protocol(client), asyncio.get_running_loop()
    for start in range(0, len(data), _CHUNK):
        protocol.write(data[start : start + _CHUNK])
        await _drained(client, _CHUNK)
        limit.reschedule(loop.time() + seconds)
    await _drained(client, 0)


async def _drained(client: SMTP, most: int) -> None:
    """Wait until at most so many bytes wait to be written: the library tells nobody when there is room."""
    while isinstance(transport := client.transport, asyncio.WriteTransport) and transport.get_write_buffer_size() > most:  # noqa: ASYNC110
        await asyncio.sleep(0.005)


def _protocol(client: SMTP) -> SMTPProtocol:
    if client.protocol is None:
        raise ConnectionResetError("the server closed the connection")
    return client.protocol


def _on_the_wire(mail: bytes) -> bytes:
    """Return a mail with the line ends of SMTP, and dots at the beginning of lines doubled (RFC 5321, section 4.5.2)."""
    text = _LINE_END.sub(b"\r\n", mail)
    text = _DOT.sub(b"..", text)
    return text if text.endswith(b"\r\n") else text + b"\r\n"


def _plain(error: BaseException) -> BaseException:
    """Return the error of the network that a library wrapped, where there is one."""
    cause = error.__cause__
    if isinstance(error, OSError) and not isinstance(cause, OSError):
        return error
    return cause if isinstance(cause, OSError) else error


def _line(text: str) -> str:
    return visible(" ".join(text.split()))[:200]
