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
        self.ended: list[str] = []

    async def typing(self, conversation: ChatAddress) -> None:
        """Show nothing."""

    async def draft(self, conversation: ChatAddress, turn: str, text: str) -> None:
        self.drafts.append(text)

    def draft_ended(self, conversation: ChatAddress, turn: str) -> None:
        self.ended.append(turn)


async def test_the_last_lines_of_a_running_command_are_in_the_preview() -> None:
    channel = Drafting()
    sign = TypingIndicator(lambda: channel, PLACE, SystemClock(), "never", 4)  # type: ignore[arg-type]
    held = SecretFilter(["s3cret-token-value"])
    display = ProgressDisplay(lambda: channel, PLACE, "t", sign, verbose=False, secret_filter=held)  # type: ignore[arg-type]
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


async def test_settings_that_replace_the_channel_while_an_answer_is_written_take_its_preview_along() -> None:
    """What the former channel posts then nobody would make the answer: it would stay as half of one."""
    former, new = Drafting(), Drafting()
    present = [former]
    sign = TypingIndicator(lambda: present[0], PLACE, SystemClock(), "never", 4)  # type: ignore[arg-type]
    display = ProgressDisplay(lambda: present[0], PLACE, "t", sign, verbose=False)  # type: ignore[arg-type]
    async with display.shown():
        display.emit(TextDelta("The garden"))
        await until(lambda: former.drafts == ["The garden"])
        present[0] = new
        display.emit(TextDelta(" is green."))
        await until(lambda: new.drafts == ["The garden is green."])
    assert former.drafts == ["The garden"]
    assert (former.ended, new.ended) == ([], ["t"])
