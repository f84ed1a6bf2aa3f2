"""Makes the web tools that the settings ask for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from agent.errors import FetchRefused
from agent.tools.protocol import Tool
from agent.tools.web.fetch_protocol import Fetcher
from agent.tools.web.page_reader import PageReader
from agent.tools.web.web_fetch import FetchLimits, WebFetch
from gateway.net.targets import place_in, place_of
from gateway.settings.web_settings import FetchSettings, SearchSettings, WebSettings

if TYPE_CHECKING:
    from agent.tools.web.search_providers import SearchProvider

KEYS: Final = {"brave": "BRAVE_API_KEY", "tavily": "TAVILY_API_KEY"}
"""Environment variables with keys of search services, by service."""
_ADDRESSES: Final = {"brave": "https://api.search.brave.com", "tavily": "https://api.tavily.com"}


def web_tools(settings: WebSettings, fetcher: Fetcher, env: Mapping[str, str]) -> list[Tool]:
    """Make ``web_fetch`` unless it is switched off, and ``web_search`` where a service is configured."""
    tools: list[Tool] = []
    if settings.fetch.enabled:
        tools.append(WebFetch(fetcher, _limits(settings.fetch), PageReader()))
    search = settings.search
    provider = provider_of(search, fetcher, env) if search.enabled else None
    if provider is not None:
        from agent.tools.web.web_search import WebSearch

        tools.append(WebSearch(provider, count=search.max_results, cache_seconds=search.cache_ttl_minutes * 60))
    return tools


def provider_of(settings: SearchSettings, fetcher: Fetcher, env: Mapping[str, str]) -> SearchProvider | None:
    """Return the search service that is configured, with its key; None where the settings and the environment name none."""
    given = settings.api_key.get_secret_value().strip() if settings.api_key is not None else ""
    name = settings.provider or _likely(settings, given, env)
    key = given or env.get(KEYS.get(name or "", ""), "")
    address = settings.base_url or _ADDRESSES.get(name or "")
    if name is None or address is None or (name in KEYS and not key and settings.base_url is None):
        return None
    from agent.tools.web.search_providers import Access, Brave, SearXng, Tavily

    own = frozenset({place_in(address)}) if settings.base_url is not None else frozenset[str]()
    access = Access(fetcher=fetcher, base_url=address, key=key, seconds=settings.timeout_seconds, own_hosts=own)
    services: dict[str, Callable[[Access], SearchProvider]] = {"brave": Brave, "tavily": Tavily, "searxng": SearXng}
    return services[name](access)


def _likely(settings: SearchSettings, key: str, env: Mapping[str, str]) -> str | None:
    if settings.base_url is not None and not key:
        return "searxng"
    return "brave" if key else next((name for name, variable in KEYS.items() if env.get(variable)), None)


def _limits(settings: FetchSettings) -> FetchLimits:
    return FetchLimits(
        max_chars=settings.max_chars,
        max_bytes=settings.max_bytes,
        max_pdf_bytes=settings.max_pdf_bytes,
        seconds=settings.timeout_seconds,
        max_redirects=settings.max_redirects,
        cache_seconds=settings.cache_ttl_minutes * 60,
        main_part=settings.readability,
        own_hosts=frozenset(place for host in settings.allow_hosts if (place := _own(host))),
    )


def _own(host: str) -> str | None:
    try:
        return place_of(host)
    except FetchRefused:  # such as a port above 65535: a host that nothing can be asked from
        return None
