"""Sends one mail as the tool does, in a process that can be killed: ``python sending_program.py STATE ACCOUNT.json ARGUMENTS.json``.

A second run with the same state is what happens after a restart.
"""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import UTC, datetime
from pathlib import Path

from agent.tools.file_tool_context import FileToolContext
from agent.tools.mail_tool import MailTool
from agent.tools.protocol import ToolContext
from agent.tools.workspace_sandbox import WorkspaceSandbox
from gateway.mail.account_connections import AccountConnections
from gateway.mail.agent_mail import AgentMail
from gateway.mail.letter_writing import LetterWriter
from gateway.mail.mail_sending import MailSender
from gateway.mail.send_records import SendRecords
from gateway.settings.mail_settings import MailSettings


async def no_wait(_seconds: float) -> None:
    await asyncio.sleep(0)


async def send(state: Path, settings: MailSettings, arguments: dict[str, object]) -> None:
    (state / "workspace").mkdir(parents=True, exist_ok=True)
    records, connections = SendRecords(state / "outgoing"), AccountConnections(lambda: settings)
    files = FileToolContext(sandbox=WorkspaceSandbox(state / "workspace"))
    writer = LetterWriter(connections, records, files, withheld=lambda _name, _data: False, now=lambda: datetime.now(UTC))
    sender = MailSender(connections, records, lambda: datetime.now(UTC), no_wait)
    tool = MailTool(AgentMail(lambda: list(settings.accounts), connections, writer=writer, sender=sender, files=files))
    context = ToolContext(now=datetime.now(UTC), session="s1", turn="t1", call="1/c1")
    act = await asyncio.to_thread(tool.act_of, arguments, context)
    outcome = await tool.run(arguments, context)
    connections.close()
    told = {"text": outcome.text, "error": outcome.is_error, "details": act.details if act else "", "sources": outcome.sources}
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    place, account, wish = (Path(one) for one in sys.argv[1:4])
    asyncio.run(send(place, MailSettings.model_validate_json(account.read_text()), json.loads(wish.read_text())))
