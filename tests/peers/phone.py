"""A chat platform in memory whose people send files, press buttons and change their minds; and a house that it is connected to."""

from __future__ import annotations

import asyncio
import contextlib
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from msgspec.structs import replace

from agent.models.scripted import ScriptedModel
from channels.errors import NotFetched, NotSent
from channels.messages import Attachment, ChatAddress, Inbound, Sender, Sent
from channels.platform import GroupRule, Policy
from channels.protocol import HookAnswer
from gateway.app.dependencies import Dependencies
from gateway.app.gateway import Gateway
from gateway.base.clock import ManualClock
from gateway.base.paths import Paths
from gateway.settings.root import Settings
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from channels.messages import Outbound
    from channels.protocol import HookRequest, InboundSink

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
OPEN = Policy(allow_from=("anna", "ben"), rules={"*": {"*": GroupRule(users=("*",))}})


@dataclass
class Phone:
    """One bot on the platform. ``files`` are what people sent, by handle; ``away`` refuses to send."""

    name: str = "phone"
    account: str = "default"
    shows: frozenset[Literal["buttons", "files"]] = frozenset({"buttons", "files"})
    first: int = 1
    files: dict[str, bytes] = field(default_factory=dict)
    sent: list[Outbound] = field(default_factory=list)
    enclosed: dict[str, bytes] = field(default_factory=dict)
    drafts: list[str] = field(default_factory=list)
    away: bool = False
    secret: str = ""
    """Where there is one, the platform calls us, and says it."""

    def __post_init__(self) -> None:
        self.door: asyncio.Future[InboundSink] = asyncio.get_running_loop().create_future()
        self._news = asyncio.Event()
        self._count = self.first

    async def run(self, door: InboundSink) -> None:
        self.door.set_result(door)
        door.ready()
        await asyncio.get_running_loop().create_future()

    def chunks(self, markdown: str) -> list[str]:
        return [markdown] if markdown.strip() else []

    async def send(self, outbound: Outbound, record: Callable[[str], Awaitable[None]]) -> Sent:
        del record
        if self.away:
            raise NotSent("nobody there")
        if outbound.key not in {one.key for one in self.sent}:
            self.sent.append(outbound)
            if outbound.enclosure is not None:
                self.enclosed[outbound.key] = await asyncio.to_thread(outbound.enclosure.path.read_bytes)
        self._news.set()
        return Sent(platform_id=f"p{len(self.sent)}")

    async def fetch(self, attachment: Attachment, path: Path, limit: int) -> None:
        data = self.files.get(attachment.handle)
        if data is None or len(data) > limit:
            raise NotFetched("the file no longer exists")
        await asyncio.to_thread(path.write_bytes, data)

    async def draft(self, conversation: ChatAddress, turn: str, text: str) -> None:
        self.drafts.append(text)

    @property
    def hooked(self) -> bool:
        return bool(self.secret)

    async def hear(self, request: HookRequest) -> HookAnswer:
        if request.headers.get("x-secret") != self.secret:
            return HookAnswer(status=401)
        await self.say(request.body.decode())
        return HookAnswer(status=200)

    async def typing(self, conversation: ChatAddress) -> None:
        return

    async def close(self) -> None:
        return

    def message(self, text: str, *, by: str = "anna", group: str | None = None, **more: Any) -> Inbound:
        number, self._count = self._count, self._count + 1
        place = ChatAddress(channel=self.name, account=self.account, kind="group" if group else "direct", id=group or by)
        plain = Inbound(
            conversation=place,
            sender=Sender(id=by, name=by.title()),
            text=text,
            at=NOON,
            key=f"u:{number}",
            alias=f"m:{number}",
            message_id=str(number),
            mentioned=True,
        )
        return replace(plain, **more)

    async def say(self, text: str, **more: Any) -> Inbound:
        said = self.message(text, **more)
        await (await self.door).accept([said])
        return said

    def attach(self, data: bytes, name: str = "", kind: Any = "document") -> Attachment:
        handle = f"h{len(self.files)}"
        self.files[handle] = data
        return Attachment(kind=kind, handle=handle, name=name)

    def texts(self, place: str | None = None) -> list[str]:
        return [one.text for one in self.sent if place is None or one.conversation.id == place]

    async def until(self, wanted: Callable[[], Any]) -> Any:
        async with asyncio.timeout(PATIENCE):
            while not (found := wanted()):
                self._news.clear()
                await self._news.wait()
        return found


class Village:
    """Opens a house on the same state again and again, with phones and a scripted model."""

    def __init__(self, root: Path, **settings: Any) -> None:
        self.root = root
        self.clock = ManualClock(datetime(2026, 3, 1, 9, 30, tzinfo=UTC))
        self.model = ScriptedModel()
        self.workspace = root / "workspace"
        defaults = {"workspace": str(self.workspace), "userTimezone": "UTC", "model": "scripted/model"} | settings.pop(
            "agent", {}
        )
        given: dict[str, Any] = {"agents": {"defaults": defaults}, "messages": {"queue": {"mode": "followup", "debounceMs": 0}}}
        given["messages"] |= settings.pop("messages", {})
        given["channels"] = {"plugins": {"phone": {"enabled": False}}}  # known by name, and made by the test
        self.settings = Settings.model_validate(given | settings)
        self.lives = 0

    @contextlib.asynccontextmanager
    async def house(self, policy: Policy = OPEN, **phone: Any) -> AsyncIterator[tuple[Gateway, Phone]]:
        self.lives += 1
        on = Dependencies(
            settings=self.settings, paths=Paths(self.root / "home"), env={}, clock=self.clock, random=random.Random(7)
        )
        house = await Gateway.open(on)
        house.model_registry.put("scripted/model", self.model)
        made = Phone(**{"first": 1000 * self.lives, **phone})
        house.channel_supervisor.keep(made, policy)
        started = asyncio.Event()
        running = asyncio.ensure_future(house.run(started.set))
        try:
            await asyncio.wait([running, asyncio.ensure_future(started.wait())], return_when=asyncio.FIRST_COMPLETED)
            yield house, made
        finally:
            house.stop()
            await running
            await house.close()

    def seen(self) -> str:
        """Everything that the model was shown in its last request."""
        request = self.model.requests[-1]
        return "\n".join(part.text for part in request.system) + "\n".join(message.text for message in request.messages)
