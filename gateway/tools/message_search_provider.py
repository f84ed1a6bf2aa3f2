"""Gives an agent a search tool for each platform on which a token of the owner's is configured. Nothing is loaded before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import tzinfo
from typing import TYPE_CHECKING

from channels.built_in import BUILT_IN, PlatformSettings

if TYPE_CHECKING:
    from agent.tools.protocol import Tool
    from agent.tools.web.fetch_protocol import Fetcher
    from channels.message_search import MessageSearch


class MessageSearchProvider:
    """A ``ToolProvider``: ``slack_search`` and the like, as the settings of the channels say at the time."""

    name = "message search"

    def __init__(self, settings: Callable[[], PlatformSettings], fetcher: Fetcher, zone: Callable[[], tzinfo]) -> None:
        self._settings = settings
        self._fetcher = fetcher
        self._zone = zone
        self._made: tuple[Mapping[str, Mapping[str, MessageSearch]], list[Tool]] = ({}, [])

    @property
    def version(self) -> object:
        """What is searched, and with which tokens."""
        return tuple((platform, tuple(accounts.items())) for platform, accounts in self._searched().items())

    def tools(self) -> Sequence[Tool]:
        """Return the tools, sorted by name."""
        searched = self._searched()
        if searched != self._made[0]:
            self._made = searched, [self._tool(platform, searched[platform]) for platform in sorted(searched)]
        return self._made[1]

    def deferred(self) -> frozenset[str]:
        """Return nothing."""
        return frozenset()

    async def close(self) -> None:
        """Do nothing: nothing is open."""

    def _searched(self) -> dict[str, dict[str, MessageSearch]]:
        """Return the accounts that are searched, by platform and name."""
        found: dict[str, dict[str, MessageSearch]] = {}
        for platform in BUILT_IN:
            if platform.search is None:
                continue
            section = getattr(self._settings(), platform.name)
            for name in section.names():
                search = platform.search(section.account(name))
                if search is not None:
                    found.setdefault(platform.name, {})[name] = search
        return found

    def _tool(self, platform: str, accounts: Mapping[str, MessageSearch]) -> Tool:
        from agent.tools.message_search import MessageSearchTool
        from gateway.tools.message_search import AccountSearches

        hint = next(iter(accounts.values())).hint
        return MessageSearchTool(platform, hint, AccountSearches(accounts, self._fetcher, self._zone))
