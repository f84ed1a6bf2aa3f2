"""The email channel: one mailbox that the agent has for itself. New mail comes by IMAP, answers go by SMTP."""

from __future__ import annotations

import random as system_random
from typing import TYPE_CHECKING, Final, Literal

from channels.common.backoff import LONGEST, Backoff
from channels.common.chunking import fitted
from channels.common.log import NoLog
from channels.email.inbound import Converter
from channels.email.settings import mailbox_of, names_of
from channels.email.threads import Latest
from channels.errors import ChannelBroken, MailProblem, NotFetched, NotSent

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from pathlib import Path

    from channels.common.log import Log
    from channels.email.receiving import Receiver
    from channels.email.sending import Sender
    from channels.email.settings import EmailAccount, EmailSettings
    from channels.messages import Attachment, ChatAddress, Outbound, Sent
    from channels.protocol import Clock, HtmlReader, InboundSink

IDLE_SECONDS: Final = 240.0


class EmailChannel:
    """A ``Channel`` with ``Fetches``, ``Shows``, ``Answers``, ``Repeatable``, ``Probed``, ``Remarks``, ``Beats``, ``and more."""

    name = "email"
    encloses = True
    shows: frozenset[Literal["buttons", "files"]] = frozenset({"files"})

    def __init__(
        self,
        settings: EmailSettings,
        account: str,
        *,
        clock: Clock,
        log: Log | None = None,
        random: Callable[[], float] = system_random.random,
    ) -> None:
        self.account = account
        self._settings: EmailAccount = settings.account(account)
        self._clock = clock
        self._log: Log = log or NoLog()
        self._random = random
        self._latest = Latest()
        self._converter = Converter(self._settings, account)
        self._sender: Sender | None = None
        self._receiver: Receiver | None = None
        self._problem = ""
        self.silence = max(IDLE_SECONDS, self._settings.poll_seconds) + self._settings.timeout_seconds + LONGEST

    @property
    def html(self) -> HtmlReader | None:
        """What reads HTML; see ``channels.protocol.ReadsHtml``."""
        return self._converter.html

    @html.setter
    def html(self, reader: HtmlReader) -> None:
        self._converter.html = reader

    @property
    def plain(self) -> Callable[[bytes, str], str] | None:
        """What reads texts that do not say their encoding; see ``channels.protocol.ReadsPlainTexts``."""
        return self._converter.plain

    @plain.setter
    def plain(self, reader: Callable[[bytes, str], str]) -> None:
        self._converter.plain = reader

    @property
    def repeats_safely(self) -> bool:
        """Whether a mail in doubt can be looked up: only where the server itself keeps a copy of each mail that it sends."""
        return self._sender is not None and self._sender.looks_up

    async def run(self, sink: InboundSink) -> None:
        """Receive until cancelled, with longer and longer pauses between connections that fail."""
        sender = self._speaking()
        await sender.begin(sink)
        receiver = self._receiver = self._listening()
        backoff = Backoff(self._clock, self._random, self._log, self.account)
        try:
            while True:
                try:
                    await receiver.listen(sink, backoff)
                except MailProblem as error:
                    self._problem = str(error)
                    await backoff.wait("the mail server does not answer", self._problem)
        finally:
            await receiver.close()

    @property
    def away(self) -> str:
        """See ``Away``."""
        if not self._problem or self._receiver is None or self._receiver.reads:
            return ""
        return f"The mail server does not answer, and is tried again: {self._problem}"

    def chunks(self, markdown: str) -> list[str]:
        """Split a reply into pieces that each fit one mail."""
        apart = self._settings.chunk_mode == "newline"
        return fitted(markdown, self._settings.text_chunk_limit, lambda text: text, apart=apart)

    async def send(self, outbound: Outbound, record: Callable[[str], Awaitable[None]]) -> Sent:  # noqa: ARG002 - the copy is the record
        """Send one mail; see ``channels.protocol.Channel.send``."""
        try:
            sender = self._speaking()
        except ChannelBroken as error:
            raise NotSent(str(error), hint=error.hint) from error
        return await sender.send(outbound)

    async def answers(self, conversation: ChatAddress) -> bool:  # noqa: ARG002 - one server sends to all
        """Return whether the server that sends answers."""
        try:
            return await self._speaking().answers()
        except ChannelBroken:
            return False

    async def typing(self, conversation: ChatAddress) -> None:
        """Show nothing: mail has no such sign."""

    async def fetch(self, attachment: Attachment, path: Path, limit: int) -> None:
        """Save a file of a mail; see ``channels.protocol.Fetches``."""
        try:
            sender = self._speaking()
        except ChannelBroken as error:
            raise NotFetched(str(error), permanent=False, hint=error.hint) from error
        await sender.fetch(attachment.handle, path, limit)

    async def probe(self) -> str:
        """Log in at both servers, and return the address of the mailbox."""
        sender = self._speaking()
        await sender.with_mailbox(lambda connection: connection.select(connection.named(self._settings.folder)))
        await sender.check()
        return self._settings.address

    async def proposals(self) -> Mapping[str, tuple[str, str]]:
        """Return the name with which the server signs its checks of senders, as far as mails in the mailbox show it."""
        if self._settings.auth_server:
            return {}
        found = await self._speaking().with_mailbox(lambda connection: _signers(connection, self._settings.folder))
        asked = "Name by which your server signs its checks (first word of Authentication-Results)"
        return {"authServer": (asked, found[0] if found else "")}

    def remarks(self) -> Sequence[str]:
        """Return what the owner should know."""
        found = []
        if not self._settings.auth_server:
            section = names_of(self.account).settings
            found.append(
                f"Every sender is a stranger until your server's checks are named: homebody config set {section}.authServer NAME"
            )
        if self._receiver is not None:
            found += self._receiver.remarks()
        return found

    async def close(self) -> None:
        """End connections and what goes on beside."""
        if self._sender is not None:
            await self._sender.close()
        if self._receiver is not None:
            await self._receiver.close()

    def _speaking(self) -> Sender:
        """Return what sends. Raises ChannelBroken where the settings lack something, or a package is missing."""
        if self._sender is None:
            mailbox = mailbox_of(self._settings, self.account)
            _check_packages()
            from channels.email.sending import Sender

            self._sender = Sender(
                self._settings,
                mailbox,
                names_of(self.account),
                account=self.account,
                clock=self._clock,
                log=self._log,
                latest=self._latest,
            )
        return self._sender

    def _listening(self) -> Receiver:
        from channels.email.receiving import Receiver

        return Receiver(
            self._settings,
            mailbox_of(self._settings, self.account),
            names_of(self.account),
            account=self.account,
            clock=self._clock,
            log=self._log,
            converter=self._converter,
            latest=self._latest,
        )


def _check_packages() -> None:
    from importlib.util import find_spec

    for package in ("imap_tools", "aiosmtplib"):
        if find_spec(package) is None:
            raise ChannelBroken(
                f"the package {package} is not installed",
                hint="install the extra for mail (docs/email.md), and restart the gateway",
            )


def _signers(connection: object, folder: str) -> list[str]:
    """Return who signed the checks of senders in the newest mails: the topmost of each, the most frequent first."""
    from collections import Counter

    from channels.common.mail.imap_connection import ImapConnection
    from channels.common.mail.mail_headers import headers_of
    from channels.email.sender_check import results_of

    assert isinstance(connection, ImapConnection)
    selected = connection.select(connection.named(folder))
    uids = connection.newer(max(1, (selected.next_uid or 1) - 50))[-50:]
    found: Counter[str] = Counter()
    for one in connection.fetch(uids, "(UID BODY.PEEK[HEADER.FIELDS (AUTHENTICATION-RESULTS)]<0.8192>)"):
        raw = one.get("BODY[]")
        written = headers_of(raw).parsed.get_all("Authentication-Results", []) if isinstance(raw, bytes) else []
        if written and (results := results_of(str(written[0]))) is not None:
            found[results.server] += 1
    return [server for server, _ in found.most_common()]
