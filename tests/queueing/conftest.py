"""A whole house on a platform in memory, with a scripted model and a clock that tests turn."""

from __future__ import annotations

import asyncio
import contextlib
import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from agent.events import TextDelta
from agent.messages import UserMessage
from agent.models.scripted import ScriptedModel, Stall
from channels.platform import GroupRule, Policy
from gateway.app.dependencies import Dependencies
from gateway.app.gateway import Gateway
from gateway.base.clock import ManualClock, TickingClock
from gateway.base.paths import Paths
from gateway.inbound.pipeline import Inbox
from gateway.logs.secret_filter import SecretFilter
from gateway.routing.access import Access
from gateway.routing.router import ChatMigrations, router_of
from gateway.settings.root import Settings, SettingsStore
from tests.both_engines import engine, on_each, storage_at
from tests.peers.wire import NOON, Wire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

    from agent.models.protocol import Request
    from gateway.ledger.sqlite import SqliteLedger
    from gateway.routing.routed_message import RoutedMessage

__all__ = ["engine"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests of a whole gateway on both engines."""
    if "town" in metafunc.fixturenames:
        on_each(metafunc, (), openers=("__name__",))


class NeverUrgent:
    """No message is an urgent command."""

    async def run(self, _message: RoutedMessage) -> bool:
        return False

    async def stop_unstored(self, *_: object) -> None:
        pytest.fail("nothing is stopped")


async def never_bounced(*_: object) -> bool:
    """Know of no message that was sent."""
    return False


def inbox_of(ledger: SqliteLedger, enqueue: Callable[[RoutedMessage], object]) -> Inbox:
    """An inbox that hands out what the ledger has for the agent ``main``, and lets nobody in."""
    clock = ManualClock(NOON)
    settings = SettingsStore(Settings())
    return Inbox(
        ledger,
        Access(ledger.pairing, dict, {}),
        router_of(settings.current),
        agents={"main": None},
        settings=settings,
        clock=clock,
        migrations=ChatMigrations(),
        urgent=NeverUrgent(),
        enqueue=enqueue,
        channel=lambda _place: None,
        ready=lambda _channel, _account: None,
        alive=lambda _channel, _account: None,
        bounced=never_bounced,
    )


OPEN = Policy(allow_from=("anna", "ben"), rules={"*": {"*": GroupRule(users=("*",))}})


class Town:
    """Opens a house on the same state again and again. The model answers with what it was last told, unless told otherwise."""

    def __init__(self, root: Path, settings: dict[str, Any]) -> None:
        self.root = root
        self.clock = TickingClock(datetime(2026, 3, 1, 9, 30, tzinfo=UTC))
        self.model = ScriptedModel(self.echo)
        self.answer: Callable[[Request], Any] = lambda request: "re: " + " | ".join(newest(request))
        given: dict[str, Any] = {
            "agents": {"defaults": {"workspace": str(root / "workspace"), "userTimezone": "UTC", "model": "scripted/model"}},
            "messages": {"queue": {"debounceMs": 0}},
            "storage": storage_at(root),
        }
        self.settings = Settings.model_validate(merged(given, settings))
        self.outgoing = SecretFilter()
        self._lives = 0

    def echo(self, request: Request) -> Any:
        return self.answer(request)

    def wire(self, name: str = "wire", account: str = "default") -> Wire:
        self._lives += 1
        return Wire(name=name, account=account, first=1000 * self._lives)

    @contextlib.asynccontextmanager
    async def house(self, *wires: Wire, policy: Policy = OPEN, stop: bool = True) -> AsyncIterator[Gateway]:
        on = Dependencies(
            settings=self.settings,
            paths=Paths(self.root / "home"),
            env={},
            clock=self.clock,
            random=random.Random(7),
            outgoing=self.outgoing,
        )
        house = await Gateway.open(on)
        house.model_registry.put("scripted/model", self.model)
        for wire in wires:
            house.channel_supervisor.keep(wire, policy)
        self.prepare(house)
        started = asyncio.Event()
        running = asyncio.ensure_future(house.run(started.set))
        try:
            await asyncio.wait([running, asyncio.ensure_future(started.wait())], return_when=asyncio.FIRST_COMPLETED)
            yield house
        finally:
            if stop:
                house.stop()
            await running
            await house.close()

    def prepare(self, house: Gateway) -> None:
        """Change a house before it takes up what an earlier one left."""

    async def steps(self, count: int = 200) -> None:
        """Let what can go on go on."""
        for _ in range(count):
            await asyncio.sleep(0)


def newest(request: Request) -> Sequence[str]:
    """What people said since the agent's last word, without the time stamps."""
    said: list[str] = []
    for message in reversed(request.messages):
        if isinstance(message, UserMessage):
            said.insert(0, message.text.splitlines()[-1])
        elif message.role == "assistant" and not message.calls:
            break
    return said


def merged(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    both = dict(under)
    for key, value in over.items():
        below = both.get(key)
        both[key] = merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return both


class Slow:
    """A model whose first answer waits for ``gate``; ``began`` says that it was asked."""

    def __init__(self, town: Town) -> None:
        self.gate, self.began = asyncio.Event(), asyncio.Event()
        self.plain = town.answer
        town.answer = self

    def __call__(self, request: Request) -> Any:
        if self.began.is_set():
            return self.plain(request)
        self.began.set()
        return [Stall(self.gate), TextDelta("re: " + " | ".join(newest(request)))]


@pytest.fixture
def town(tmp_path: Path) -> Callable[..., Town]:
    return lambda **settings: Town(tmp_path, settings)
