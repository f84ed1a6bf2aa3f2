"""Searches chat platforms as the owner, through the fetcher that all tools use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import tzinfo
from typing import Final

from agent.errors import FetchFailed
from agent.tools.message_search_tool import MessageHit
from agent.tools.web.fetch_protocol import Fetcher, FetchRequest
from channels.message_search import FoundMessage, MessageSearch, SearchRefused
from gateway.net.targets import place_in

SECONDS: Final = 30.0
MOST_BYTES: Final = 2_000_000
LONGEST: Final = 700


class AccountSearches:
    """Searches all accounts of one platform, by name."""

    def __init__(self, accounts: Mapping[str, MessageSearch], fetcher: Fetcher, zone: Callable[[], tzinfo]) -> None:
        self._accounts = accounts
        self._fetcher = fetcher
        self._zone = zone

    async def search(self, query: str, count: int, *, newest: bool) -> list[MessageHit]:
        """See ``agent.tools.message_search_tool.MessageSearcher``."""
        found = []
        for name, account in self._accounts.items():
            label = "" if len(self._accounts) == 1 else f" ({name})"
            found += [self._hit(one, label) for one in (await self._of(account, query, count, newest=newest))[:count]]
        return found

    async def _of(self, account: MessageSearch, query: str, count: int, *, newest: bool) -> list[FoundMessage]:
        url, headers = account.request(query, count, newest=newest)
        answer = await self._fetcher.fetch(
            FetchRequest(
                url=url,
                limit_of=lambda _: MOST_BYTES,
                accept="application/json",
                seconds=SECONDS,
                max_redirects=0,
                headers=tuple(headers.items()),
                own_hosts=frozenset({place_in(account.own_address)}) if account.own_address else frozenset(),
            )
        )
        try:
            return account.found(answer.status, answer.body)
        except SearchRefused as error:
            raise FetchFailed(str(error), hint=error.hint) from error

    def _hit(self, found: FoundMessage, label: str) -> MessageHit:
        text = found.text if len(found.text) <= LONGEST else f"{found.text[: LONGEST - 1]}…"
        when = f"{found.at.astimezone(self._zone()):%Y-%m-%d %H:%M}"
        return MessageHit(where=found.where + label, who=found.who, when=when, text=text, link=found.link)
