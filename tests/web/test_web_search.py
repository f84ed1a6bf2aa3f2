"""The ``web_search`` tool on the APIs of three services."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from agent.models.token_estimate import weight_of_tools
from agent.tools.web.web_search import WebSearch
from gateway.net.testing import RecordedNetwork
from gateway.settings.web_settings import WebSettings
from gateway.tools.web_tools import web_tools
from tests.peers.search_apis import answer, brave, searxng, tavily
from tests.peers.web import PUBLIC, WebPeer, fetcher_on
from tests.web.conftest import NOON, scene

if TYPE_CHECKING:
    from agent.tools.protocol import Outcome, Tool

KEY = "made-up-key-0123456789"
EXPECTED = (
    "1. Bread recipes & more\n   https://bread.example/a\n{date}   Mix flour 'n water\n\n"
    "2. Rye\n   https://rye.example/\n{other}   Rye bread takes time.\n\n"
    "3. Old\n   http://old.example/x?y=1\n{other}   Old loaf."
)


def network(peer: WebPeer) -> RecordedNetwork:
    names = {"searx.lan": [["192.168.0.7"]], "brave.proxy.example": [[PUBLIC]], "tavily.proxy.example": [[PUBLIC]]}
    return RecordedNetwork(names=names, peers={("192.168.0.7", 8080): peer.port, (PUBLIC, 80): peer.port})


def tools(peer: WebPeer, env: dict[str, str] | None = None, **search: Any) -> dict[str, Tool]:
    settings = WebSettings.model_validate({"search": search})
    return {tool.spec.name: tool for tool in web_tools(settings, fetcher_on(network(peer)), env or {})}


async def searched(peer: WebPeer, arguments: dict[str, Any] | None = None, **search: Any) -> Outcome:
    return await tools(peer, **search)["web_search"].run({"query": "bread", **(arguments or {})}, scene())


async def test_brave_finds_pages_with_their_dates(peer: WebPeer) -> None:
    peer.answers["*"] = brave(KEY)
    outcome = await searched(peer, {"count": 3, "freshness": "week"}, apiKey=KEY, baseUrl="http://brave.proxy.example")
    assert outcome.text == EXPECTED.format(date="   2026-02-27T08:00:00\n", other="   2 days ago\n")
    assert outcome.sources == ("web:bread.example", "web:rye.example", "web:old.example")
    assert peer.seen[0].target == "/res/v1/web/search?q=bread&count=3&freshness=pw"


async def test_tavily_finds_pages(peer: WebPeer) -> None:
    peer.answers["*"] = tavily(KEY)
    outcome = await searched(
        peer, {"freshness": "month"}, provider="tavily", apiKey=KEY, baseUrl="http://tavily.proxy.example/"
    )
    assert outcome.text == EXPECTED.format(date="", other="")


async def test_an_own_searxng_in_the_network_finds_pages(peer: WebPeer) -> None:
    peer.answers["*"] = searxng()
    outcome = await searched(peer, {"query": "bread & butter?", "freshness": "day"}, baseUrl="http://searx.lan:8080/searxng")
    assert outcome.text == EXPECTED.format(date="", other="")
    assert peer.seen[0].target == "/searxng/search?q=bread+%26+butter%3F&format=json&time_range=day"
    assert peer.seen[0].headers["host"] == "searx.lan:8080"


async def test_the_address_of_the_service_is_no_pass_for_web_fetch(peer: WebPeer) -> None:
    peer.answers["*"] = searxng()
    made = tools(peer, baseUrl="http://searx.lan:8080")
    outcome = await made["web_fetch"].run({"url": "http://searx.lan:8080/"}, scene())
    assert outcome.is_error
    assert peer.seen == []


@pytest.mark.parametrize(
    ("search", "handler", "told"),
    [
        ({"apiKey": "wrong", "baseUrl": "http://brave.proxy.example"}, brave(KEY), "Brave: the server answered 422"),
        (
            {"apiKey": "wrong", "provider": "tavily", "baseUrl": "http://tavily.proxy.example"},
            tavily(KEY),
            "check tools.web.search.apiKey",
        ),
        (
            {"baseUrl": "http://searx.lan:8080"},
            searxng(formats=["html"]),
            "its settings.yml must list json under search.formats",
        ),
        ({"baseUrl": "http://searx.lan:8080"}, answer(429, {}, "Retry-After: 9"), "to be asked again in 9 seconds"),
        (
            {"baseUrl": "http://searx.lan:8080"},
            b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhtml",
            "something other than JSON",
        ),
        (
            {"baseUrl": "http://searx.lan:8080"},
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9000000\r\n\r\n" + b"[" + b" " * 8_999_999,
            "SearXNG: only the first ",
        ),
        (
            {"baseUrl": "http://searx.lan:8080"},
            b"HTTP/1.1 302 x\r\nLocation: http://192.168.0.1/\r\n\r\n",
            "which is not followed",
        ),
        ({"baseUrl": "http://gone.lan:8080"}, searxng(), "there is no host gone.lan"),
    ],
    ids=["brave", "tavily", "format", "limiter", "html", "long", "redirect", "gone"],
)
async def test_a_search_that_fails_says_why_and_never_the_key(
    peer: WebPeer, search: dict[str, str], handler: Any, told: str
) -> None:
    peer.answers["*"] = handler
    outcome = await searched(peer, **search)
    assert outcome.is_error
    assert told in outcome.text
    assert "wrong" not in outcome.text


@pytest.mark.parametrize(
    "body",
    [
        [],
        {},
        {"results": None},
        {"results": "x"},
        {
            "results": [
                None,
                1,
                "x",
                [],
                {},
                {"url": 5},
                {"url": "javascript:x"},
                {"url": "http://[::1"},
                {"url": "http://a b/"},
            ]
        },
        {"results": [{"url": "ftp://x.example/"}, {"url": "https:///x"}, {"url": "https://a.example/\nIgnore"}]},
    ],
)
async def test_odd_results_are_left_out(peer: WebPeer, body: Any) -> None:
    peer.answers["*"] = answer(200, body)
    outcome = await searched(peer, baseUrl="http://searx.lan:8080")
    assert outcome.text == "SearXNG found nothing for 'bread'."
    assert outcome.sources == ()


async def test_long_and_smuggled_texts_are_cut(peer: WebPeer) -> None:
    one = {"title": "t\u200b" * 500, "url": "https://a.example/", "text": "<<b>>" * 10_000 + "\U000e0041words\n" * 500}
    peer.answers["*"] = searxng([one, one, {**one, "url": "https://b.example/"}])
    outcome = await searched(peer, baseUrl="http://searx.lan:8080")
    assert len(outcome.text) < 2000
    assert "\u200b" not in outcome.text
    assert "\U000e0041" not in outcome.text
    assert outcome.details["hits"] == 2


async def test_the_same_search_is_asked_once_in_a_quarter_of_an_hour(peer: WebPeer) -> None:
    peer.answers["*"] = searxng()
    tool = tools(peer, baseUrl="http://searx.lan:8080")["web_search"]
    assert isinstance(tool, WebSearch)
    for minutes, query in ((0, "bread"), (10, "  bread "), (16, "bread"), (16, "rye")):
        await tool.run({"query": query}, scene(NOON + timedelta(minutes=minutes)))
    assert len(peer.seen) == 3


@pytest.mark.parametrize(
    ("search", "env", "name"),
    [
        ({}, {}, None),
        ({}, {"BRAVE_API_KEY": KEY}, "Brave"),
        ({}, {"TAVILY_API_KEY": KEY}, "Tavily"),
        ({"provider": "tavily"}, {"BRAVE_API_KEY": KEY}, None),
        ({"provider": "searxng"}, {}, None),
        ({"apiKey": KEY}, {}, "Brave"),
        ({"apiKey": KEY, "enabled": False}, {"BRAVE_API_KEY": KEY}, None),
        ({"baseUrl": "http://searx.lan:8080"}, {"BRAVE_API_KEY": KEY}, "SearXNG"),
        ({"baseUrl": "http://proxy.lan:1", "apiKey": KEY}, {}, "Brave"),
    ],
)
def test_the_tool_is_there_only_where_a_service_is_configured(
    search: dict[str, Any], env: dict[str, str], name: str | None
) -> None:
    settings = WebSettings.model_validate({"search": search})
    made = {tool.spec.name: tool for tool in web_tools(settings, fetcher_on(RecordedNetwork()), env)}
    assert ("web_search" in made) == (name is not None)
    assert "web_fetch" in made


def test_what_models_are_told_of_the_web_stays_short(peer: WebPeer) -> None:
    made = tools(peer, apiKey=KEY)
    assert set(made) == {"web_fetch", "web_search"}
    weight = weight_of_tools(tuple(tool.spec for tool in made.values()))
    assert weight.total <= 350
