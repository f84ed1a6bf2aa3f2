"""Asks who reacted to recent messages while the bot was away. Discord has no list of them: one call tells one emoji of one message.

So the calls of a connection are few, the newest messages come first, and nothing waits for the answers. Importing this module loads the
library.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any, Final

from channels.common.event_guard import MALFORMED
from channels.common.log import Log
from channels.discord.api_errors import TROUBLE
from channels.discord.channel_directory import made_at
from channels.discord.gateway_client import GatewayClient
from channels.discord.inbound import Place
from channels.discord.interactions import reaction
from channels.discord.settings import DiscordAccount
from channels.messages import Inbound
from channels.protocol import Clock

RECENT: Final = timedelta(days=1)
"""How old a message may be whose reactions are asked for."""
MOST_CALLS: Final = 20
"""Calls after one connection."""
PEOPLE: Final = 25
"""People of one emoji that are told."""


class MissedReactions:
    """Notes messages with reactions as they are read on, and tells who made them afterwards."""

    def __init__(self, settings: DiscordAccount, link: GatewayClient, *, clock: Clock, log: Log, account: str) -> None:
        self._settings = settings
        self._link = link
        self._clock = clock
        self._log = log
        self._account = account
        self._noted: dict[int, tuple[Place, dict[str, Any]]] = {}
        self._noting = False

    def begin(self, *, after_gap: bool) -> None:
        """Begin to note, if events were lost in a gap; otherwise Discord sends them again by itself."""
        self._noted.clear()
        self._noting = after_gap

    def note(self, page: list[dict[str, Any]], place: Place) -> None:
        """Note the messages of a page whose reactions the settings want told."""
        which = self._settings.reactions_told(place.guild)
        if not self._noting or which == "off":
            return
        since = self._clock.now() - RECENT
        for one in page:
            mine = (one.get("author") or {}).get("id") == self._link.me
            if one.get("reactions") and (mine or which == "all") and made_at(str(one["id"])) >= since:
                self._noted[int(one["id"])] = (place, one)

    async def found(self, allowed: Callable[[Place], bool]) -> AsyncIterator[list[Inbound]]:
        """Yield the reactions of each emoji that was asked for. Those that were told before are known by their alias."""
        self._noting = False
        calls = 0
        noted, self._noted = self._noted, {}
        for identity in sorted(noted, reverse=True):
            place, message = noted[identity]
            for one in message["reactions"] if allowed(place) else ():
                if not self._by_others(one):
                    continue
                if calls == MOST_CALLS:
                    self._log.info("reactions of older messages were not asked for", account=self._account)
                    return
                calls += 1
                try:
                    yield await self._of(place, message, one["emoji"])
                except (*TROUBLE, *MALFORMED) as error:
                    self._log.info("who reacted is unknown", error=str(error) or type(error).__name__, account=self._account)

    def _by_others(self, shown: object) -> bool:
        return (
            isinstance(shown, dict)
            and isinstance(shown.get("emoji"), dict)
            and shown.get("count") != int(bool(shown.get("me")))
        )

    async def _of(self, place: Place, message: dict[str, Any], emoji: dict[str, Any]) -> list[Inbound]:
        written = f"{emoji['name']}:{emoji['id']}" if emoji.get("id") else str(emoji["name"])
        people: list[Any] = list(await self._link.http.get_reaction_users(int(place.id), int(message["id"]), written, PEOPLE))
        mine = message["author"]["id"] == self._link.me
        reactions = []
        for user in people:
            if user["id"] == self._link.me or (user.get("bot") and not self._settings.allow_bots):
                continue
            event = {"user_id": user["id"], "member": {"user": user}, "message_id": message["id"], "emoji": emoji}
            reactions.append(reaction(event, place, self._account, self._clock.now(), None, mine=mine))
        return reactions
