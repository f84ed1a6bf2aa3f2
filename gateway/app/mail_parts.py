"""Builds what reads and sends mail. Nothing is imported before an account is configured, nor connected before one is used."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from agent.tools.provider import FixedTools, ToolProvider
from agent.tools.workspace_sandbox import Closed, WorkspaceSandbox
from gateway.app.dependencies import Dependencies
from gateway.settings.mail_settings import MailAccount
from gateway.settings.root import SettingsStore

if TYPE_CHECKING:  # loaded with the first account
    from gateway.mail.account_connections import AccountConnections
    from gateway.mail.mail_sending import MailSender
    from gateway.mail.send_records import SendRecords


log = logging.getLogger(__name__)

SETTLED_EVERY: Final = 300.0
"""Seconds between two looks whether a mail in doubt can be settled."""


class MailParts:
    """The parts behind mail. ``withheld`` says whether a file may not leave this machine because it holds a secret.

    ``closed`` is that of ``WorkspaceSandbox``. ``tell`` says a line to the owner.
    """

    def __init__(
        self,
        deps: Dependencies,
        settings: SettingsStore,
        *,
        withheld: Callable[[str, bytes], bool],
        closed: Closed,
        tell: Callable[[str], None],
    ) -> None:
        self._tell = tell
        self._deps = deps
        self._settings = settings
        self._withheld = withheld
        self._closed = closed
        self._made: tuple[SendRecords, AccountConnections, MailSender] | None = None
        self._resuming: asyncio.Task[None] | None = None

    def providers(self, agent: str) -> Sequence[ToolProvider]:
        """Return the provider of an agent's tool; none where it has no account."""
        if not self._accounts(agent):
            return []
        from agent.tools.file_tool_context import FileToolContext
        from agent.tools.mail_tool import MailTool
        from gateway.mail.agent_mail import AgentMail
        from gateway.mail.letter_writing import LetterWriter

        profile = self._settings.current.agent(agent)
        records, connections, sender = self._shared()
        sandbox = WorkspaceSandbox(profile.workspace, self._closed)
        files = FileToolContext(sandbox=sandbox, agent=agent, shared=profile.settings.shared_paths)
        writer = LetterWriter(connections, records, files, withheld=self._withheld, now=self._deps.clock.now)
        mailboxes = AgentMail(lambda: list(self._accounts(agent)), connections, writer=writer, sender=sender, files=files)
        return [FixedTools("mail", [MailTool(mailboxes)])]

    def _shared(self) -> tuple[SendRecords, AccountConnections, MailSender]:
        """Return what the tools of all agents share, made at first use."""
        if self._made is None:
            from gateway.mail.account_connections import AccountConnections
            from gateway.mail.mail_sending import MailSender
            from gateway.mail.send_records import OUTGOING, SendRecords

            records = SendRecords(self._deps.paths.state / OUTGOING)
            connections = AccountConnections(lambda: self._settings.current.mail)
            self._made = records, connections, MailSender(connections, records, self._deps.clock.now, self._deps.clock.sleep)
        return self._made

    def _accounts(self, agent: str) -> dict[str, MailAccount]:
        settings = self._settings.current
        return settings.mail.accounts_of(agent, settings.default_agent)

    def begin(self) -> None:
        """File what an earlier process sent and could not file, and settle from time to time what a mailbox that is away left open."""
        self._resuming = asyncio.ensure_future(self._settle())

    async def _settle(self) -> None:
        if self._settings.current.mail.accounts:
            await self._shared()[2].resume()
        while True:  # later than turns of before a restart go on, which settle their own mails
            await self._deps.clock.sleep(SETTLED_EVERY)
            if self._settings.current.mail.accounts:
                try:
                    for line in await self._shared()[2].settle():
                        self._tell(line)
                except Exception:  # a defect must not end the looks at what else is open
                    log.exception("mails in doubt could not be looked at")

    async def close(self) -> None:
        """Let what is being sent end, and close all connections."""
        if self._resuming is not None:
            self._resuming.cancel()
            await asyncio.wait([self._resuming])
        if self._made is not None:
            _, connections, sender = self._made
            await sender.close()
            await asyncio.to_thread(connections.close)
