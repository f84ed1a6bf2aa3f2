"""Connections that die without a word, as behind a NAT that forgot them: the page notices, and shows what came meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING

from playwright.async_api import expect

from channels.messages import Outbound
from channels.web.channel import place_of
from gateway.page.page_events import BEAT_SECONDS
from tests.page.conftest import PageVillage
from tests.page.world import MAIN
from tests.peers.relay import Relay

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from tests.page.browser.kit import BrowserTab
    from tests.page.conftest import ServedPage

    Visit = Callable[..., Awaitable[BrowserTab]]

HERE = place_of(MAIN)
COUNT_STREAMS = """
window.streams = { begun: 0, open: 0, most: 0 };
window.EventSource = class extends EventSource {
  constructor(address) {
    super(address);
    streams.begun += 1;
    streams.open += 1;
    streams.most = Math.max(streams.most, streams.open);
  }
  close() { if (this.readyState !== 2) streams.open -= 1; super.close(); }
};
"""
SLEPT = "const now = Date.now; window.slept = 0; Date.now = () => now() + window.slept;"
"""The clock goes on while a device sleeps; timers do not."""


@contextlib.asynccontextmanager
async def behind_a_relay(root: Path, beat: float = 0.75) -> AsyncIterator[tuple[ServedPage, Relay]]:
    """Serve a page that browsers reach through a relay. A sign of life is sent every ``beat`` seconds."""
    async with Relay() as relay:
        village = PageVillage(root, gateway={"allowedHosts": [f"127.0.0.1:{relay.port}"]})
        async with village.page() as served:
            relay.to = served.port
            served.house.page.hub.beat_seconds = beat
            yield replace(served, port=relay.port), relay


async def keep(_: str) -> None:
    """Nothing is recorded."""


async def test_a_stream_that_died_without_a_word_is_opened_anew_and_nothing_is_lost(tmp_path: Path, visit: Visit) -> None:
    async with behind_a_relay(tmp_path) as (served, relay):
        channel = served.house.page.channel
        tab = await visit(served, enter=False)
        await tab.context.add_init_script(COUNT_STREAMS)
        made = await served.house.page.open()
        await tab.page.goto(f"{served.base}/enter#{made['code']}")
        await tab.page.wait_for_url(f"{served.base}/")
        await tab.go("chat", title="Chat")
        for number in range(3):
            relay.swallow()
            await channel.send(Outbound(key=f"k{number}", conversation=HERE, text=f"said in silence {number}"), keep)
            bubble = tab.page.locator(".bubble.theirs", has_text=f"said in silence {number}")
            await bubble.wait_for()
            await expect(bubble).to_have_count(1)
        await expect(tab.page.locator(".bubble.theirs")).to_have_count(3)
        streams = await tab.page.evaluate("() => streams")
        assert (streams["begun"], streams["most"]) == (4, 1)
        await expect(tab.page.locator(".state")).to_have_text("")


async def test_a_living_stream_on_which_nothing_happens_is_kept(village: PageVillage, visit: Visit) -> None:
    async with village.page() as served:
        served.house.page.hub.beat_seconds = 0.25
        tab = await visit(served)
        await tab.context.add_init_script(COUNT_STREAMS)
        await tab.page.reload()
        await tab.go("chat", title="Chat")
        await asyncio.sleep(3)
        assert (await tab.page.evaluate("() => streams"))["begun"] == 1


async def test_what_was_asked_over_a_dead_connection_is_asked_again(tmp_path: Path, visit: Visit) -> None:
    async with behind_a_relay(tmp_path) as (served, relay):
        tab = await visit(served)
        for name in ("chat", "memory", "costs", "chat"):  # several connections are open
            await tab.go(name)
        relay.swallow()
        await tab.page.evaluate("() => { location.hash = '#/costs'; }")
        await tab.page.get_by_role("button", name="Change budgets.day.usd").wait_for()
        for name in ("health", "memory", "schedule", "sessions", "context", "settings", "chat"):
            await tab.go(name)


async def test_a_page_that_slept_looks_anew_as_soon_as_it_is_awake(tmp_path: Path, visit: Visit) -> None:
    async with behind_a_relay(tmp_path, beat=BEAT_SECONDS) as (served, relay):
        channel = served.house.page.channel
        tab = await visit(served)
        await tab.context.add_init_script(SLEPT)
        await tab.page.reload()
        await tab.go("chat", title="Chat")
        await asyncio.sleep(6)  # the gateway ends connections that are used no more
        relay.swallow()
        await channel.send(Outbound(key="k", conversation=HERE, text="said at night"), keep)
        await tab.page.evaluate("() => { window.slept = 8 * 3600000; }")
        await tab.page.locator(".bubble.theirs", has_text="said at night").wait_for()
