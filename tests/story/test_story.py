"""The whole story over Telegram: real SDKs on loopback, a real workspace, ledger and index; only the clock is turned by hand."""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from gateway.app.dependencies import Dependencies
from gateway.app.gateway import Gateway
from gateway.base.clock import SystemClock
from gateway.base.paths import Paths
from gateway.settings.root import Settings
from tests.peers.telegram import TOKEN, TelegramPeer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.peers.aimock import Aimock

OWNER, STRANGER = 4711, 666
BOAT = "The boat is called Wavedancer and lies in box 12."
FILLER = "The weather was mild and we walked along the water for a long while, talking of this and that. " * 30


def answers() -> list[dict[str, Any]]:
    """What the model says; the first that matches wins."""

    def tool(name: str, **arguments: Any) -> dict[str, Any]:
        return {"toolCalls": [{"name": name, "arguments": arguments}]}

    def once_and_after(said: str, call: dict[str, Any], after: str) -> list[dict[str, Any]]:
        return [
            {"match": {"userMessage": said, "hasToolResult": False}, "response": call},
            {"match": {"userMessage": said, "hasToolResult": True}, "response": {"content": after}},
        ]

    note = "memory/2026-03-01.md"
    pot = tool("write", path=note, content="- The spare key is under the blue pot.", mode="append")
    boat = tool("write", path="anything.md", content=f"- {BOAT}", mode="append")
    return [
        {
            "match": {"userMessage": "[Memory flush]", "toolResultContains": "Appended"},
            "response": {"content": "NO_REPLY"},
        },
        {"match": {"userMessage": "[Memory flush]"}, "response": boat},
        {
            "match": {"userMessage": "[Summary request]"},
            "response": {
                "content": "## Done\nWe talked of mild weather and a walk along the water.\n## Decisions\nNone that matter."
            },
        },
        *once_and_after("remember that the spare key", pot, "Noted."),
        *once_and_after("what is my boat called", tool("memory_search", query="boat name"), "It is Wavedancer, in box 12."),
        {"match": {"userMessage": "boat is called"}, "response": {"content": "A fine name."}},
        {"match": {"userMessage": "mild"}, "response": {"content": "A pleasant walk."}},
        {"match": {"userMessage": "hello"}, "response": {"content": "Hello! I am **here**."}},
        {"match": {"userMessage": "good morning"}, "response": {"content": "Good morning."}},
    ]


class ShiftedClock(SystemClock):
    """The system's clock, set to another date: waits are real, as the platform's are."""

    def __init__(self, now: datetime) -> None:
        super().__init__()
        self.set(now)

    def now(self) -> datetime:
        return super().now() + self._ahead

    def set(self, now: datetime) -> None:
        self._ahead = now - super().now()


class Story:
    """One house on one state, opened again and again, and the two ends it talks to."""

    def __init__(self, root: Path, telegram: TelegramPeer, aimock: Aimock) -> None:
        self.root = root
        self.telegram = telegram
        self.clock = ShiftedClock(datetime(2026, 3, 1, 9, 0, tzinfo=UTC))
        self.settings = Settings.model_validate(
            {
                "agents": {
                    "defaults": {
                        "workspace": str(root / "workspace"),
                        "userTimezone": "Europe/Berlin",
                        "model": "anthropic/claude-sonnet-5-5",
                        "contextTokens": 12_000,
                        "compaction": {"keepRecentTokens": 1500, "keepRecentTurns": 1},
                    }
                },
                "models": {"providers": {"anthropic": {"baseUrl": aimock.anthropic_url, "apiKey": "sk-test-key"}}},
                "channels": {
                    "telegram": {"botToken": TOKEN, "apiRoot": telegram.root, "pollTimeoutSeconds": 2, "pacing": False}
                },
                "gateway": {"port": 0},
            }
        )

    @contextlib.asynccontextmanager
    async def house(self) -> AsyncIterator[Gateway]:
        on = Dependencies(
            settings=self.settings,
            paths=Paths(self.root / "home"),
            env={},
            clock=self.clock,
            random=random.Random(3),
            serving=True,
        )
        house = await Gateway.open(on)
        running = asyncio.ensure_future(house.run())
        try:
            yield house
        finally:
            house.stop()
            await running
            await house.close()

    def seen(self, chat: int = OWNER) -> list[str]:
        return [text for who, text in self.telegram.transcript(chat) if who == "bot"]

    async def ask(self, text: str, *, messages: int = 1) -> str:
        before = len(self.seen())
        await self.telegram.say(OWNER, text)
        await self.telegram.until(lambda: len(self.seen()) >= before + messages)
        return self.seen()[-1]

    def notes(self) -> str:
        return "\n".join(path.read_text() for path in (self.root / "workspace" / "memory").glob("2*.md"))

    def transcripts(self) -> str:
        return "\n".join(path.read_text() for path in (self.root / "home" / "agents").rglob("*.jsonl"))


async def test_the_whole_story(tmp_path: Path, aimock: Aimock) -> None:
    aimock.answer(*answers())
    async with TelegramPeer() as telegram:
        story = Story(tmp_path, telegram, aimock)
        async with story.house() as house:
            await telegram.say(STRANGER, "let me in", name="Mallory")
            await telegram.say(OWNER, "hello", name="Anna")
            await telegram.until(lambda: bool(story.seen(STRANGER)) and bool(story.seen(OWNER)))
            code = re.search(r"code is (\w{8})", story.seen()[0])
            assert code is not None
            assert aimock.requests() == [], "a stranger gets a code and nothing else"
            approved = await house.ledger.pairing.approve("telegram", code[1], "owner", "Welcome.")
            assert approved is not None
            await telegram.until(lambda: len(story.seen()) == 2)

            assert await story.ask("hello") == "Hello! I am here."
            assert await story.ask("remember that the spare key is under the blue pot") == "Noted."
            assert "blue pot" in story.notes()
            assert await story.ask(f"By the way: {BOAT}") == "A fine name."
            assert "Wavedancer" not in story.notes(), "so far it was only said"
            for number in range(14):
                assert await story.ask(f"{number}: it was mild. {FILLER}") == "A pleasant walk."
            assert '"kind":"flush_receipt"' in story.transcripts()
            assert '"kind":"compacted"' in story.transcripts()
            assert story.notes().count("Wavedancer") == 1
            assert not any("NO_REPLY" in text or "Memory flush" in text for text in story.seen())

        story.clock.set(datetime(2026, 3, 2, 7, 0, tzinfo=UTC))
        async with story.house() as house:
            await house.schedule.tick()
            await house.lanes.quiet()
            assert await story.ask("good morning", messages=2) == "Good morning."
            assert "New conversation" in story.seen()[-2]
            assert await story.ask("what is my boat called?") == "It is Wavedancer, in box 12."
            result = aimock.requests()[-1]["body"]["messages"][-1]
            assert result["role"] == "tool"
            assert "Wavedancer" in result["content"], "memory_search brought back what was only said in the old session"
        assert len(story.seen(STRANGER)) == 1
