"""The peer must be as strict as the real server, or the tests that use it prove nothing."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from tests.peers.telegram import TOKEN, TelegramPeer
from tests.peers.telegram_html import Unparsable, parse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ANNA = 42


class Client:
    """A client without any manners of its own."""

    def __init__(self, session: aiohttp.ClientSession, peer: TelegramPeer) -> None:
        self.session = session
        self.peer = peer

    async def call(self, method: str, token: str = TOKEN, **arguments: Any) -> dict[str, Any]:
        async with self.session.post(f"{self.peer.root}/bot{token}/{method}", json=arguments) as response:
            answer: dict[str, Any] = await response.json()
            assert answer["ok"] == (response.status == 200)
            return answer

    async def refusal(self, method: str, **arguments: Any) -> str:
        answer = await self.call(method, **arguments)
        return f"{answer['error_code']} {answer['description']}"


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with TelegramPeer() as peer, aiohttp.ClientSession() as session:
        yield Client(session, peer)


async def test_an_update_stays_until_a_higher_offset_is_asked_for(client: Client) -> None:
    await client.peer.say(ANNA, "one")
    await client.peer.say(ANNA, "two")
    first = (await client.call("getUpdates"))["result"]
    again = (await client.call("getUpdates"))["result"]
    assert [one["message"]["text"] for one in first] == ["one", "two"]
    assert first == again
    rest = (await client.call("getUpdates", offset=first[0]["update_id"] + 1))["result"]
    assert [one["message"]["text"] for one in rest] == ["two"]
    assert (await client.call("getUpdates", offset=first[1]["update_id"] + 1))["result"] == []


async def test_a_long_poll_waits_for_a_message(client: Client) -> None:
    polling = asyncio.ensure_future(client.call("getUpdates", timeout=20))
    await client.peer.until(lambda: client.peer.count("getUpdates") == 1)
    assert not polling.done()
    await client.peer.say(ANNA, "now")
    assert (await polling)["result"][0]["message"]["text"] == "now"


async def test_the_older_of_two_pollers_gets_the_conflict(client: Client) -> None:
    older = asyncio.ensure_future(client.call("getUpdates", timeout=20))
    await client.peer.until(lambda: client.peer.count("getUpdates") == 1)
    await client.call("getUpdates")
    assert (await older)["error_code"] == 409


async def test_kinds_that_were_not_asked_for_are_not_kept(client: Client) -> None:
    await client.call("getUpdates", allowed_updates=["poll"])
    await client.peer.say(ANNA, "unheard")
    assert (await client.call("getUpdates"))["result"] == []


@pytest.mark.parametrize(("token", "code"), [("1000:BBExampleTokenThatNobodyKnowsAtAll00", 401), ("x", 404)])
async def test_a_wrong_token_is_refused(client: Client, token: str, code: int) -> None:
    assert (await client.call("getMe", token=token))["error_code"] == code


@pytest.mark.parametrize(
    ("arguments", "wording"),
    [
        ({"text": ""}, "message text is empty"),
        ({"text": " \n\u200b"}, "message text is empty"),
        ({"text": "x" * 4097}, "message is too long"),
        ({"text": "👍" * 2049}, "message is too long"),
        ({"text": "<b>x", "parse_mode": "HTML"}, "can't parse entities"),
        ({"text": "x", "chat_id": 7}, "chat not found"),
        ({"text": "x", "chat_id": ""}, "chat_id is empty"),
        ({"text": "x", "reply_parameters": {"message_id": 9}}, "message to be replied not found"),
    ],
)
async def test_a_message_that_breaks_a_rule_is_refused_and_not_shown(
    client: Client, arguments: dict[str, Any], wording: str
) -> None:
    await client.peer.say(ANNA, "hi")
    assert wording in await client.refusal("sendMessage", **{"chat_id": ANNA, **arguments})
    assert client.peer.transcript(ANNA) == [("Anna", "hi")]


async def test_length_is_counted_after_the_marks_are_read(client: Client) -> None:
    await client.peer.say(ANNA, "hi")
    text = "<b>" + "&lt;" * 4096 + "</b>"
    assert (await client.call("sendMessage", chat_id=ANNA, text=text, parse_mode="HTML"))["ok"]


async def test_a_blocked_bot_is_told_so(client: Client) -> None:
    await client.peer.say(ANNA, "hi")
    client.peer.chats.blocked.add(ANNA)
    assert (await client.refusal("sendMessage", chat_id=ANNA, text="x")).startswith("403 Forbidden: bot was blocked")


async def test_edits_must_change_something_of_the_bots_own(client: Client) -> None:
    theirs = await client.peer.say(ANNA, "hi")
    mine = (await client.call("sendMessage", chat_id=ANNA, text="a"))["result"]["message_id"]
    assert "not modified" in await client.refusal("editMessageText", chat_id=ANNA, message_id=mine, text="a")
    assert "can't be edited" in await client.refusal("editMessageText", chat_id=ANNA, message_id=theirs, text="b")
    assert "to edit not found" in await client.refusal("editMessageText", chat_id=ANNA, message_id=1, text="b")
    await client.call("editMessageText", chat_id=ANNA, message_id=mine, text="b")
    assert client.peer.transcript(ANNA)[-1] == ("bot", "b")


async def test_commands_and_actions_are_checked(client: Client) -> None:
    await client.peer.say(ANNA, "hi")
    assert "COMMAND_INVALID" in await client.refusal("setMyCommands", commands=[{"command": "Bad!", "description": "x"}])
    assert "wrong parameter action" in await client.refusal("sendChatAction", chat_id=ANNA, action="sleeping")
    assert (await client.call("setMyCommands", commands=[{"command": "help", "description": "x"}]))["ok"]


@pytest.mark.parametrize(("kind", "shown"), [("drop_before", 0), ("drop_after", 1)])
async def test_a_dropped_connection_has_its_effect_or_not(client: Client, kind: str, shown: int) -> None:
    await client.peer.say(ANNA, "hi")
    client.peer.fault("sendMessage", kind)
    with pytest.raises(aiohttp.ClientError):
        await client.call("sendMessage", chat_id=ANNA, text="x")
    assert client.peer.transcript(ANNA).count(("bot", "x")) == shown


@pytest.mark.parametrize(
    "broken",
    [
        "<b>x",
        "x</b>",
        "<b>x</i>",
        "<p>x</p>",
        "a < b",
        "<a>x</a>",
        "<blockquote><blockquote>x</blockquote></blockquote>",
        "<code><b>x</b></code>",
        "<pre>a<i>b</i></pre>",
    ],
)
def test_html_that_is_not_telegrams_is_refused(broken: str) -> None:
    with pytest.raises(Unparsable):
        parse(broken)


def test_entities_are_placed_in_utf16_units() -> None:
    text, entities = parse('👍<b>a</b><pre><code class="language-py">x&lt;1</code></pre>')
    assert text == "👍ax<1"
    assert entities == [
        {"type": "bold", "offset": 2, "length": 1},
        {"type": "pre", "offset": 3, "length": 3, "language": "py"},
    ]


async def test_it_runs_as_a_process_of_its_own() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "tests/peers/telegram.py", "--port", "0", stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        told = json.loads(await process.stdout.readline())
        async with aiohttp.ClientSession() as session:
            await session.post(f"{told['root']}/control/say", json={"user": ANNA, "text": "hello"})
            async with session.post(f"{told['root']}/control/transcript", json={"chat": ANNA}) as answer:
                assert await answer.json() == [["Anna", "hello"]]
    finally:
        process.terminate()
        await process.wait()
