"""The client against a real radicale, and against a server that lies, stalls, floods and leads elsewhere."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from agent.errors import CalendarFailed
from gateway.calendar.accounts import Account
from gateway.calendar.dav_client import MAX_ANSWER, DavClient
from gateway.calendar.dav_xml import InvalidXml, read_xml
from gateway.net.fetcher import GuardedFetcher
from tests.calendar.conftest import calendar, event
from tests.patience import PATIENCE
from tests.peers.web import page, redirect, web_peer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.calendar.conftest import Radicale
    from tests.peers.web import Answer, Seen, Write

MARCH = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC)
DENTIST = calendar(event("SUMMARY:Dentist", "DTSTART:20260324T090000Z", "DTEND:20260324T100000Z"))


def client(account: Account) -> DavClient:
    return DavClient(GuardedFetcher(), account)


async def test_calendars_are_found_from_the_root_the_home_and_the_calendar_itself(radicale: Radicale) -> None:
    await radicale.make("Family")
    await radicale.make("Friends", "addressbook")
    for path in ("", "anna/", ".well-known/caldav"):
        found = await client(radicale.account(url=f"{radicale.url}{path}")).collections()
        assert sorted(one.name for one in found) == ["Family", "personal"], path
        assert all(one.writable for one in found)
    (one,) = await client(radicale.account(url=f"{radicale.url}anna/family/")).collections()
    assert (one.name, one.url) == ("Family", f"{radicale.url}anna/family/")
    (book,) = await client(radicale.account()).collections("addressbook")
    assert book.name == "Friends"


async def test_objects_are_stored_and_changed_by_their_version(radicale: Radicale) -> None:
    dav = client(radicale.account())
    (home,) = await dav.collections()
    url = f"{home.url}dentist.ics"
    assert await dav.put(url, DENTIST)
    assert not await dav.put(url, DENTIST), "there is one already"
    (one,) = await dav.events(home, *MARCH)
    assert (one.url, one.text.count("BEGIN:VEVENT")) == (url, 1)
    assert await dav.events(home, MARCH[1], MARCH[1].replace(month=5)) == []
    assert await dav.put(url, DENTIST.replace("Dentist", "Dentist!"), etag=one.etag)
    assert not await dav.put(url, DENTIST, etag=one.etag), "it has been changed meanwhile"
    assert not await dav.delete(url, one.etag)
    now = await dav.get(url)
    assert now is not None
    assert "Dentist!" in now.text
    assert await dav.delete(url, now.etag)
    assert await dav.delete(url, now.etag), "gone is gone"
    assert await dav.get(url) is None


async def test_a_wrong_password_is_told_with_the_setting_that_mends_it(radicale: Radicale) -> None:
    with pytest.raises(CalendarFailed, match="refuses user and password") as caught:
        await client(radicale.account(password="wrong")).collections()
    assert "calendar.accounts.personal.password" in caught.value.hint
    assert "wrong" not in str(caught.value)


async def test_a_path_that_leads_nowhere_is_told(radicale: Radicale) -> None:
    dav = client(radicale.account(url=f"{radicale.url}anna/nothing/here/"))
    assert [one.name for one in await dav.collections()] == ["personal"], "the well-known address leads on"


async def moody(answer: Answer, do: Callable[[DavClient], Awaitable[Any]] | None = None, **values: Any) -> CalendarFailed:
    """Talk to a server that answers everything alike; return the failure."""
    async with web_peer({"*": answer}) as peer:
        account = Account(**{"name": "work", "url": f"http://127.0.0.1:{peer.port}/dav/", "seconds": PATIENCE} | values)
        with pytest.raises(CalendarFailed) as caught:
            await (do or (lambda dav: dav.collections()))(client(account))
    return caught.value


def multistatus(inner: str) -> bytes:
    return page(
        f'<?xml version="1.0"?><D:multistatus xmlns:D="DAV:">{inner}</D:multistatus>', "application/xml", "207 Multi-Status"
    )


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (page("no", status="401 Unauthorized"), "refuses user and password"),
        (page("no", status="401 Unauthorized", WWW_Authenticate='Basic realm="x"'), "refuses user and password"),
        (
            page("no", status="401 Unauthorized", WWW_Authenticate='Digest realm="x", nonce="y"'),
            "login with Digest, and only Basic",
        ),
        (
            page("no", status="401 Unauthorized", WWW_Authenticate='Digest realm="x"\r\nWWW-Authenticate: Basic realm="x"'),
            "refuses user and password",
        ),
        (page("no", status="403 Forbidden"), "does not allow"),
        (page("no", status="500 Oops"), "has a fault"),
        (page("no", status="503 Busy", Retry_After="120"), "wait 120 seconds"),
        (page("<html>Welcome</html>"), "no CalDAV server"),
        (page("<html>Welcome</html>", status="207 Multi-Status"), "no multistatus"),
        (page("{}", "application/json", "207 Multi-Status"), "no valid XML"),
        (page("<a><b></a>", "application/xml", "207 Multi-Status"), "no valid XML"),
        (page("", "application/xml", "207 Multi-Status"), "no valid XML"),
        (multistatus(""), "no calendars were found"),
        (redirect("http://other.example/dav/"), "redirects to http://other.example/dav/, which is another host"),
        (redirect("https://127.0.0.1/dav/"), "redirects to https://127.0.0.1/dav/, which is another host"),
        (b"HTTP/1.1 207 Multi", "valid HTTP"),
    ],
)
async def test_what_a_server_answers_wrongly_is_told_in_words(answer: bytes, told: str) -> None:
    failure = await moody(answer)
    assert "the calendar account work" in str(failure)
    import re

    assert re.search(told, str(failure)), str(failure)


async def test_the_password_never_goes_to_another_host() -> None:
    async with web_peer() as other:
        home = f"http://127.0.0.1:{other.port}/home/"
        elsewhere = multistatus(
            "<D:response><D:href>/dav/</D:href><D:propstat><D:prop>"
            f'<C:calendar-home-set xmlns:C="urn:ietf:params:xml:ns:caldav"><D:href>{home}</D:href></C:calendar-home-set>'
            "</D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>"
        )
        failure = await moody(elsewhere, user="anna", password="s3cret-word")
        assert "another host" in str(failure)
        assert f"http://127.0.0.1:{other.port}/" in failure.hint
        failure = await moody(redirect(home), user="anna", password="s3cret-word")
        assert f"redirects to {home}, which is another host or port, and is not followed" in str(failure)
        assert "allowHosts" not in failure.hint
        assert other.seen == []


async def test_nothing_that_changes_something_follows_a_redirect() -> None:
    failure = await moody(redirect("/there"), lambda dav: dav.put(f"{dav.account.url}x.ics", DENTIST))
    assert "not followed" in str(failure)


async def test_a_server_that_hangs_is_left_after_the_time_of_the_account() -> None:
    async def hang(_seen: Seen, _write: Write) -> None:
        await asyncio.Event().wait()

    assert "within 0.3 seconds" in str(await moody(hang, seconds=0.3))


async def test_too_much_is_asked_for_in_parts_and_at_last_refused() -> None:
    async with web_peer() as peer:
        asked: list[bytes] = []
        small = multistatus(
            "<D:response><D:href>/dav/a.ics</D:href><D:propstat><D:prop><D:getetag>1</D:getetag>"
            '<C:calendar-data xmlns:C="urn:ietf:params:xml:ns:caldav">BEGIN:VCALENDAR</C:calendar-data>'
            "</D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>"
        )

        async def answer(seen: Seen, write: Write) -> None:
            asked.append(seen.body)
            whole = b'start="20260301T000000Z" end="20260401T000000Z"' in seen.body
            await write(page(b"<a>" + b"x" * MAX_ANSWER, "application/xml", "207 Multi-Status") if whole else small)

        peer.answers["*"] = answer
        account = Account(name="work", url=f"http://127.0.0.1:{peer.port}/dav/", seconds=PATIENCE)
        from gateway.calendar.dav_client import Collection

        found = await client(account).events(Collection(url=account.url, name="dav"), *MARCH)
        assert len(asked) == 3
        assert [one.etag for one in found] == ["1"], "what is in both parts is there once"
    huge = page(b"<a>" + b"x" * MAX_ANSWER, "application/xml", "207 Multi-Status")
    assert "only the first 10,000,000 bytes" in str(await moody(huge))


async def test_what_is_too_large_for_the_shortest_time_is_refused() -> None:
    from gateway.calendar.dav_client import Collection

    huge = page(b"<a>" + b"x" * MAX_ANSWER, "application/xml", "207 Multi-Status")
    day = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 1, 6, tzinfo=UTC)
    failure = await moody(huge, lambda dav: dav.events(Collection(url=dav.account.url, name="x"), *day))
    assert "shorter" in failure.hint


BOMB = b"""<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]><lolz>&b;</lolz>"""
OUTSIDE = b"""<?xml version="1.0"?><!DOCTYPE x SYSTEM "http://127.0.0.1:9/x.dtd"><x/>"""


@pytest.mark.parametrize(
    "body", [BOMB, OUTSIDE, b"<a>" * 100, b"<a>" + b"<b/>" * 500_000, b"&#0;", b"\xff\xfe\x00", b"<a>&b;</a>"]
)
def test_xml_with_entities_or_beyond_the_limits_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidXml):
        read_xml(body)


async def test_an_xml_bomb_is_refused_in_words() -> None:
    assert "document type" in str(await moody(page(BOMB, "application/xml", "207 Multi-Status")))


async def test_a_feed_is_read_and_a_web_page_is_none() -> None:
    async with web_peer({"/a.ics": page(DENTIST, "text/plain")}) as peer:
        text = await client(Account(name="fair", url=f"http://127.0.0.1:{peer.port}/a.ics", feed=True)).feed()
        assert text == DENTIST
    failure = await moody(page("<html>Sign in</html>"), lambda dav: dav.feed(), feed=True)
    assert "no iCalendar" in str(failure)
    large = page(f"{DENTIST}{' ' * MAX_ANSWER}", "text/calendar")
    assert "take a smaller one" in (await moody(large, lambda dav: dav.feed(), feed=True)).hint


@pytest.mark.parametrize(
    ("body", "media_type", "read"),
    [
        ("Größe".encode("latin-1"), "text/calendar", "Größe"),
        ("Größe".encode("latin-1"), "text/calendar; charset=utf-8", "Größe"),
        ("Größe – x".encode("cp1252"), "text/calendar; charset=nonsense", "Größe – x"),
        ("Łódź".encode("iso8859-2"), "text/calendar; charset=iso-8859-2", "Łódź"),
        ("Größe".encode() + b" \xff", "text/calendar; charset=iso-8859-1", "Größe \ufffd"),
    ],
)
async def test_a_feed_in_an_older_encoding_is_read_as_it_is_meant(body: bytes, media_type: str, read: str) -> None:
    text = DENTIST.encode().replace(b"Dentist", body)
    async with web_peer({"/a.ics": page(text, media_type)}) as peer:
        feed = await client(Account(name="fair", url=f"http://127.0.0.1:{peer.port}/a.ics", feed=True)).feed()
    assert f"SUMMARY:{read}\r\n" in feed


def test_the_password_is_in_no_representation() -> None:
    assert "s3cret" not in repr(Account(name="a", url="http://127.0.0.1/", password="s3cret"))
