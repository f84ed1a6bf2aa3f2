from __future__ import annotations

import asyncio
import random
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.context import flush
from agent.context.compaction import compact
from agent.context.context_budget import ContextBudget
from agent.context.window import Window
from agent.loop.turn import Turn
from agent.messages import AssistantMessage, Failure, ToolCall, ToolMessage, Usage, UserMessage
from agent.models.scripted import ScriptedModel, Stall
from agent.settings import AgentSettings, CompactionSettings
from agent.tools.toolbox import Toolbox
from agent.transcript.entries import Compacted, FlushBegun, FlushReceipt, Said
from tests.properties import examples

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.agent.conftest import Room

    Make = Callable[..., Room]

SMALL = {"compaction": {"reserveTokens": 2000, "reserveTokensFloor": 2000, "keepRecentTokens": 1200, "keepRecentTurns": 1}}
SUMMARY = "## Done\nWe talked in plain words for quite a long afternoon, and each was heard."


def write(content: str, **more: object) -> ToolCall:
    return ToolCall(id="w", name="write", arguments={"path": "memory/x.md", "content": content, "mode": "append", **more})


def last(request: Any) -> str:
    return "" if isinstance(request.messages[-1], ToolMessage) else request.messages[-1].text


def obliging(fact: str) -> Any:
    """A model that writes ``fact`` when asked to flush."""

    def answer(request: Any) -> object:
        if isinstance(request.messages[-1], ToolMessage):
            return "NO_REPLY"
        if "[Memory flush]" in last(request):
            return write(fact)
        return SUMMARY if "[Summary request]" in last(request) else "Heard."

    return answer


def bodies(r: Room, kind: type) -> list[Any]:
    return [entry.body for entry in r.conversation.transcript.entries if isinstance(entry.body, kind)]


def lines_on_disk(r: Room, kind: str) -> int:
    return b"".join(r.conversation.transcript.stored.lines()).decode().count(f'"kind":"{kind}","id"')


@given(st.integers(4000, 2_000_000), st.integers(0, 100_000), st.integers(0, 100_000), st.integers(0, 50_000))
def test_the_flush_line_always_lies_below_the_compaction_line(size: int, reserve: int, floor: int, soft: int) -> None:
    """Known defect 25880: with a larger reserve than the floor, compaction fired before the flush could."""
    window = Window.of(
        size,
        CompactionSettings.model_validate(
            {"reserveTokens": reserve, "reserveTokensFloor": floor, "memoryFlush": {"softThresholdTokens": soft}}
        ),
    )
    assert 0 < window.flush_at <= window.compact_above <= size
    assert window.reserve <= size // 4


def test_a_window_of_200_000_is_flushed_at_176_000() -> None:
    assert Window.of(200_000, CompactionSettings()).flush_at == 176_000


async def test_the_first_cycle_is_flushed_too(room: Make) -> None:
    """Known defect 47143: a mark of nought was taken for the first cycle's own, and the flush never fired."""
    r = room(window=12_000, settings=SMALL)
    r.model.reply_with(obliging("- A fact."))
    for n in range(7):
        await r.say("plain words " * 580, f"t{n}")
    assert lines_on_disk(r, "flush_begun") >= 1
    assert "A fact" in r.note()


async def test_every_cycle_is_flushed_and_not_every_other_one(room: Make) -> None:
    """Known defect 12590: compaction within the flush moved the mark on, and the next cycle was skipped."""
    r = room(window=12_000, settings=SMALL)
    r.model.reply_with(obliging("- A fact."))
    for n in range(50):
        await r.say("plain words " * 580, f"t{n}")
    cycles = [e.body.cycle for e in (await whole(r)) if isinstance(e.body, FlushBegun)]
    assert len(cycles) == len(set(cycles)) > 3
    compacted = [e.id for e in (await whole(r)) if isinstance(e.body, Compacted)]
    assert set(compacted[:-1]) <= set(cycles) | {compacted[-1]}


async def whole(r: Room) -> list[Any]:
    from agent.transcript.entries import decode

    return [decode(line) for line in b"".join(r.conversation.transcript.stored.lines()).splitlines()]


async def test_one_huge_turn_is_flushed_on_its_way_out_of_the_window(room: Make) -> None:
    """Known defect 114081: a turn that jumped from below the line into an overflow was compacted without a flush."""
    r = room(window=40_000, settings={"compaction": {"keepRecentTokens": 300, "keepRecentTurns": 1}})
    seen: list[str] = []

    def model(request: Any) -> object:
        if "[Memory flush]" in last(request) or "[Summary request]" in last(request):
            seen.append(last(request)[:14])
            return SUMMARY if "Summary" in seen[-1] else "NO_REPLY"
        seen.append("question")
        return Failure(kind="overflow", message="too long") if seen.count("question") == 2 else "fine"

    r.model.reply_with(model)
    await r.say("plain words heard " * 400, "t0")
    await r.say("the code is 4711", "t1")
    assert seen == ["question", "question", "[Memory flush]", "[Summary reque", "question"]


@pytest.mark.parametrize("mode", ["overwrite", "create", "append"])
async def test_a_flush_never_makes_a_note_shorter(room: Make, mode: str) -> None:
    """Known defect 6877: the flush overwrote the day's note."""
    r = room("ok")
    (r.workspace.root / "memory").mkdir()
    path = r.workspace.root / "memory" / "2026-03-01.md"
    path.write_text("- precious\n" * 500)
    await r.say("remember teal")
    r.model.then(write("- teal", mode=mode, path="memory/2026-03-01.md"), "NO_REPLY")
    receipt = await flush.flush(r.conversation, "leave", "reset")
    assert path.read_text() == "- precious\n" * 500 + path.read_text()[5500:]
    assert "- teal" in path.read_text()
    assert receipt.written[0].bytes_after > receipt.written[0].bytes_before == 5500


async def test_two_flushes_at_once_lose_no_line(room: Make, tmp_path: Any) -> None:
    """Known defect 117741: concurrent appends lost lines."""
    r = room()
    notes = [f"- fact number {n} of one session" for n in range(8)]
    conversations = []
    for n in range(8):
        r.root = tmp_path / f"s{n}"
        conversations.append(await r.open())
        r.conversation = conversations[-1]
        r.model.then("ok")
        await r.say(f"fact {n} please")

    def model(request: Any) -> object:
        if isinstance(request.messages[-1], ToolMessage):
            return "NO_REPLY"
        said = " ".join(m.text for m in request.messages)
        return write(next(note for n, note in enumerate(notes) if f"fact {n} please" in said))

    r.model.reply_with(model)
    await asyncio.gather(*(flush.flush(conversation, "leave", "reset") for conversation in conversations))
    assert all(note in r.note() for note in notes)


async def test_a_flush_that_midnight_comes_into_keeps_to_one_day(room: Make) -> None:
    """Known defect 118940: the write was refused when the date changed in between."""
    r = room("ok")
    r.clock.set(datetime(2026, 3, 1, 22, 59, tzinfo=UTC))
    await r.say("remember teal")

    def model(request: Any) -> object:
        if isinstance(request.messages[-1], ToolMessage):
            return "NO_REPLY"
        r.clock.move(120)
        return write("- teal")

    r.model.reply_with(model)
    receipt = await flush.flush(r.conversation, "leave", "reset")
    assert r.conversation.today() == date(2026, 3, 2)
    assert receipt.outcome == "written"
    assert "- teal" in r.note("2026-03-01")


async def test_the_request_names_the_real_date_and_asks_for_silence(room: Make) -> None:
    """Known defect 17603: the prompt said YYYY-MM-DD, and notes went into another year."""
    r = room("ok", settings={"compaction": {"memoryFlush": {"prompt": "Write to memory/YYYY-MM-DD.md on YYYY-MM-DD."}}})
    await r.say("hello there")
    text = flush.request_text(r.conversation)
    assert "YYYY" not in text
    assert "memory/2026-03-01.md on 2026-03-01" in text
    assert "NO_REPLY" in text
    assert "Session nearing compaction" in text


async def test_a_half_written_call_poisons_neither_flush_nor_session(room: Make) -> None:
    """Known defect 9769: a half tool call of a broken stream made every later request invalid."""
    r = room("ok")
    await r.say("hello")
    broken = AssistantMessage(
        content=(ToolCall(id="x", name="write", arguments=None, raw='{"pa'),),
        model="m",
        stop="error",
        failure=Failure(kind="network", message="cut"),
    )
    await r.conversation.transcript.append("t1", Said(message=broken))
    r.model.then("NO_REPLY", "fine")
    receipt = await flush.flush(r.conversation, "leave", "reset")
    assert receipt.outcome == "nothing"
    assert receipt.problem == ""
    assert (await r.say("go on", "t2")).reply == "fine"


@pytest.mark.parametrize("access", ["ro", "none"])
async def test_no_flush_where_notes_cannot_be_written(room: Make, access: str) -> None:
    r = room(window=12_000, settings={**SMALL, "sandbox": {"workspaceAccess": access}})
    r.model.reply_with(obliging("- A fact."))
    for n in range(14):
        await r.say("plain words " * 580, f"t{n}")
    assert lines_on_disk(r, "compacted") > 0
    assert lines_on_disk(r, "flush_begun") == 0
    assert not flush.is_worthwhile(r.conversation)


async def test_with_read_only_access_tools_read_and_change_nothing(room: Make) -> None:
    r = room(
        write("- sneaky"), ToolCall(id="r", name="list", arguments={}), "done", settings={"sandbox": {"workspaceAccess": "ro"}}
    )
    result = await r.say("note this")
    assert [message.is_error for message in result.calls] == [True, False]
    assert r.note() == ""


async def test_turns_that_nobody_asked_for_never_flush(room: Make) -> None:
    r = room(window=12_000, settings=SMALL)
    r.model.reply_with(obliging("- A fact."))
    for n in range(14):
        await r.say("plain words " * 580, f"t{n}", background=True)
    assert lines_on_disk(r, "flush_begun") == 0
    assert lines_on_disk(r, "compacted") > 0


async def test_a_flush_may_have_a_model_of_its_own(room: Make) -> None:
    r = room("ok")
    await r.say("remember teal")
    other = ScriptedModel((write("- teal"), "NO_REPLY"), name="scripted/cheap")
    r.conversation.flush_model = other
    asked = len(r.model.requests)
    await flush.flush(r.conversation, "leave", "reset")
    assert "- teal" in r.note()
    assert len(r.model.requests) == asked
    assert len(other.requests) == 2


@pytest.mark.parametrize(
    "answer",
    [
        Failure(kind="billing", message="no money"),
        [Stall()],
        "I will remember that!",
        ToolCall(id="e", name="exec", arguments={}),
    ],
    ids=["failure", "never", "words", "another tool"],
)
async def test_a_flush_that_fails_leaves_an_extract_and_never_blocks_the_turn(room: Make, answer: object) -> None:
    r = room(window=12_000, settings={"compaction": {**SMALL["compaction"], "timeoutSeconds": 0.05}})
    r.model.reply_with(
        lambda request: (
            SUMMARY
            if "[Summary request]" in last(request)
            else answer
            if any("[Memory flush]" in m.text for m in request.messages)
            else "Heard."
        )
    )
    for n in range(8):
        assert (await r.say(f"The blue pot number {n} has the key. " + "plain words " * 580, f"t{n}")).reply == "Heard."
    assert "blue pot" in r.note()
    assert lines_on_disk(r, "flush_receipt") == lines_on_disk(r, "flush_begun") > 0


async def test_a_model_without_tools_to_write_costs_no_memory(room: Make) -> None:
    r = room("ok")
    await r.say("The spare key is under the blue pot")
    r.conversation.keeping = r.conversation.toolbox
    r.conversation.toolbox = Toolbox(())
    asked = len(r.model.requests)
    receipt = await flush.flush(r.conversation, "leave", "reset")
    assert (receipt.outcome, len(r.model.requests)) == ("extracted", asked)  # it is not even asked
    assert "blue pot" in r.note()


async def test_a_notes_folder_that_cannot_be_written_is_told_in_the_receipt(room: Make) -> None:
    r = room("ok")
    (r.workspace.root / "memory").write_text("a file where the folder should be")
    await r.say("remember teal")
    r.model.then(write("- teal"), "NO_REPLY")
    receipt = await flush.flush(r.conversation, "leave", "reset")
    assert receipt.outcome == "nothing"
    r.model.then("fine")
    assert (await r.say("go on", "t2")).reply == "fine"


async def test_an_unchanged_session_is_not_worth_a_flush(room: Make) -> None:
    r = room("ok")
    await r.say("The gate code is 4711")
    assert flush.is_worthwhile(r.conversation)
    r.model.then("NO_REPLY")
    await flush.flush(r.conversation, "leave", "reset")
    assert not flush.is_worthwhile(r.conversation)
    r.model.then("hello")
    await r.say("hi", "t2")
    assert not flush.is_worthwhile(r.conversation), "a greeting is no reason"


async def test_a_flush_cut_off_by_the_closing_house_is_void(room: Make) -> None:
    r = room("ok")
    await r.say("The gate code is 4711")
    await r.conversation.transcript.append("leave", FlushBegun(cycle=None, reason="shutdown"))
    await r.open()
    r.model.then("hello")
    await r.say("hi", "t2")
    assert r.note() == ""
    assert flush.is_worthwhile(r.conversation)


@pytest.mark.parametrize("reason", ["reset", "shutdown"])
async def test_a_session_left_after_its_cache_ran_out_is_flushed_without_long_results(room: Make, reason: Any) -> None:
    r = room(ToolCall(id="r", name="read", arguments={"path": "big.md"}), "read it", "NO_REPLY", "NO_REPLY")
    (r.workspace.root / "big.md").write_text("word " * 5000)
    await r.say("read big.md and remember teal")
    await flush.flush(r.conversation, "leave", reason)
    warm = r.model.requests[-1]
    r.clock.move(9 * 3600)
    await flush.flush(r.conversation, "leave", reason)
    cold = r.model.requests[-1]
    assert len(str(cold.messages)) < len(str(warm.messages)) / 4
    assert "remember teal" in str(cold.messages)
    assert (cold.system, cold.tools) == (warm.system, warm.tools)


class Walk:
    """A walk over context sizes: reported usage is what the test says, so that flush and compaction go by it alone."""

    def __init__(self, r: Room, sizes: list[int], crashes: set[int]) -> None:
        self.r = r
        self.sizes = sizes
        self.crashes = crashes
        self.flushes = 0

    def model(self, request: Any) -> object:
        if "[Memory flush]" in last(request):
            self.flushes += 1
            if self.flushes in self.crashes:
                raise Crash
            return "NO_REPLY"
        return SUMMARY

    async def run(self) -> None:
        self.r.model.reply_with(self.model)
        await self.r.open()
        for n, size in enumerate(self.sizes):
            conversation = self.r.conversation
            await conversation.prepare()
            try:
                await ContextBudget(conversation, f"r{n}", lambda _: None).before_turn([])
            except Crash:
                conversation = await self.r.open()
                await conversation.prepare()
            said = self.r.message(f"words number {n} of ours " * 30)
            answer = AssistantMessage(content=(), model="m", stop="tools", usage=Usage(input=size))
            answer = AssistantMessage(
                content=(ToolCall(id=f"c{n}", name="list", arguments={}),), model="m", stop="tools", usage=answer.usage
            )
            for message in (said, answer):
                await conversation.transcript.append(f"t{n}", Said(message=message))


class Crash(Exception):
    """The process is gone."""


@settings(max_examples=examples(40), deadline=None)
@given(
    st.lists(st.one_of(st.integers(100, 12_000), st.integers(9000, 10_500)), min_size=1, max_size=40),
    st.sets(st.integers(1, 8)),
)
def test_the_flush_fires_exactly_once_in_a_cycle_over_any_walk_and_any_crash(
    tmp_path_factory: Any, sizes: list[int], crashes: set[int]
) -> None:
    from tests.agent.conftest import Room

    async def check() -> None:
        r = Room(tmp_path_factory.mktemp("walk"), ScriptedModel(window=12_000), AgentSettings.model_validate(SMALL))
        await Walk(r, sizes, crashes).run()
        cycle, begun, above = None, 0, 0
        line = r.conversation.window.flush_at
        for entry in await whole(r):
            match entry.body:
                case FlushBegun(cycle=told):
                    assert told == cycle
                    begun += 1
                    assert begun == 1, "at most once in a cycle"
                case Compacted():
                    assert begun == 1, "never compacted without a flush before"
                    cycle, begun, above = entry.id, 0, 0
                case Said(message=AssistantMessage(usage=usage)) if usage is not None:
                    assert not (above and begun == 0), "a turn began above the line and was not flushed"
                    above = usage.input >= line
        opened = [e for e in await whole(r) if isinstance(e.body, FlushBegun | FlushReceipt)]
        kinds = [type(e.body) for e in opened]
        pairs = list(zip(kinds[::2], kinds[1::2], strict=False))
        assert all(pair == (FlushBegun, FlushReceipt) for pair in pairs), "each flush ends before the next one begins"

    asyncio.run(check())


async def test_what_a_flush_says_is_never_shown_in_any_chunking(room: Make) -> None:
    dice = random.Random(2)
    r = room(window=12_000, settings=SMALL)
    from agent.events import TextDelta

    def pieces(text: str) -> list[TextDelta]:
        cuts = sorted(dice.sample(range(1, len(text)), min(len(text) - 1, 4)))
        return [TextDelta(text[a:b]) for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]

    r.model.reply_with(
        lambda request: (
            SUMMARY
            if "[Summary request]" in last(request)
            else pieces("NO_REPLY" if "[Memory flush]" in last(request) else "Heard.")
        )
    )
    for n in range(20):
        await r.say("plain words " * 580, f"t{n}")
    shown = "".join(event.text for event in r.events if isinstance(event, TextDelta))
    assert shown == "Heard." * 20
    assert lines_on_disk(r, "flush_begun") > 1


async def test_a_crash_at_each_step_of_a_turn_with_flush_and_compaction_loses_nothing(room: Make, tmp_path: Any) -> None:
    """The transcript is cut after each entry in turn, as a crash would; the turn is run again and comes to the same end."""
    r = room(window=12_000, settings=SMALL)
    r.model.reply_with(obliging("- A fact."))
    for n in range(5):
        await r.say(f"message {n} " + "plain words " * 580, f"t{n}")
    stored = r.conversation.transcript.stored
    before = len(list(stored.lines()))
    text = "The last one: " + "plain words " * 1400
    await r.say(text, "last")
    lines = list(stored.lines())
    assert any(b'"kind":"compacted"' in line for line in lines[before:])
    for keep in range(before, len(lines) + 1):
        r.root = tmp_path / f"cut{keep}"
        again = r.root / "sessions" / "s-1.jsonl"
        again.parent.mkdir(parents=True)
        again.write_bytes(b"".join(lines[:keep]))
        conversation = await r.open()
        result = await Turn(context=conversation, id="last", emit=lambda _: None).run([r.message(text)])
        assert result.reply == "Heard."
        entries = await whole(r)
        assert sum(isinstance(e.body, Said) and e.id == "last:0" for e in entries) == 1
        begun = [e.body.cycle for e in entries if isinstance(e.body, FlushBegun)]
        assert len(begun) == len(set(begun))


async def test_compaction_by_hand_gives_the_next_cycle_its_own_flush(room: Make) -> None:
    r = room(window=12_000, settings=SMALL)
    r.model.reply_with(obliging("- A fact."))
    for n in range(7):
        await r.say("plain words " * 580, f"t{n}")
    await flush.flush(r.conversation, "command", "compact")
    await compact(r.conversation, "command", "command")
    said = [entry.body.message for entry in r.conversation.said_since_flush() if isinstance(entry.body, Said)]
    assert flush.may_fire(r.conversation) == any(isinstance(message, UserMessage) for message in said)
    for n in range(7):
        await r.say("plain words " * 580, f"u{n}")
    assert lines_on_disk(r, "flush_begun") >= 2


HEADED = [
    "## 10:30 AM - API\nDecision: use REST for simplicity.\n\n## 2:15 PM - Deploy\nDeployed v2.3.0.\n",
    "# 2026-03-01\n\n## Decisions\n- REST\n",
    "#decision REST\n",
]


@pytest.mark.parametrize("content", HEADED)
async def test_a_note_that_begins_with_a_heading_is_kept_and_the_model_told_what_happened(room: Make, content: str) -> None:
    r = room("ok", write(content), "NO_REPLY", settings={"compaction": {"memoryFlush": {"verbatim": False}}})
    await r.say("the API")
    receipt = await flush.flush(r.conversation, "leave", "reset")
    assert receipt.outcome == "written"
    assert all(line in r.note() for line in content.splitlines())
    assert "Appended" in r.model.requests[-1].messages[-1].text
    assert flush.receipt_in_words(receipt) == "What mattered in the last one is in memory/2026-03-01.md."


async def test_a_block_that_the_note_holds_is_not_repeated_and_that_is_said(room: Make) -> None:
    r = room("ok", write("- the key is blue\n- the door is teal\n"), "NO_REPLY", "ok")
    await r.say("hello there")
    await flush.flush(r.conversation, "leave", "reset")
    before = r.note()
    await r.say("hello again", "t2")
    r.model.then(write("- the key is blue\n- the door is teal\n"), write("- the door is teal\n- the roof leaks\n"), "NO_REPLY")
    receipt = await flush.flush(r.conversation, "leave", "reset")
    first, second = (m.text for m in r.model.requests[-1].messages if isinstance(m, ToolMessage))
    assert first == "Nothing was added: memory/2026-03-01.md holds all of this already."
    assert "was not added again" in second
    assert r.note() == before + "- the roof leaks\n"
    assert receipt.outcome == "written"


async def test_a_write_that_was_refused_is_in_the_receipt_and_in_the_words(room: Make) -> None:
    r = room("ok")
    (r.workspace.root / "memory").write_text("a file where the folder should be")
    await r.say("remember teal")
    r.model.then(write("- teal"), "NO_REPLY")
    receipt = await flush.flush(r.conversation, "leave", "reset")
    assert (receipt.outcome, receipt.written) == ("nothing", ())
    assert receipt.problem
    assert flush.receipt_in_words(receipt).startswith("Nothing of the last one was noted: ")


async def test_a_talk_of_yesterday_is_filed_under_yesterday(room: Make) -> None:
    r = room("ok")
    await r.say("The gate code is 4711")
    r.clock.move(18 * 3600)
    r.model.then(write("## Gate\n- code 4711"), "NO_REPLY")
    receipt = await flush.flush(r.conversation, "leave", "reset")
    assert [note.path for note in receipt.written] == ["memory/2026-03-01.md"]
    assert "memory/2026-03-01.md" in r.model.requests[-1].messages[1].text + str(r.model.requests[-2].messages)


async def test_words_of_several_days_are_kept_under_the_day_when_they_were_said(room: Make) -> None:
    r = room("ok", "ok", "NO_REPLY")
    await r.say("Anna's cat is called Mio.")
    r.clock.move(24 * 3600)
    await r.say("Let's go with teal for the door.", "t2")
    receipt = await flush.flush(r.conversation, "leave", "reset")
    assert receipt.outcome == "extracted"
    assert "Mio" in r.note("2026-03-01")
    assert "teal" in r.note("2026-03-02")
    assert "Mio" not in r.note("2026-03-02")


async def test_what_is_kept_by_rule_stands_apart_from_what_the_model_wrote(room: Make) -> None:
    r = room("ok", write("- Door: teal."), "NO_REPLY")
    await r.say("The invoice is INV-2026-0042.")
    await flush.flush(r.conversation, "leave", "reset")
    assert r.note() == "- Door: teal.\n\n## Kept word for word\n\n- The invoice is INV-2026-0042.\n"


async def test_of_a_message_only_words_are_kept_and_those_of_others_with_whose_they_are(room: Make) -> None:
    r = room("ok", write("- Door: teal."), "NO_REPLY")
    await r.say(
        "[edited: My alarm code is 4712.]\n[The message]\nMy sister Klara lives in Kiel.\n[forwarded]\n"
        '<untrusted 2c2208a7ef from="forwarded:Ben">\nThe bank moves on 3 December.\n</untrusted 2c2208a7ef>\n'
        "[it cannot be shown: it is a broken picture of 2026]\n[2 more files were not downloaded (at most 10 per message): A1.txt]"
    )
    await flush.flush(r.conversation, "leave", "reset")
    assert r.note().partition("## Kept word for word\n\n")[2].splitlines() == [
        "- My alarm code is 4712. (edited)",
        "- My sister Klara lives in Kiel.",
        "- Forwarded from Ben: The bank moves on 3 December.",
    ]


async def test_more_than_fits_a_note_goes_into_a_file_beside_it(room: Make) -> None:
    r = room(*["ok"] * 40, "NO_REPLY")
    for n in range(40):
        await r.say(
            f"Box {n} holds the papers of the year {1990 + n} and stands in the attic, left of the door to the roof.", f"t{n}"
        )
    receipt = await flush.flush(r.conversation, "leave", "reset")
    said = (r.workspace.root / "memory" / "2026-03-01-said.md").read_text()
    assert all(str(1990 + n) in said for n in range(40))
    assert "memory/2026-03-01-said.md" in r.note()
    assert len(r.note()) < 200
    assert {note.path for note in receipt.written} == {"memory/2026-03-01.md", "memory/2026-03-01-said.md"}


async def test_a_last_call_asks_for_no_long_keeping_and_others_do(room: Make) -> None:
    r = room("ok", "NO_REPLY", "ok", "NO_REPLY", settings={"cacheRetention": "1h"})
    await r.say("The gate code is 4711")
    await flush.flush(r.conversation, "leave", "reset")
    assert r.model.requests[-1].cache_ttl == "5m"
    await r.say("The roof leaks since 2019", "t2")
    await flush.flush(r.conversation, "room", "threshold")
    assert r.model.requests[-1].cache_ttl == "1h"
