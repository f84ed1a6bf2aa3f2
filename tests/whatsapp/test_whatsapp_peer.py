"""The peer refuses what Meta's documentation does not allow, and takes what it does."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest

from tests.peers.whatsapp_state import APP_SECRET, NUMBER_ID, TOKEN, Template
from tests.whatsapp.line import ANNA, calm

LONG = "x" * 4097
TEXT: dict[str, Any] = {"messaging_product": "whatsapp", "recipient_type": "individual", "to": ANNA, "type": "text"}
TEXT["text"] = {"body": "hello"}


def interactive(**changed: Any) -> dict[str, Any]:
    button = {"type": "reply", "reply": {"id": "1", "title": "Yes"}}
    content = {"type": "button", "body": {"text": "?"}, "action": {"buttons": [button]}, **changed}
    return {**TEXT, "type": "interactive", "interactive": content} | {"text": None}


def listed(rows: int, title: str = "row") -> dict[str, Any]:
    found = [{"id": str(number), "title": f"{title}{number}"} for number in range(rows)]
    return interactive(type="list", action={"button": "Choose", "sections": [{"rows": found}]})


def buttons(*titles: str) -> dict[str, Any]:
    replies = [{"type": "reply", "reply": {"id": str(number), "title": title}} for number, title in enumerate(titles)]
    return interactive(action={"buttons": replies})


def template(name: str = "hello", code: str = "en", values: int = 0) -> dict[str, Any]:
    parameters = [{"type": "text", "text": "x"}] * values
    body = {"name": name, "language": {"code": code}, "components": [{"type": "body", "parameters": parameters}]}
    return {**TEXT, "type": "template", "template": body, "text": None}


WRONG: list[tuple[str, dict[str, Any], int]] = [
    ("no product", {**TEXT, "messaging_product": None}, 100),
    ("unknown field", {**TEXT, "thread": "1"}, 100),
    ("unknown type", {**TEXT, "type": "poll"}, 100),
    ("no content", {**TEXT, "text": None}, 131008),
    ("plus sign", {**TEXT, "to": f"+{ANNA}"}, 131009),
    ("user id in to", {**TEXT, "to": "DE.1349120865"}, 131009),
    ("nobody", {**TEXT, "to": None}, 131008),
    ("to and recipient", {**TEXT, "recipient": "DE.1349120865"}, 131008),
    ("no user id", {**TEXT, "to": None, "recipient": ANNA}, 131009),
    ("long key", {**TEXT, "biz_opaque_callback_data": "k" * 513}, 100),
    ("unknown message", {**TEXT, "context": {"message_id": "wamid.NO"}}, 131009),
    ("empty", {**TEXT, "text": {"body": ""}}, 131009),
    ("too long", {**TEXT, "text": {"body": LONG}}, 131009),
    ("format", {**TEXT, "text": {"body": "x", "parse_mode": "HTML"}}, 100),
    ("four buttons", buttons("a", "b", "c", "d"), 131009),
    ("long button", buttons("x" * 21), 131009),
    ("like buttons", buttons("a", "a"), 131009),
    ("long question", interactive(body={"text": "x" * 1025}), 131009),
    ("eleven rows", listed(11), 131009),
    ("long row", listed(1, "x" * 24), 131009),
    ("unknown file", {**TEXT, "type": "image", "image": {"id": "1"}, "text": None}, 131009),
    ("unknown template", template("bye"), 132001),
    ("other language", template(code="de"), 132001),
    ("parameters", template(values=2), 132000),
    ("paused", template("paused"), 132015),
    ("other window", {**TEXT, "to": "4930999888777"}, 131047),
    ("reaction to nothing", {**TEXT, "type": "reaction", "reaction": {"message_id": "x", "emoji": "👍"}, "text": None}, 131009),
    ("read nothing", {"messaging_product": "whatsapp", "status": "read", "message_id": "x"}, 131009),
]
RIGHT = [
    ("text", TEXT),
    ("key", {**TEXT, "biz_opaque_callback_data": "k" * 512}),
    ("three buttons", buttons("a", "b", "c")),
    ("ten rows", listed(10)),
    ("template", template()),
    ("template to somebody who has not written", {**template(), "to": "4930999888777"}),
]


async def posted(peer: Any, body: dict[str, Any], token: str = TOKEN, where: str = f"v25.0/{NUMBER_ID}") -> dict[str, Any]:
    given = {key: value for key, value in body.items() if value is not None}
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{peer.root}/{where}/messages", json=given, headers=headers) as told,
    ):
        return await told.json()


async def test_what_is_wrong_is_refused_with_metas_code_and_what_is_right_is_taken() -> None:
    async with calm() as peer:
        peer.home.templates |= {"hello": Template("en"), "paused": Template("en", paused=True)}
        await peer.say(ANNA, "hi")
        for name, body, code in WRONG:
            told = await posted(peer, body)
            assert told.get("error", {}).get("code") == code, f"{name}: {told}"
        for name, body in RIGHT:
            assert "messages" in await posted(peer, body), name
        assert (await posted(peer, TEXT, "other"))["error"]["code"] == 190
        assert (await posted(peer, TEXT, where="v25.0/1"))["error"]["error_subcode"] == 33
        assert (await posted(peer, TEXT, where=f"v1.0/{NUMBER_ID}"))["error"]["code"] == 2635


@pytest.mark.parametrize("answer", [500, 200])
async def test_a_call_is_repeated_until_it_is_answered_with_200(answer: int) -> None:
    got: list[tuple[dict[str, str], bytes]] = []

    async def hook(_: str, __: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        got.append((headers, body))
        return (answer if len(got) < 3 else 200), b""

    async with calm() as peer:
        peer.call_at(hook)
        await peer.say(ANNA, "hi")
        await peer.until(lambda: not peer.hooks.waiting)
    assert len(got) == (1 if answer == 200 else 3)
    assert len({body for _, body in got}) == 1
    assert all(headers["x-hub-signature-256"].startswith("sha256=") for headers, _ in got)
    assert APP_SECRET not in str(got)
