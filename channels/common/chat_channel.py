"""The base class of the chat channels: loads the library, retries connections, and shows typing, previews and reactions."""

from __future__ import annotations

import asyncio
import importlib
import random as system_random
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import ClassVar, Literal

from channels.common.backoff import LONGEST, Backoff
from channels.common.log import Log, NoLog
from channels.common.previews import Previews
from channels.errors import ChannelError
from channels.messages import ChatAddress
from channels.protocol import Clock, InboundSink


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

    @asynccontextmanager
    async def _keeping(self, previews: Previews, sink: InboundSink) -> AsyncIterator[None]:
        """Keep previews in ``sink`` while the context is active; those that an earlier process left become their answers or are deleted."""
        try:
            await previews.keep(sink)
        except Exception as error:  # noqa: BLE001  (whatever cannot be read: messages come first)
            self._log.warning("the previews of an earlier run could not be read", error=str(error), account=self.account)
        tidying = asyncio.ensure_future(previews.tidy())
        try:
            yield
        finally:
            tidying.cancel()
            for outcome in await asyncio.gather(tidying, return_exceptions=True):
                if isinstance(outcome, Exception):
                    self._log.warning("a preview of an earlier run was not deleted", error=str(outcome), account=self.account)

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
