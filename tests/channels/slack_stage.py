"""Slack's peer as a stage for the published rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from channels.conformance import EXTRAS
from channels.slack.channel import SlackChannel
from channels.slack.settings import SlackSettings
from tests.peers import slack
from tests.peers.hasty import HastyClock

if TYPE_CHECKING:
    from channels.conformance import Trouble


class SlackStage:
    lacks = (
        "shows_typing",  # Slack shows it in assistant threads only
        *(rule.__name__ for rule in EXTRAS),
    )
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
