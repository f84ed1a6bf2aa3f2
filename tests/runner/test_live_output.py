"""What a running command prints is shown with the answer that is being written, and taken away when it ends."""

from __future__ import annotations

import asyncio

from agent.events import TextDelta, ToolFinished, ToolOutput, ToolStarted
from agent.messages import ToolCall, ToolMessage
from channels.messages import ChatAddress
from gateway.base.clock import SystemClock
from gateway.logs.secret_filter import SecretFilter
from gateway.outbound.progress import ProgressDisplay, TypingIndicator
from tests.runner.commands import until

PLACE = ChatAddress(channel="paper", account="default", id="1", kind="direct")
CALL = ToolCall(id="c", name="exec", arguments={"command": "make all"})


class Drafting:
    """A channel with previews."""

    name, account = "paper", "default"

    def __init__(self) -> None:
        self.drafts: list[str] = []

    async def typing(self, conversation: ChatAddress) -> None:
        """Show nothing."""

    async def draft(self, conversation: ChatAddress, turn: str, text: str) -> None:
        self.drafts.append(text)


async def test_the_last_lines_of_a_running_command_are_in_the_preview() -> None:
    channel = Drafting()
    sign = TypingIndicator(channel, PLACE, SystemClock(), "never", 4)  # type: ignore[arg-type]
    held = SecretFilter(["s3cret-token-value"])
    display = ProgressDisplay(channel, PLACE, "t", sign, verbose=False, secret_filter=held)  # type: ignore[arg-type]
    async with display.shown():
        for event, expected in (
            (TextDelta("I build it."), "I build it."),
            (ToolStarted(CALL), None),
            (
                ToolOutput(CALL, "one ```\ntwo s3cret-token-value"),
                "I build it.\n\nexec `make all`\n```\none \ntwo [secret]\n```",
            ),
            (ToolFinished(CALL, ToolMessage(call_id="c", name="exec", text="done"), 3.0), "I build it."),
        ):
            display.emit(event)
            if expected is not None:
                await until(lambda expected=expected: channel.drafts[-1:] == [expected])
            await asyncio.sleep(0)
