"""Search services: Brave, Tavily and SearXNG, each one call of its HTTP API."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, Protocol, TypeAlias
from urllib.parse import urlencode, urlsplit

from msgspec import Struct

from agent.characters import without_smuggled
from agent.errors import FetchFailed
from agent.tools.web.fetch_protocol import Fetched, Fetcher, FetchRequest
from agent.tools.web.web_fetch import refused_by_server

Freshness: TypeAlias = Literal["day", "week", "month", "year"]
MAX_SNIPPET: Final = 500
_MAX_BYTES: Final = 2_000_000
_OK: Final = 200
_TAG: Final = re.compile(r"<[^<>]{0,300}>")


class Hit(Struct, frozen=True, kw_only=True):
    """One result. ``date`` is as the service gives it, or empty."""

    title: str
    url: str
    snippet: str = ""
    date: str = ""


class SearchProvider(Protocol):
    """Searches the web."""

    @property
    def name(self) -> str:
        """Its name for people."""
        ...

    async def search(self, query: str, count: int, freshness: Freshness | None) -> list[Hit]:
        """Return up to ``count`` results, the best first, from the past day, week, month or year if asked for. Raises FetchFailed."""
        ...


class Access(Struct, frozen=True, kw_only=True):
    """How a service is reached. ``own_hosts`` holds its host and port where it is the owner's own, in the local network."""

    fetcher: Fetcher
    base_url: str
    key: str = ""
    seconds: float = 30.0
    own_hosts: frozenset[str] = frozenset()

    async def ask(
        self, service: str, path: str, *, headers: Mapping[str, str] | None = None, body: Any = None, hints: Mapping[int, str]
    ) -> Any:
        """Call the API and return what it answers as JSON. ``hints`` say what to do about a status."""
        sent = {**(headers or {}), **({"Content-Type": "application/json"} if body is not None else {})}
        answer = await self.fetcher.fetch(
            FetchRequest(
                url=self.base_url.rstrip("/") + path,
                limit_of=lambda _: _MAX_BYTES,
                accept="application/json",
                seconds=self.seconds,
                max_redirects=0,
                method="GET" if body is None else "POST",
                headers=tuple(sent.items()),
                body=b"" if body is None else json.dumps(body).encode(),
                own_hosts=self.own_hosts,
            )
        )
        return _content(service, answer, hints)


class Brave(Struct, frozen=True):
    """https://api-dashboard.search.brave.com/app/documentation/web-search."""

    access: Access
    name: str = "Brave"

    async def search(self, query: str, count: int, freshness: Freshness | None) -> list[Hit]:
        """Search."""
        wish = {"q": query, "count": count, **({"freshness": f"p{freshness[0]}"} if freshness else {})}
        headers = {"X-Subscription-Token": self.access.key}
        hints = {401: _KEY_HINT, 403: _KEY_HINT, 422: _KEY_HINT, 429: _QUOTA_HINT}
        answer = await self.access.ask(self.name, f"/res/v1/web/search?{urlencode(wish)}", headers=headers, hints=hints)
        return _hits(_listed(_mapping(answer).get("web")), count, snippet="description", dates=("page_age", "age"))


class Tavily(Struct, frozen=True):
    """https://docs.tavily.com/documentation/api-reference/endpoint/search."""

    access: Access
    name: str = "Tavily"

    async def search(self, query: str, count: int, freshness: Freshness | None) -> list[Hit]:
        """Search."""
        wish = {"query": query, "max_results": count, **({"time_range": freshness} if freshness else {})}
        hints = {401: _KEY_HINT, 403: _KEY_HINT, 429: _QUOTA_HINT, 432: _QUOTA_HINT, 433: _QUOTA_HINT}
        headers = {"Authorization": f"Bearer {self.access.key}"}
        answer = await self.access.ask(self.name, "/search", headers=headers, body=wish, hints=hints)
        return _hits(_listed(answer), count, snippet="content", dates=("published_date",))


class SearXng(Struct, frozen=True):
    """https://docs.searxng.org/dev/search_api.html, usually an instance of the owner's own."""

    access: Access
    name: str = "SearXNG"

    async def search(self, query: str, count: int, freshness: Freshness | None) -> list[Hit]:
        """Search."""
        wish = {"q": query, "format": "json", **({"time_range": freshness} if freshness else {})}
        hints = {403: "its settings.yml must list json under search.formats", 429: "its limiter must let this machine pass"}
        answer = await self.access.ask(self.name, f"/search?{urlencode(wish)}", hints=hints)
        return _hits(_listed(answer), count, snippet="content", dates=("publishedDate",))


_KEY_HINT: Final = "check tools.web.search.apiKey"
_QUOTA_HINT: Final = "the plan's limit is reached; try later or change the plan"


def _content(service: str, answer: Fetched, hints: Mapping[int, str]) -> Any:
    if answer.status != _OK:
        raise FetchFailed(f"{service}: {refused_by_server(answer)}", hint=hints.get(answer.status, ""))
    if answer.cut:
        raise FetchFailed(f"{service}: {answer.cut}")
    try:
        return json.loads(answer.body)
    except (ValueError, RecursionError) as error:
        raise FetchFailed(f"{service} answered with something other than JSON") from error


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _listed(value: Any) -> list[Any]:
    found = _mapping(value).get("results")
    return found if isinstance(found, list) else []


def _hits(results: Iterable[Any], count: int, *, snippet: str, dates: tuple[str, ...]) -> list[Hit]:
    found: dict[str, Hit] = {}
    for one in (_mapping(result) for result in results):
        url = one.get("url")
        if not isinstance(url, str) or not _is_web(url) or url in found:
            continue
        date = next((one[name] for name in dates if isinstance(one.get(name), str)), "")
        hit = Hit(
            title=_plain(one.get("title"), 200) or url,
            url=url,
            snippet=_plain(one.get(snippet), MAX_SNIPPET),
            date=_plain(date, 40),
        )
        found[url] = hit
    return list(found.values())[:count]


def _is_web(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and url.isprintable() and " " not in url
    except ValueError:
        return False


def _plain(value: Any, most: int) -> str:
    """Return a text of a service without markup, on one line."""
    if not isinstance(value, str):
        return ""
    from html import unescape

    text = " ".join(without_smuggled(unescape(_TAG.sub("", value[: 20 * most]))).split())
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"
