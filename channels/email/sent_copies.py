"""Copies of sent mail: whether the server keeps them itself, looking for one, and filing them where it does not."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from channels.errors import ChannelError, MailProblem, Uncertain
from channels.messages import Cursor

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime
    from typing import Literal

    from channels.common.log import Log
    from channels.common.mail.imap_connection import ImapConnection
    from channels.protocol import Clock, InboundSink

COPIES: Final = "copies"
"""The cursor that says who keeps copies of sent mail: ``server`` or ``none``."""
LOOKS: Final = (0.0, 2.0, 4.0)
"""Seconds before each look whether the server filed a mail itself."""
CLOSING_SECONDS: Final = 5.0
T = TypeVar("T")


class WithMailbox(Protocol):
    """Does work with a connection to the mailbox. Raises ChannelError."""

    def __call__(self, work: Callable[[ImapConnection], T]) -> Awaitable[T]:
        """Do it."""
        ...


class SentCopies:
    """The folder of sent mail of one account. ``section``: where its settings are."""

    def __init__(
        self,
        save_sent: Literal["auto", "always", "never"],
        with_mailbox: WithMailbox,
        *,
        section: str,
        account: str,
        clock: Clock,
        log: Log,
    ) -> None:
        self._learns = save_sent == "auto"
        self._by_server = True if save_sent == "never" else False if save_sent == "always" else None
        self._with_mailbox = with_mailbox
        self._section = section
        self._account = account
        self._clock = clock
        self._log = log
        self._sink: InboundSink | None = None
        self._waiting: list[tuple[str, bytes, datetime]] = []
        self._filing: asyncio.Task[None] | None = None

    @property
    def by_server(self) -> bool:
        """Whether the server keeps a copy of each mail that it sends, so that one in doubt can be looked for."""
        return self._by_server is True

    async def begin(self, sink: InboundSink) -> None:
        """Read what was learnt of the server."""
        self._sink = sink
        if self._learns:
            self._by_server = {"server": True, "none": False}.get(await sink.cursor(COPIES) or "")

    async def close(self) -> None:
        """End. Copies that are being filed have a moment."""
        if self._filing is not None:
            await asyncio.wait([self._filing], timeout=CLOSING_SECONDS)
            self._filing.cancel()
            await asyncio.gather(self._filing, return_exceptions=True)

    async def hold(self, message_id: str) -> bool:
        """Return whether there is a copy of a mail. Raises Uncertain while the server cannot be asked."""
        for wait in LOOKS:
            await self._clock.sleep(wait)
            try:
                if await self._with_mailbox(lambda connection: self._found(connection, message_id)):
                    return True
            except ChannelError as error:
                raise Uncertain(f"nobody knows yet whether the mail was sent: {error}", hint=error.hint) from error
        return False

    def file_later(self, message_id: str, mail: bytes) -> None:
        """Have a mail that was sent filed, unless the server does so itself. What waits is filed over one connection."""
        if self._by_server is True:
            return
        self._waiting.append((message_id, mail, self._clock.now()))
        if self._filing is None or self._filing.done():
            self._filing = asyncio.ensure_future(self._file())

    async def _file(self) -> None:
        """File what waits. Its failure costs copies, no mail."""
        while self._waiting:
            try:
                if self._by_server is None:
                    await self._learn(self._waiting[0][0])
                if self._by_server:
                    self._waiting.clear()
                    return
                await self._with_mailbox(self._append)
            except ChannelError as error:
                self._log.info(
                    "copies of sent mail were not filed", mails=len(self._waiting), error=str(error), account=self._account
                )
                self._waiting.clear()

    async def _learn(self, message_id: str) -> None:
        """See whether the server kept a copy of the first mail."""
        self._by_server = await self.hold(message_id)
        if self._sink is not None:
            await self._sink.accept([], Cursor(name=COPIES, value="server" if self._by_server else "none"))

    def _append(self, connection: ImapConnection) -> None:
        folder = connection.folder_for("sent")
        while self._waiting:
            _, mail, at = self._waiting[0]
            connection.begin()
            if folder is not None:
                connection.append(folder, mail, "\\Seen", at)
            self._waiting.pop(0)

    def _found(self, connection: ImapConnection, message_id: str) -> bool:
        folder = connection.folder_for("sent")
        if folder is None:
            raise MailProblem(
                "the mailbox has no folder of sent mail", hint=f"homebody config set {self._section}.folders.sent FOLDER"
            )
        connection.select(folder)
        return bool(connection.with_message_id(message_id))
