"""What people do in Slack, as the events that the app is told of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.peers.slack_state import APP, BOT, TEAM

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.peers.mood import Mood
    from tests.peers.slack_delivery import Delivery
    from tests.peers.slack_state import Workspace


class SlackPeople:
    """The people of a workspace."""

    home: Workspace
    mood: Mood
    delivery: Delivery
    messages: dict[str, list[dict[str, Any]]]
    dm: Callable[[str], str]
    root: str
    _ids: Iterator[int]

    async def cut(self) -> None:
        raise NotImplementedError

    async def say(self, user: str, text: str, *, channel: str = "", thread: str = "", **more: Any) -> str:
        """Let somebody write, in private unless a channel is given; return the message's time stamp."""
        place = channel or self.dm(user)
        message = self.home.note(place, {"user": user, "text": text, **({"thread_ts": thread} if thread else {}), **more})
        await self.emit({**message, "channel": place, "channel_type": _kind(place), "event_ts": message["ts"]})
        if not channel or f"<@{BOT}>" not in text:
            return str(message["ts"])
        await self.emit({**message, "type": "app_mention", "channel": place, "event_ts": message["ts"]})
        return str(message["ts"])

    async def edit(self, user: str, stamp: str, text: str, *, channel: str = "") -> None:
        """Let somebody change a message of theirs."""
        place = channel or self.dm(user)
        message = self.home.message({"channel": place, "ts": stamp})
        before = dict(message)
        message["text"] = text
        when = self.home.note("nowhere", {})["ts"]
        event = {
            "type": "message",
            "subtype": "message_changed",
            "hidden": True,
            "channel": place,
            "channel_type": _kind(place),
        }
        message["edited"] = {"user": user, "ts": when}
        now = dict(message)
        await self.emit({**event, "message": now, "previous_message": before, "ts": when, "event_ts": when})

    async def react(self, user: str, stamp: str, name: str, *, channel: str = "", told: bool = True) -> None:
        """Let somebody put an emoji under a message. Not ``told``: the event is lost in an outage."""
        place = channel or self.dm(user)
        message = self.home.message({"channel": place, "ts": stamp})
        message.setdefault("reactions", {}).setdefault(name, []).append(user)
        if not told:
            return
        item = {"type": "message", "channel": place, "ts": stamp}
        when = self.home.note("nowhere", {})["ts"]
        await self.emit(
            {
                "type": "reaction_added",
                "user": user,
                "reaction": name,
                "item_user": message["user"],
                "item": item,
                "event_ts": when,
            }
        )

    async def press(self, user: str, label: str, *, channel: str = "") -> None:
        """Let somebody press a button under the app's last message that has one by this label."""
        place = channel or self.dm(user)
        for message in reversed(self.messages[place]):
            for block in message.get("blocks") or []:
                for one in block.get("elements") or [] if block["type"] == "actions" else []:
                    if one["text"]["text"] == label:
                        await self._pressed(user, place, message, {**one, "block_id": block.get("block_id", "b1")})
                        return
        raise LookupError(f"no button {label!r} is shown in {place}")

    async def _pressed(self, user: str, place: str, message: dict[str, Any], action: dict[str, Any]) -> None:
        container = {"type": "message", "message_ts": message["ts"], "channel_id": place, "is_ephemeral": False}
        payload = {
            "type": "block_actions",
            "user": {"id": user, "username": user.lower(), "name": user.lower(), "team_id": TEAM},
            "api_app_id": APP,
            "container": container,
            "trigger_id": self._trigger(),
            "team": {"id": TEAM, "domain": "home"},
            "channel": {"id": place, "name": "directmessage" if place.startswith("D") else "room"},
            "message": message,
            "response_url": f"{self.root}/actions",
            "actions": [{**action, "action_ts": self.home.note("nowhere", {})["ts"]}],
        }
        await self.delivery.offer(payload, "interactive")

    async def command(self, user: str, text: str, *, channel: str = "", name: str = "/homebody") -> None:
        """Let somebody give the slash command."""
        place = channel or self.dm(user)
        payload = {
            "command": name,
            "text": text,
            "user_id": user,
            "user_name": user.lower(),
            "channel_id": place,
            "channel_name": "directmessage" if place.startswith("D") else "room",
            "team_id": TEAM,
            "team_domain": "home",
            "api_app_id": APP,
            "trigger_id": self._trigger(),
            "response_url": f"{self.root}/commands",
        }
        await self.delivery.offer(payload, "slash_commands")

    def _trigger(self) -> str:
        """Return an id of the shape that Slack gives: two numbers and a digest, which only looks like a time stamp."""
        number = 13345224609 + next(self._ids)
        return f"{number}.{738474920 + number}.{number:032x}"

    async def emit(self, event: dict[str, Any]) -> None:
        """Send any event, in an envelope of its own; now and then in two, as when an acknowledgement was lost."""
        stranger = self.mood.stranger()
        if stranger is not None:
            await self._offered({"type": "star_risen", **stranger})
        await self._offered(self.mood.more(event), twice=self.mood.twice())

    async def _offered(self, event: dict[str, Any], *, twice: bool = False) -> None:
        payload = {"team_id": TEAM, "api_app_id": APP, "type": "event_callback", "event_id": f"Ev{next(self._ids)}"}
        failure = self.mood.failure()
        if failure == "cut before":
            await self.cut()
        for attempt in range(1 + twice):
            reason = "timeout" if attempt else ""
            await self.delivery.offer({**payload, "event": event}, attempt=attempt, reason=reason, held=self.mood.held())
        if failure == "cut after":
            await self.cut()

    def upload(self, user: str, name: str, content: bytes, mimetype: str, **more: Any) -> dict[str, Any]:
        """Let somebody put a file into Slack; give what is returned to ``say`` as one of its ``files``."""
        return self.home.share(user, name, content, mimetype, self.root, **more)


def _kind(channel: str) -> str:
    return "im" if channel.startswith("D") else "channel"
