"""What people see while they wait: typing indicator, preview of the reply, tool activity, reactions to received messages."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from typing import Literal

from agent.events import (
    AnswerFinished,
    Event,
    Notice,
    Restarted,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolOutput,
    ToolStarted,
)
from agent.messages import ToolCall
from agent.settings import AgentSettings
from agent.timing import Clock
from channels.live import Activity, LiveEvent, Note
from channels.messages import ChatAddress, Inbound
from channels.protocol import Channel, Drafts, Reacts
from gateway.logs.secret_filter import SecretFilter
from gateway.routing.routed_message import RoutedMessage
from gateway.settings.block_streaming import Sending
from gateway.settings.message_settings import AckScope
from gateway.settings.root import SettingsStore

_SHOWN = {"command": "`{}`", "path": "", "query": "“{}”", "pattern": "“{}”"}
_FENCE = "```"
_SHOWN_CHARS = 60
_REASON_CHARS = 120


class ProgressDisplay:
    """Shows the events of one turn in its conversation. It neither delays the turn nor makes it fail.

    ``sent`` is that of ``gateway.settings.block_streaming.Manner``: text between tool calls that is sent as a message is removed from
    the preview, and there is no preview if answers are sent in blocks. ``channel`` returns the conversation's channel as it is now: changed
    settings replace it while an answer is written, and what the former one posts nobody would take up.
    """

    def __init__(
        self,
        channel: Callable[[], Channel],
        conversation: ChatAddress,
        turn: str,
        sign: TypingIndicator,
        *,
        verbose: bool,
        sent: Sending = "whole",
        secret_filter: SecretFilter | None = None,
        tool_ran: Callable[[ToolFinished], None] = lambda _: None,
    ) -> None:
        self._tool_ran = tool_ran
        self._secret_filter = secret_filter
        self._channel = channel
        self._conversation = conversation
        self._turn = turn
        self._sign = sign
        self._verbose = verbose
        self._apart = sent != "whole"
        self._previewed = sent != "written" and hasattr(channel(), "draft")
        self._append_only: bool = getattr(channel(), "append_only", False)
        self._finished = ""
        self._text = ""
        self._output = ""
        """The last lines that a running tool has printed."""
        self._news = asyncio.Event()

    @contextlib.asynccontextmanager
    async def shown(self) -> AsyncIterator[None]:
        """Show progress while the context is active."""
        tasks = [asyncio.create_task(self._sign.show())]
        if self._previewed:
            tasks.append(asyncio.create_task(self._preview()))
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            ended = getattr(self._channel(), "draft_ended", None)
            if ended is not None:
                ended(self._conversation, self._turn)

    def emit(self, event: Event) -> None:
        """Handle one event."""
        if isinstance(event, self._sign.shown_from):
            self._sign.due.set()
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
            case ToolOutput(call, text) if not self._append_only:
                self._output = f"{describe(call)}\n{_FENCE}\n{text.replace(_FENCE, '')}\n{_FENCE}"
                self._news.set()
            case ToolFinished(call, result):
                self._tool_ran(event)
                if self._output:
                    self._output = ""
                    self._news.set()
                why = f": {_first_line(result.text)}" if result.is_error else ""
                self._frame(Activity(f"{describe(call)}{why}", "failed" if result.is_error else "finished"))
            case Notice(text, verbose) if self._verbose or not verbose:
                self._frame(Note(text))

    def _frame(self, frame: LiveEvent) -> None:
        show_frame(self._channel(), self._conversation, frame)

    async def _preview(self) -> None:
        from gateway.outbound.replying import shown

        while True:
            await self._news.wait()
            self._news.clear()
            text = "\n\n".join(filter(None, (shown(self._finished + self._text), self._output)))
            if self._secret_filter is not None:  # the owner is told when the answer itself is sent
                text = self._secret_filter.text(text[: self._secret_filter.safe_end(text)])
            drafts: Drafts | None = self._channel()  # type: ignore[assignment]
            if hasattr(drafts, "draft") and drafts is not None:
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


TypingMode = Literal["never", "instant", "thinking", "message"]
_FROM = {"thinking": (ThinkingDelta, ToolStarted, TextDelta), "message": (TextDelta,)}


class TypingIndicator:
    """Shows the indicator for one turn. In the mode ``message``, nothing is shown for an answer that is NO_REPLY."""

    def __init__(
        self, channel: Callable[[], Channel], conversation: ChatAddress, clock: Clock, mode: TypingMode, seconds: float
    ) -> None:
        self._channel = channel
        self._conversation = conversation
        self._clock = clock
        self._mode = mode
        self._seconds = seconds
        self.due = asyncio.Event()
        """Set once it is to be shown."""
        if mode == "instant":
            self.due.set()
        self.shown_from = _FROM.get(mode, ())
        """The events of the turn from which on it is due."""

    async def show(self) -> None:
        """Show it until cancelled, once it is due. Platforms hide it after five seconds or more."""
        if self._mode == "never":
            return
        await self.due.wait()
        while True:
            await self._channel().typing(self._conversation)
            await self._clock.sleep(self._seconds)


def typing_mode(settings: AgentSettings, inbound: Inbound) -> TypingMode:
    """Return the mode for a message: from the settings, else depending on whether the sender certainly expects an answer."""
    if settings.typing_mode is not None:
        return settings.typing_mode
    return "instant" if inbound.conversation.kind == "direct" or inbound.mentioned else "message"


AT_ONCE = 16
"""Maximum number of concurrent reaction requests, to stay below the platform's rate limits in a flood."""


class AckReactions:
    """Sets and removes the emoji, if the channel can. Runs in the background; errors are ignored."""

    def __init__(self, settings: SettingsStore, channel: Callable[[ChatAddress], Channel]) -> None:
        self._settings = settings
        self._channel = channel
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}

    def taken(self, arrived: RoutedMessage) -> None:
        """React to a message that was received."""
        settings = self._settings.current.messages
        if settings.ack_reaction and is_meant(arrived.inbound, settings.ack_reaction_scope):
            self._react(arrived.inbound, settings.ack_reaction)

    def answered(self, messages: Iterable[RoutedMessage]) -> None:
        """Update the reactions of messages that were answered or dropped."""
        settings = self._settings.current.messages
        if not (settings.ack_reaction and settings.remove_ack_after_reply):
            return
        for one in messages:
            if one.automation is None and is_meant(one.inbound, settings.ack_reaction_scope):
                self._react(one.inbound, None)

    async def quiet(self) -> None:
        """Wait until all requests are finished."""
        while self._tasks:
            await asyncio.wait(self._tasks.values())

    def _react(self, inbound: Inbound, emoji: str | None) -> None:
        channel: Reacts | None = self._channel(inbound.conversation)  # type: ignore[assignment]
        if not hasattr(channel, "react") or channel is None or len(self._tasks) >= AT_ONCE:
            return
        where = (inbound.conversation.address, inbound.message_id)
        task = asyncio.ensure_future(
            _after(self._tasks.get(where), channel.react(inbound.conversation, inbound.message_id, emoji))
        )
        self._tasks[where] = task
        task.add_done_callback(lambda done: self._tasks.pop(where) if self._tasks.get(where) is done else None)


async def _after(before: asyncio.Task[None] | None, work: Coroutine[None, None, None]) -> None:
    """Run ``work`` after earlier requests for the same message, so that a removal never overtakes its reaction."""
    if before is not None:
        await asyncio.wait([before])
    await work


def is_meant(inbound: Inbound, scope: AckScope) -> bool:
    """Whether the settings want a reaction on a message. Button presses and edits get none."""
    if inbound.event != "message" or scope == "off":
        return False
    if scope == "all":
        return True
    if inbound.conversation.kind == "direct":
        return scope == "direct"
    return scope == "group-all" or (scope == "group-mentions" and inbound.mentioned)
