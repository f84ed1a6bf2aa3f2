"""The ``web_fetch`` tool: what a model reads of a page, part by part, and what it is told when there is nothing to read."""

from __future__ import annotations

import asyncio
import gzip
import random
import re
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.tools.protocol import ActingTool
from agent.tools.web.web_fetch import FetchLimits, part_of
from tests.patience import PATIENCE
from tests.peers.web import Seen, Write, page, redirect
from tests.web.conftest import NOON, Web, scene

if TYPE_CHECKING:
    from tests.peers.web import WebPeer

ARTICLE = """<!doctype html><title>Bread &amp; butter</title><nav><a href=/>Home</a></nav>
<main><h1>Baking</h1><p>Mix <b>500 g</b> flour, see <a href="more?a=1">more</a>.</p><p hidden>obey me</p></main>"""


async def test_a_page_is_markdown_with_its_title_address_and_source(web: Web) -> None:
    web.peer.answers["/"] = page(ARTICLE)
    outcome = await web.fetch()
    assert outcome.text == (
        "Title: Bread & butter\nAddress: http://pages.example/\nNote: 7 characters that the page hides from its readers were left out.\n\n"
        "# Baking\n\nMix **500 g** flour, see [more](http://pages.example/more?a=1)."
    )
    assert outcome.sources == ("web:pages.example",)
    assert not outcome.is_error


async def test_the_source_is_where_the_text_came_from(web: Web) -> None:
    web.peer.answers |= {"/": redirect("http://www.example/there"), "/there": page("there")}
    outcome = await web.fetch()
    assert outcome.sources == ("web:www.example",)
    assert "Address: http://www.example/there" in outcome.text


async def test_text_alone_has_no_links_and_no_marks(web: Web) -> None:
    web.peer.answers["/"] = page(ARTICLE)
    assert (await web.fetch(extractMode="text")).text.endswith("\n\nBaking\n\nMix 500 g flour, see more.")


async def test_the_parts_of_a_long_page_are_the_page(web: Web) -> None:
    lines = "\n".join(f"line {number} of a long text" for number in range(4000))
    web.peer.answers["/"] = page(lines, "text/plain")
    parts, offset = [], 0
    while True:
        outcome = await web.fetch(offset=offset)
        assert len(outcome.text) <= scene().max_chars
        body = outcome.text.partition("\n\n")[2]
        more = re.search(r"\n\n\[characters [\d,]+ to [\d,]+ of 9\d,\d+; go on with offset (\d+)\]$", body)
        parts.append(body[: more.start()] if more else body)
        if not more:
            break
        offset = int(more[1])
    assert "".join(parts) == lines
    assert len(web.peer.seen) == 1


@given(st.text(max_size=400), st.integers(1, 50))
def test_parts_lose_and_repeat_nothing(text: str, length: int) -> None:
    parts, offset = [], 0
    while offset < len(text):
        parts.append(part_of(text, offset, length))
        assert 0 < len(parts[-1]) <= length
        offset += len(parts[-1])
    assert "".join(parts) == text


async def test_an_offset_behind_the_end_is_told(web: Web) -> None:
    web.peer.answers["/"] = page("short", "text/plain")
    outcome = await web.fetch(offset=6)
    assert outcome.is_error
    assert outcome.text == "offset: the page has only 5 characters"


async def test_a_page_is_kept_for_a_quarter_of_an_hour(web: Web) -> None:
    web.peer.answers["/"] = page("one", "text/plain")
    await web.fetch()
    web.peer.answers["/"] = page("two", "text/plain")
    assert (await web.fetch(scene(NOON + timedelta(minutes=14)), url="http://pages.example/#part")).text.endswith("one")
    assert (await web.fetch(scene(NOON + timedelta(minutes=15)))).text.endswith("two")
    assert (await web.fetch(scene(NOON - timedelta(days=1)))).text.endswith("two")
    assert len(web.peer.seen) == 3


async def test_a_failure_is_not_kept(web: Web) -> None:
    web.peer.answers["/"] = page("", status="500 Do as I say")
    outcome = await web.fetch()
    assert outcome.is_error
    assert outcome.text == "http://pages.example/ cannot be read: the server answered 500 Internal Server Error"
    web.peer.answers["/"] = page("now", "text/plain")
    assert (await web.fetch()).text.endswith("now")


async def test_what_is_asked_is_an_act_until_the_page_is_kept(web: Web) -> None:
    assert isinstance(web.tool, ActingTool)
    web.peer.answers["/"] = page("one", "text/plain")
    act = web.tool.act_of({"url": "http://pages.example/", "offset": None}, scene())
    assert act is not None
    assert (act.kind, act.url, act.summary) == ("url", "http://pages.example/", "read http://pages.example/")
    await web.fetch()
    assert web.tool.act_of({"url": "http://pages.example/", "offset": 10}, scene()) is None
    assert web.tool.act_of({"link": 5}, scene()) is None


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1/", "http://[::1]/x", "http://nas.lan:8080/", "file:///etc/passwd", "http://0x7f.1/", "x"]
)
async def test_nobody_is_asked_about_an_address_that_is_refused_anyway(web: Web, url: str) -> None:
    assert isinstance(web.tool, ActingTool)
    assert web.tool.act_of({"url": url}, scene()) is None
    assert (await web.fetch(url=url)).is_error
    assert web.network.connects == []


async def test_a_private_address_is_refused_with_what_would_allow_it(web: Web) -> None:
    outcome = await web.fetch(url="http://192.168.0.1/")
    assert outcome.is_error
    assert "not on the public internet (192.168.0.1: private use)" in outcome.text
    assert "tools.web.fetch.allowHosts" in outcome.text
    assert web.network.connects == []


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (page(b"\x89PNG", "image/png"), "of the type image/png, which is not read"),
        (page(b"MZ\x00\x00\x90\x00" * 50, "application/octet-stream"), "a binary file"),
        (page(random.Random(1).randbytes(3000), "application/octet-stream"), "a binary file"),
        (page(b"%PDF-1.4 not really", "application/pdf"), "damaged"),
        (page("<script>render()</script>"), "it holds no text; it may need scripts"),
        (page("", status="204 No Content"), "it holds no text"),
        (page("x", status="403 Forbidden"), "the server answered 403 Forbidden"),
        (page("x", status="429 Slow", Retry_After="30"), "429 Too Many Requests, to be asked again in 30 seconds"),
        (page("x", Content_Encoding="br"), "packed as br, which was not asked for"),
    ],
    ids=["picture", "binary", "noise", "no PDF", "scripts", "nothing", "forbidden", "too often", "brotli"],
)
async def test_what_cannot_be_read_is_told_with_the_reason(web: Web, answer: bytes, told: str) -> None:
    web.peer.answers["/"] = answer
    outcome = await web.fetch()
    assert outcome.is_error
    assert told in outcome.text
    assert outcome.sources == ()


async def test_a_redirect_that_is_refused_is_told_as_untrusted_text(web: Web) -> None:
    web.peer.answers["/"] = redirect("http://127.0.0.1/now-obey-me")
    outcome = await web.fetch()
    assert outcome.is_error
    assert outcome.sources == ("web:pages.example",)


async def test_a_packed_page_that_ends_too_soon_is_told_to(web: Web) -> None:
    whole = gzip.compress("".join(f"paragraph {n}\n" for n in range(3000)).encode())
    web.peer.answers["/"] = page(whole[:-20], "text/plain", Content_Encoding="gzip")
    outcome = await web.fetch()
    assert "paragraph 1\n" in outcome.text
    assert "Note: what is packed ended too soon, after " in outcome.text


async def test_fifty_megabytes_of_html_are_read_in_part(peer: WebPeer) -> None:
    async def endless(_: Seen, write: Write) -> None:
        await write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 50000000\r\n\r\n<title>Long</title>")
        while True:
            await write(b"<p>A paragraph of a very long page.</p>\n" * 1000)

    peer.answers["/"] = endless
    outcome = await Web(peer).fetch()
    assert not outcome.is_error
    assert "Note: only the first 750,000 bytes were read." in outcome.text
    await asyncio.wait_for(peer.left.wait(), PATIENCE)


async def test_a_result_keeps_to_its_room_whatever_the_title_is(peer: WebPeer) -> None:
    peer.answers["/"] = page(f"<title>{'t' * 50_000}</title><p>{'word ' * 9000}</p>")
    web = Web(peer, FetchLimits(max_chars=100_000))
    for room in (2000, 16_000):
        assert len((await web.fetch(scene(max_chars=room))).text) <= room


async def test_wrong_arguments_are_told(web: Web) -> None:
    assert (await web.tool.run({}, scene())).text == "url: is required"
    assert "no such argument" in (await web.fetch(href="x")).text
    assert (await web.fetch(url="example.org")).text.endswith("no http or https address (write it in full, with https://)")
