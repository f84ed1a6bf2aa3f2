"""The peer must be as strict as the real server, or the tests that use it prove nothing."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from tests.patience import PATIENCE
from tests.peers.discord import BOT, FORUM, TOKEN, DiscordPeer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ANNA = "700000000000000042"
GUILD = "800000000000000007"
EVERYTHING = 1 | 1 << 9 | 1 << 10 | 1 << 12 | 1 << 13 | 1 << 15
BUTTON = {"type": 2, "style": 2, "label": "Yes", "custom_id": "y"}


class Client:
    """A client without any manners of its own."""

    def __init__(self, session: aiohttp.ClientSession, peer: DiscordPeer) -> None:
        self.session = session
        self.peer = peer

    async def call(self, method: str, path: str, body: Any = None, token: str = TOKEN) -> tuple[int, Any]:
        headers = {"Authorization": f"Bot {token}"}
        async with self.session.request(method, f"{self.peer.root}/{path}", json=body, headers=headers) as answer:
            assert answer.status == 204 or answer.headers["Content-Type"] == "application/json"
            return answer.status, None if answer.status == 204 else await answer.json()

    async def refusal(self, method: str, path: str, body: Any = None) -> tuple[int, int]:
        status, answer = await self.call(method, path, body)
        return status, answer["code"]

    async def post(self, **body: Any) -> tuple[int, Any]:
        return await self.call("POST", f"channels/{self.peer.dm(ANNA).id}/messages", body)

    async def refused(self, **body: Any) -> tuple[int, int]:
        return await self.refusal("POST", f"channels/{self.peer.dm(ANNA).id}/messages", body)

    @asynccontextmanager
    async def gateway(self) -> AsyncIterator[Socket]:
        async with self.session.ws_connect(f"{self.peer.gateway}?v=10&encoding=json") as socket:
            assert (await socket.receive_json())["op"] == 10
            yield Socket(socket)

    @asynccontextmanager
    async def identified(self, intents: int = EVERYTHING, token: str = TOKEN) -> AsyncIterator[Socket]:
        async with self.gateway() as socket:
            await socket.say(2, {"token": token, "intents": intents, "properties": {}})
            yield socket


class Socket:
    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket

    async def say(self, op: int, content: Any) -> None:
        await self.socket.send_json({"op": op, "d": content})

    async def next(self, name: str) -> dict[str, Any]:
        """Return the content of the next event of this name."""
        while True:
            frame = await asyncio.wait_for(self.socket.receive_json(), PATIENCE)
            if frame.get("t") == name:
                content: dict[str, Any] = frame["d"]
                return content

    async def closed(self) -> int | None:
        while (frame := await asyncio.wait_for(self.socket.receive(), PATIENCE)).type is aiohttp.WSMsgType.TEXT:
            pass
        assert frame.type is aiohttp.WSMsgType.CLOSE
        return self.socket.close_code


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with DiscordPeer() as peer, aiohttp.ClientSession() as session:
        yield Client(session, peer)


async def test_a_wrong_token_is_refused_by_both_sides(client: Client) -> None:
    assert (await client.call("GET", "users/@me", token="wrong"))[0] == 401
    async with client.identified(token="wrong") as socket:
        assert await socket.closed() == 4004


async def test_an_intent_that_is_off_closes_the_gateway(client: Client) -> None:
    client.peer.message_content_allowed = False
    async with client.identified() as socket:
        assert await socket.closed() == 4014


@pytest.mark.parametrize(("op", "code"), [(3, 4003), (99, 4001)])
async def test_what_is_out_of_turn_closes_the_gateway(client: Client, op: int, code: int) -> None:
    async with client.gateway() as socket:
        await socket.say(op, {})
        assert await socket.closed() == code


async def test_a_heartbeat_is_answered(client: Client) -> None:
    async with client.gateway() as socket:
        await socket.say(1, None)
        assert await socket.socket.receive_json() == {"op": 11, "d": None}


async def test_a_session_is_resumed_with_what_was_missed(client: Client) -> None:
    async with client.identified() as socket:
        session = (await socket.next("READY"))["session_id"]
    await client.peer.say(ANNA, "missed")
    async with client.gateway() as socket:
        await socket.say(6, {"token": TOKEN, "session_id": session, "seq": 1})
        assert (await socket.next("MESSAGE_CREATE"))["content"] == "missed"
        await socket.next("RESUMED")
    async with client.gateway() as socket:
        await socket.say(6, {"token": TOKEN, "session_id": "unknown", "seq": 1})
        assert await socket.socket.receive_json() == {"op": 9, "d": False}


async def test_events_come_only_by_intent_and_content_only_by_its_own(client: Client) -> None:
    hall = client.peer.guild_channel(GUILD)
    async with client.identified(1 | 1 << 9) as socket:
        await socket.next("READY")
        await client.peer.say(ANNA, "in private")
        await client.peer.react(ANNA, await client.peer.say(ANNA, "among people", channel=hall), "👍")
        await client.peer.say(ANNA, "to you", channel=hall, mention=True)
        told = [(await socket.next("MESSAGE_CREATE"))["content"] for _ in range(2)]
    assert told == ["", f"<@{BOT}> to you"]
    [session] = client.peer.sessions.sessions.values()
    assert "MESSAGE_REACTION_ADD" not in [one["t"] for one in session.events]


async def test_a_message_may_be_neither_empty_nor_too_long(client: Client) -> None:
    assert await client.refused(content=" ") == (400, 50006)
    assert await client.refused(content="x" * 2001) == (400, 50035)
    assert (await client.post(content="x" * 2000))[0] == 200


async def test_a_nonce_makes_a_message_once_and_not_longer_than_it_is_remembered(client: Client) -> None:
    _, first = await client.post(content="a", nonce="n", enforce_nonce=True)
    _, again = await client.post(content="a", nonce="n", enforce_nonce=True)
    assert again["id"] == first["id"]
    client.peer.forget_nonces()
    _, other = await client.post(content="a", nonce="n", enforce_nonce=True)
    assert other["id"] != first["id"]
    assert await client.refused(content="a", nonce="x" * 26) == (400, 50035)


async def test_a_reply_to_nothing_is_refused_unless_it_does_not_matter(client: Client) -> None:
    reference = {"message_id": "1"}
    assert await client.refused(content="a", message_reference=reference) == (400, 50035)
    assert (await client.post(content="a", message_reference={**reference, "fail_if_not_exists": False}))[0] == 200


async def test_pings_are_seen_unless_they_are_switched_off(client: Client) -> None:
    await client.post(content="@everyone")
    await client.post(content="quietly", allowed_mentions={"parse": []})
    assert client.peer.pings == ["@everyone"]


@pytest.mark.parametrize(
    "components",
    [
        [{"type": 1, "components": [BUTTON]}] * 6,
        [{"type": 1, "components": []}],
        [{"type": 1, "components": [{**BUTTON, "custom_id": str(number)} for number in range(6)]}],
        [{"type": 1, "components": [BUTTON, BUTTON]}],
        [{"type": 1, "components": [{**BUTTON, "custom_id": "x" * 101}]}],
        [{"type": 1, "components": [{**BUTTON, "label": ""}]}],
        [{"type": 1, "components": [{**BUTTON, "style": 9}]}],
        [BUTTON],
    ],
    ids=["six rows", "no button", "six in a row", "same id", "long id", "no label", "no style", "no row"],
)
async def test_buttons_must_be_what_discord_takes(client: Client, components: Any) -> None:
    assert await client.refused(content="a", components=components) == (400, 50035)


@pytest.mark.parametrize(
    "command",
    [{"name": "Two", "description": "x"}, {"name": "a b", "description": "x"}, {"name": "a", "description": ""}],
    ids=["large letter", "space", "no description"],
)
async def test_commands_must_be_what_discord_takes(client: Client, command: Any) -> None:
    assert await client.refusal("PUT", f"applications/{BOT}/commands", [command]) == (400, 50035)


async def test_an_interaction_is_answered_once_and_in_time(client: Client) -> None:
    await client.call("PUT", f"applications/{BOT}/commands", [{"name": "status", "description": "x"}])
    first, second = await client.peer.choose(ANNA, "status"), await client.peer.choose(ANNA, "status")
    answer = {"type": 4, "data": {"content": "here", "flags": 64}}
    assert await client.refusal("POST", f"interactions/{first.id}/wrong/callback", answer) == (404, 10062)
    assert (await client.call("POST", f"interactions/{first.id}/{first.token}/callback", answer, token=""))[0] == 204
    assert await client.refusal("POST", f"interactions/{first.id}/{first.token}/callback", answer) == (400, 40060)
    second.late = True
    assert await client.refusal("POST", f"interactions/{second.id}/{second.token}/callback", answer) == (404, 10062)
    assert client.peer.whispers == ["here"]


async def test_a_press_may_take_the_buttons_off_and_a_command_may_not(client: Client) -> None:
    _, sent = await client.post(content="a", components=[{"type": 1, "components": [BUTTON]}])
    made = await client.peer.press(ANNA, sent["id"], "Yes")
    change = {"type": 7, "data": {"components": []}}
    assert (await client.call("POST", f"interactions/{made.id}/{made.token}/callback", change))[0] == 204
    assert client.peer.buttons(sent["id"]) == []


async def test_a_file_is_had_for_a_day_and_then_by_its_message(client: Client) -> None:
    said = await client.peer.say(ANNA, "", files=[("a.txt", "text/plain", b"content")])
    place = client.peer.dm(ANNA).id
    message = (await client.call("GET", f"channels/{place}/messages/{said}"))[1]

    async def had(address: str) -> int:
        async with client.session.get(address) as answer:
            return answer.status

    former = message["attachments"][0]["url"]
    assert await had(former) == 200
    assert await had(former.partition("?")[0]) == 404
    client.peer.links.run_out()
    assert await had(former) == 404
    message = (await client.call("GET", f"channels/{place}/messages/{said}"))[1]
    assert await had(message["attachments"][0]["url"]) == 200


async def test_a_file_is_taken_whole_and_up_to_its_limit(client: Client) -> None:
    place = client.peer.dm(ANNA)

    async def sent(content: bytes) -> int:
        form = aiohttp.FormData(quote_fields=False)
        form.add_field("payload_json", json.dumps({"attachments": [{"id": 0, "filename": "a.bin"}]}))
        form.add_field("files[0]", io.BytesIO(content), filename="a.bin", content_type="application/octet-stream")
        address, headers = f"{client.peer.root}/channels/{place.id}/messages", {"Authorization": f"Bot {TOKEN}"}
        async with client.session.post(address, data=form, headers=headers) as answer:
            return answer.status

    assert await sent(b"\x00\r\n--x") == 200
    assert await sent(bytes(10 * 1024 * 1024 + 1)) == 413
    assert client.peer.files(place) == [("a.bin", b"\x00\r\n--x")]


async def test_a_reaction_must_be_an_emoji_and_under_something(client: Client) -> None:
    place, said = client.peer.dm(ANNA).id, await client.peer.say(ANNA, "hello")
    assert await client.refusal("PUT", f"channels/{place}/messages/{said}/reactions/thumbsup/@me") == (400, 10014)
    assert await client.refusal("PUT", f"channels/{place}/messages/1/reactions/👍/@me") == (404, 10008)
    assert (await client.call("PUT", f"channels/{place}/messages/{said}/reactions/👍/@me"))[0] == 204
    assert client.peer.own_reactions(said) == ["👍"]
    assert (await client.call("DELETE", f"channels/{place}/messages/{said}/reactions/👍/@me"))[0] == 204
    assert await client.refusal("DELETE", f"channels/{place}/messages/{said}/reactions/👍/@me") == (404, 10014)


async def test_only_the_author_changes_or_deletes_a_message(client: Client) -> None:
    said = await client.peer.say(ANNA, "hello")
    assert await client.refusal("PATCH", f"channels/{client.peer.dm(ANNA).id}/messages/{said}", {"content": "x"}) == (
        403,
        50005,
    )


async def test_history_comes_newest_first_and_in_pages(client: Client) -> None:
    said = [await client.peer.say(ANNA, str(number)) for number in range(5)]
    place = client.peer.dm(ANNA).id
    _, page = await client.call("GET", f"channels/{place}/messages?limit=2&after={said[0]}")
    assert [one["content"] for one in page] == ["2", "1"]
    assert await client.refusal("GET", f"channels/{place}/messages?limit=101") == (400, 50035)


async def test_a_post_has_the_id_of_its_first_message_and_is_announced_first(client: Client) -> None:
    forum = client.peer.guild_channel(GUILD, kind=FORUM)
    async with client.identified() as socket:
        await socket.next("GUILD_CREATE")
        post = await client.peer.open_thread(forum, first="hello", user=ANNA)
        assert (await socket.next("THREAD_CREATE"))["newly_created"]
        assert (await socket.next("MESSAGE_CREATE"))["id"] == post.id


async def test_who_was_removed_sees_nothing_any_more(client: Client) -> None:
    hall = client.peer.guild_channel(GUILD)
    await client.peer.kick(GUILD)
    assert await client.refusal("GET", f"channels/{hall.id}") == (403, 50001)
    async with client.identified() as socket:
        assert (await socket.next("READY"))["guilds"] == []


async def test_the_limit_of_messages_is_told_in_time(client: Client) -> None:
    client.peer.limit = 1
    assert (await client.post(content="a"))[0] == 200
    status, answer = await client.post(content="b")
    assert (status, 0 < answer["retry_after"] <= 5.001, client.peer.too_many) == (429, True, 1)


@pytest.mark.parametrize(("kind", "arrived"), [("drop_before", []), ("drop_after", ["a"])])
async def test_a_connection_is_cut_before_or_after_the_effect(client: Client, kind: str, arrived: list[str]) -> None:
    client.peer.fault("POST channels/*/messages", kind)
    with pytest.raises(aiohttp.ClientError):
        await client.post(content="a")
    assert client.peer.said(client.peer.dm(ANNA)) == arrived


async def test_it_runs_as_a_process_of_its_own() -> None:
    program = await asyncio.create_subprocess_exec(
        sys.executable, "tests/peers/discord.py", "--port", "0", stdout=asyncio.subprocess.PIPE
    )
    try:
        assert program.stdout is not None
        told = json.loads(await program.stdout.readline())
        control = told["root"].removesuffix("/api/v10") + "/control"
        async with aiohttp.ClientSession() as session:

            async def asked(what: str, **given: Any) -> Any:
                async with session.post(f"{control}/{what}", json=given) as answer:
                    assert answer.status == 200
                    return await answer.json()

            hall = await asked("channel", guild=GUILD)
            await asked("say", user=ANNA, text="hello")
            await asked("say", user=ANNA, text="hello all", channel=hall)
            assert await asked("transcript", user=ANNA) == [["Anna", "hello"]]
            assert await asked("transcript", channel=hall) == [["Anna", "hello all"]]
            await asked("fault", call="GET users/@me", kind="status", code=503)
            headers = {"Authorization": f"Bot {told['token']}"}
            async with session.get(f"{told['root']}/users/@me", headers=headers) as answer:
                assert answer.status == 503
            await asked("cut")
            assert (await asked("state"))["calls"] == ["GET users/@me"]
    finally:
        program.kill()
        await program.wait()
