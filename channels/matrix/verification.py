"""Verifies the device by emoji with another one: of the account itself, or of somebody who may write to the agent.

The other device asks and begins, over device messages or in a private chat. The emoji are written into a file of the state folder, where
`homebody matrix verify` shows them to the owner, whose answer comes back the same way. Importing this module loads nio.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from channels.common.event_guard import MALFORMED, BackgroundTasks
from channels.matrix.device_files import VERIFICATION, read_answer, write_private
from channels.matrix.http_api import TROUBLE, MatrixHttp, path
from channels.matrix.sas import METHOD, Mismatch, Party, ShortString

if TYPE_CHECKING:
    from channels.common.log import Log
    from channels.matrix.encryption import Encryption
    from channels.protocol import Clock, InboundSink

PREFIX: Final = "m.key.verification."
EVERY: Final = 0.5
MINUTES: Final = 10
PutEvent = Callable[[str, str, Mapping[str, Any], str], Awaitable[str]]


@dataclass
class _Open:
    """The verification that runs. ``room`` is where it is spoken; empty for device messages."""

    id: str
    them: Party
    room: str
    string: ShortString | None = None
    ours: bool | None = None
    theirs: bool = False


class Verifications:
    """The verifications of one device, one at a time."""

    def __init__(
        self,
        encryption: Encryption,
        http: MatrixHttp,
        sink: InboundSink,
        put: PutEvent,
        *,
        us: Party,
        folder: Path,
        clock: Clock,
        log: Log,
        account: str,
    ) -> None:
        self._encryption = encryption
        self._http = http
        self._sink = sink
        self._put = put
        self._us = us
        self._folder = folder
        self._clock = clock
        self._log = log
        self._account = account
        self._aside = BackgroundTasks(log, account)
        self._open: _Open | None = None

    async def close(self) -> None:
        """Give up what runs."""
        await self._aside.close()

    async def hear(self, event: Mapping[str, Any], room: str = "") -> None:
        """Take in an event that belongs to a verification. What does not fit cancels it."""
        try:
            await self._hear(str(event["type"]), str(event["sender"]), event["content"], str(event.get("event_id") or ""), room)
        except Mismatch as error:
            await self._cancel(str(error))
        except MALFORMED:
            await self._cancel("m.invalid_message")
        except TROUBLE as error:
            self._log.info("a verification was cut off", error=str(error) or type(error).__name__, account=self._account)

    async def _hear(self, kind: str, sender: str, content: Mapping[str, Any], event: str, room: str) -> None:
        if kind in {"m.room.message", f"{PREFIX}request"}:
            await self._requested(sender, content, event if room else str(content["transaction_id"]), room)
            return
        running = self._open
        identity = content["m.relates_to"]["event_id"] if room else content["transaction_id"]
        if running is None or identity != running.id or sender != running.them.user or room != running.room:
            return
        match kind.removeprefix(PREFIX):
            case "start":
                await self._started(running, content)
            case "key" if running.string is not None:
                emoji = running.string.agree(str(content["key"]))
                await self._say("key", {"key": running.string.key})
                await self._note("compare", emoji=[list(one) for one in emoji])
                self._aside.begin("the answer to a verification was lost", self._wait_for_answer(running))
            case "mac" if running.string is not None:
                running.string.check(content, await self._encryption.keys_of(running.them.user, running.them.device))
                running.theirs = True
                await self._finish(running)
            case "cancel":
                self._open = None
                await self._note("cancelled", running, reason=str(content.get("reason") or content.get("code"))[:200])

    async def _requested(self, sender: str, content: Mapping[str, Any], identity: str, room: str) -> None:
        if room and content.get("to") != self._us.user:
            return
        if sender != self._us.user and not await self._sink.admits(sender):
            self._log.info(
                "a verification is not answered: its sender may not write here", sender=sender, account=self._account
            )
            return
        methods = content["methods"]
        running = self._open = _Open(identity, Party(sender, str(content["from_device"])), room)
        if not isinstance(methods, list) or METHOD not in methods:
            raise Mismatch("m.unknown_method")
        await self._encryption.keys_of(running.them.user, running.them.device)
        await self._say("ready", {"from_device": self._us.device, "methods": [METHOD]})
        await self._note("asked")
        self._log.info("a verification was asked for: homebody matrix verify", sender=sender, account=self._account)

    async def _started(self, running: _Open, content: Mapping[str, Any]) -> None:
        if running.string is not None or str(content["from_device"]) != running.them.device:
            raise Mismatch("m.unexpected_message")
        running.string = ShortString(running.id, self._us, running.them, content)
        await self._say("accept", running.string.accept())

    async def _wait_for_answer(self, running: _Open) -> None:
        """Wait for what the owner answers, for some minutes."""
        for _ in range(int(MINUTES * 60 / EVERY)):
            answer = await asyncio.to_thread(read_answer, self._folder, running.id)
            if self._open is not running:
                return
            if answer is not None:
                running.ours = answer
                if not answer:
                    await self._cancel("m.mismatched_sas")
                    return
                assert running.string is not None
                await self._say("mac", running.string.codes(self._encryption.own_keys()))
                await self._finish(running)
                return
            await asyncio.sleep(EVERY)
        await self._cancel("m.timeout")

    async def _finish(self, running: _Open) -> None:
        if running.theirs and running.ours:
            self._encryption.trust(running.them.user, running.them.device)
            await self._say("done", {})
            self._open = None
            await self._note("done", running)
            self._log.info("a device was verified", user=running.them.user, device=running.them.device, account=self._account)

    async def _cancel(self, code: str) -> None:
        running = self._open
        if running is None:
            return
        await self._say("cancel", {"code": code, "reason": code})
        self._open = None
        await self._note("cancelled", running, reason=code)

    async def _say(self, kind: str, content: Mapping[str, Any]) -> None:
        running = self._open
        assert running is not None
        if running.room:
            relation = {"rel_type": "m.reference", "event_id": running.id}
            await self._put(running.room, PREFIX + kind, {**content, "m.relates_to": relation}, f"hb.v.{uuid.uuid4().hex}")
            return
        fields = {**content, "transaction_id": running.id}
        messages = {"messages": {running.them.user: {running.them.device: fields}}}
        await self._http.ask("PUT", path("sendToDevice", PREFIX + kind, uuid.uuid4().hex), messages)

    async def _note(self, state: str, running: _Open | None = None, **more: Any) -> None:
        running = running or self._open
        assert running is not None
        facts = {"id": running.id, "user": running.them.user, "device": running.them.device, "state": state, **more}
        await asyncio.to_thread(write_private, self._folder / VERIFICATION, {**facts, "at": self._clock.now().isoformat()})
