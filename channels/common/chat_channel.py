"""The base class of the chat channels: loads the library, retries connections, and shows typing, previews and reactions.

``Previews`` are the drafts of answers that are shown while they are written.
"""

from __future__ import annotations

import asyncio
import importlib
import random as system_random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Protocol

from channels.common.backoff import LONGEST, Backoff
from channels.common.log import Log, NoLog
from channels.errors import ChannelError, Uncertain
from channels.messages import ChatAddress
from channels.protocol import Clock

AFTER = 3.0
BETWEEN = 1.0
MOST = 200
PREFIX = "preview:"


class Editing(Protocol):
    """What a platform must support. Both raise only ``ChannelError``."""

    async def post(self, conversation: ChatAddress, text: str) -> str:
        """Post a message and return its id."""
        ...

    async def edit(self, conversation: ChatAddress, message: str, text: str) -> None:
        """Replace a message's text."""
        ...


@dataclass
class _Preview:
    turn: str
    began: float
    message: str | None = None
    shown: str = ""
    edited: float = 0.0
    ended: bool = False
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Previews:
    """The previews of one account, one for each conversation at most."""

    def __init__(
        self,
        editing: Editing,
        clock: Clock,
        *,
        after: float = AFTER,
        between: Callable[[ChatAddress], float] = lambda _: BETWEEN,
    ) -> None:
        self._editing = editing
        self._clock = clock
        self._after = after
        self._between = between
        self._open: dict[str, _Preview] = {}
        self._over: dict[str, str] = {}

    async def show(self, conversation: ChatAddress, turn: str, text: str) -> None:
        """Show ``text`` if enough time has passed. If cancelled, a message that is being posted is still recorded."""
        address = conversation.address
        if self._over.get(address) == turn or not text.strip():
            return
        preview = self._open.get(address)
        if preview is None or preview.turn != turn:
            preview = self._open[address] = _Preview(turn, self._clock.monotonic())
        now = self._clock.monotonic()
        early = now - preview.began < self._after or now - preview.edited < self._between(conversation)
        if early or text == preview.shown or preview.lock.locked():
            return
        await asyncio.shield(asyncio.ensure_future(self._show(conversation, preview, text)))

    async def _show(self, conversation: ChatAddress, preview: _Preview, text: str) -> None:
        async with preview.lock:
            if self._open.get(conversation.address) is not preview:
                return
            preview.shown, preview.edited = text, self._clock.monotonic()
            if preview.message is None:
                try:
                    preview.message = await self._editing.post(conversation, text)
                except Uncertain:  # it may exist: another one would be a duplicate
                    self._over[conversation.address] = preview.turn
                    raise
            else:
                await self._editing.edit(conversation, preview.message, text)

    async def refresh(self, conversation: ChatAddress, older: float) -> None:
        """Show the preview again if it was shown ``older`` seconds ago or earlier, for platforms where it expires."""
        preview = self._open.get(conversation.address)
        if preview is None or not preview.shown or preview.lock.locked():
            return
        if self._clock.monotonic() - preview.edited >= older:
            await asyncio.shield(asyncio.ensure_future(self._show(conversation, preview, preview.shown)))

    def end(self, conversation: ChatAddress, turn: str) -> None:
        """End the previews of a turn: the next message, whatever it is, may replace its preview."""
        preview = self._open.get(conversation.address)
        if preview is not None and preview.turn == turn:
            preview.ended = True

    async def take(self, conversation: ChatAddress, turn: str | None = None) -> str | None:
        """End the preview of a conversation and return its message, which becomes the answer; None if there is none.

        With ``turn``, the preview of another turn that has not ended is kept.
        """
        preview = self._open.get(conversation.address)
        if preview is None or (turn is not None and turn != preview.turn and not preview.ended):
            return None
        del self._open[conversation.address]
        while len(self._over) >= MOST:
            del self._over[next(iter(self._over))]
        self._over[conversation.address] = preview.turn
        async with preview.lock:
            return preview.message


class ChatChannel(ABC):
    """One account on a platform whose client library is loaded in a thread, when it is first needed.

    Typing signs, previews and reactions are best effort: their failures are logged, and raise nothing.
    """

    name: str
    shows: frozenset[Literal["buttons", "files"]] = frozenset({"buttons", "files"})
    PARTS: ClassVar[tuple[str, ...]]
    """The modules of the package that load the library."""
    _previews: Previews

    def __init__(
        self,
        account: str,
        *,
        clock: Clock,
        streaming: bool,
        log: Log | None = None,
        random: Callable[[], float] = system_random.random,
    ) -> None:
        self.account = account
        self._clock = clock
        self._streaming = streaming
        self._log: Log = log or NoLog()
        self._random = random

    async def typing(self, conversation: ChatAddress) -> None:
        """Show that an answer is being written, for as long as the platform shows one sign."""
        await self._best_effort(self._show_typing(conversation), "typing was not shown")

    async def draft(self, conversation: ChatAddress, turn: str, text: str) -> None:
        """Show a preview of the answer, when it takes long."""
        if self._streaming:
            await self._best_effort(self._show_preview(conversation, turn, text), "a preview was not shown")

    def draft_ended(self, conversation: ChatAddress, turn: str) -> None:
        """See ``channels.protocol.DraftsEnd``."""
        self._previews.end(conversation, turn)

    async def react(self, conversation: ChatAddress, message_id: str, emoji: str | None) -> None:
        """Put an emoji under a message in place of an earlier one, or take it off."""
        await self._best_effort(self._show_reaction(conversation, message_id, emoji), "a reaction was not shown")

    @abstractmethod
    def _passing(self) -> tuple[type[Exception], ...]:
        """Return the library's errors that may pass. Called when an error is at hand, so that the library is loaded."""

    @abstractmethod
    async def _show_typing(self, conversation: ChatAddress) -> None:
        """Show a typing sign. Raises one of ``_passing``, or ChannelError."""

    @abstractmethod
    async def _show_reaction(self, conversation: ChatAddress, message_id: str, emoji: str | None) -> None:
        """Put a reaction. Raises one of ``_passing``, or ChannelError."""

    async def _show_preview(self, conversation: ChatAddress, turn: str, text: str) -> None:
        await self._previews.show(conversation, turn, text)

    async def _best_effort(self, showing: Awaitable[None], event: str) -> None:
        """Await ``showing``, and log ``event`` if it fails."""
        try:
            await showing
        except Exception as error:  # the library's errors can be named only now that it is loaded
            if not isinstance(error, (ChannelError, *self._passing())):
                raise
            self._log.info(event, error=self._described(error), account=self.account)

    def _described(self, error: Exception) -> str:
        """Return an error as the log says it. Its text may hold a token, so that only its type is said unless a channel knows better."""
        return type(error).__name__

    async def _reconnecting(self, listen: Callable[[Backoff], Awaitable[None]]) -> None:
        """Call ``listen`` until cancelled, with longer and longer pauses between connections that fail.

        It connects and receives until the connection ends, and raises one of ``_passing`` where trying again may help.
        """
        backoff = self._backoff()
        while True:
            try:
                await listen(backoff)
            except self._passing() as error:
                await backoff.wait(f"{self.name} does not answer", str(error) or type(error).__name__)

    def _backoff(self, longest: float = LONGEST) -> Backoff:
        return Backoff(self._clock, self._random, self._log, self.account, longest=longest)

    async def _load(self) -> None:
        """Load the library; up to a second of work that must not stop the event loop."""
        await asyncio.to_thread(self._load_here)

    def _load_here(self) -> None:
        for part in self.PARTS:
            importlib.import_module(f"channels.{self.name}.{part}")
