"""What is sent to OpenAI and compatible servers: valid whatever was said."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from msgspec.structs import replace
from openai.types.chat import completion_create_params
from pydantic import TypeAdapter

from agent.messages import Image, Thinking, ToolCall
from agent.models.adapters.openai_chat import PICTURES, body
from agent.models.protocol import Segment
from tests.models.conversation import READ, ask, assistant, call, requests, result, user
from tests.properties import examples

if TYPE_CHECKING:
    from agent.models.protocol import Request

NAME = "openai/gpt-6.1-terra"
PICTURE = Image(media_type="image/png", data="aGk=")


def translated(request: Request, *, images: bool = True, hosted_by_openai: bool = True, name: str = NAME) -> dict[str, Any]:
    return body(request, model="m", name=name, max_output=4000, images=images, hosted_by_openai=hosted_by_openai)


def drained(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: drained(item) for key, item in value.items()}
    return [drained(item) for item in value] if isinstance(value, Iterable) and not isinstance(value, str) else value


def fault(messages: list[dict[str, Any]]) -> str | None:
    """What OpenAI or the template of a local model would refuse."""
    waiting: list[str] = []
    seen: set[str] = set()
    for place, message in enumerate(messages):
        role = message["role"]
        if role == "tool":
            if not waiting or message["tool_call_id"] != waiting.pop(0):
                return f"message {place} answers no call"
            continue
        if waiting:
            return f"calls {waiting} have no result before message {place}"
        previous = messages[place - 1]["role"] if place else ""
        if role == previous or (role == "system" and place):
            return f"{role} message {place} after {previous}"
        waiting = [made["id"] for made in message.get("tool_calls", ())]
        if seen & {*waiting} or len({*waiting}) < len(waiting) or any(not 0 < len(made) <= 40 for made in waiting):
            return "ids must be unique and short"
        seen.update(waiting)
        if role == "user" and not message["content"]:
            return "an empty user message"
    return f"calls {waiting} have no result" if waiting else None


@given(requests)
@settings(max_examples=examples(150))
def test_whatever_was_said_every_server_takes_it(request: Request) -> None:
    sent = translated(request, images=False, hosted_by_openai=False)
    assert fault(sent["messages"]) is None
    json.dumps(sent, ensure_ascii=False).encode("utf-8")
    for message in sent["messages"]:
        for made in message.get("tool_calls", ()):
            assert isinstance(json.loads(made["function"]["arguments"]), dict)


@given(requests)
@settings(max_examples=examples(25))
def test_the_sdks_own_types_take_it(request: Request) -> None:
    sent = translated(request)
    adapter = TypeAdapter(completion_create_params.CompletionCreateParamsNonStreaming)
    assert drained(adapter.validate_python(sent))["model"] == "m"


@given(requests)
@settings(max_examples=examples(50))
def test_what_follows_never_changes_what_was_sent_before(request: Request) -> None:
    more = ask(*request.messages, assistant("Yes."), user("And then?"), system=request.system, tools=request.tools)
    short, long = translated(request), translated(more)
    assert long["messages"][: len(short["messages"])] == short["messages"]
    assert long.get("tools") == short.get("tools")


def test_only_openai_itself_is_sent_what_only_it_takes() -> None:
    request = ask(user("hi"), cache_key="agent:main:main")
    hosted, other = translated(request), translated(request, hosted_by_openai=False)
    assert (hosted["prompt_cache_key"], hosted["max_completion_tokens"]) == ("agent:main:main", 1000)
    assert "prompt_cache_key" not in other
    assert (other["max_tokens"], "max_completion_tokens" in other) == (1000, False)


def test_system_segments_become_one_message_in_their_order() -> None:
    system = (Segment(name="a", text="One."), Segment(name="b", text=" "), Segment(name="c", text="Two."))
    assert translated(ask(user("hi"), system=system))["messages"][0] == {"role": "system", "content": "One.\n\nTwo."}


def test_pictures_of_tools_follow_the_last_result() -> None:
    made = assistant(call(call_id="x"), call(call_id="y"))
    sent = translated(ask(user("go"), made, result("1", "x", images=(PICTURE,)), result("2", "y"), user("well?")))["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "tool", "user"]
    assert [part["type"] for part in sent[-1]["content"]] == ["text", "image_url", "text"]
    assert sent[-1]["content"][0]["text"] == PICTURES
    assert sent[-1]["content"][1]["image_url"]["url"] == "data:image/png;base64,aGk="


def test_a_model_that_sees_no_pictures_is_told_of_them_in_words() -> None:
    sent = translated(ask(user("look", PICTURE)), images=False)
    assert sent["messages"][0]["content"] == "look\n[A picture (image/png) that this model cannot be shown.]"


def test_reasoning_goes_back_with_calls_to_the_model_that_reasoned() -> None:
    thought = Thinking(
        text="hm", opaque={"message": {"reasoning_content": "hm"}, "calls": {"t1": {"extra_content": {"google": "sig"}}}}
    )
    own = assistant(thought, call(), model=NAME)
    sent = translated(ask(user("a"), own, result("ok")))["messages"][1]
    assert sent["reasoning_content"] == "hm"
    assert sent["tool_calls"][0]["extra_content"] == {"google": "sig"}
    other = translated(ask(user("a"), own, result("ok")), name="ollama/qwen3")["messages"][1]
    assert "reasoning_content" not in other
    assert "extra_content" not in other["tool_calls"][0]


def test_failed_tools_and_broken_arguments_are_told_in_words() -> None:
    broken = ToolCall(id="t1", name="read", arguments=None, raw="{")
    sent = translated(ask(user("a"), assistant(broken), result("no JSON", is_error=True), tools=(READ,)))["messages"]
    assert sent[1]["tool_calls"][0]["function"]["arguments"] == '{"invalid_json": "{"}'
    assert sent[2]["content"] == "Error: no JSON"


def test_anthropics_cache_marks_go_through_openrouter() -> None:
    system = (Segment(name="a", text="One.", cache_mark=True), Segment(name="b", text="Two."))
    sent = body(
        ask(user("one"), assistant("two"), user("three"), system=system),
        model="m",
        name="openrouter/anthropic/claude-opus-5",
        max_output=100,
        images=True,
        hosted_by_openai=False,
        marks=True,
    )["messages"]
    mark = {"type": "ephemeral"}
    assert sent[0]["content"] == [{"type": "text", "text": "One.", "cache_control": mark}, {"type": "text", "text": "Two."}]
    assert sent[-1]["content"] == [{"type": "text", "text": "three", "cache_control": mark}]
    assert sent[1]["content"] == "one"


def test_a_tool_loop_through_openrouter_is_marked_at_its_end_too() -> None:
    request = ask(
        user("one"), assistant(call(call_id="a")), result("x" * 9, "a"), system=(Segment(name="a", text="S", cache_mark=True),)
    )
    sent = body(request, model="m", name="n", max_output=9, images=True, hosted_by_openai=False, marks=True)["messages"]
    mark = {"type": "ephemeral"}
    assert sent[-1]["content"] == [{"type": "text", "text": "x" * 9, "cache_control": mark}]
    assert sent[1]["content"] == [{"type": "text", "text": "one", "cache_control": mark}]
    plain = body(
        replace(request, cached=False), model="m", name="n", max_output=9, images=True, hosted_by_openai=False, marks=True
    )
    assert "cache_control" not in str(plain)


@given(requests)
@settings(max_examples=examples(40))
def test_marks_change_nothing_that_is_said(request: Request) -> None:
    plain = translated(request, hosted_by_openai=False)["messages"]
    marked = body(request, model="m", name=NAME, max_output=4000, images=True, hosted_by_openai=False, marks=True)["messages"]
    assert [said(message) for message in marked] == [said(message) for message in plain]
    assert json.dumps(marked).count("cache_control") <= 4


def said(message: dict[str, Any]) -> tuple[str, str]:
    """The role and the words of a message; segments of system text are divided by an empty line."""
    content = message["content"]
    if isinstance(content, str):
        return message["role"], content
    between = "\n\n" if message["role"] == "system" else ""
    return message["role"], between.join(part.get("text") or part["image_url"]["url"] for part in content)
