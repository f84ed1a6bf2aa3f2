"""The web tools in a whole house: a model reads a page, reaches nothing private, and a person stops a fetch that hangs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeAlias

from agent.messages import ToolCall, ToolMessage
from tests.patience import PATIENCE
from tests.peers.web import Seen, Write, fetcher_on, network_of, page, web_peer

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.gateway.conftest import Street

Make: TypeAlias = "Callable[..., Street]"


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(id=f"call-{name}", name=name, arguments=arguments)


def results(street: Street) -> list[ToolMessage]:
    return [message for message in street.model.requests[-1].messages if isinstance(message, ToolMessage)]


async def test_a_model_reads_a_page_and_the_history_is_tainted_by_its_host(street: Make) -> None:
    async with web_peer({"/bread": page("<title>Bread</title><p>Flour and water.</p>")}) as peer:
        s = street()
        s.further["fetcher"] = fetcher_on(network_of(peer, "pages.example"))
        s.model.then(call("web_fetch", url="http://pages.example/bread"), "It says flour and water.")
        async with s.house() as (_, talk):
            told = await talk.ask("what does http://pages.example/bread say?")
        assert told["reply"] == "It says flour and water."
    [result] = results(s)
    assert "Flour and water." in result.text
    assert result.taint == ("web:pages.example",)


async def test_a_model_gets_no_private_page(street: Make) -> None:
    async with web_peer({"*": page("private")}) as peer:
        s = street()
        network = network_of(peer, others={"router.example": [["192.168.178.1"]]})
        s.further["fetcher"] = fetcher_on(network)
        s.model.then(call("web_fetch", url="http://router.example/"), "I may not read it.")
        async with s.house() as (_, talk):
            await talk.ask("read my router")
    [result] = results(s)
    assert result.is_error
    assert "not on the public internet (192.168.178.1: private use)" in result.text
    assert network.connects == []


async def test_stop_ends_a_fetch_that_hangs(street: Make) -> None:
    begun = asyncio.Event()

    async def hang(_: Seen, write: Write) -> None:
        await write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>")
        begun.set()
        while True:
            await write(b"x")
            await asyncio.sleep(0.01)

    async with web_peer({"/": hang}) as peer:
        s = street(tools={"web": {"fetch": {"timeoutSeconds": 300}}})
        s.further["fetcher"] = fetcher_on(network_of(peer, "pages.example"))
        s.model.then(call("web_fetch", url="http://pages.example/"), "Here again.")
        async with s.house() as (_, talk):
            first = await talk.send("read it")
            await asyncio.wait_for(begun.wait(), PATIENCE)
            assert "Stopped" in (await talk.ask("/stop"))["reply"]
            await asyncio.wait_for(peer.left.wait(), PATIENCE)
            assert (await talk.facts(first))["reply"] == ""
            assert (await talk.ask("hello?"))["reply"] == "Here again."


async def test_web_search_is_offered_where_a_service_is_configured(street: Make) -> None:
    for settings, expected in (
        ({}, {"web_fetch"}),
        ({"tools": {"web": {"search": {"baseUrl": "http://searx.lan:8080"}}}}, {"web_fetch", "web_search"}),
        ({"tools": {"web": {"fetch": {"enabled": False}}}}, set()),
        ({"tools": {"deny": ["group:web"]}}, set()),
    ):
        s = street(**settings)
        s.model.reply_with(lambda _: "hello")
        async with s.house() as (_, talk):
            await talk.ask("hello")
        assert {tool.name for tool in s.model.requests[0].tools if tool.name.startswith("web_")} == expected
