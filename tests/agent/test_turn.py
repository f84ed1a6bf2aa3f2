from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from agent.events import Notice, TextDelta
from agent.messages import AssistantMessage, Failure, ToolCall, ToolMessage, Usage, UserMessage
from agent.models.scripted import Stall
from agent.transcript.entries import Compacted, FlushBegun, FlushReceipt, ResultsCleared, Said
from agent.transcript.history_view import STOPPED, STOPPED_SILENT, UNKNOWN_OUTCOME
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.loop.call_log import CallState
    from agent.tools.protocol import Effect
    from tests.agent.conftest import Room

    Make = Callable[..., Room]


def call(name: str, call_id: str = "c1", **arguments: object) -> ToolCall:
    return ToolCall(id=call_id, name=name, arguments=arguments)


def shown(room: Room) -> str:
    return "".join(event.text for event in room.events if isinstance(event, TextDelta))


async def test_a_message_is_answered_and_both_are_kept(room: Make) -> None:
    r = room("Good morning!")
    result = await r.say("hello")
    assert (result.outcome, result.reply) == ("answered", "Good morning!")
    assert shown(r) == "Good morning!"
    again = await r.open()
    assert [m.role for m in again.messages()] == ["user", "assistant"]


async def test_tools_run_until_the_model_is_done(room: Make) -> None:
    r = room(
        call("write", path="memory/2026-03-01.md", content="- teal", mode="append"),
        call("read", path="memory/2026-03-01.md"),
        "Noted.",
    )
    result = await r.say("we chose teal")
    assert result.reply == "Noted."
    assert "- teal" in r.note()
    assert [message.name for message in result.calls] == ["write", "read"]
    assert "teal" in result.calls[1].text


async def test_no_reply_is_silence(room: Make) -> None:
    r = room("NO_REPLY")
    result = await r.say("fyi")
    assert (result.outcome, result.reply, shown(r)) == ("silent", "", "")


async def test_a_failing_model_is_told_with_its_mend_and_the_next_turn_works(room: Make) -> None:
    r = room(Failure(kind="auth", message="The key was refused.", hint="export ANTHROPIC_API_KEY=..."), "back")
    result = await r.say("hello")
    assert result.outcome == "failed"
    assert "The key was refused." in result.reply
    assert "export ANTHROPIC_API_KEY" in result.reply
    assert (await r.say("again", "t2")).reply == "back"
    assert [m.role for m in r.model.requests[-1].messages] == ["user", "user"]


async def test_endless_tool_calls_end(room: Make) -> None:
    count = iter(range(1000))
    r = room(settings={"limits": {"maxToolCalls": 5}})
    r.model.reply_with(lambda _: call("list", f"c{next(count)}", path=f"d{next(count)}"))
    result = await r.say("loop")
    assert result.outcome == "stopped"
    assert "maxToolCalls" in result.reply
    assert len(r.model.requests) <= 5 + 3


async def test_the_same_call_with_the_same_result_is_refused_after_three_times(room: Make) -> None:
    r = room(*[call("list", f"c{n}") for n in range(4)], "enough")
    result = await r.say("look")
    assert result.reply == "enough"
    assert [message.is_error for message in result.calls] == [False, False, False, True]


async def test_a_model_that_insists_on_what_was_refused_is_stopped_long_before_its_calls_are_used_up(room: Make) -> None:
    count = iter(range(1000))
    r = room()
    r.model.reply_with(lambda _: call("list", f"c{next(count)}"))
    result = await r.say("loop")
    assert result.outcome == "stopped"
    assert "again and again (agents.defaults.limits.maxRepeats)" in result.reply
    assert len(r.model.requests) <= 3 + 3 + 3, "three results, three refusals, and the rounds of grace"


async def test_a_model_that_does_something_else_after_a_refusal_goes_on(room: Make) -> None:
    same, other = [call("list", f"c{n}") for n in range(6)], [call("list", f"d{n}", path=f"d{n}") for n in range(3)]
    again = [call("list", f"e{n}") for n in range(2)]
    r = room(*same[:5], other[0], *again, other[1], "enough")
    result = await r.say("look")
    assert (result.outcome, result.reply) == ("answered", "enough")


async def test_stopping_leaves_a_valid_transcript(room: Make) -> None:
    r = room([TextDelta("I begin "), Stall()], "fine")
    task = asyncio.create_task(r.say("hello"))
    async with asyncio.timeout(PATIENCE):
        while not shown(r):  # noqa: ASYNC110  (there is no event to wait for: the delta is what is shown)
            await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    again = await r.open()
    assert [m.role for m in again.messages()] == ["user"]
    assert (await r.say("what is 2+2?", "t2")).reply == "fine"
    asked = r.model.requests[-1].messages
    assert [m.role for m in asked] == ["user", "assistant", "user"], "the stopped question is not asked again"
    assert asked[1].text == f"I begin\n\n{STOPPED}"


async def test_what_was_stopped_before_its_first_word_is_not_asked_again(room: Make) -> None:
    r = room(Stall(), Stall(), "fine")
    for turn in ("t1", "t2"):
        before = len(r.model.requests)
        task = asyncio.create_task(r.say("the whole history of Rome", turn))
        async with asyncio.timeout(PATIENCE):
            while len(r.model.requests) == before:  # noqa: ASYNC110  (there is no event to wait for)
                await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert (await r.say("what is 2+2?", "t3")).reply == "fine"
    asked = r.model.requests[-1].messages
    assert [m.role for m in asked] == ["user", "assistant", "user", "assistant", "user"]
    assert {m.text for m in asked[1:4:2]} == {STOPPED_SILENT}


async def test_a_turn_that_goes_on_after_a_restart_is_not_shown_what_the_restart_cut_off(room: Make) -> None:
    r = room([TextDelta("I begin "), Stall()], "fine")
    task = asyncio.create_task(r.say("hello"))
    async with asyncio.timeout(PATIENCE):
        while not shown(r):  # noqa: ASYNC110  (there is no event to wait for: the delta is what is shown)
            await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await r.open()
    assert (await r.say("hello")).reply == "fine", "the same turn"
    assert [m.role for m in r.model.requests[-1].messages] == ["user"]
    assert [m.text for m in r.conversation.messages() if m.role == "assistant"] == ["fine"]


class Journal:
    """A journal that remembers across turns, as the ledger does across restarts."""

    def __init__(self, states: dict[str, CallState] | None = None) -> None:
        self.states: dict[str, CallState] = states or {}

    async def state(self, key: str) -> CallState:
        return self.states.get(key, "new")

    async def begin(self, key: str, call: ToolCall, effect: Effect) -> CallState:
        before = self.states.get(key, "new")
        if before == "new" or effect != "effect":
            self.states[key] = "started"
        return before

    async def end(self, key: str) -> None:
        if self.states.get(key) == "started":
            self.states[key] = "done"


async def test_a_restart_goes_on_after_the_last_thing_that_was_kept(room: Make) -> None:
    r = room()
    conversation = await r.open()
    await conversation.prepare()
    await conversation.transcript.append("t1", Said(message=r.message("note teal")), n=0)
    wish = AssistantMessage(content=(call("list", "a"), call("list", "b", path=".")), model="m", stop="tools")
    await conversation.transcript.append("t1", Said(message=wish))
    await conversation.transcript.append("t1", Said(message=ToolMessage(call_id="a", name="list", text="(first)")))
    r.model.then("done")
    result = await r.say("note teal")
    assert result.reply == "done"
    said = [e.body.message for e in conversation.transcript.of_turn("t1") if isinstance(e.body, Said)]
    assert [type(m) for m in said].count(UserMessage) == 1
    assert [m.call_id for m in said if isinstance(m, ToolMessage)] == ["a", "b"]


async def test_a_restart_after_the_answer_says_it_without_asking_again(room: Make) -> None:
    r = room("the answer")
    await r.say("question")
    await r.open()
    assert (await r.say("question")).reply == "the answer"
    assert len(r.model.requests) == 1


async def test_an_interrupted_effect_is_not_run_again(room: Make) -> None:
    r = room()
    conversation = await r.open()
    await conversation.prepare()
    await conversation.transcript.append("t1", Said(message=r.message("write it")), n=0)
    wish = AssistantMessage(
        content=(call("edit", "a", path="x.md", old="1", new="2"),), model="m", stop="tools", usage=Usage(input=5)
    )
    entry = await conversation.transcript.append("t1", Said(message=wish))
    r.model.then("I looked, and it is done.")
    key = f"{entry.id.rpartition(':')[2]}/a"
    effect = conversation.toolbox.effect_of("edit")
    result = await r.say("write it", journal=Journal({key: "unknown"}))
    assert (result.calls[0].text == UNKNOWN_OUTCOME) == (effect == "effect")


SMALL = {"compaction": {"reserveTokens": 2000, "reserveTokensFloor": 2000, "keepRecentTokens": 1200, "keepRecentTurns": 1}}


async def fill(r: Room, *, turns: int, words: int = 580) -> None:
    for n in range(turns):
        r.model.then(f"Heard {n}.")
        await r.say(f"message {n}: " + "some plain words " * (words // 3), f"fill{n}")


async def test_memory_is_flushed_before_history_is_compacted_and_nobody_sees_it(room: Make) -> None:
    r = room(window=12_000, settings=SMALL)

    def model(request: object) -> object:
        last = request.messages[-1].text
        if "[Memory flush]" in last:
            done = any("flush" in m.call_id for m in request.messages if isinstance(m, ToolMessage))
            return (
                "NO_REPLY"
                if done
                else call("write", "flush1", path="memory/wrong.md", content="- The colour is teal.", mode="overwrite")
            )
        if "[Summary request]" in last:
            return "## Decisions\nThe colour is teal; some plain talk was heard before."
        if isinstance(request.messages[-1], ToolMessage):
            return "NO_REPLY"
        return "Heard."

    r.model.reply_with(model)
    kinds: list[str] = []
    for n in range(30):
        r.events.clear()
        result = await r.say(f"message {n}: " + "some plain words " * 200, f"t{n}")
        assert result.reply == "Heard."
        assert "teal" not in shown(r)
        assert result.context <= 12_000
    for entry in b"".join(r.conversation.transcript.stored.lines()).decode().splitlines():
        kinds += [kind for kind in ("flush_begun", "flush_receipt", "compacted") if f'"kind":"{kind}","id"' in entry]
    assert kinds.count("compacted") >= 2
    assert kinds.count("flush_begun") == kinds.count("flush_receipt")
    for place in [i for i, kind in enumerate(kinds) if kind == "compacted"]:
        assert "flush_receipt" in kinds[:place]
        assert kinds[place - 1] == "flush_receipt", "every cycle is flushed before it is compacted"
    assert r.note().count("The colour is teal.") == 1
    assert not (r.workspace.root / "memory" / "wrong.md").exists()


async def test_a_flush_fires_once_in_a_cycle(room: Make) -> None:
    r = room(window=12_000, settings={"compaction": {**SMALL["compaction"], "memoryFlush": {"softThresholdTokens": 400}}})
    flushes = []

    def model(request: object) -> object:
        if "[Memory flush]" in request.messages[-1].text:
            flushes.append(1)
            return "NO_REPLY"
        if "[Summary request]" in request.messages[-1].text:
            return "## Done\nWe talked about plain words for a while."
        return "ok"

    r.model.reply_with(model)
    for n in range(40):
        await r.say("plain words " * 210, f"t{n}")
    text = b"".join(r.conversation.transcript.stored.lines()).decode()
    cycles = 1 + text.count('"kind":"compacted","id"')
    assert cycles > 2
    assert cycles - 1 <= len(flushes) <= cycles


async def test_without_receipt_or_no_reply_the_owners_words_are_written_down_by_rule(room: Make) -> None:
    r = room("ok")
    await r.say("The spare key is under the blue pot")
    conversation = r.conversation
    from agent.context import flush

    r.model.then(Failure(kind="overloaded", message="busy"))
    receipt = await flush.flush(conversation, "leave", "reset")
    assert receipt.outcome == "extracted"
    assert "The spare key is under the blue pot" in r.note()
    assert receipt.written[0].sha256_before is None
    assert not flush.is_worthwhile(conversation)


async def test_a_flush_that_a_crash_left_open_is_made_good(room: Make) -> None:
    r = room("ok")
    await r.say("The gate code is 4711")
    await r.conversation.transcript.append("t1~room", FlushBegun(cycle=None, reason="threshold"))
    await r.open()
    r.model.then("hello")
    await r.say("hi", "t2")
    assert "4711" in r.note()
    receipts = [e for e in r.conversation.transcript.entries if isinstance(e.body, FlushReceipt)]
    assert [e.body.outcome for e in receipts] == ["extracted"]


async def test_a_flush_cannot_do_anything_but_read_and_append(room: Make) -> None:
    r = room("ok")
    (r.workspace.root / "memory").mkdir()
    (r.workspace.root / "memory" / "2026-03-01.md").write_text("- already here\n")
    (r.workspace.root / "MEMORY.md").write_text("precious")
    await r.say("remember me")
    from agent.context import flush

    r.model.then(
        [
            call("edit", "a", path="MEMORY.md", old="precious", new=""),
            call("write", "b", path="MEMORY.md", content="- already here\n\n- new fact", mode="overwrite"),
        ],
        "NO_REPLY",
    )
    receipt = await flush.flush(r.conversation, "leave", "reset")
    assert (r.workspace.root / "MEMORY.md").read_text() == "precious"
    assert r.note().count("already here") == 1
    assert "- new fact" in r.note()
    assert receipt.written[0].bytes_after > receipt.written[0].bytes_before


async def test_an_overflow_is_answered_by_flush_compaction_and_the_same_question(room: Make) -> None:
    r = room(window=40_000, settings={"compaction": {"keepRecentTokens": 300, "keepRecentTurns": 1}})
    await fill(r, turns=4)
    seen: list[str] = []

    def model(request: object) -> object:
        last = request.messages[-1].text
        for mark in ("[Memory flush]", "[Summary request]"):
            if mark in last:
                seen.append(mark)
                return "NO_REPLY" if "flush" in mark else "## Done\nFour times some plain talk was heard."
        seen.append("question")
        return Failure(kind="overflow", message="prompt is too long") if seen.count("question") == 1 else "here"

    r.model.reply_with(model)
    result = await r.say("and now?", "last")
    assert result.reply == "here"
    assert seen == ["question", "[Memory flush]", "[Summary request]", "question"]


async def test_when_no_summary_can_be_made_history_stays_and_old_results_are_cleared(room: Make) -> None:
    r = room(window=40_000, settings={"compaction": {"keepRecentTokens": 300, "keepRecentTurns": 1}})
    (r.workspace.root / "big.md").write_text("word " * 3000)
    r.model.then(call("read", path="big.md"), "read it")
    await r.say("read big.md", "t0")

    def model(request: object) -> object:
        last = request.messages[-1].text
        if "[Memory flush]" in last:
            return "NO_REPLY"
        if "[Summary request]" in last:
            return Failure(kind="overloaded", message="busy")
        return Failure(kind="overflow", message="too long") if "word word" in str(request.messages) else "here"

    r.model.reply_with(model)
    result = await r.say("and now?", "last")
    assert result.reply == "here"
    bodies = [type(e.body) for e in r.conversation.transcript.entries]
    assert ResultsCleared in bodies
    assert Compacted not in bodies
    assert any(isinstance(e, Notice) and "no summary" in e.text for e in r.events)


async def test_the_prompt_prefix_is_the_same_in_every_request_of_a_session(room: Make) -> None:
    r = room("one", "two", "NO_REPLY")
    await r.say("first", "t1")
    r.clock.move(3700)
    await r.say("second", "t2")
    from agent.context import flush

    await flush.flush(r.conversation, "leave", "reset")
    first, second, third = r.model.requests
    for later in (second, third):
        assert later.system == first.system, [
            (a.name, b.name) for a, b in zip(first.system, later.system, strict=False) if a != b
        ]
        assert later.tools == first.tools
        assert later.messages[: len(first.messages)] == first.messages


async def test_a_reply_that_goes_round_in_a_loop_is_stopped_told_and_shown_short_to_later_turns(room: Make) -> None:
    r = room("Let me see. " + "I'm sorry. " * 300, "Better.")
    result = await r.say("hello")
    assert result.reply == "Let me see. I'm sorry.\n\n[The model began to repeat itself, so it was stopped here.]"
    assert (await r.say("again", "t2")).reply == "Better."
    assert [one.text for one in r.model.requests[-1].messages if isinstance(one, AssistantMessage)] == [
        "Let me see. I'm sorry."
    ]


@pytest.mark.parametrize(("window", "asked"), [(60_000, 2), (200_000, 1)])
async def test_a_refusal_that_nobody_understands_is_tried_once_more_where_the_window_is_nearly_full(
    room: Make, window: int, asked: int
) -> None:
    r = room(window=window, settings={"compaction": {"keepRecentTokens": 300, "keepRecentTurns": 1, "reserveTokensFloor": 200}})
    await fill(r, turns=4, words=3000)
    size = r.conversation.tokens()
    if window < 100_000:
        r.model.window = int(size * 1.5)
    seen: list[str] = []

    def model(request: object) -> object:
        last = request.messages[-1].text
        if "[Memory flush]" in last:
            return "NO_REPLY"
        if "[Summary request]" in last:
            return "## Goal\nPlain words.\n\n## Done\nFour messages of plain words were heard.\n\n## Next steps\nAnswer."
        seen.append("question")
        return Failure(kind="bad_request", message="Nanu?", unclear=True) if len(seen) == 1 else "here"

    r.model.reply_with(model)
    result = await r.say("and now?", "last")
    assert len(seen) == asked
    assert result.reply == ("here" if asked == 2 else "⚠️ Nanu?")
