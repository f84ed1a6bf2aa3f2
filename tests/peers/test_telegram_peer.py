"""The peer must be as strict as the real server, or the tests that use it prove nothing."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from tests.peers.telegram import TOKEN, UPDATE_KINDS, TelegramPeer
from tests.peers.telegram_html import Unparsable, parse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ANNA = 42
FAMILY = -1001234567890


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

    async def known(self, **arguments: Any) -> list[dict[str, Any]]:
        """Return the updates of documented kinds that wait; there may be others."""
        return [one for one in (await self.call("getUpdates", **arguments))["result"] if one.keys() & UPDATE_KINDS]

    async def refusal(self, method: str, **arguments: Any) -> str:
        answer = await self.call(method, **arguments)
        return f"{answer['error_code']} {answer['description']}"


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with TelegramPeer(checked=False) as peer, aiohttp.ClientSession() as session:
        yield Client(session, peer)


async def test_an_update_stays_until_a_higher_offset_is_asked_for(client: Client) -> None:
    await client.peer.say(ANNA, "one")
    await client.peer.say(ANNA, "two")
    first = (await client.call("getUpdates"))["result"]
    again = (await client.call("getUpdates"))["result"]
    one, two = [update for update in first if update.keys() & UPDATE_KINDS]
    assert (one["message"]["text"], two["message"]["text"]) == ("one", "two")
    assert first == again
    rest = (await client.call("getUpdates", offset=one["update_id"] + 1))["result"]
    assert rest == first[first.index(one) + 1 :]
    assert (await client.call("getUpdates", offset=two["update_id"] + 1))["result"] == []


async def test_a_long_poll_waits_for_a_message(client: Client) -> None:
    polling = asyncio.ensure_future(client.known(timeout=20))
    await client.peer.until(lambda: client.peer.count("getUpdates") == 1)
    assert not polling.done()
    await client.peer.say(ANNA, "now")
    assert (await polling)[0]["message"]["text"] == "now"


async def test_the_older_of_two_pollers_gets_the_conflict(client: Client) -> None:
    older = asyncio.ensure_future(client.call("getUpdates", timeout=20))
    await client.peer.until(lambda: client.peer.asked)  # it is held: one that is only on its way may arrive second
    await client.call("getUpdates")
    assert (await older)["error_code"] == 409


async def test_kinds_that_were_not_asked_for_are_not_kept(client: Client) -> None:
    await client.call("getUpdates", allowed_updates=["poll"])
    await client.peer.say(ANNA, "unheard")
    assert await client.known() == []


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


async def test_a_group_is_no_place_for_a_draft_and_a_private_chat_shows_it_until_the_message(client: Client) -> None:
    await client.peer.say(ANNA, "hi")
    client.peer.chats.group(FAMILY)
    assert (await client.call("sendMessageDraft", chat_id=ANNA, draft_id=1, text="wor"))["ok"]
    assert "DRAFT_ID_INVALID" in await client.refusal("sendMessageDraft", chat_id=ANNA, draft_id=0, text="x")
    assert "DRAFT_CHAT_INVALID" in await client.refusal("sendMessageDraft", chat_id=FAMILY, draft_id=1, text="x")
    assert client.peer.chats.drafts == {ANNA: ["wor"]}
    await client.call("sendMessage", chat_id=ANNA, text="words")
    assert client.peer.chats.drafts == {}


@pytest.mark.parametrize(
    ("thread", "wording"), [(1, "message thread not found"), (99, "message thread not found"), (8, "TOPIC_CLOSED"), (7, "")]
)
async def test_only_open_topics_can_be_named(client: Client, thread: int, wording: str) -> None:
    client.peer.chats.group(FAMILY, topics=(7, 8))
    client.peer.chats.closed.add((FAMILY, 8))
    answer = await client.call("sendMessage", chat_id=FAMILY, text="x", message_thread_id=thread)
    assert wording in answer.get("description", "")
    assert client.peer.chats.said(FAMILY, 7) == ([] if wording else ["x"])


async def test_typing_may_name_the_general_topic(client: Client) -> None:
    client.peer.chats.group(FAMILY, topics=(7,))
    assert (await client.call("sendChatAction", chat_id=FAMILY, action="typing", message_thread_id=1))["ok"]
    assert "not found" in await client.refusal("sendChatAction", chat_id=FAMILY, action="typing", message_thread_id=9)


async def test_a_group_that_moved_says_where_to(client: Client) -> None:
    client.peer.chats.group(-5, kind="group")
    await client.peer.become_supergroup(-5, FAMILY)
    answer = await client.call("sendMessage", chat_id=-5, text="x")
    assert answer["parameters"] == {"migrate_to_chat_id": FAMILY}
    assert (await client.call("sendMessage", chat_id=FAMILY, text="x"))["ok"]
    told = [one["message"] for one in await client.known()]
    assert [one.get("migrate_to_chat_id", one.get("migrate_from_chat_id")) for one in told] == [FAMILY, -5]


@pytest.mark.parametrize(
    ("button", "wording"),
    [
        ({"text": "x", "callback_data": "é" * 33}, "BUTTON_DATA_INVALID"),
        ({"text": "x", "callback_data": ""}, "BUTTON_DATA_INVALID"),
        ({"text": "", "callback_data": "x"}, "can't parse inline keyboard button"),
        ({"text": "x", "callback_data": "é" * 32}, ""),
    ],
)
async def test_buttons_are_checked(client: Client, button: dict[str, str], wording: str) -> None:
    await client.peer.say(ANNA, "hi")
    markup = {"inline_keyboard": [[button]]}
    answer = await client.call("sendMessage", chat_id=ANNA, text="x", reply_markup=markup)
    assert wording in answer.get("description", "")
    assert answer["ok"] != bool(wording)


async def test_a_press_can_be_answered_once_and_buttons_be_taken_off_once(client: Client) -> None:
    await client.peer.say(ANNA, "hi")
    markup = {"inline_keyboard": [[{"text": "Go", "callback_data": "go"}]]}
    sent = (await client.call("sendMessage", chat_id=ANNA, text="x", reply_markup=markup))["result"]["message_id"]
    await client.peer.press(ANNA, ANNA, "Go", wait=False)
    query = (await client.call("getUpdates"))["result"][-1]["callback_query"]
    assert (query["data"], query["message"]["message_id"]) == ("go", sent)
    assert (await client.call("answerCallbackQuery", callback_query_id=query["id"]))["ok"]
    assert "query is too old" in await client.refusal("answerCallbackQuery", callback_query_id=query["id"])
    assert (await client.call("editMessageReplyMarkup", chat_id=ANNA, message_id=sent))["ok"]
    assert "not modified" in await client.refusal("editMessageReplyMarkup", chat_id=ANNA, message_id=sent)


@pytest.mark.parametrize(
    ("reaction", "wording"),
    [
        ([{"type": "emoji", "emoji": "🦊"}], "REACTION_INVALID"),
        ([{"type": "emoji", "emoji": "👍"}, {"type": "emoji", "emoji": "🔥"}], "REACTION_INVALID"),
        ([{"type": "emoji", "emoji": "👍"}], ""),
        ([], ""),
    ],
)
async def test_bots_may_put_one_emoji_of_a_list_under_a_message(
    client: Client, reaction: list[dict[str, str]], wording: str
) -> None:
    message = await client.peer.say(ANNA, "hi")
    answer = await client.call("setMessageReaction", chat_id=ANNA, message_id=message, reaction=reaction)
    assert wording in answer.get("description", "")
    assert client.peer.chats.reactions.get((ANNA, message), []) == ([] if wording else [one["emoji"] for one in reaction])


async def upload(client: Client, kind: str, content: bytes, **fields: str) -> dict[str, Any]:
    form = aiohttp.FormData({"chat_id": str(ANNA), **fields})
    form.add_field(kind, content, filename="x.bin", content_type="application/octet-stream")
    async with client.session.post(f"{client.peer.root}/bot{TOKEN}/send{kind.capitalize()}", data=form) as response:
        answer: dict[str, Any] = await response.json()
        return answer


@pytest.mark.parametrize(
    ("kind", "content", "fields", "wording"),
    [
        ("document", b"", {}, "file must be non-empty"),
        ("document", b"x" * 101, {}, "Request Entity Too Large"),
        ("document", b"x", {"caption": "x" * 1025}, "message caption is too long"),
        ("photo", b"no picture", {}, "IMAGE_PROCESS_FAILED"),
        ("photo", b"\xff\xd8\xff", {"caption": "x" * 1024}, ""),
        ("voice", b"OggS", {}, "VOICE_MESSAGES_FORBIDDEN"),
    ],
)
async def test_uploads_are_checked(client: Client, kind: str, content: bytes, fields: dict[str, str], wording: str) -> None:
    await client.peer.say(ANNA, "hi")
    client.peer.chats.upload_limit = 100 if content.startswith(b"xx") else 10_000
    client.peer.chats.no_voice.add(ANNA)
    answer = await upload(client, kind, content, **fields)
    assert wording in answer.get("description", "")
    assert len(client.peer.chats.received) == (0 if wording else 1)


async def test_a_file_is_served_whole_to_who_has_the_token(client: Client) -> None:
    await client.peer.attach(ANNA, "document", b"abc" * 100_000, "a.txt", "text/plain")
    handle = next(iter(client.peer.chats.files))
    path = (await client.call("getFile", file_id=handle))["result"]["file_path"]
    async with client.session.get(f"{client.peer.root}/file/bot{TOKEN}/{path}") as answer:
        assert await answer.read() == b"abc" * 100_000
    async with client.session.get(f"{client.peer.root}/file/bot1000:x/{path}") as answer:
        assert answer.status == 401
    client.peer.chats.download_limit = 1000
    assert "file is too big" in await client.refusal("getFile", file_id=handle)
    assert "wrong file_id" in await client.refusal("getFile", file_id="x")


async def test_menus_are_kept_by_scope(client: Client) -> None:
    commands = [{"command": "help", "description": "x"}]
    await client.call("setMyCommands", commands=commands, scope={"type": "all_group_chats"})
    [kept] = (await client.call("getMyCommands", scope={"type": "all_group_chats"}))["result"]
    assert {name: kept[name] for name in commands[0]} == commands[0]
    assert (await client.call("getMyCommands"))["result"] == []
    assert "SCOPE_INVALID" in await client.refusal("getMyCommands", scope={"type": "everybody"})


@pytest.mark.parametrize(
    ("arguments", "wording"),
    [
        ({"url": "http://127.0.0.1:1/x"}, "HTTPS URL must be provided"),
        ({"url": "https://a.example:8080/x"}, "only on ports"),
        ({"url": "https://a.example/x", "secret_token": "no spaces"}, "unallowed characters"),
    ],
)
async def test_a_webhook_is_checked(client: Client, arguments: dict[str, str], wording: str) -> None:
    assert wording in await client.refusal("setWebhook", **arguments)
    assert (await client.call("getWebhookInfo"))["result"]["url"] == ""


async def test_a_webhook_and_polling_exclude_each_other(client: Client) -> None:
    assert (await client.call("setWebhook", url="https://a.example/x"))["ok"]
    assert "can't use getUpdates" in await client.refusal("getUpdates")
    await client.call("deleteWebhook")
    assert (await client.call("getUpdates"))["ok"]


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
