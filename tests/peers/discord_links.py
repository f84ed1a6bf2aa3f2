"""Files of the Discord peer, under addresses that run out (https://discord.com/developers/docs/reference#signed-attachment-cdn-urls)."""

from __future__ import annotations

import itertools
import mimetypes
from typing import TYPE_CHECKING, Any

from aiohttp import web

if TYPE_CHECKING:
    from tests.peers.discord import DiscordPeer


class Links:
    def __init__(self, peer: DiscordPeer) -> None:
        self.peer = peer
        self.contents: dict[str, bytes] = {}
        self.understated: dict[str, int] = {}
        self.served = 0
        self._age = 0
        self._ids = itertools.count(600_000_000_000_000_001)

    def keep(self, channel: str, name: str, content: bytes, media_type: str | None = None) -> dict[str, Any]:
        """Keep a file, and return it as a message shows it."""
        identity = str(next(self._ids))
        self.contents[identity] = content
        facts = {"id": identity, "filename": name, "size": len(content), "proxy_url": ""}
        kind = media_type or mimetypes.guess_type(name)[0]
        return {**facts, **({"content_type": kind} if kind else {}), "url": self._url(channel, identity, name)}

    def _url(self, channel: str, identity: str, name: str) -> str:
        return f"{self.peer.address}/attachments/{channel}/{identity}/{name}?ex={self._age:x}&hm=f00d"

    def run_out(self) -> None:
        """Let a day pass, after which no address given so far works."""
        self._age += 1

    def fresh(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return a message with addresses that work."""
        channel = message["channel_id"]
        shown = [{**one, "url": self._url(channel, one["id"], one["filename"])} for one in message["attachments"]]
        return {**message, "attachments": shown}

    def forget(self, message: dict[str, Any]) -> None:
        """Delete the files of a message."""
        for one in message["attachments"]:
            self.contents.pop(one["id"], None)

    async def serve(self, request: web.Request) -> web.StreamResponse:
        content = self.contents.get(request.match_info["id"])
        if content is None or request.query.get("ex") != f"{self._age:x}" or "hm" not in request.query:
            return web.Response(status=404, text="This content is no longer available.")
        answer = web.StreamResponse()
        if request.match_info["id"] not in self.understated:
            answer.content_length = len(content)
        await answer.prepare(request)
        half = len(content) // 2
        await answer.write(content[:half])
        if self.peer.cuts_files:
            self.peer.cuts_files -= 1
            if request.transport is not None:
                request.transport.abort()
            return answer
        await answer.write(content[half:])
        await answer.write_eof()
        self.served += 1
        return answer
