"""The ``web_search`` tool."""

from __future__ import annotations

from typing import Annotated

from msgspec.structs import replace
from pydantic import Field

from agent.errors import FetchFailed
from agent.tools.arguments import Arguments, CheckedTool, CleanText, failed
from agent.tools.protocol import Outcome, ToolContext
from agent.tools.web.cache import ExpiringCache
from agent.tools.web.search_providers import Freshness, Hit, SearchProvider
from agent.tools.web.web_fetch import source_of

MAX_RESULTS = 10


class SearchArguments(Arguments):
    """What ``web_search`` takes."""

    query: Annotated[CleanText, Field(min_length=1, max_length=400)]
    count: Annotated[int | None, Field(ge=1, le=MAX_RESULTS)] = None
    freshness: Freshness | None = None


class WebSearch(CheckedTool[SearchArguments]):
    """Searches the web with the owner's search service. It is there only where one is configured."""

    def __init__(self, provider: SearchProvider, *, count: int = 5, cache_seconds: float = 900.0) -> None:
        super().__init__(
            SearchArguments,
            name="web_search",
            description="Search the web. Returns titles, addresses, dates and snippets; web_fetch reads a page. Name your sources.",
            effect="pure",
        )
        self._provider = provider
        self._count = count
        self._cache: ExpiringCache[list[Hit]] = ExpiringCache(cache_seconds)

    async def act(self, arguments: SearchArguments, context: ToolContext) -> Outcome:
        """Search, or return what the same search found a moment ago."""
        count = arguments.count or self._count
        key = " ".join(arguments.query.split()), count, arguments.freshness
        hits = self._cache.get(key, context.now)
        kept = hits is not None
        if hits is None:
            try:
                hits = await self._provider.search(key[0], count, arguments.freshness)
            except FetchFailed as error:
                outcome = failed(f"the search failed: {error}", error.hint)
                return replace(outcome, sources=(f"web:{error.source}",)) if error.source else outcome
            self._cache.put(key, hits, sum(len(hit.snippet) + len(hit.title) for hit in hits), context.now)
        return Outcome(
            text=_hit_list(hits, key[0], self._provider.name, context.max_chars),
            details={"query": key[0], "provider": self._provider.name, "hits": len(hits), "cached": kept},
            sources=tuple(dict.fromkeys(source_of(hit.url) for hit in hits)),
        )


def _hit_list(hits: list[Hit], query: str, provider: str, max_chars: int) -> str:
    if not hits:
        return f"{provider} found nothing for {query!r}."
    written = [_written(number, hit) for number, hit in enumerate(hits, 1)]
    while len(written) > 1 and sum(len(one) + 2 for one in written) > max_chars:
        written.pop()
    return "\n\n".join(written)


def _written(number: int, hit: Hit) -> str:
    lines = [f"{number}. {hit.title}", hit.url, *([hit.date] if hit.date else []), *([hit.snippet] if hit.snippet else [])]
    return "\n   ".join(lines)
