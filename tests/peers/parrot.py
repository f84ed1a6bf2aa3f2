"""A house for the terminal that answers by rule, so that clients can be tried without an agent."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from channels.live import Activity, Done, Note, Rejected
from channels.messages import Outbound
from channels.terminal.channel import TerminalChannel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from channels.messages import ChatAddress, Cursor, Inbound
    from channels.protocol import Clock


class Parrot:
    """Answers "echo: ..." to what it is told; a few words make it do otherwise.

    ``two`` gives two pieces, ``silent`` none, ``fail`` a turn with exit code 3, ``reject`` a rejection, ``stream`` previews first,
    ``work`` lines of activity, ``slow`` waits to be stopped, ``late`` sends its Done before its reply, ``crash`` closes the line.
    """

    def __init__(self, clock: Clock) -> None:
        self.channel = TerminalChannel(clock=clock, on_stop=self._stop)
        self.heard: list[str] = []
        self._stopped = asyncio.Event()
        self._answering: set[asyncio.Task[None]] = set()
        self._turns = 0

    async def accept(self, messages: Sequence[Inbound], cursor: Cursor | None = None) -> None:
        for message in messages:
            self.heard.append(message.text)
            task = asyncio.ensure_future(self._answer(message))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)

    async def cursor(self, name: str) -> str | None:
        return None

    def ready(self) -> None:
        """No messages are waiting."""

    def alive(self) -> None:
        """Nobody asks."""

    async def _stop(self, _: ChatAddress) -> None:
        self._stopped.set()

    async def _answer(self, message: Inbound) -> None:
        self._turns += 1
        turn = f"t{self._turns}"
        here = message.conversation
        word = message.text.split()[0]
        if word == "reject":
            self.channel.show(here, Rejected(message.message_id, "no agent of that name", "homebody agents"))
            return
        if word == "crash":
            await self.channel.close()
            return
        replies = {"two": ["first", "second"], "silent": []}.get(word, [f"echo: **{message.text}**"])
        if word == "slow":
            await self._stopped.wait()
            replies = ["stopped"]
        if word == "stream":
            for end in range(1, len(message.text) + 1):
                await self.channel.draft(here, turn, f"echo: **{message.text[:end]}")
                await asyncio.sleep(0.002)
        if word == "work":
            self.channel.show(here, Activity("reads notes.md", "started"))
            self.channel.show(here, Activity("reads notes.md", "finished"))
            self.channel.show(here, Note("a note"))
        done = Done(turn, message.message_id, {"chunks": len(replies), "exit": 3 if word == "fail" else 0})
        if word == "late":
            self.channel.show(here, done)
            await asyncio.sleep(0.01)
        for number, text in enumerate(replies):
            await self.channel.send(Outbound(key=f"{turn}-{number}", conversation=here, text=text), _record)
        if word != "late":
            self.channel.show(here, done)


async def _record(_: str) -> None:
    """Note nothing."""
