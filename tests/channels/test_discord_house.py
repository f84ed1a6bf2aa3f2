"""A whole house on Discord: the menu, a file, an edit and a post of a forum, from the person to the model and back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.gateway.test_guilds import Seen, house
from tests.patience import PATIENCE
from tests.peers import discord

if TYPE_CHECKING:
    from pathlib import Path

ANNA = "700000000000000042"
GUILD = "800000000000000007"


async def test_what_anna_does_on_discord_reaches_the_house_and_comes_back(tmp_path: Path) -> None:
    seen = Seen()
    async with discord.DiscordPeer() as peer:
        forum = peer.guild_channel(GUILD, kind=discord.FORUM)
        private = peer.dm(ANNA)
        addresses = {"token": peer.token, "apiRoot": peer.root, "gatewayUrl": peer.gateway}
        rules = {"dm": {"allowFrom": [ANNA]}, "guilds": {GUILD: {"requireMention": False}}}
        async with house(tmp_path, {"discord": {**addresses, **rules}}, seen):
            await peer.until(lambda: bool(peer.rest.commands) and peer.identified == 1)
            made = await peer.choose(ANNA, "status")
            await asyncio.wait_for(made.taken.wait(), PATIENCE)
            await peer.until(lambda: len(peer.said(private)) == 1)
            await peer.say(ANNA, "what is in it?", files=[("list.txt", "text/plain", b"milk and honey")])
            await peer.until(lambda: len(peer.said(private)) == 2)
            post = await peer.open_thread(forum, first="How do I fix the tap?", user=ANNA)
            await peer.until(lambda: len(peer.said(post)) == 1)
    assert "agent" in peer.said(private)[0].lower(), "the status"
    assert any("milk and honey" in shown for shown in seen.shown)
    assert peer.said(post) == ["re: How do I fix the tap?"]
    assert peer.said(forum) == []
    assert peer.pings == []
