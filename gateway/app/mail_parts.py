"""Builds what reads and sends mail. Nothing is imported, opened or connected before an account is used."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from agent.tools.file_tool_context import FileToolContext
from agent.tools.mail_tool import MailTool
from agent.tools.provider import FixedTools, ToolProvider
from agent.tools.workspace_sandbox import WorkspaceSandbox
from gateway.app.dependencies import Dependencies
from gateway.config.workspace_location import ProtectedInodes
from gateway.mail.account_connections import AccountConnections
from gateway.mail.agent_mail import AgentMail
from gateway.mail.letter_writing import LetterWriter
from gateway.mail.send_records import OUTGOING, SendRecords
from gateway.mail.sending import MailSender
from gateway.settings.mail import MailAccount
from gateway.settings.root import SettingsStore


class MailParts:
    """The parts behind mail. ``withheld`` says whether a file may not leave this machine because it holds a secret."""

    def __init__(self, deps: Dependencies, settings: SettingsStore, *, withheld: Callable[[str, bytes], bool]) -> None:
        self._deps = deps
        self._settings = settings
        self._withheld = withheld
        self._records = SendRecords(deps.paths.state / OUTGOING)
        self.connections = AccountConnections(lambda: settings.current.mail)
        self.sender = MailSender(self.connections, self._records, deps.clock.now, deps.clock.sleep)
        self._resuming: asyncio.Task[None] | None = None

    def providers(self, agent: str) -> Sequence[ToolProvider]:
        """Return the provider of an agent's tool; none where it has no account."""
        if not self._accounts(agent):
            return []
        profile = self._settings.current.agent(agent)
        sandbox = WorkspaceSandbox(profile.workspace, ProtectedInodes(self._deps.paths.home))
        files = FileToolContext(sandbox=sandbox, agent=agent, shared=profile.settings.shared_paths)
        writer = LetterWriter(self.connections, self._records, files, withheld=self._withheld, now=self._deps.clock.now)
        mailboxes = AgentMail(
            lambda: list(self._accounts(agent)), self.connections, writer=writer, sender=self.sender, files=files
        )
        return [FixedTools("mail", [MailTool(mailboxes)])]

    def _accounts(self, agent: str) -> dict[str, MailAccount]:
        settings = self._settings.current
        return settings.mail.accounts_of(agent, settings.default_agent)

    def begin(self) -> None:
        """File what an earlier process sent and could not file."""
        if self._settings.current.mail.accounts:
            self._resuming = asyncio.ensure_future(self.sender.resume())

    async def close(self) -> None:
        """Let what is being sent end, and close all connections."""
        if self._resuming is not None:
            self._resuming.cancel()
            await asyncio.wait([self._resuming])
        await self.sender.close()
        await asyncio.to_thread(self.connections.close)
