"""The ``web_fetch`` tool."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace
from pydantic import AliasChoices, Field, ValidationError

from agent.errors import FetchFailed
from agent.tools.arguments import Arguments, CheckedTool, CleanText, failed
from agent.tools.protocol import Act, Outcome, ToolContext
from agent.tools.web.cache import ExpiringCache
from agent.tools.web.fetch_protocol import MAX_REDIRECTS, SECONDS, Fetched, Fetcher, FetchRequest
from agent.tools.web.page_reader import PageReader, PageText

ACCEPT: Final = "text/markdown, text/html;q=0.9, application/xhtml+xml;q=0.9, text/plain;q=0.8, application/json;q=0.8, application/pdf;q=0.7, */*;q=0.1"  # noqa: E501
_HEAD_CHARS: Final = 1200
"""Room for what stands around the text: title, address, notes, how to go on."""
_OTHER_TEXT: Final = frozenset({"", "application/json", "application/octet-stream", "application/xml", "application/xhtml+xml"})
_TEXT_ENDINGS: Final = ("+json", "+xml", "/javascript", "/yaml", "/x-yaml", "/toml", "/x-sh", "/sql")


class FetchLimits(Struct, frozen=True, kw_only=True):
    """Limits of ``web_fetch``. ``main_part``: navigation and the like are left out. ``own_hosts``: as in ``FetchRequest``."""

    max_chars: int = 50_000
    max_bytes: int = 750_000
    max_pdf_bytes: int = 10_000_000
    seconds: float = SECONDS
    max_redirects: int = MAX_REDIRECTS
    cache_seconds: float = 900.0
    main_part: bool = True
    own_hosts: frozenset[str] = frozenset()

    def of_type(self, media_type: str) -> int:
        """Return how many bytes of a body of this type are read; 0 for types without text."""
        if media_type == "application/pdf":
            return self.max_pdf_bytes
        text = media_type.startswith("text/") or media_type in _OTHER_TEXT or media_type.endswith(_TEXT_ENDINGS)
        return self.max_bytes if text else 0


class FetchArguments(Arguments):
    """What ``web_fetch`` takes."""

    url: CleanText
    offset: Annotated[int, Field(ge=0)] = 0
    max_chars: Annotated[int | None, Field(ge=100, exclude=True, validation_alias=AliasChoices("maxChars", "max_chars"))] = None
    mode: Annotated[
        Literal["markdown", "text"],
        Field(validation_alias=AliasChoices("mode", "extractMode"), exclude=True),
    ] = "markdown"


class _Page(Struct, frozen=True, kw_only=True):
    url: str
    page: PageText


class WebFetch(CheckedTool[FetchArguments]):
    """Reads one page, a part at a time. Pages are kept for a while, so that the next part is of the same text."""

    def __init__(self, fetcher: Fetcher, limits: FetchLimits, reader: PageReader) -> None:
        super().__init__(
            FetchArguments,
            name="web_fetch",
            description=("Read a public web page, PDF or text file as Markdown. Long ones come in parts: go on with offset."),
            effect="pure",
        )
        self._fetcher = fetcher
        self._limits = limits
        self._reader = reader
        self._cache: ExpiringCache[_Page] = ExpiringCache(limits.cache_seconds)

    def act_of(self, arguments: Mapping[str, Any], context: ToolContext) -> Act | None:
        """Return the address that would be asked; None where none is: the page is still kept, or the address is refused anyway."""
        try:
            given = FetchArguments.model_validate({name: value for name, value in arguments.items() if value is not None})
        except ValidationError:
            return None
        if self._cache.get(_key(given), context.now) is not None or self._fetcher.refuses(given.url, self._limits.own_hosts):
            return None
        return Act(kind="url", summary=f"read {given.url}", url=given.url)

    async def act(self, arguments: FetchArguments, context: ToolContext) -> Outcome:
        """Fetch, or take the page from the cache, and return the part that is asked for."""
        key = _key(arguments)
        found = self._cache.get(key, context.now)
        kept = found is not None
        if found is None:
            try:
                found = await self._read(arguments)
            except FetchFailed as error:
                outcome = failed(f"{arguments.url[:200]} cannot be read: {error}", error.hint)
                return replace(outcome, sources=(f"web:{error.source}",)) if error.source else outcome
            self._cache.put(key, found, len(found.page.text), context.now)
        length = min(arguments.max_chars or self._limits.max_chars, max(100, context.max_chars - _HEAD_CHARS))
        if arguments.offset and arguments.offset >= len(found.page.text):
            return failed(f"offset: the page has only {len(found.page.text):,} characters")
        return Outcome(
            text=_page_text(found, arguments.offset, length),
            details={"url": found.url, "chars": len(found.page.text), "cached": kept},
            sources=(source_of(found.url),),
        )

    async def _read(self, arguments: FetchArguments) -> _Page:
        limits = self._limits
        answer = await self._fetcher.fetch(
            FetchRequest(
                url=arguments.url,
                limit_of=limits.of_type,
                accept=ACCEPT,
                seconds=limits.seconds,
                max_redirects=limits.max_redirects,
                own_hosts=limits.own_hosts,
            )
        )
        if not HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES:
            raise FetchFailed(refused_by_server(answer))
        page = await self._reader.read(answer, marked=arguments.mode == "markdown", whole=not limits.main_part)
        if not page.text:
            raise FetchFailed("it holds no text; it may need scripts, which are not run")
        return _Page(url=answer.url, page=page)


def _key(arguments: FetchArguments) -> tuple[str, str]:
    return arguments.url.strip().partition("#")[0], arguments.mode


def refused_by_server(answer: Fetched) -> str:
    """Say which status a server answered with, in the standard's words: its own could be anything."""
    known = {one.value: one.phrase for one in HTTPStatus}
    wait = f", to be asked again in {answer.wait:,} seconds" if answer.wait else ""
    return f"the server answered {answer.status} {known.get(answer.status, '')}".rstrip() + wait


def source_of(url: str) -> str:
    """Name where untrusted text comes from."""
    return f"web:{urlsplit(url).hostname or 'unknown'}"


def part_of(text: str, offset: int, length: int) -> str:
    """Return up to ``length`` characters from ``offset`` on, ending at a line or a word where one ends near."""
    part = text[offset : offset + length]
    if offset + length >= len(text):
        return part
    for mark in ("\n", " "):
        end = part.rfind(mark) + 1
        if end > length * 9 // 10:
            return part[:end]
    return part


def _page_text(found: _Page, offset: int, length: int) -> str:
    text = found.page.text
    part = part_of(text, offset, length)
    end = offset + len(part)
    head = [f"Title: {found.page.title}"] if found.page.title else []
    head.append(f"Address: {found.url}")
    head += [f"Note: {note}." for note in found.page.notes]
    more = f"\n\n[characters {offset:,} to {end:,} of {len(text):,}; go on with offset {end}]" if end < len(text) else ""
    return "\n".join(head)[: _HEAD_CHARS - 100] + f"\n\n{part}{more}"
