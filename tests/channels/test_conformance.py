"""The published rules, run over our own channels and the peers that stand for their platforms; and over channels that break them."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from channels.chunking import cut, utf16_length
from channels.conformance import CHECKS, Nonconforming, check
from channels.discord.channel import DiscordChannel
from channels.discord.settings import DiscordSettings
from channels.errors import Uncertain
from channels.messages import Conversation, Cursor, Inbound, Sender, Sent
from channels.slack.channel import SlackChannel
from channels.slack.settings import SlackSettings
from channels.telegram.channel import TelegramChannel
from channels.telegram.settings import TelegramSettings
from gateway.clock import SystemClock
from tests.peers import discord, slack, telegram
from tests.peers.hasty import HastyClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from channels.conformance import Trouble


class TelegramStage:
    lacks = ("says_a_doubtful_message_once",)  # Telegram neither knows a key nor lets a bot read back: a repetition is marked
    limit = 4096
    patience = 20.0
    anna = 42

    def __init__(self, peer: telegram.TelegramPeer) -> None:
        self.peer = peer

    def channel(self) -> TelegramChannel:
        given = {"botToken": telegram.TOKEN, "apiRoot": self.peer.root, "pollTimeoutSeconds": 5, "timeoutSeconds": 5}
        return TelegramChannel(TelegramSettings.model_validate(given), "default", clock=HastyClock(), random=lambda: 1.0)

    async def say(self, text: str) -> None:
        await self.peer.say(self.anna, text)

    async def repeat(self) -> None:
        await self.peer.inject("message", self.peer.chats.messages[self.anna][-1])

    async def disconnect(self) -> None:
        self.peer.fault("getUpdates", "drop_before")

    def trouble(self, kind: Trouble) -> None:
        match kind:
            case "refused":
                self.peer.fault("sendMessage", "refuse", code=403, text="Forbidden: bot was blocked by the user")
            case "rate limit":
                self.peer.fault("sendMessage", "retry_after", seconds=7)
            case _:
                self.peer.fault("sendMessage", kind.replace("cut ", "drop_"))

    def heard(self) -> list[str]:
        return [text for who, text in self.peer.transcript(self.anna) if who == "bot"]

    def typed(self) -> int:
        return len(self.peer.chats.actions)

    def length(self, text: str) -> int:
        return utf16_length(text)


class DiscordStage:
    lacks = ()
    limit = 2000
    patience = 20.0
    anna = "700000000000000042"
    post = "POST channels/*/messages"

    def __init__(self, peer: discord.DiscordPeer) -> None:
        self.peer = peer
        self.last = ""

    def channel(self) -> DiscordChannel:
        given = {"token": discord.TOKEN, "apiRoot": self.peer.root, "gatewayUrl": self.peer.gateway, "timeoutSeconds": 5}
        return DiscordChannel(DiscordSettings.model_validate(given), "default", clock=HastyClock(), random=lambda: 1.0)

    async def say(self, text: str) -> None:
        self.last = await self.peer.say(self.anna, text)

    async def repeat(self) -> None:
        await self.peer.repeat(self.last)

    async def disconnect(self) -> None:
        await self.peer.cut()

    def trouble(self, kind: Trouble) -> None:
        match kind:
            case "refused":
                self.peer.fault(self.post, "status", code=403)
            case "rate limit":
                self.peer.fault(self.post, "retry_after", seconds=45)
            case _:
                self.peer.fault(self.post, kind.replace("cut ", "drop_"))

    def heard(self) -> list[str]:
        return self.peer.said(self.peer.dm(self.anna))

    def typed(self) -> int:
        return len(self.peer.typed)

    def length(self, text: str) -> int:
        return len(text)


class SlackStage:
    lacks = ("shows_typing",)  # Slack shows it in assistant threads only
    limit = 4000
    patience = 20.0
    anna = "UANNA0001"
    post = "chat.postMessage"

    def __init__(self, peer: slack.SlackPeer) -> None:
        self.peer = peer
        self.last: dict[str, Any] = {}

    def channel(self) -> SlackChannel:
        tokens = {"botToken": slack.BOT_TOKEN, "appToken": slack.APP_TOKEN}
        found = SlackSettings.model_validate({**tokens, "apiRoot": self.peer.root, "timeoutSeconds": 5, "pingSeconds": 0.5})
        return SlackChannel(found, "default", clock=HastyClock(), random=lambda: 1.0)

    async def say(self, text: str) -> None:
        stamp = await self.peer.say(self.anna, text)
        self.last = {"type": "message", "user": self.anna, "text": text, "ts": stamp, "event_ts": stamp}

    async def repeat(self) -> None:
        await self.peer.emit({**self.last, "channel": self.peer.dm(self.anna), "channel_type": "im"})

    async def disconnect(self) -> None:
        await self.peer.cut()

    def trouble(self, kind: Trouble) -> None:
        match kind:
            case "refused":
                self.peer.fault(self.post, "error", text="is_archived")
            case "rate limit":
                self.peer.fault(self.post, "retry_after", seconds=7)
            case _:
                self.peer.fault(self.post, kind.replace("cut ", "drop_"))

    def heard(self) -> list[str]:
        return self.peer.said(self.peer.dm(self.anna))

    def typed(self) -> int:
        return len(self.peer.statuses)

    def length(self, text: str) -> int:
        return len(text)


STAGES = {
    "telegram": (telegram.TelegramPeer, TelegramStage),
    "discord": (discord.DiscordPeer, DiscordStage),
    "slack": (slack.SlackPeer, SlackStage),
}


@pytest.mark.parametrize("rule", CHECKS, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("platform", STAGES)
async def test_our_channels_keep_the_rule(platform: str, rule: Any) -> None:
    peer, stage = STAGES[platform]
    if rule.__name__ in stage.lacks:
        return
    async with peer() as started:
        await rule(stage(started))


class Paper:
    """A platform of paper: one person, one bot, no network. The channel on it is right, but for its ``flaw``."""

    lacks = ()
    limit = 100

    def __init__(self, flaw: str = "") -> None:
        self.flaw = flaw
        self.patience = 0.5 if flaw else 20.0
        self.letters: list[str] = []
        self.again: list[int] = []
        self.replies: dict[str, str] = {}
        self.signs = 0
        self.next_trouble = ""

    def channel(self) -> PaperChannel:
        return PaperChannel(self)

    async def say(self, text: str) -> None:
        self.letters.append(text)

    async def repeat(self) -> None:
        self.again.append(len(self.letters) - 1)

    async def disconnect(self) -> None:
        """Paper has no connections."""

    def trouble(self, kind: Trouble) -> None:
        self.next_trouble = kind

    def heard(self) -> list[str]:
        return list(self.replies.values())

    def typed(self) -> int:
        return self.signs

    def length(self, text: str) -> int:
        return len(text)


class PaperChannel:
    name = "paper"
    account = "default"

    def __init__(self, paper: Paper) -> None:
        self.paper = paper

    async def run(self, door: Any) -> None:
        from channels.errors import ChannelBroken

        if self.paper.flaw == "gives up":
            raise ChannelBroken("no paper")
        read = int(await door.cursor("read") or 0) if self.paper.flaw != "forgets" else len(self.paper.letters)
        door.ready()
        while True:
            door.alive()
            for number in self.paper.again:
                await door.accept([self.inbound(number, again=True)])
            self.paper.again.clear()
            if read < len(self.paper.letters):
                try:
                    await door.accept([self.inbound(read)], Cursor(name="read", value=str(read + 1)))
                    read += 1
                except OSError:
                    read += self.paper.flaw == "lets go"
            await asyncio.sleep(0.001)

    def inbound(self, number: int, *, again: bool = False) -> Inbound:
        key = f"m:{number}" + (":again" if again and self.paper.flaw == "renames" else "")
        return Inbound(
            conversation=Conversation(channel="paper", kind="direct", id="anna"),
            sender=Sender(id="anna"),
            text=self.paper.letters[number],
            at=SystemClock().now(),
            key=key,
            alias=key,
            message_id=str(number),
            mentioned=True,
        )

    def chunks(self, markdown: str) -> list[str]:
        return [markdown] if self.paper.flaw == "never cuts" else cut(markdown, self.paper.limit, len)

    async def send(self, outbound: Any, record: Any) -> Sent:
        from channels.errors import NotSent

        trouble, self.paper.next_trouble = self.paper.next_trouble, ""
        if trouble == "refused":
            raise NotSent("no", permanent=True)
        if trouble == "rate limit":
            raise NotSent("wait", retry_after=1)
        if trouble == "cut before":
            raise Uncertain("?")
        key = f"{outbound.key}:{outbound.attempt}" if self.paper.flaw == "says twice" else outbound.key
        self.paper.replies[key] = outbound.text
        if trouble == "cut after":
            if self.paper.flaw == "raises anything":
                raise ValueError
            raise Uncertain("?")
        return Sent(platform_id=key)

    async def typing(self, conversation: Conversation) -> None:
        self.paper.signs += 1

    async def close(self) -> None:
        """Nothing to release."""


def stage_of(flaw: str = "") -> Any:
    @asynccontextmanager
    async def made() -> AsyncIterator[Paper]:
        yield Paper(flaw)

    return made


async def test_a_channel_of_sixty_lines_keeps_every_rule() -> None:
    assert await check(stage_of()) == [rule.__name__ for rule in CHECKS]


@pytest.mark.parametrize(
    ("flaw", "rule"),
    [
        ("forgets", "catches_up_after_a_restart"),
        ("lets go", "offers_again_what_could_not_be_stored"),
        ("renames", "takes_a_repetition_once"),
        ("never cuts", "cuts_what_is_too_long"),
        ("says twice", "says_a_doubtful_message_once"),
        ("raises anything", "says_a_doubtful_message_once"),
    ],
)
async def test_a_flaw_is_seen_by_its_rule(flaw: str, rule: str) -> None:
    with pytest.raises(Nonconforming) as caught:
        await asyncio.wait_for(check(stage_of(flaw)), 50)
    assert caught.value.__notes__ == [f"rule: {rule}"]
