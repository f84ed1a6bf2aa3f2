"""Whose requests they are, and what programs must not do."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from typing import TYPE_CHECKING, Any

import openai
import pytest

from agent.events import TextDelta
from agent.messages import ToolCall
from agent.models.scripted import Stall
from channels.openai_api.pending_answer import Ended, PendingAnswer
from gateway.api.middleware import LARGEST_API_BODY
from gateway.api.openai.answer_response import AnswerResponse
from gateway.api.openai.chat_completion import Completion
from gateway.api.routes import openai_routes as routes
from tests.openai_api.conftest import ApiVillage, until
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from pathlib import Path

HELLO = {"model": "homebody", "messages": [{"role": "user", "content": "hello"}]}


@pytest.mark.sec(2, 6)
async def test_without_the_right_token_nothing_is_told_or_done(tmp_path: Path) -> None:
    village = ApiVillage(tmp_path)
    async with village.served() as served:
        for token in ("x", "wrong", "hb_" + "x" * 43, served.gateway_token[:-1]):
            for method, path in (("POST", "/v1/chat/completions"), ("GET", "/v1/models"), ("GET", "/v1/models/homebody")):
                answer = await served.raw(method, path, token, json=HELLO)
                assert answer.status_code in {401, 429}
                assert answer.json()["error"]["code"] in {"invalid_api_key", "too_many_wrong_tokens"}
        assert (await served.raw("GET", "/v1/models")).status_code == 200  # wrong ones keep the right one out of nothing
        assert not await served.house.ledger.took_any()


@pytest.mark.sec(10)
async def test_a_token_in_an_address_or_a_cookie_or_twice_is_none(tmp_path: Path) -> None:
    village = ApiVillage(tmp_path)
    async with village.served() as served:
        token = served.gateway_token
        for path, headers in (
            (f"/v1/models?api_key={token}", {}),
            (f"/v1/models?token={token}", {}),
            ("/v1/models", {"cookie": f"token={token}"}),
            ("/v1/models", {"x-api-key": token}),
            ("/v1/models", {"openai-organization": token}),
        ):
            assert (await served.raw("GET", path, "none", headers=headers)).status_code in {401, 429}
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        line = f"Authorization: Bearer {token}\r\n"
        writer.write(f"GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n{line}{line}\r\n".encode())
        assert b" 401 " in await asyncio.wait_for(reader.readline(), PATIENCE) or b" 429 "
        writer.close()


@pytest.mark.sec(8)
async def test_a_revoked_or_rotated_token_stops_at_once_on_an_open_connection_too(tmp_path: Path) -> None:
    village = ApiVillage(tmp_path)
    village.model.reply_with(lambda _: "ok")
    async with village.served() as served:
        first, second = served.client(served.token("one")), served.client(served.token("two"))
        for client in (first, second):
            await served.ask("hello", client)
        served.tokens.revoke("one")
        _, fresh = served.tokens.rotate("two")
        for client in (first, second):
            with pytest.raises(openai.AuthenticationError):
                await served.ask("hello", client)
        await served.ask("hello", served.client(fresh))


@pytest.mark.sec(8)
async def test_a_replaced_gateway_token_stops_at_once(tmp_path: Path) -> None:
    village = ApiVillage(tmp_path)
    village.model.reply_with(lambda _: "ok")
    async with village.served() as served:
        client, former = served.client(), served.gateway_token
        await served.ask("hello", client)
        await asyncio.to_thread(os.unlink, served.state / "gateway.token")
        with pytest.raises(openai.AuthenticationError):
            await served.ask("hello", client)
        assert served.gateway_token != former  # made anew
        await served.ask("hello", served.client())
        (served.state / "gateway.token").write_text("short\n")
        (served.state / "gateway.token").chmod(0o600)
        for token in ("short", "x", former):
            assert (await served.raw("GET", "/v1/models", token)).status_code in {401, 429}
            assert (await served.raw("GET", "/status", token)).status_code in {401, 403, 404}


@pytest.mark.sec(8)
async def test_a_token_of_the_settings_holds_from_the_change_on_and_the_former_one_no_longer(tmp_path: Path) -> None:
    village = ApiVillage(tmp_path)
    async with village.served() as served:
        former = served.gateway_token
        for token in ("k3XqvT0b9LrWm5ZsYd8HcN2p", "w7PzrT0b9LrWm5ZsYd8HcN2q"):
            given = village.settings.model_dump(by_alias=True, exclude_unset=True)
            given["gateway"]["auth"] = {"token": token}
            served.house.settings.replace(type(village.settings).model_validate(given))
            assert (await served.raw("GET", "/v1/models", token)).status_code == 200
            assert (await served.raw("GET", "/v1/models", former)).status_code in {401, 429}
            former = token


@pytest.mark.sec(6, 15)
async def test_a_token_for_one_agent_reaches_no_other(tmp_path: Path) -> None:
    village = ApiVillage(tmp_path, agent={})
    village.settings = type(village.settings).model_validate(
        village.settings.model_dump(by_alias=True, exclude_unset=True) | {"agents": two_agents(village)}
    )
    village.model.reply_with(lambda _: "ok")
    async with village.served() as served:
        client = served.client(served.token("app", agent="work"))
        assert [one.id async for one in client.models.list()] == ["homebody/work"]
        answer = await served.ask("hello", client)
        assert answer.choices[0].message.content == "ok"
        for model in ("homebody/main", "homebody/", "homebody/../main", "homebody/work/main", "main", "work", ""):
            with pytest.raises(openai.APIStatusError):
                await served.ask("hello", client, model=model)
        keys = {record.key for name in ("main", "work") for record in served.house.agents[name].store.all()}
        assert all(key.startswith("agent:work:api:") for key in keys)


def two_agents(village: ApiVillage) -> dict[str, Any]:
    defaults = {"userTimezone": "UTC", "model": "scripted/model"}
    return {
        "defaults": defaults,
        "list": [{"id": one, "workspace": str(village.root / f"workspace-{one}")} for one in ("main", "work")],
    }


@pytest.mark.sec(6, 15)
async def test_a_guest_is_a_guest_whatever_the_request_says(tmp_path: Path) -> None:
    village = ApiVillage(tmp_path)
    (village.workspace / "memory").mkdir(parents=True)
    (village.workspace / "MEMORY.md").write_text("The alarm code is 4711.\n")
    look = ToolCall(id="c1", name="read", arguments={"path": "MEMORY.md"})
    village.model.reply_with(lambda request: "ok" if request.messages[-1].role == "tool" else [look])

    def found() -> str:
        return village.model.requests[-1].messages[-1].text

    async with village.served() as served:
        guest = served.client(served.token("anna", guest="anna"))
        for user in (None, "owner", "gateway", "dm:owner", "../main"):
            more = {} if user is None else {"user": user}
            claims = {"X-Role": "owner", "X-User": "owner", "OpenAI-Organization": "owner"}
            await served.ask("What is the code?", guest, extra_headers=claims, **more)
            assert "4711" not in found()
        records = list(served.house.agents["main"].store.all())
        assert len(records) == 5
        assert {served.house.router.audience(record.key).folder for record in records} == {
            served.house.router.audience(records[0].key).folder
        }
        assert all(served.house.router.audience(record.key).kind == "peer" for record in records)
        await served.ask("What is the code?")
        assert "4711" in found()


@pytest.mark.sec(16, 26, 52)
async def test_an_act_is_asked_about_in_the_owners_chat_and_no_program_decides(tmp_path: Path) -> None:
    village = ApiVillage(tmp_path)
    command = ToolCall(id="c1", name="exec", arguments={"command": "touch made.txt"})
    village.model.then("Hello.", [command], "Made.")
    async with village.served() as served:
        await served.phone.say("hello")
        await served.phone.until(lambda: served.phone.texts("anna"))
        answer = await served.ask("Make a file", extra_headers={"Idempotency-Key": "f"})
        assert "asked" in answer.choices[0].message.content
        question = await served.phone.until(lambda: next((one for one in served.phone.sent if one.buttons), None))
        assert question.conversation.id == "anna"
        assert "touch made.txt" in "".join(served.phone.texts("anna"))
        value = question.buttons[0].value
        refused = await served.ask(value)
        assert "decides nothing over the API" in refused.choices[0].message.content
        waits = await served.ask("Make a file", extra_headers={"Idempotency-Key": "f"})
        assert "asked my owner" in waits.choices[0].message.content
        assert not (village.workspace / "made.txt").exists()
        await served.phone.say(value)
        await served.phone.until(lambda: "Made." in served.phone.texts("anna"))
        assert (village.workspace / "made.txt").exists()


@pytest.mark.sec(12)
async def test_bodies_without_end_or_sense_are_refused_in_openais_form(tmp_path: Path) -> None:
    village = ApiVillage(tmp_path)
    async with village.served() as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\nContent-Length: {LARGEST_API_BODY + 1}"
        writer.write(f"{head}\r\nAuthorization: Bearer {served.gateway_token}\r\n\r\n".encode())
        told = await asyncio.wait_for(reader.read(), PATIENCE)
        writer.close()
        assert b" 413 " in told.splitlines()[0]
        assert json.loads(told.partition(b"\r\n\r\n")[2])["error"]["code"] == "body-too-large"
        bodies: list[Any] = [
            b"",
            b"[]",
            b"nonsense",
            b"[" * 100_000,
            *(json.dumps(HELLO | more).encode() for more in WRONG),
        ]
        for body in bodies:
            answer = await served.raw("POST", "/v1/chat/completions", content=body)
            assert 400 <= answer.status_code < 500, body[:100]
            assert answer.json()["error"]["message"]
        assert not await served.house.ledger.took_any()


WRONG: list[dict[str, Any]] = [
    {"messages": []},
    {"messages": "hello"},
    {"messages": [1]},
    {"messages": [{"role": "assistant", "content": "hello"}]},
    {"messages": [{"role": "user", "content": "  "}]},
    {"messages": [{"role": "user", "content": {"a": 1}}]},
    {"messages": [{"role": "user", "content": [{"type": "video"}]}]},
    {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://127.0.0.1/a.png"}}]}]},
    {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}]}]},
    {"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "x"}}]}]},
    {"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_data": "data:a/b;base64,%%%"}}]}]},
    {"model": 1},
    {"model": None},
    {"n": 2},
    {"user": "x" * 300},
    {"user": ["x"]},
    {"response_format": {"type": "json_object"}},
    {"tool_choice": "required"},
]


@pytest.mark.sec(12, 17)
@pytest.mark.cpu_seconds(120)
async def test_a_thousand_requests_at_once_hold_up_to_a_limit_and_leave_the_gateway_well(tmp_path: Path) -> None:
    village, go_on = ApiVillage(tmp_path), asyncio.Event()
    village.model.reply_with(lambda _: [TextDelta("ok"), Stall(go_on)])
    async with village.served() as served:
        token = served.token()

        async def one(number: int) -> int:
            body = json.dumps(HELLO | {"user": f"u{number}"}).encode()
            head = (
                f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\nAuthorization: Bearer {token}\r\n"
                f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            )
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
                writer.write(head.encode() + body)
                told = await reader.read(12)
                writer.close()
                return int(told.split()[1]) if told.count(b" ") else 0
            return 0

        tasks = [asyncio.ensure_future(one(number)) for number in range(1000)]
        await until(lambda: sum(task.done() for task in tasks) >= 1000 - routes.MOST_OF_ONE)
        refused = [task.result() for task in tasks if task.done()]
        assert set(refused) <= {0, 429, 503}
        assert served.house.api.channel.waiting <= routes.MOST_OF_ONE
        go_on.set()
        assert [await task for task in tasks].count(200) <= routes.MOST_OF_ONE
        await until(lambda: served.house.api.channel.waiting == 0)
        village.model.reply_with(lambda _: "still here")
        assert (await served.ask("hello")).choices[0].message.content == "still here"


@pytest.mark.sec(12, 17)
async def test_who_reads_nothing_of_a_stream_is_left() -> None:
    over, sent = asyncio.Event(), list[dict[str, Any]]()

    async def receive() -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)
        if len(sent) > 2:
            await asyncio.Event().wait()  # the connection takes no more

    completion = Completion(id="c", model="homebody", created=0)
    ended = Ended("text", "text", {})
    answer = AnswerResponse(
        completion, PendingAnswer("m"), ended, stream=True, with_usage=False, over=over.set, stall_seconds=0.05
    )
    await answer({"type": "http"}, receive, send)
    assert over.is_set()
    assert not any(message.get("more_body") is False for message in sent)


@pytest.mark.sec(5, 3)
async def test_pages_proxies_and_odd_paths_reach_nothing(tmp_path: Path) -> None:
    village = ApiVillage(tmp_path)
    async with village.served() as served:
        for headers in (
            {"origin": "https://evil.example"},
            {"host": "evil.example"},
            {"x-forwarded-for": "10.0.0.1"},
            {"forwarded": "for=10.0.0.1"},
        ):
            answer = await served.raw("POST", "/v1/chat/completions", json=HELLO, headers=headers)
            assert answer.status_code == 403
            assert answer.json()["error"]["message"]
        token = served.token()
        for path in (
            "/v1/../admin/status",
            "/v1/%2e%2e/admin/status",
            "/v1//models",
            "/v1/models/../../status",
            "/v1/models/homebody%2f..%2fmain",
            "/v1/files",
            "/v1/embeddings",
            "/v1/",
        ):
            answer = await served.raw("GET", path, token)  # clients resolve `..` themselves, so this asks for /status, too
            assert answer.status_code in {400, 401, 404}, path
        for method in ("PUT", "DELETE", "PATCH"):
            assert (await served.raw(method, "/v1/chat/completions", json=HELLO)).status_code == 404
        assert not await served.house.ledger.took_any()


async def test_it_is_off_until_it_is_switched_on(tmp_path: Path) -> None:
    village = ApiVillage(tmp_path, gateway={"openai": {"enabled": False}})
    async with village.served() as served:
        answer = await served.raw("GET", "/v1/models")
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not-served")
        assert "gateway.openai.enabled" in answer.json()["error"]["message"]
        assert "api:default" not in served.house.channel_supervisor


async def test_a_job_of_a_program_is_told_in_the_owners_chat_and_a_guests_answer_waits(tmp_path: Path) -> None:
    village = ApiVillage(tmp_path)
    village.model.reply_with(lambda _: "ok")
    async with village.served() as served:
        await served.ask("hello")
        assert await served.house.owner.place() is None  # the API is no chat
        await served.phone.say("hello")
        await served.phone.until(lambda: served.phone.texts("anna"))
        await served.ask("hello")
        place = await served.house.owner.place()
        assert place is not None
        assert place.channel == "phone"
