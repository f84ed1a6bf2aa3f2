"""The client of one CalDAV and CardDAV account, over the guarded fetcher: finding calendars, reading, storing and deleting objects."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Final, Literal
from urllib.parse import unquote, urlsplit

from agent.errors import CalendarFailed, FetchFailed
from agent.tools.web.fetch_protocol import Fetched, Fetcher, FetchRequest
from gateway.calendar.accounts import Account
from gateway.calendar.dav_xml import (
    CAL,
    CARD,
    InvalidXml,
    Node,
    Response,
    addressbook_query,
    calendar_query,
    dav,
    propfind,
    read_xml,
    responses,
)
from gateway.net.targets import joined, place_in, target_of

Kind = Literal["calendar", "addressbook"]

MAX_ANSWER: Final = 10_000_000
"""Bytes of one answer. A period whose events are more is asked for in halves."""
MAX_OTHER: Final = 20_000
"""Bytes that are read of an answer that is neither XML nor iCalendar."""
SHORTEST: Final = timedelta(hours=6)
"""A period as short as this is not halved any more."""
MOST_COLLECTIONS: Final = 200
_READ: Final = frozenset({"application/xml", "text/xml", "text/calendar", "text/vcard", "text/x-vcard", ""})
_HOMES: Final = {
    "calendar": (f"{CAL} calendar-home-set", "C:calendar-home-set"),
    "addressbook": (f"{CARD} addressbook-home-set", "A:addressbook-home-set"),
}
_TYPES: Final = {"calendar": f"{CAL} calendar", "addressbook": f"{CARD} addressbook"}
_OLDER: Final = re.compile(r"iso-?8859-\d{1,2}|(?:windows-|cp)125\d|koi8-[ru]|shift_jis|euc-(?:jp|kr)|gb(?:2312|k|18030)|big5")
"""Encodings in which feeds are read where they are not in UTF-8."""
_WELL_KNOWN: Final = {"calendar": "/.well-known/caldav", "addressbook": "/.well-known/carddav"}
"""Where a server says under which path it offers the service (RFC 6764, 5)."""
_WRITE: Final = frozenset({dav("write"), dav("write-content"), dav("bind"), dav("all")})


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """A calendar or an address book. ``name`` is what people call it; ``writable`` is False where the server says that it only reads."""

    url: str
    name: str
    writable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """An object of a collection: its address, its version, and its text."""

    url: str
    etag: str
    text: str


class TooLarge(CalendarFailed):
    """An answer is beyond the limit."""


class DavClient:
    """Talks to the server of one account. Holds no connection, and no state but what was found out about the server's addresses.

    Every method raises CalendarFailed, whose text names the account, says what was wrong, and whose hint says what mends it; ``status``
    is the one that the server answered with, or 0.
    """

    def __init__(self, fetcher: Fetcher, account: Account) -> None:
        self._fetcher = fetcher
        self.account = account

    async def collections(self, kind: Kind = "calendar") -> Sequence[Collection]:
        """Find the calendars or address books of the account, in the server's order."""
        home, found = await self._home(kind)
        if home is None:
            return [_collection(self.account.url, found, kind)] if found is not None else []
        names = ("D:displayname", "D:resourcetype", "D:current-user-privilege-set", "C:supported-calendar-component-set")
        listed = await self._properties(home, "1", *names)
        made = [_collection(self._url(home, one.href), one, kind) for one in listed if _is(one, kind)]
        return made[:MOST_COLLECTIONS]

    async def events(self, calendar: Collection, start: datetime, end: datetime) -> Sequence[Resource]:
        """Return the objects with an event between two instants. A period with too much in it is asked for in parts."""
        try:
            return await self._events(calendar, start, end)
        except TooLarge:
            if end - start <= SHORTEST:
                raise
        middle = start + (end - start) / 2
        parts = [await self.events(calendar, start, middle), await self.events(calendar, middle, end)]
        return list({one.url: one for one in itertools.chain(*parts)}.values())

    async def cards(self, book: Collection) -> Sequence[Resource]:
        """Return all cards of an address book."""
        return await self._report(book, addressbook_query(), f"{CARD} address-data")

    async def get(self, url: str) -> Resource | None:
        """Return an object; None where there is none (any more)."""
        answer = await self._ask("GET", url, fine=frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.GONE}))
        if answer.status != HTTPStatus.OK:
            return None
        return Resource(url=url, etag=answer.etag, text=answer.body.decode("utf-8", "replace"))

    async def put(self, url: str, text: str, *, etag: str = "") -> bool:
        """Store an object: a changed one where its version is still ``etag``, a new one without. False where that does not hold."""
        condition = {"If-Match": etag} if etag else {"If-None-Match": "*"}
        headers = {"Content-Type": "text/calendar; charset=utf-8", **condition}
        answer = await self._ask(
            "PUT", url, text.encode(), headers, fine=frozenset({HTTPStatus.PRECONDITION_FAILED, HTTPStatus.CONFLICT})
        )
        if answer.status == HTTPStatus.CONFLICT:
            raise self._refused(answer)
        return answer.status != HTTPStatus.PRECONDITION_FAILED

    async def delete(self, url: str, etag: str) -> bool:
        """Delete an object of this version. True where it is gone, also where it was before; False where it has been changed."""
        fine = frozenset({HTTPStatus.PRECONDITION_FAILED, HTTPStatus.NOT_FOUND, HTTPStatus.GONE})
        answer = await self._ask("DELETE", url, headers={"If-Match": etag} if etag else {}, fine=fine)
        return answer.status != HTTPStatus.PRECONDITION_FAILED

    async def feed(self) -> str:
        """Return the text of the account's feed."""
        answer = await self._ask("GET", self.account.url)
        if answer.media_type in {"text/html", "application/json"} or b"BEGIN:VCALENDAR" not in answer.body[:100_000].upper():
            raise self._failed(
                "what it sent is no iCalendar", "The address must lead to an .ics file itself, not to a web page."
            )
        return _text_of(answer)

    async def _events(self, calendar: Collection, start: datetime, end: datetime) -> Sequence[Resource]:
        query = calendar_query(*(f"{one.astimezone(UTC):%Y%m%dT%H%M%SZ}" for one in (start, end)))
        return await self._report(calendar, query, f"{CAL} calendar-data")

    async def _report(self, collection: Collection, query: bytes, data: str) -> Sequence[Resource]:
        found = await self._multistatus("REPORT", collection.url, query, "1")
        return [
            Resource(url=self._url(collection.url, one.href), etag=one.text_of(dav("getetag")), text=text)
            for one in found
            if (text := one.text_of(data))
        ]

    async def _home(self, kind: Kind) -> tuple[str | None, Response | None]:
        """Return the address of the account's home; or None, and the collection that the configured address is itself."""
        home, asked = _HOMES[kind]
        names = ("D:current-user-principal", "D:resourcetype", "D:displayname", "D:current-user-privilege-set", asked)
        start, problem = self.account.url, None
        for attempt in range(2):
            try:
                here = await self._properties(start, "0", *names)
            except CalendarFailed as error:
                if attempt or error.status in {HTTPStatus.UNAUTHORIZED, 0}:
                    raise problem or error from None
                here, problem = [], error
            if here and _is(here[0], kind):
                return None, here[0]
            if (found := await self._home_from(start, here, home, asked)) is not None:
                return found, None
            start = joined(target_of(self.account.url, self.account.own_hosts), _WELL_KNOWN[kind])
        what = "CalDAV" if kind == "calendar" else "CardDAV"
        raise problem or self._failed(
            f"no {kind}s were found there ({what})", f"Give the address that your server names for {what}."
        )

    async def _home_from(self, start: str, here: Sequence[Response], home: str, asked: str) -> str | None:
        for one in here:
            if href := one.text_of(home, dav("href")):
                return self._url(start, href)
        principal = next((href for one in here if (href := one.text_of(dav("current-user-principal"), dav("href")))), "")
        if not principal:
            return None
        at = self._url(start, principal)
        found = next((href for one in await self._properties(at, "0", asked) if (href := one.text_of(home, dav("href")))), "")
        return self._url(at, found) if found else None

    async def _properties(self, url: str, depth: str, *names: str) -> Sequence[Response]:
        return await self._multistatus("PROPFIND", url, propfind(*names), depth)

    async def _multistatus(self, method: str, url: str, body: bytes, depth: str) -> Sequence[Response]:
        headers = {"Content-Type": "application/xml; charset=utf-8", "Depth": depth}
        answer = await self._ask(method, url, body, headers)
        if answer.status != HTTPStatus.MULTI_STATUS:
            raise self._failed(
                f"it answered {method} with {answer.status} and no list; that is no CalDAV server",
                self._url_hint,
                answer.status,
            )
        try:
            return await asyncio.to_thread(lambda: responses(read_xml(answer.body)))
        except InvalidXml as error:
            raise self._failed(f"what it sent {error}", self._url_hint) from error

    async def _ask(
        self,
        method: str,
        url: str,
        body: bytes = b"",
        headers: dict[str, str] | None = None,
        *,
        fine: frozenset[HTTPStatus] = frozenset(),
    ) -> Fetched:
        account = self.account
        request = FetchRequest(
            url=url,
            limit_of=_limit(account.feed),
            accept="application/xml, text/xml, text/calendar, text/vcard, */*;q=0.1",
            seconds=account.seconds,
            method=method,
            headers=account.headers(headers or {}),
            body=body,
            own_hosts=account.own_hosts,
            same_host=True,
        )
        try:
            answer = await self._fetcher.fetch(request)
        except FetchFailed as error:
            raise self._failed(str(error), error.hint or self._url_hint) from error
        if answer.status in fine:
            return answer
        if not HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES:
            raise self._refused(answer)
        if answer.cut:
            hint = "Ask for a shorter time."
            if account.feed:
                hint = f"A feed is read up to {MAX_ANSWER // 1_000_000} MB; take a smaller one, such as one of fewer years."
            raise TooLarge(f"{self._named}: {answer.cut} of what it sent", hint=hint, status=0)
        return answer

    @property
    def _named(self) -> str:
        return f"the calendar account {self.account.name}"

    @property
    def _url_hint(self) -> str:
        key = "ics" if self.account.feed else "url"
        return f"Check calendar.accounts.{self.account.name}.{key}, then: homebody calendar test {self.account.name}"

    def _refused(self, answer: Fetched) -> CalendarFailed:
        status, name = answer.status, self.account.name
        key = f"calendar.accounts.{name}"
        said: dict[int, tuple[str, str]] = {
            401: (
                "the server refuses user and password",
                f"Set {key}.user and {key}.password, then: homebody calendar test {name}",
            ),
            403: ("the server does not allow that to this user", "Look at the rights of the calendar on the server."),
            404: ("there is nothing at this address", self._url_hint),
            405: ("the server does not offer calendars at this address", self._url_hint),
            409: ("the server refuses it, because it has such an event or no such calendar", self._url_hint),
            413: ("the server finds it too large", "Make it shorter."),
            507: ("the server has no room left", "Make room on the server."),
        }
        known = {one.value: one.phrase for one in HTTPStatus}
        wait = f"; it asks to wait {answer.wait:,} seconds" if answer.wait else ""
        other = ("the server has a fault" if status >= 500 else "the server refuses it", "Try again later.")  # noqa: PLR2004
        text, hint = said.get(status, other)
        if status == HTTPStatus.UNAUTHORIZED and (wanted := _other_login(answer.challenge)):
            text = f"the server wants a login with {wanted}, and only Basic is supported"
            hint = "Let the server offer Basic as well, or read the calendar from a feed (ics)."
        return self._failed(f"{text} ({status} {known.get(status, '')}".rstrip() + f"{wait})", hint, status)

    def _failed(self, text: str, hint: str = "", status: int = 0) -> CalendarFailed:
        return CalendarFailed(f"{self._named}: {text}", hint=hint, status=status)

    def _url(self, base: str, href: str) -> str:
        """Return the address that a server names. Another host would be given the password, and is refused."""
        try:
            here = target_of(base, self.account.own_hosts)
            address = joined(here, href)
            there = target_of(address, frozenset({place_in(address)}))  # only taken apart: it is judged by comparing it
        except (FetchFailed, ValueError) as error:
            raise self._failed(f"it names an address that cannot be used: {error}", self._url_hint) from error
        if (here.scheme, here.place) != (there.scheme, there.place):
            key = f"calendar.accounts.{self.account.name}.url"
            raise self._failed(
                f"it says that the calendars are at {there.scheme}://{there.authority}, which is another host",
                f"If you trust that host, set {key} to {there.scheme}://{there.authority}/",
            )
        return str(there)


def _limit(feed: bool) -> Callable[[str], int]:
    def limit(media_type: str) -> int:
        return MAX_ANSWER if feed or media_type in _READ or media_type.endswith("+xml") else MAX_OTHER

    return limit


def _other_login(challenge: str) -> str:
    """Name the way of logging in that a server asks for, where Basic is none of them; "" where it is, or nothing is said."""
    said = challenge.casefold()
    if not said or "basic" in said:
        return ""
    return next((name for name in ("Digest", "Bearer", "Negotiate", "NTLM") if name.casefold() in said), "something else")


def _text_of(answer: Fetched) -> str:
    """Decode a feed, which is UTF-8; where nothing in it is, by the server's word, and then as Windows-1252."""
    with suppress(UnicodeDecodeError):
        return answer.body.decode("utf-8")
    if answer.body.decode("utf-8", "ignore").isascii():
        for name in (answer.charset if _OLDER.fullmatch(answer.charset) else "cp1252", "cp1252"):
            with suppress(UnicodeDecodeError, LookupError):
                return answer.body.decode(name)
    return answer.body.decode("utf-8", "replace")


def _is(one: Response, kind: Kind) -> bool:
    types = one.properties.first(dav("resourcetype"))
    if types is None or types.first(_TYPES[kind]) is None:
        return False
    offered = one.properties.first(f"{CAL} supported-calendar-component-set")
    names = [child.attributes.get("name", "").upper() for child in offered.children] if offered is not None else []
    return kind == "addressbook" or not names or "VEVENT" in names


def _collection(url: str, one: Response, kind: Kind) -> Collection:
    last = unquote(urlsplit(url).path.rstrip("/").rpartition("/")[2])
    name = " ".join(one.text_of(dav("displayname")).split())[:80] or last or kind
    privileges = one.properties.first(dav("current-user-privilege-set"))
    return Collection(url=url, name=name, writable=privileges is None or _may_write(privileges))


def _may_write(privileges: Node) -> bool:
    return any(child.tag in _WRITE for one in privileges.children for child in one.children)
