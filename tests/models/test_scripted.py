"""The model that follows a script."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from agent.errors import ScriptExhausted
from agent.events import TextDelta, ThinkingDelta
from agent.messages import Failure, Text, Thinking, ToolCall, Usage
from agent.models.scripted import Answer, ScriptedModel, Stall
from tests.models.conversation import READ, ask, assistant, call, hear, shown, user

if TYPE_CHECKING:
    from agent.models.protocol import Request

REQUEST = ask(user("hello"), tools=(READ,))


async def test_text_is_streamed_word_by_word_and_is_the_answer() -> None:
    deltas, answer = await hear(ScriptedModel(["Good day,  to you\n"]), REQUEST)
    assert shown(deltas) == answer.text == "Good day,  to you\n"
    assert len(deltas) == 4
    assert (answer.stop, answer.model) == ("end", "scripted/model")


async def test_deltas_and_calls_become_blocks_in_their_order() -> None:
    parts = [ThinkingDelta("h"), ThinkingDelta("m"), TextDelta("Let me "), TextDelta("look."), call()]
    deltas, answer = await hear(ScriptedModel([parts]), REQUEST)
    assert answer.content == (Thinking(text="hm"), Text(text="Let me look."), call())
    assert answer.stop == "tools"
    assert len(deltas) == 4


async def test_a_whole_message_is_shown_before_it_comes() -> None:
    given = assistant("Yes.", ToolCall(id="1", name="read", arguments={}))
    deltas, answer = await hear(ScriptedModel([given]), REQUEST)
    assert shown(deltas) == "Yes."
    assert answer.content == given.content


async def test_usage_is_estimated_unless_it_is_given() -> None:
    told = Usage(input=7, output=8, cost=1.0)
    model = ScriptedModel(["ok", replace(assistant("ok"), usage=told)])
    answers = [(await hear(model, REQUEST))[1] for _ in range(2)]
    assert answers[0].usage is not None
    assert answers[0].usage.input > 10
    assert answers[0].usage.cost is None
    assert answers[1].usage == told


@pytest.mark.parametrize(("kind", "stop"), [("network", "error"), ("overflow", "overflow")])
async def test_a_failure_after_deltas_is_a_cut_stream(kind: str, stop: str) -> None:
    failure = Failure(kind=kind, message="no")  # type: ignore[arg-type]  # one of the kinds
    deltas, answer = await hear(ScriptedModel([[TextDelta("half"), failure]]), REQUEST)
    assert shown(deltas) == "half"
    assert (answer.failure, answer.stop, answer.content, answer.usage) == (failure, stop, (), None)


async def test_a_stall_lasts_until_it_is_released() -> None:
    released = asyncio.Event()
    task = asyncio.ensure_future(hear(ScriptedModel([[TextDelta("a"), Stall(released), TextDelta("b")]]), REQUEST))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not task.done()
    released.set()
    assert (await task)[1].text == "ab"


async def test_a_function_of_the_request_answers_after_the_queue() -> None:
    def answer(request: Request) -> Answer:
        return f"{len(request.messages)} messages"

    model = ScriptedModel(answer)
    model.then("first")
    texts = [(await hear(model, REQUEST))[1].text for _ in range(3)]
    assert texts == ["first", "1 messages", "1 messages"]
    assert model.requests == [REQUEST] * 3


async def test_the_function_can_be_changed_between_requests() -> None:
    model = ScriptedModel(lambda _: "old")
    model.then("queued")
    model.reply_with(lambda _: "new")
    assert [(await hear(model, REQUEST))[1].text for _ in range(2)] == ["queued", "new"]
    model.reply_with(lambda request: f"{len(request.messages)} messages")
    assert (await hear(model, REQUEST))[1].text == "1 messages"


async def test_a_script_that_is_over_goes_on_with_a_function() -> None:
    model = ScriptedModel(["only"])
    model.reply_with(lambda _: "computed")
    assert [(await hear(model, REQUEST))[1].text for _ in range(2)] == ["only", "computed"]


async def test_asking_once_too_often_is_a_defect() -> None:
    with pytest.raises(ScriptExhausted, match="no answer left"):
        await hear(ScriptedModel([]), REQUEST)


async def test_name_and_sizes_can_be_set_and_closing_is_noted() -> None:
    model = ScriptedModel(name="a/b", window=9, max_output=8)
    assert (model.name, model.window, model.max_output, model.left, model.closed) == ("a/b", 9, 8, 0, False)
    await model.close()
    assert model.closed
