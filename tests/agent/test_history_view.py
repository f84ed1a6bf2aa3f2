from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from agent.messages import AssistantMessage, Failure, Message, Text, ToolCall, ToolMessage, Usage, UserMessage
from agent.models.adapters import anthropic_request, openai_chat, openai_responses
from agent.models.protocol import Request
from agent.transcript.entries import Body, Compacted, Entry, Pinned, Pruned, ResultsCleared, Said, Unpinned
from agent.transcript.history_view import CLEARED, SUMMARY_HEAD, UNKNOWN_OUTCOME, view

AT = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)
ZONE = ZoneInfo("Europe/Berlin")


def entries(*bodies: Body | Message) -> list[Entry]:
    return [
        Entry(
            id=f"t:{n}",
            parent=None,
            at=AT,
            body=Said(message=body) if isinstance(body, (UserMessage, AssistantMessage, ToolMessage)) else body,
        )
        for n, body in enumerate(bodies)
    ]


def user(text: str = "hi") -> UserMessage:
    return UserMessage(content=(Text(text=text),), at=AT)


def answer(text: str = "", *calls: str, **more: object) -> AssistantMessage:
    content = ((Text(text=text),) if text else ()) + tuple(ToolCall(id=c, name="read", arguments={}) for c in calls)
    return AssistantMessage(content=content, model="m", stop="tools" if calls else "end", **more)


def result(call: str, text: str = "done") -> ToolMessage:
    return ToolMessage(call_id=call, name="read", text=text)


def test_each_message_carries_its_time_in_the_owners_zone() -> None:
    (shown,) = view(entries(user("hello")), ZONE)
    assert shown.text == "[Sun 2026-03-01 10:30 CET]\nhello"


def test_a_lost_result_is_replaced_by_outcome_unknown_in_the_order_of_the_calls() -> None:
    shown = view(entries(user(), answer("", "a", "b"), result("b"), user("next")), ZONE)
    assert [m.role for m in shown] == ["user", "assistant", "tool", "tool", "user"]
    assert (shown[2].call_id, shown[2].text, shown[2].is_error) == ("a", UNKNOWN_OUTCOME, True)
    assert shown[3].text == "done"


def test_failed_and_stopped_answers_are_never_shown_again() -> None:
    failed = answer("half", failure=Failure(kind="network", message="cut"))
    stopped = AssistantMessage(content=(ToolCall(id="x", name="write", arguments={}),), model="m", stop="cancelled")
    assert [m.text for m in view(entries(user(), failed, stopped, answer("good")), ZONE)][1:] == ["good"]


def test_after_a_summary_only_the_kept_part_follows() -> None:
    mark = Compacted(summary="we chose teal", first_kept="t:2", tokens_before=9, tokens_after=3, model="m", reason="threshold")
    shown = view(entries(user("old"), answer("old answer"), user("kept"), answer("yes", usage=Usage(input=9)), mark), ZONE)
    assert shown[0].text == f"{SUMMARY_HEAD}\n\nwe chose teal"
    assert shown[1].text.endswith("kept")
    assert shown[2].usage is None


def test_cleared_results_are_placeholders_and_later_ones_are_whole() -> None:
    long = "x" * 500
    shown = view(
        entries(
            user(),
            answer("", "a"),
            result("a", long),
            user("two"),
            ResultsCleared(until="t:3"),
            answer("", "b"),
            result("b", long),
        ),
        ZONE,
    )
    assert [m.text for m in shown if isinstance(m, ToolMessage)] == [CLEARED, long]


messages = st.one_of(
    st.builds(user, st.text(max_size=5)),
    st.builds(answer, st.sampled_from(["", "ok"]), st.sampled_from("abc"), st.sampled_from("de")),
    st.builds(answer, st.sampled_from(["", "ok"])),
    st.builds(lambda: answer("bad", "a", failure=Failure(kind="network", message="cut"))),
    st.builds(result, st.sampled_from("abcdez")),
)


@given(st.lists(messages, max_size=25), st.integers(min_value=0, max_value=25), st.booleans())
def test_any_transcript_and_any_cut_give_a_valid_view(said: list[Message], cut: int, summary: bool) -> None:
    bodies: list[Body | Message] = list(said)
    if summary:
        bodies.append(
            Compacted(summary="s", first_kept=f"t:{cut}", tokens_before=1, tokens_after=1, model="m", reason="overflow")
        )
    shown = view(entries(*bodies), ZONE)
    assert not shown or isinstance(shown[0], UserMessage)
    expected: list[str] = []
    for message in shown:
        if isinstance(message, ToolMessage):
            assert expected
            assert message.call_id == expected.pop(0)
        else:
            assert not expected
            if isinstance(message, AssistantMessage):
                assert message.failure is None
                expected = [call.id for call in message.calls]
    assert not expected


_ids = st.sampled_from(["a", "b", "c", ""])
_places = st.integers(0, 30).map(lambda n: f"t:{n}")
any_body = st.one_of(
    st.sampled_from(["hi", " ", "text"]).map(user),
    st.builds(answer, st.sampled_from(["", "words"]), _ids),
    st.builds(lambda one, two: answer("", one, two), _ids, _ids),
    st.just(answer("half", "z", failure=Failure(kind="network", message="cut"))),
    st.builds(result, _ids, st.sampled_from(["", "done", "long " * 50])),
    st.builds(
        lambda place, pins: Compacted(
            summary="what was", first_kept=place, tokens_before=1, tokens_after=1, model="m", reason="x", pins=pins
        ),
        _places,
        st.sampled_from([(), ("pin",)]),
    ),
    _places.map(lambda place: ResultsCleared(until=place)),
    st.builds(
        lambda one, two: Pruned(trimmed=(one,), cleared=(two,), head_chars=5, tail_chars=5, placeholder="(gone)"),
        _places,
        _places,
    ),
    st.just(Pinned(text="pin")),
    st.just(Unpinned(text="pin")),
)


@given(st.lists(any_body, max_size=30))
def test_any_transcript_makes_a_request_that_each_api_takes(bodies: list[Body | Message]) -> None:
    from agent.messages import with_distinct_call_ids
    from tests.peers.anthropic import fault

    told = [with_distinct_call_ids(body) if isinstance(body, AssistantMessage) else body for body in bodies]
    shown = view(entries(*told), ZONE)
    if not shown:
        return
    request = Request(system=(), tools=(), messages=shown, max_output=100)
    assert fault(anthropic_request.body(request, model="m", name="anthropic/m", max_output=100)) is None
    items = openai_responses.body(request, model="m", name="openai/m", max_output=100, images=True)["input"]
    called = [item["call_id"] for item in items if item.get("type") == "function_call"]
    assert sorted(called) == sorted(item["call_id"] for item in items if item.get("type") == "function_call_output")
    messages = openai_chat.body(request, model="m", name="openai/m", max_output=100, images=True, hosted_by_openai=True)[
        "messages"
    ]
    open_calls: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] in open_calls
            open_calls.remove(message["tool_call_id"])
        else:
            assert open_calls == []
            open_calls = [call["id"] for call in message.get("tool_calls", ())]
    assert open_calls == []
