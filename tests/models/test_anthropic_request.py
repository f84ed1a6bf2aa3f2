"""What is sent to Anthropic: valid whatever was said, and marked for the cache where it should be."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from anthropic.types import message_create_params
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from pydantic import TypeAdapter

from agent.messages import Image, Text, Thinking, ToolCall
from agent.models.adapters.anthropic_request import body
from agent.models.protocol import Segment
from tests.models.conversation import READ, WRITE, ask, assistant, call, requests, result, user
from tests.peers.anthropic import fault
from tests.properties import examples

if TYPE_CHECKING:
    from agent.models.protocol import Request

NAME = "anthropic/claude-sonnet-5-5"
SIGNED = Thinking(text="hm", opaque={"type": "thinking", "thinking": "hm", "signature": "s1"})
PICTURE = Image(media_type="image/png", data="aGk=")


def translated(request: Request, *, name: str = NAME) -> dict[str, Any]:
    return body(request, model="claude-sonnet-5-5", name=name, max_output=64_000)


def drained(value: Any) -> Any:
    """Walk through lazily validated iterables, so that everything is validated."""
    if isinstance(value, Mapping):
        return {key: drained(item) for key, item in value.items()}
    return [drained(item) for item in value] if isinstance(value, Iterable) and not isinstance(value, str) else value


@given(requests)
@settings(max_examples=examples(150))
def test_whatever_was_said_the_api_takes_it(request: Request) -> None:
    sent = translated(request)
    assert fault(sent) is None
    json.dumps(sent).encode()
    json.dumps(sent, ensure_ascii=False).encode("utf-8")


@given(requests)
@settings(max_examples=examples(25))
def test_the_sdks_own_types_take_it(request: Request) -> None:
    sent = translated(request)
    adapter = TypeAdapter(message_create_params.MessageCreateParamsNonStreaming)
    assert drained(adapter.validate_python(sent))["max_tokens"] == sent["max_tokens"]


@given(requests)
@settings(max_examples=examples(50))
def test_what_follows_never_changes_what_was_sent_before(request: Request) -> None:
    """The longer conversation's body begins with the shorter one's, marks aside: only then does the cache hold."""
    more = ask(*request.messages, assistant("Yes."), user("And then?"), system=request.system, tools=request.tools)
    short, long = unmarked(translated(request)), unmarked(translated(more))
    assert long["messages"][: len(short["messages"])] == short["messages"]
    assert long.get("system") == short.get("system")
    assert long.get("tools") == short.get("tools")


def unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: unmarked(item) for key, item in value.items() if key != "cache_control"}
    return [unmarked(item) for item in value] if isinstance(value, list) else value


def test_cache_marks_stand_at_segments_the_end_and_the_end_before() -> None:
    system = (
        Segment(name="rules", text="Rules."),
        Segment(name="files", text="Files.", cache_mark=True),
        Segment(name="notes", text="N."),
    )
    sent = translated(ask(user("one"), assistant("two"), user("three"), system=system, tools=(READ, WRITE), cache_ttl="1h"))
    mark = {"type": "ephemeral", "ttl": "1h"}
    assert ["cache_control" in tool for tool in sent["tools"]] == [False, False], "the system text's mark covers them"
    assert [block.get("cache_control") for block in sent["system"]] == [None, mark, None]
    assert [[block.get("cache_control") for block in message["content"]] for message in sent["messages"]] == [
        [mark],
        [None],
        [mark],
    ]
    alone = translated(ask(user("one"), tools=(READ, WRITE)))
    assert ["cache_control" in tool for tool in alone["tools"]] == [False, True]


@given(requests, st.integers(0, 30))
@settings(max_examples=examples(60))
def test_however_many_calls_an_answer_has_the_next_request_is_marked_where_this_one_ended(request: Request, count: int) -> None:
    """The API looks back twenty blocks from a mark; an answer with ten calls and its results are twenty-one."""
    answer_ = assistant("I look.", *(call(call_id=f"new{n}") for n in range(count)))
    more = (answer_, *(result("text", f"new{n}") for n in range(count)), *([] if count else [user("and?")]))
    one, two = translated(request), translated(replace(request, messages=(*request.messages, *more)))
    assert json.dumps(two).count("cache_control") <= 4
    places = marks_of(one)
    assert not places or places[-1] in marks_of(two)


def marks_of(sent: dict[str, Any]) -> list[int]:
    """The places of marked blocks among all blocks of the messages."""
    blocks = [block for message in sent["messages"] for block in message["content"]]
    return [place for place, block in enumerate(blocks) if "cache_control" in block]


def test_a_request_that_nothing_goes_on_from_has_no_mark() -> None:
    system = (Segment(name="rules", text="Rules.", cache_mark=True),)
    assert "cache_control" not in str(translated(ask(user("Give it a title."), system=system, tools=(READ,), cached=False)))


def test_a_mark_on_an_empty_segment_moves_to_the_text_before_it() -> None:
    system = (Segment(name="rules", text="Rules."), Segment(name="notes", text=" \n", cache_mark=True))
    assert translated(ask(user("hi"), system=system))["system"] == [
        {"type": "text", "text": "Rules.", "cache_control": {"type": "ephemeral"}}
    ]


def test_the_order_of_tools_is_kept() -> None:
    assert [tool["name"] for tool in translated(ask(user("hi"), tools=(WRITE, READ)))["tools"]] == ["write", "read"]


def test_results_of_one_answer_stand_in_one_user_message_before_what_was_said_next() -> None:
    sent = translated(
        ask(
            user("go"),
            assistant("a", call(call_id="x"), call(call_id="y")),
            result("1", "x"),
            result("2", "y"),
            user("and now?"),
        )
    )
    assert [message["role"] for message in sent["messages"]] == ["user", "assistant", "user"]
    assert [block["type"] for block in sent["messages"][2]["content"]] == ["tool_result", "tool_result", "text"]


def test_thinking_goes_back_unchanged_to_the_model_that_thought_it() -> None:
    thought = assistant(SIGNED, "Yes.", model="anthropic/claude-sonnet-5-5-20260901")
    [_, said, _] = translated(ask(user("a"), thought, user("b")))["messages"]
    assert said["content"][0] == {"type": "thinking", "thinking": "hm", "signature": "s1"}


def test_thinking_never_goes_to_another_model() -> None:
    thought = assistant(SIGNED, "Yes.", model="anthropic/claude-haiku-5-5")
    [_, said, _] = translated(ask(user("a"), thought, user("b")))["messages"]
    assert said["content"] == [{"type": "text", "text": "Yes."}]


def test_the_same_id_in_two_answers_becomes_two_ids() -> None:
    sent = translated(
        ask(
            user("a"),
            assistant(call(call_id="call_0")),
            result("1", "call_0"),
            assistant(call(call_id="call_0")),
            result("2", "call_0"),
        )
    )
    ids = [block["id"] for message in sent["messages"] for block in message["content"] if block["type"] == "tool_use"]
    answered = [
        block["tool_use_id"] for message in sent["messages"] for block in message["content"] if block["type"] == "tool_result"
    ]
    assert ids == answered
    assert len(set(ids)) == 2


def test_broken_arguments_are_shown_to_the_model_as_it_wrote_them() -> None:
    broken = ToolCall(id="t1", name="read", arguments=None, raw='{"path": ')
    sent = translated(ask(user("a"), assistant(broken), result("not JSON", is_error=True)))
    assert sent["messages"][1]["content"][0]["input"] == {"invalid_json": '{"path": '}
    assert sent["messages"][2]["content"][0]["is_error"] is True


def test_an_empty_result_says_so() -> None:
    sent = translated(ask(user("a"), assistant(call()), result("")))
    assert sent["messages"][2]["content"][0]["content"] == [{"type": "text", "text": "(no output)"}]


def test_pictures_go_in_results_and_unknown_kinds_are_named() -> None:
    sent = translated(
        ask(user("a", Image(media_type="image/tiff", data="x")), assistant(call()), result("ok", images=(PICTURE,)))
    )
    assert "image/tiff" in sent["messages"][0]["content"][1]["text"]
    assert sent["messages"][2]["content"][0]["content"][1] == {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "aGk="},
    }


def test_lone_surrogates_and_nul_are_replaced() -> None:
    sent = translated(ask(user("a\ud800b\x00c"), assistant(Text(text="ok"))))
    assert sent["messages"][0]["content"][0]["text"] == "a\ufffdb\ufffdc"


def test_an_answer_is_never_longer_than_the_model_allows() -> None:
    assert body(ask(user("a"), max_output=100_000), model="m", name="anthropic/m", max_output=64_000)["max_tokens"] == 64_000
