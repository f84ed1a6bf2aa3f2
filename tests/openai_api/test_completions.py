"""Chat completions by OpenAI's own library, against a whole house."""

from __future__ import annotations

import asyncio
import base64
from typing import TYPE_CHECKING

import openai
import pytest

from agent.events import TextDelta
from agent.messages import Failure, ToolCall
from agent.models.scripted import Stall
from tests.openai_api.conftest import ApiVillage, until

if TYPE_CHECKING:
    from pathlib import Path

PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")


async def test_a_question_is_answered_with_what_it_cost(tmp_path: Path) -> None:
    village = ApiVillage(tmp_path)
    village.model.then("It is under the blue pot.")
    async with village.served() as served:
        answer = await served.ask("Where is the key?")
        choice = answer.choices[0]
        assert (choice.message.role, choice.message.content, choice.finish_reason) == (
            "assistant",
            "It is under the blue pot.",
            "stop",
        )
        assert (answer.object, answer.model) == ("chat.completion", "homebody")
        assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens > 0


async def test_a_stream_has_the_text_as_it_is_written_and_usage_where_asked(tmp_path: Path) -> None:
    village, go_on = ApiVillage(tmp_path), asyncio.Event()
    village.model.then([TextDelta("Under "), TextDelta("the "), Stall(go_on), TextDelta("pot.")])
    async with village.served() as served:
        stream = await served.ask("Where?", stream=True, stream_options={"include_usage": True})
        texts, usage, finish = [], None, None
        async for chunk in stream:
            for choice in chunk.choices:
                texts.append(choice.delta.content or "")
                finish = choice.finish_reason or finish
            if "".join(texts) == "Under the":  # before the model has finished
                go_on.set()
            usage = chunk.usage or usage
        assert ("".join(texts), finish) == ("Under the pot.", "stop")
        assert usage is not None
        assert usage.completion_tokens > 0


async def test_what_an_agent_does_is_told_as_reasoning(tmp_path: Path) -> None:
    village = ApiVillage(tmp_path)
    village.model.then(
        [TextDelta("Let me look."), ToolCall(id="c1", name="read", arguments={"path": "notes.md"})], "Nothing there."
    )
    async with village.served() as served:
        stream = await served.ask("Look it up", stream=True)
        deltas = [choice.delta async for chunk in stream for choice in chunk.choices]
        reasoning = "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas)
        text = "".join(delta.content or "" for delta in deltas)
        assert "read notes.md" in reasoning
        assert text.endswith("Nothing there.")
        assert text.count("Nothing there.") == 1
    village.model.then([ToolCall(id="c2", name="read", arguments={"path": "notes.md"})], "Still nothing.")
    async with village.served() as served:
        whole = await served.ask("Again")
        assert whole.choices[0].message.content == "Still nothing."
        assert "read notes.md" in whole.choices[0].message.reasoning_content


async def test_only_the_last_message_is_new_and_the_gateway_keeps_the_history(tmp_path: Path) -> None:
    village = ApiVillage(tmp_path)
    village.model.reply_with(lambda request: f"answer {len(village.model.requests)}")
    async with village.served() as served:
        client = served.client()
        await served.ask("The key is blue.", client)
        history = [
            {"role": "user", "content": "The key is blue."},
            {"role": "assistant", "content": "Invented by the program."},
            {"role": "user", "content": "What colour?"},
        ]
        await served.ask("", client, messages=history)
        said = [message.text for message in village.model.requests[-1].messages]
        assert sum("The key is blue." in text for text in said) == 1
        assert any("answer 1" in text for text in said)
        assert not any("Invented" in text for text in said)


async def test_sessions_are_the_tokens_and_those_that_user_names(tmp_path: Path) -> None:
    village = ApiVillage(tmp_path)
    village.model.reply_with(lambda _: "ok")
    async with village.served() as served:
        app, other = served.client(served.token("app")), served.client(served.token("other"))
        for client, more in ((app, {}), (other, {}), (app, {"user": "kitchen"}), (app, {"user": "Küche / 2"})):
            await served.ask("hello", client, **more)
        keys = {record.key for record in served.house.agents["main"].store.all()}
        ids = {one.name: one.id for one in served.tokens.all()}
        assert {f"agent:main:api:{ids['app']}", f"agent:main:api:{ids['other']}"} <= keys
        assert f"agent:main:api:{ids['app']}:kitchen" in keys
        assert len(keys) == 4
        assert all(served.house.router.audience(key).kind == "owner" for key in keys)


async def test_system_messages_are_context_and_a_guests_are_fenced(tmp_path: Path) -> None:
    village = ApiVillage(tmp_path)
    village.model.reply_with(lambda _: "ok")
    messages = [{"role": "system", "content": "Answer in French."}, {"role": "user", "content": "Hello"}]
    async with village.served() as served:
        await served.ask("", messages=messages)
        shown = village.model.requests[-1].messages[-1].text
        assert "[The program through which this came says]\nAnswer in French." in shown
        assert shown.endswith("[The message]\nHello")
        await served.ask("", served.client(served.token("guest", guest="eve")), messages=messages)
        shown = village.model.requests[-1].messages[-1].text
        before, _, after = shown.partition("Answer in French.")
        assert "<untrusted " in before.splitlines()[-1]
        assert 'from="person:eve"' in before
        assert "</untrusted " in after


async def test_pictures_and_files_come_by_the_way_of_all_files(tmp_path: Path) -> None:
    village = ApiVillage(tmp_path)
    village.model.reply_with(lambda _: "seen")
    url = "data:image/png;base64," + base64.b64encode(PNG).decode()
    text = "data:text/plain;base64," + base64.b64encode(b"milk, bread").decode()
    content = [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": url}},
        {"type": "file", "file": {"filename": "list.txt", "file_data": text}},
    ]
    async with village.served() as served:
        await served.ask("", messages=[{"role": "user", "content": content}])
        last = village.model.requests[-1].messages[-1]
        assert any(type(part).__name__ == "Image" for part in last.content)
        assert "milk, bread" in last.text
        assert "list.txt" in last.text
        assert len(list((village.workspace / "inbox").iterdir())) == 2
        await until(lambda: not list((served.state / "api-files").iterdir()))


async def test_the_same_idempotency_key_is_one_turn(tmp_path: Path) -> None:
    village, go_on = ApiVillage(tmp_path), asyncio.Event()
    village.model.then([TextDelta("slow "), Stall(go_on), TextDelta("answer")])
    key = {"Idempotency-Key": "one"}
    async with village.served() as served:
        first, second = (asyncio.ensure_future(served.ask("Do it", extra_headers=key)) for _ in range(2))
        await until(lambda: served.house.api.channel.waiting == 2)
        go_on.set()
        answers = [(await one).choices[0].message.content for one in (first, second)]
        assert answers == ["slow answer"] * 2
        later = await served.ask("Do it", extra_headers=key)
        assert later.choices[0].message.content == "slow answer"
        assert (await first).id == later.id
        assert later.usage == (await first).usage == (await second).usage
        assert later.usage.total_tokens > 0
        with pytest.raises(openai.BadRequestError, match="another request"):
            await served.ask("Do something else", extra_headers=key)
    async with village.served() as served:
        later = await served.ask("Do it", extra_headers=key)
        assert later.choices[0].message.content == "slow answer"
        assert later.usage.total_tokens == 0  # it is kept while the gateway runs
    assert sum(not request.background for request in village.model.requests) == 1


async def test_who_goes_away_ends_the_stream_and_not_the_turn(tmp_path: Path) -> None:
    village, go_on = ApiVillage(tmp_path), asyncio.Event()
    village.model.then([TextDelta("I write "), Stall(go_on), TextDelta("to the end.")], "next")
    key = {"Idempotency-Key": "one"}
    async with village.served() as served:
        stream = await served.ask("Write", stream=True, extra_headers=key)
        async for chunk in stream:
            if chunk.choices and chunk.choices[0].delta.content:
                break
        await stream.close()
        await until(lambda: served.house.api.channel.waiting == 0)
        go_on.set()
        await served.house.lanes.quiet()
        again = await served.ask("Write", stream=True, extra_headers=key)
        text = "".join([choice.delta.content or "" async for chunk in again for choice in chunk.choices])
        assert text == "I write to the end."
        following = await served.ask("And then?")
        assert following.choices[0].message.content == "next"


async def test_a_command_is_a_command(tmp_path: Path) -> None:
    village = ApiVillage(tmp_path)
    village.model.reply_with(lambda _: "ok")
    async with village.served() as served:
        await served.ask("hello")
        status = await served.ask("/status")
        assert "agent:main:api:gateway" in status.choices[0].message.content
        fresh = await served.ask("/new", extra_headers={"Idempotency-Key": "n"})
        assert fresh.choices[0].message.content
        again = await served.ask("/new", extra_headers={"Idempotency-Key": "n"})
        assert again.choices[0].message.content == fresh.choices[0].message.content


async def test_an_answer_that_was_stopped_tells_that_it_is_cut(tmp_path: Path) -> None:
    village = ApiVillage(tmp_path)
    village.model.then([TextDelta("Half of "), TextDelta("it"), Stall(asyncio.Event())])
    key = {"Idempotency-Key": "one"}
    async with village.served() as served:
        stream = await served.ask("Write", stream=True, extra_headers=key)
        whole = asyncio.ensure_future(served.ask("Write", extra_headers=key))
        reasons, stopping = [], None
        async for chunk in stream:
            for choice in chunk.choices:
                reasons.append(choice.finish_reason)
                if choice.delta.content and stopping is None:
                    await until(lambda: served.house.api.channel.waiting == 2)
                    stopping = asyncio.ensure_future(served.ask("/stop"))
        assert stopping is not None
        assert (await stopping).choices[0].finish_reason == "stop"
        assert [one for one in reasons if one] == ["length"]
        assert (await whole).choices[0].finish_reason == "length"
    async with village.served() as served:
        again = await served.ask("Write", extra_headers=key)
        assert again.choices[0].finish_reason == "length"


async def test_a_failed_turn_is_an_error(tmp_path: Path) -> None:
    village = ApiVillage(tmp_path)
    village.model.reply_with(lambda _: Failure(kind="auth", message="the key was rejected"))
    async with village.served() as served:
        with pytest.raises(openai.InternalServerError) as raised:
            await served.ask("hello")
        assert raised.value.code == "turn_failed"
        stream = await served.ask("hello", stream=True)
        with pytest.raises(openai.APIError):
            async for _ in stream:
                pass


async def test_models_are_the_agents(tmp_path: Path) -> None:
    village = ApiVillage(tmp_path)
    async with village.served() as served:
        client = served.client()
        assert [one.id async for one in client.models.list()] == ["homebody", "homebody/main"]
        assert (await client.models.retrieve("homebody/main")).owned_by == "homebody"
        with pytest.raises(openai.NotFoundError):
            await client.models.retrieve("gpt-4o")
        with pytest.raises(openai.NotFoundError) as raised:
            await served.ask("hello", model="homebody/other")
        assert raised.value.code == "model_not_found"


async def test_what_a_library_repeats_by_itself_is_one_turn(tmp_path: Path) -> None:
    village, go_on = ApiVillage(tmp_path), asyncio.Event()
    village.model.then([TextDelta("slow "), Stall(go_on), TextDelta("answer")], "another")
    async with village.served() as served:
        hasty = served.client(max_retries=3, timeout=0.5)
        with pytest.raises(openai.APITimeoutError):  # each attempt goes away, and the next one says that it is a repeat
            await served.ask("Do it", hasty)
        patient = asyncio.ensure_future(served.ask("Do it", extra_headers={"x-stainless-retry-count": "1"}))
        await until(lambda: served.house.api.channel.waiting == 1)
        go_on.set()
        assert (await patient).choices[0].message.content == "slow answer"
        again = await served.ask("Do it")  # a person who says it again means it again
        assert again.choices[0].message.content == "another"


async def test_messages_that_come_during_a_turn_are_all_answered(tmp_path: Path) -> None:
    for mode in ("steer", "collect", "followup", "interrupt"):
        village, go_on = ApiVillage(tmp_path / mode, messages={"queue": {"mode": mode, "debounceMs": 0}}), asyncio.Event()
        village.model.then([TextDelta("first "), Stall(go_on), TextDelta("done")])
        village.model.reply_with(lambda _: "later")
        async with village.served() as served:
            first = asyncio.ensure_future(served.ask("one"))
            await until(lambda: len(village.model.requests) == 1)  # noqa: B023
            others = [asyncio.ensure_future(served.ask(text)) for text in ("two", "three")]
            await until(lambda: served.house.api.channel.waiting == 3 or first.done())  # noqa: B023
            go_on.set()
            answers = await asyncio.gather(first, *others, return_exceptions=True)
            for answer in answers[1:]:
                assert not isinstance(answer, BaseException), (mode, answer)
                assert answer.choices[0].message.content in {"first done", "later"}, mode
