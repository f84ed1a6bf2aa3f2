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
    follows_settings = True

    def __init__(self, settings: Callable[[], PlatformSettings], fetcher: Fetcher, zone: Callable[[], tzinfo]) -> None:
        self._settings = settings
        self._fetcher = fetcher
        self._zone = zone
        self._found: tuple[PlatformSettings | None, dict[str, dict[str, MessageSearch]], object] = (None, {}, ())
        """The settings that were read last, what is searched by them, and the version of that."""
        self._made: tuple[object, list[Tool]] = ((), [])

    @property
    def version(self) -> object:
        """What is searched, and with which tokens."""
        settings = self._settings()
        if settings is not self._found[0]:
            found = _searched(settings)
            version = tuple((platform, tuple(accounts.items())) for platform, accounts in found.items())
            self._found = settings, found, version
        return self._found[2]

    def tools(self) -> Sequence[Tool]:
        """Return the tools, sorted by name."""
        version = self.version
        if version != self._made[0]:
            searched = self._found[1]
            self._made = version, [self._tool(platform, searched[platform]) for platform in sorted(searched)]
        return self._made[1]

    def deferred(self) -> frozenset[str]:
        """Return nothing."""
        return frozenset()

    async def close(self) -> None:
        """Do nothing: nothing is open."""

    def _tool(self, platform: str, accounts: Mapping[str, MessageSearch]) -> Tool:
        from agent.tools.message_search_tool import MessageSearchTool
        from gateway.tools.account_searches import AccountSearches

        hint = next(iter(accounts.values())).hint
        return MessageSearchTool(platform, hint, AccountSearches(accounts, self._fetcher, self._zone))


def _searched(settings: PlatformSettings) -> dict[str, dict[str, MessageSearch]]:
    """Return the accounts that are searched, by platform and name."""
    found: dict[str, dict[str, MessageSearch]] = {}
    for platform in BUILT_IN:
        if platform.search is None:
            continue
        section = getattr(settings, platform.name)
        for name in section.names():
            search = platform.search(section.account(name))
            if search is not None:
                found.setdefault(platform.name, {})[name] = search
    return found
