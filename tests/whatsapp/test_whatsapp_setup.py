"""homebody setup whatsapp, as a person sees it: five answers, what to enter at Meta, one code, and the first message is answered."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from typing import TYPE_CHECKING

import pytest

from tests.peers.whatsapp import ACCOUNT_ID, APP_SECRET, NUMBER_ID, TOKEN
from tests.setup.conftest import home, window
from tests.setup.person import Home, answered
from tests.stories.terminal import ENTER, Terminal
from tests.whatsapp.line import ANNA, calm

if TYPE_CHECKING:
    from tests.peers.whatsapp import WhatsAppPeer

__all__ = ["home", "window"]


def free_port() -> int:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return int(place.getsockname()[1])


def write_settings(home: Home, peer: WhatsAppPeer, port: int) -> None:
    home.state.mkdir(mode=0o700)
    (home.state / "homebody.yaml").write_text(f"gateway: {{port: {port}}}\nchannels: {{whatsapp: {{apiRoot: {peer.root}}}}}\n")


@pytest.mark.long
async def test_from_an_empty_home_to_the_first_answer(home: Home, window: Terminal) -> None:
    async with calm() as peer:
        port = free_port()
        write_settings(home, peer, port)
        peer.call_at(f"http://127.0.0.1:{port}/hooks/whatsapp/default")
        await window.open(home, "setup", "whatsapp")
        at = await answered(window, "Phone number ID (digits", NUMBER_ID)
        at = await answered(window, "WhatsApp Business Account ID:", ACCOUNT_ID, since=at)
        at = await answered(window, "Public address", "http://home.example.org", since=at)
        assert await window.until("Meta calls https alone", since=at), window.shown[-1500:]
        at = await answered(window, "Public address", "https://home.example.org", since=at)
        at = await answered(window, "Access token", TOKEN, since=at)
        at = await answered(window, "App secret", APP_SECRET, since=at)
        assert await window.until("The bot is +1 555-078-3881 Peer of the House", since=at), window.shown[-1500:]
        assert await window.until("callback URL", since=at), window.shown[-1500:]
        assert await window.until("Do it?", since=at), window.shown[-1500:]
        window.press(ENTER)
        assert await window.until("Waiting for you", since=at), window.shown[-1500:]
        code = re.search(r"\n\s+([A-Z2-9]{16})\s", window.shown)
        assert code, window.shown[-1500:]
        await peer.say(ANNA, code[1])
        assert await window.until(f"{ANNA}) is the owner", since=at), window.shown[-1500:]
        assert await window.until_ended(60) == 0
        assert TOKEN not in window.shown
        assert APP_SECRET not in window.shown
        assert peer.home.webhook == "https://home.example.org/hooks/whatsapp/default"
        ended, _, err = await home.run("start")
        assert ended == 0, err
        before = len(peer.said(ANNA))
        await peer.say(ANNA, "remember that the spare key is under the blue pot")
        await peer.until(lambda: any("Noted in" in text for text in peer.said(ANNA)[before:]))
        _, out, _ = await home.run("pairing", "list", "--json")
        [owner] = json.loads(out)["approved"]
        assert (owner["sender"], owner["role"]) == (ANNA, "owner")
        _, out, _ = await home.run("channels", "status", "--probe")
        assert "+1 555-078-3881" in out


async def test_without_a_terminal_the_values_are_tried_and_what_is_wrong_is_named(home: Home) -> None:
    async with calm() as peer:
        write_settings(home, peer, free_port())
        home.more |= {"WHATSAPP_ACCESS_TOKEN": "EAAwrong", "WHATSAPP_APP_SECRET": APP_SECRET}
        for key, value in {
            "phoneNumberId": NUMBER_ID,
            "businessAccountId": ACCOUNT_ID,
            "webhookUrl": "https://home.example.org",
        }.items():
            ended, _, err = await home.run("config", "set", f"channels.whatsapp.{key}", value)
            assert ended == 0, err
        ended, _, err = await home.run("setup", "whatsapp", "--yes", "--dry-run")
        assert ended != 0
        assert "WHATSAPP_ACCESS_TOKEN is not accepted" in err
        await asyncio.sleep(0)
