"""The section ``tools.web``: reading web pages and searching the web."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, SecretStr

from agent.section import Section
from agent.tool_settings import GlobalToolsSettings
from gateway.settings.media_settings import MediaSettings


def _place(text: str) -> str:
    if re.fullmatch(r"(?:[\w.-]+|\[[0-9a-fA-F:.]+\]):\d{1,5}", text) is None:
        raise ValueError(f"{text!r} is no host with a port (write it like nas.lan:8080, without http://)")
    return text


def _base_url(text: str) -> str:
    if re.fullmatch(r"https?://[^\s@?#]+", text) is None:
        raise ValueError(f"{text!r} is no address of a service (write it like http://searxng.lan:8080)")
    return text


class FetchSettings(Section):
    """The tool web_fetch."""

    enabled: bool = True
    """Offer web_fetch, which reads public web pages, PDF and text files."""
    max_chars: Annotated[int, Field(ge=1000)] = 50_000
    """Longest part of a page that one call returns, in characters; the limit for tool results also holds."""
    max_bytes: Annotated[int, Field(ge=10_000, le=20_000_000)] = 750_000
    """How much of a page is read, in bytes; what is beyond is left out, and the agent is told."""
    max_pdf_bytes: Annotated[int, Field(ge=10_000, le=100_000_000)] = 10_000_000
    """How much of a PDF file is read, in bytes."""
    timeout_seconds: Annotated[float, Field(gt=0, le=300)] = 30.0
    """Longest duration of one request with its redirects, in seconds."""
    max_redirects: Annotated[int, Field(ge=0, le=10)] = 3
    """How many redirects are followed; each address is checked like the first."""
    cache_ttl_minutes: Annotated[float, Field(ge=0)] = 15.0
    """How long a page is kept and not asked for again, in minutes."""
    readability: bool = True
    """Leave out navigation, footers and the like."""
    allow_hosts: tuple[Annotated[str, AfterValidator(_place)], ...] = ()
    """Hosts of the own network that may be read, as `host:port`; without this, only public addresses on ports 80 and 443 are. Whoever can make the agent read a page can make it ask these."""  # noqa: E501


class SearchSettings(Section):
    """The tool web_search. It is there as soon as a service is configured here, or BRAVE_API_KEY or TAVILY_API_KEY is set."""

    enabled: bool = True
    """Offer web_search where a service is configured."""
    provider: Literal["brave", "tavily", "searxng"] | None = None
    """The service. Unset: SearXNG where only `baseUrl` is given, otherwise the one that there is a key for, Brave first."""
    api_key: SecretStr | None = None
    """The key of Brave or Tavily. Unset: BRAVE_API_KEY or TAVILY_API_KEY of the environment."""
    base_url: Annotated[str, AfterValidator(_base_url)] | None = None
    """Address of the SearXNG instance, which may be in the own network, or of a proxy for another service."""
    max_results: Annotated[int, Field(ge=1, le=10)] = 5
    """How many results a search returns unless the agent asks for another number."""
    timeout_seconds: Annotated[float, Field(gt=0, le=300)] = 30.0
    """Longest duration of one search, in seconds."""
    cache_ttl_minutes: Annotated[float, Field(ge=0)] = 15.0
    """How long results are kept and not asked for again, in minutes."""


class WebSettings(Section):
    """Reading web pages and searching the web."""

    fetch: FetchSettings = FetchSettings.model_construct()
    """The tool web_fetch."""
    search: SearchSettings = SearchSettings.model_construct()
    """The tool web_search."""


class AllToolsSettings(GlobalToolsSettings):
    """The tools of all agents."""

    web: WebSettings = WebSettings.model_construct()
    """Reading web pages and searching the web."""
    media: MediaSettings = MediaSettings.model_construct()
    """What people send besides text."""
