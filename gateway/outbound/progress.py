"""Progress display of a turn: typing indicator, preview of the reply, and tool activity."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from agent.events import AnswerFinished, Event, Notice, Restarted, TextDelta, ToolFinished, ToolStarted
from agent.messages import ToolCall
from channels.live import Activity, LiveEvent, Note
from channels.messages import ChatAddress
from channels.protocol import Channel, Drafts
from gateway.outbound.reply_tags import shown
from gateway.outbound.secret_filter import SecretFilter
from gateway.outbound.typing_indicator import TypingIndicator
from gateway.settings.block_streaming import Sending

_SHOWN = {"path": "", "query": "“{}”", "pattern": "“{}”"}
_SHOWN_CHARS = 60
_REASON_CHARS = 120


class ProgressDisplay:
    """Shows the events of one turn in its conversation. It neither delays the turn nor makes it fail.

    ``sent`` is that of ``gateway.settings.block_streaming.Manner``: text between tool calls that is sent as a message is removed from
    the preview, and there is no preview if answers are sent in blocks.
    """

    def __init__(
        self,
        channel: Channel,
        conversation: ChatAddress,
        turn: str,
        sign: TypingIndicator,
        *,
        verbose: bool,
        sent: Sending = "whole",
        held: SecretFilter | None = None,
    ) -> None:
        self._held = held
        self._channel = channel
        self._conversation = conversation
        self._turn = turn
        self._sign = sign
        self._verbose = verbose
        self._apart = sent != "whole"
        self._drafts: Drafts | None = channel if sent != "written" and hasattr(channel, "draft") else None  # type: ignore[assignment]
        self._finished = ""
        self._text = ""
        self._news = asyncio.Event()

    @contextlib.asynccontextmanager
    async def shown(self) -> AsyncIterator[None]:
        """Show progress while the context is active."""
        tasks = [asyncio.create_task(self._sign.show())]
        if self._drafts is not None:
            tasks.append(asyncio.create_task(self._preview(self._drafts)))
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            ended = getattr(self._channel, "draft_ended", None)
            if ended is not None:
                ended(self._conversation, self._turn)

    def emit(self, event: Event) -> None:
        """Handle one event."""
        self._sign.hear(event)
        match event:
            case TextDelta(text):
                self._text += text
                self._news.set()
            case Restarted():
                self._text = ""
                self._news.set()
            case AnswerFinished(message) if message.calls and self._text.strip():
                self._finished = "" if self._apart else f"{self._finished}{self._text.rstrip()}\n\n"
                self._text = ""
            case ToolStarted(call):
                self._frame(Activity(describe(call), "started"))
            case ToolFinished(call, result):
                why = f": {_first_line(result.text)}" if result.is_error else ""
                self._frame(Activity(f"{describe(call)}{why}", "failed" if result.is_error else "finished"))
            case Notice(text, verbose) if self._verbose or not verbose:
                self._frame(Note(text))

    def _frame(self, frame: LiveEvent) -> None:
        show_frame(self._channel, self._conversation, frame)

    async def _preview(self, drafts: Drafts) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            text = shown(self._finished + self._text)
            if self._held is not None:  # the owner is told when the answer itself is sent
                text = self._held.text(text, quietly=True)
            await drafts.draft(self._conversation, self._turn, text)


def show_frame(channel: Channel, place: ChatAddress, frame: LiveEvent) -> None:
    """Send a live event, if the channel supports them (the terminal does, chat platforms do not)."""
    show = getattr(channel, "show", None)
    if show is not None:
        show(place, frame)


def _first_line(text: str) -> str:
    line = text.strip().partition("\n")[0]
    return line if len(line) <= _REASON_CHARS else line[: _REASON_CHARS - 1] + "…"


def describe(call: ToolCall) -> str:
    """Describe a tool call in a few words."""
    for name, form in _SHOWN.items():
        value = (call.arguments or {}).get(name)
        if isinstance(value, str) and value:
            short = value if len(value) <= _SHOWN_CHARS else value[: _SHOWN_CHARS - 1] + "…"
            return f"{call.name} {form.format(short) if form else short}"
    return call.name
