"""Discord on loopback: the gateway, the REST API and the files, as strict as its documentation (https://discord.com/developers/docs).

It keeps channels as the people in them see them, which makes it the oracle of what was said and how often. In a test it is an
async context manager; ``python tests/peers/discord.py --port 0`` runs it as its own process, where ``/control/`` does what the
methods of ``DiscordPeer`` do, so that it survives the program under test.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from aiohttp import web

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.patience import PATIENCE
from tests.peers.discord_gateway import Gateway
from tests.peers.discord_links import Links
from tests.peers.discord_rest import Asked, Rest, asked_of, too_many
from tests.peers.discord_state import BOT, Banned, Channel, Fault, Interaction, Refused, check_components, member, person
from tests.peers.failing import failing
from tests.peers.mood import Mood
from tests.peers.site import Site

if TYPE_CHECKING:
    from collections.abc import Callable

TOKEN = "peer-on-loopback.discord.token"
EPOCH_MS = 1_420_070_400_000
SUPPRESS_EMBEDS = 1 << 2
FORUM = 15


@dataclass
class DiscordPeer:
    """The server. Start it with ``async with``; ``root`` and ``gateway`` are its addresses."""

    token: str = TOKEN
    port: int = 0
    message_content_allowed: bool = True
    heartbeat_ms: int = 30_000
    limit: int | None = None
    window: float = 5.0
    calls: list[tuple[str, Any]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    channels: dict[str, Channel] = field(default_factory=dict)
    interactions: dict[str, Interaction] = field(default_factory=dict)
    joined: dict[str, str] = field(default_factory=dict)
    system: dict[str, str] = field(default_factory=dict)
    """The channel for news of a server, by the server."""
    pings: list[str] = field(default_factory=list)
    typed: list[str] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    whispers: list[str] = field(default_factory=list)
    too_many: int = 0
    mood: Mood = field(default_factory=Mood)
    cuts_files: int = 0
    odd: list[Any] = field(default_factory=list)
    """What a page of a channel holds besides messages."""
    most_at_once: int = 0

    def __post_init__(self) -> None:
        self.links = Links(self)
        self.rest = Rest(self)
        self.sessions = Gateway(self)
        self._last = self._at_once = 0
        self.reacted: dict[tuple[str, str], list[str]] = {}
        """Who reacted, by message and emoji."""
        self._news = asyncio.Condition()
        self._site = Site()

    # -- what a test does and sees -----------------------------------------------------------------------------------

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def root(self) -> str:
        return f"{self.address}/api/v10"

    @property
    def gateway(self) -> str:
        return f"ws://127.0.0.1:{self.port}/gateway"

    @property
    def identified(self) -> int:
        return self.sessions.identified

    @property
    def resumed(self) -> int:
        return self.sessions.resumed

    def dm(self, user: str) -> Channel:
        found = next((one for one in self.channels.values() if one.person == user), None)
        return found or self.add(Channel(self.snowflake(), 1, person=user))

    def guild_channel(self, guild: str, *, parent: str = "", kind: int | None = None, identity: str = "") -> Channel:
        """Make a channel of a server, or a thread below one, of which nobody is told."""
        return self.add(Channel(identity or self.snowflake(), kind or (11 if parent else 0), guild=guild, parent=parent))

    async def open_thread(self, parent: Channel, *, first: str = "", user: str = "", under: str = "") -> Channel:
        """Let somebody open a thread, alone or under a message, whose id it then has.

        Below a forum, where it is a post, its first message has the thread's own id.
        """
        identity = under or self.snowflake()
        thread = self.add(Channel(identity, 11, guild=parent.guild, parent=parent.id))
        await self.sessions.tell_of(thread)
        if under:
            reference = {"message_reference": {"message_id": under}, "referenced_message": dict(self.found(under)[1])}
            await self.announce(thread, self.note(thread, person("1", "Anna"), "", kind=21, **reference))
        if first:
            message = self.note(thread, person(user, "Anna"), first, identity=identity)
            await self.announce(thread, message)
        return thread

    async def say(
        self,
        user: str,
        text: str,
        *,
        channel: Channel | None = None,
        mention: bool = False,
        reply_to: str | None = None,
        bot: bool = False,
        kind: int = 0,
        name: str = "Anna",
        files: list[tuple[str, str, bytes]] | None = None,
        **more: Any,
    ) -> str:
        """Let somebody write, in private unless a channel is given; return the message's id."""
        place = channel or self.dm(user)
        content = f"<@{BOT}> {text}" if mention else text
        message = self.note(place, person(user, name, bot=bot), content, kind=kind, **more)
        message["attachments"] = [self.links.keep(place.id, name, data, media) for name, media, data in files or ()]
        message["mentions"] = [person(BOT, "homebody", bot=True)] if mention else []
        if reply_to:
            answered = next(one for one in place.messages if one["id"] == reply_to)
            reference = {"message_id": reply_to, "channel_id": place.id, "type": 0}
            message |= {"message_reference": reference, "referenced_message": dict(answered), "type": 19}
        await self.announce(place, message)
        return str(message["id"])

    async def repeat(self, message_id: str) -> None:
        """Announce a message a second time."""
        place, message = self.found(message_id)
        await self.announce(place, message)

    async def edit(self, message_id: str, text: str | None) -> None:
        """Let somebody change what they wrote; None: Discord adds a preview of an address, and nobody changed anything."""
        place, message = self.found(message_id)
        if text is not None:
            message |= {"content": text, "edited_timestamp": datetime.now(UTC).isoformat()}
        await self.announce(place, message, "MESSAGE_UPDATE")

    async def repeat_edit(self, message_id: str) -> None:
        """Announce the last change of a message a second time."""
        place, message = self.found(message_id)
        await self.announce(place, message, "MESSAGE_UPDATE")

    async def delete(self, message_id: str) -> None:
        """Let somebody delete a message."""
        place, message = self.found(message_id)
        place.messages.remove(message)
        self.links.forget(message)
        await self.sessions.announce("MESSAGE_DELETE", {"id": message_id, "channel_id": place.id}, place.guild)

    async def react(
        self, user: str, message_id: str, emoji: str, *, bot: bool = False, told_author: bool = True, told: bool = True
    ) -> None:
        """Let somebody put an emoji under a message; ``name:id`` for one of a server's own. Not ``told``: the event is lost."""
        place, message = self.found(message_id)
        name, _, identity = emoji.partition(":")
        shown = {"id": identity or None, "name": name}
        people = self.reacted.setdefault((message_id, emoji), [])
        if not people:
            message["reactions"].append({"emoji": shown, "count": 0, "me": False})
        people.append(user)
        for one in message["reactions"]:
            one["count"] += one["emoji"] == shown
        if not told:
            return
        event = {"user_id": user, "channel_id": place.id, "message_id": message_id, "emoji": shown, "type": 0, "burst": False}
        if told_author:
            event["message_author_id"] = message["author"]["id"]
        if place.guild:
            event["member"] = member(user, "Anna", bot=bot)
        await self.sessions.announce("MESSAGE_REACTION_ADD", event, place.guild)

    def own_reactions(self, message_id: str) -> list[str]:
        return [one["emoji"]["name"] for one in self.found(message_id)[1]["reactions"] if one["me"]]

    def buttons(self, message_id: str) -> list[str]:
        return [one["label"] for one in check_components(self.found(message_id)[1].get("components", []))]

    async def choose(
        self, user: str, name: str, text: str = "", *, channel: Channel | None = None, homeless: bool = False
    ) -> Interaction:
        """Let somebody choose a command from the menu; ``homeless``: Discord does not say where, as it need not."""
        if name not in [one["name"] for one in self.rest.commands]:
            raise ValueError(f"no command {name!r} is offered")
        [command] = [one for one in self.rest.commands if one["name"] == name]
        options = [{"name": one["name"], "type": one["type"], "value": text} for one in command.get("options", [])[:1] if text]
        data = {"id": command["id"], "name": name, "type": 1, **({"options": options} if options else {})}
        return await self._interact(2, user, channel or self.dm(user), data, homeless=homeless)

    async def invoke(self, user: str, name: str, *, channel: Channel) -> Interaction:
        """Let somebody give a command that a menu of an earlier time offered."""
        return await self._interact(2, user, channel, {"id": "1", "name": name, "type": 1})

    async def note_and_tell(
        self, place: Channel, user: str, content: str, *, kind: int = 0, bot: bool = False, **more: Any
    ) -> None:
        """Let there be a message of any kind, by anybody."""
        await self.announce(place, self.note(place, person(user, "Anna", bot=bot), content, kind=kind, **more))

    async def press(self, user: str, message_id: str, label: str) -> Interaction:
        """Let somebody press a button."""
        place, message = self.found(message_id)
        [button] = [one for one in check_components(message["components"]) if one["label"] == label]
        data = {"custom_id": button["custom_id"], "component_type": 2, "id": 1}
        return await self._interact(3, user, place, data, message)

    async def _interact(
        self,
        kind: int,
        user: str,
        place: Channel,
        data: dict[str, Any],
        message: dict[str, Any] | None = None,
        *,
        homeless: bool = False,
    ) -> Interaction:
        identity = self.snowflake()
        made = self.interactions[identity] = Interaction(identity, f"token.{identity}", kind, place, message)
        who = {"member": member(user, "Anna")} if place.guild else {"user": person(user, "Anna")}
        event = {
            "id": identity,
            "application_id": BOT,
            "type": kind,
            "token": made.token,
            "version": 1,
            "channel_id": place.id,
            "channel": place.shown(),
            "data": data,
            "locale": "en-GB",
            "app_permissions": "0",
            "entitlements": [],
            "authorizing_integration_owners": {},
            "attachment_size_limit": 10485760,
            "context": 0 if place.guild else 1,
            **who,
            **({} if message is None else {"message": dict(message)}),
        }
        if homeless:
            del event["channel_id"], event["channel"]
        await self.sessions.announce("INTERACTION_CREATE", event, place.guild)
        return made

    async def kick(self, guild: str) -> None:
        """Remove the bot from a server."""
        for one in self.channels.values():
            one.hidden = one.hidden or one.guild == guild
        await self.sessions.announce("GUILD_DELETE", {"id": guild})

    async def remove(self, channel: Channel) -> None:
        """Delete a channel or thread."""
        del self.channels[channel.id]
        name = "THREAD_DELETE" if channel.parent else "CHANNEL_DELETE"
        await self.sessions.announce(name, channel.shown(), channel.guild)

    def fault(self, call: str, kind: str, *, times: int = 1, code: int = 500, seconds: float = 0) -> None:
        self.faults.append(Fault(call, kind, times, code, seconds))

    def forget_nonces(self) -> None:
        """Let the minutes pass in which Discord compares nonces."""
        self.rest.forget_nonces()

    def found(self, message_id: str) -> tuple[Channel, dict[str, Any]]:
        return next((place, one) for place in self.channels.values() for one in place.messages if one["id"] == message_id)

    def transcript(self, channel: Channel) -> list[tuple[str, str]]:
        return [("bot" if one["author"]["bot"] else one["author"]["username"], one["content"]) for one in channel.messages]

    def said(self, channel: Channel) -> list[str]:
        return [text for who, text in self.transcript(channel) if who == "bot"]

    def files(self, channel: Channel) -> list[tuple[str, bytes]]:
        mine = [one for one in channel.messages if one["author"]["id"] == BOT]
        return [(file["filename"], self.links.contents[file["id"]]) for one in mine for file in one["attachments"]]

    def count(self, call: str) -> int:
        return sum(1 for name, _ in self.calls if name == call)

    async def cut(self) -> None:
        """Cut all gateway connections, as a router does."""
        await self.sessions.cut()

    async def ask_to_reconnect(self) -> None:
        await self.sessions.frames({"op": 7, "d": None})

    async def invalidate(self) -> None:
        await self.sessions.invalidate()

    async def until(self, condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
        async with asyncio.timeout(seconds), self._news:
            await self._news.wait_for(condition)

    def snowflake(self) -> str:
        self._last = max(self._last + 1, (int(time.time() * 1000) - EPOCH_MS) << 22)
        return str(self._last)

    # -- state -------------------------------------------------------------------------------------------------------

    def add(self, channel: Channel) -> Channel:
        self.channels[channel.id] = channel
        return channel

    def note(
        self, place: Channel, author: dict[str, Any], content: str, *, kind: int = 0, identity: str = "", **more: Any
    ) -> dict[str, Any]:
        message = {
            "id": identity or self.snowflake(),
            "channel_id": place.id,
            "author": author,
            "content": content,
            "timestamp": datetime.now(UTC).isoformat(),
            "edited_timestamp": None,
            "tts": False,
            "mention_everyone": False,
            "mentions": [],
            "mention_roles": [],
            "attachments": [],
            "embeds": [],
            "reactions": [],
            "components": [],
            "pinned": False,
            "type": kind,
            **more,
        }
        place.messages.append(message)
        return message

    async def announce(self, place: Channel, message: dict[str, Any], name: str = "MESSAGE_CREATE") -> None:
        await self.sessions.announce(name, {key: value for key, value in message.items() if key != "reactions"}, place.guild)

    async def changed(self) -> None:
        async with self._news:
            self._news.notify_all()

    # -- HTTP --------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        bad_day = failing(lambda request: self.mood if request.path.startswith("/api/") else None, _words)
        app = web.Application(client_max_size=64 * 1024 * 1024, middlewares=[bad_day])
        app.router.add_get("/gateway", self.sessions.serve)
        app.router.add_get("/attachments/{channel}/{id}/{name}", self.links.serve)
        app.router.add_post("/control/{what}", self._control)
        app.router.add_route("*", "/api/v10/{path:.*}", self._rest)
        self.port = await self._site.open(app, self.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.sessions.stop()
        await self._site.close()

    async def go_away(self) -> None:
        """Let nobody reach this server."""
        await self._site.away()

    async def come_back(self) -> None:
        """Let it be reached again, at the same port."""
        await self._site.back()

    async def _rest(self, request: web.Request) -> web.Response:
        asked = await asked_of(request)
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            await asyncio.sleep(0)
            await self.mood.late()  # before it is counted, so that a call that was counted has its effect
            self.calls.append((asked.call, asked.body))
            self._authorise(request, asked)
            fault = self._fault(asked.call)
            self._break(fault, request, "")
            status, result = await self.rest.answer(asked)
            self._break(fault, request, "_after")
        except Banned as banned:
            return web.Response(status=429, text="error code: 1015", headers={"Retry-After": str(banned.seconds)})
        except Refused as refused:
            return self._reply(refused.status, refused.body, {**self.rest.headers(asked), **refused.headers})
        finally:
            self._at_once -= 1
            await self.changed()
        return self._reply(status, result, self.rest.headers(asked))

    def _reply(self, status: int, body: Any, headers: dict[str, str]) -> web.Response:
        if status == 204:
            return web.Response(status=204, headers=headers)
        return web.Response(
            status=status,
            body=json.dumps(self.mood.more(body)).encode(),
            headers={**headers, "Content-Type": "application/json"},
        )

    def _fault(self, call: str) -> Fault | None:
        for fault in self.faults:
            if fault.call == call and fault.times > 0:
                fault.times -= 1
                return fault
        return None

    def _authorise(self, request: web.Request, asked: Asked) -> None:
        by_token = asked.parts[0] == "interactions"
        if not by_token and request.headers.get("Authorization") != f"Bot {self.token}":
            raise Refused(401, 0, "401: Unauthorized")

    def _break(self, fault: Fault | None, request: web.Request, when: str) -> None:
        kind = fault.kind if fault else ""
        if fault is None or (kind in {"drop_after", "status_after"}) != (when == "_after"):
            return
        if kind.startswith("drop"):
            if request.transport is not None:
                request.transport.abort()
            raise asyncio.CancelledError
        if kind in {"retry_after", "everywhere"}:
            raise too_many(fault.seconds, everywhere=kind == "everywhere")
        if kind == "page":  # of a proxy
            raise web.HTTPOk(text="<html>Please log in</html>", content_type="text/html")
        if kind == "banned":  # by what stands before Discord: no JSON, and no word of Discord's own
            raise Banned(fault.seconds)
        raise Refused(fault.code, 0, "Internal Server Error")

    # -- control from another process --------------------------------------------------------------------------------

    async def _control(self, request: web.Request) -> web.Response:
        asked = await request.json() if request.can_read_body else {}
        answer: Any = None
        match request.match_info["what"]:
            case "say":
                place = self.channels[asked["channel"]] if "channel" in asked else None
                answer = await self.say(asked["user"], asked["text"], channel=place, mention=asked.get("mention", False))
            case "channel":
                answer = self.guild_channel(asked["guild"], parent=asked.get("parent", "")).id
            case "transcript":
                answer = self.transcript(self.channels[asked["channel"]] if "channel" in asked else self.dm(asked["user"]))
            case "fault":
                self.fault(asked.pop("call"), asked.pop("kind"), **asked)
            case "cut":
                await self.cut()
            case "state":
                calls = [name for name, _ in self.calls]
                answer = {"identified": self.identified, "resumed": self.resumed, "calls": calls, "typed": self.typed}
            case what:
                raise web.HTTPNotFound(text=f"no control {what}")
        return web.json_response(answer)


def _words(_: web.Request, status: int) -> dict[str, Any]:
    return {"message": f"{status}: {HTTPStatus(status).phrase}", "code": 0}


async def _main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--port", type=int, default=0)
    options.add_argument("--token", default=TOKEN)
    given = options.parse_args()
    async with DiscordPeer(token=given.token, port=given.port) as peer:
        print(json.dumps({"root": peer.root, "gateway": peer.gateway, "token": peer.token}), flush=True)  # noqa: T201
        await asyncio.Event().wait()


if __name__ == "__main__":
    try:
        asyncio.run(_main())
    except KeyboardInterrupt:
        sys.exit(0)
