from __future__ import annotations

import asyncio
import itertools
import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.context import flush
from agent.context.compaction import MUST_SHRINK, compact
from agent.context.context_budget import ContextBudget
from agent.context.cut_points import find_cut
from agent.context.must_keep import HEAD, kept_lines, particulars
from agent.context.summary import HEADINGS, SHAPE, cut_into_pieces, fault_in
from agent.events import Notice
from agent.messages import AssistantMessage, Failure, Text, ToolCall, ToolMessage, UserMessage
from agent.models.scripted import ScriptedModel, Stall
from agent.models.token_estimate import estimate, weight_of_request
from agent.transcript.entries import Compacted, Pinned, ResultsCleared, Said, Unpinned
from tests.properties import examples
from tests.sampling import parametrize_some

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.context.session_context import SessionContext
    from tests.agent.conftest import Room

    Make = Callable[..., Room]

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SMALL = {"compaction": {"reserveTokens": 2000, "reserveTokensFloor": 2000, "keepRecentTokens": 1200, "keepRecentTurns": 1}}
SUMMARY = "## Decisions\nSome plain talk was heard, and we chose teal for the door."


async def filled(r: Room, *, turns: int = 12, words: int = 140, text: str = "some plain words ") -> SessionContext:
    """A conversation in whose window ``turns`` turns stand."""
    conversation = await r.open()
    await conversation.prepare()
    for n in range(turns):
        said = UserMessage(content=(Text(text=f"message {n}: " + text * (words // 3)),), at=NOON)
        heard = AssistantMessage(content=(Text(text=f"Heard {n}."),), model="m", stop="end")
        for message in (said, heard):
            await conversation.transcript.append(f"fill{n}", Said(message=message))
    return conversation


async def exchanged(r: Room, turn: str, text: str) -> None:
    """Put a message and its answer into the transcript."""
    heard = AssistantMessage(content=(Text(text="Heard."),), model="m", stop="end")
    for message in (r.message(text), heard):
        await r.conversation.transcript.append(turn, Said(message=message))


async def test_compaction_fits_shrinks_and_points_at_what_it_keeps(room: Make) -> None:
    r = room(SUMMARY, window=12_000, settings=SMALL)
    conversation = await filled(r, turns=30)
    size = conversation.tokens()
    on_disk = b"".join(conversation.transcript.stored.lines())
    shrunk = await compact(conversation, "t", "threshold")
    assert shrunk.summarised
    assert shrunk.before == size
    assert shrunk.after <= min(MUST_SHRINK * size, conversation.window.flush_at)
    assert b"".join(conversation.transcript.stored.lines()).startswith(on_disk), "nothing on disk is removed"
    assert conversation.tokens() <= conversation.window.flush_at
    again = await r.open()
    await again.prepare()
    assert [m.text for m in again.messages()] == [m.text for m in conversation.messages()], "the same after a restart"
    assert "teal for the door" in again.messages()[0].text


async def test_the_request_for_a_summary_rides_on_the_unchanged_prefix(room: Make) -> None:
    r = room("ok", SUMMARY, window=40_000, settings={"compaction": {"keepRecentTokens": 300, "keepRecentTurns": 1}})
    await filled(r)
    r.conversation = None
    await r.say("and now")
    asked = r.model.requests[-1]
    await compact(r.conversation, "t", "threshold")
    summary = r.model.requests[-1]
    assert (summary.system, summary.tools) == (asked.system, asked.tools)
    assert summary.messages[: len(asked.messages)] == asked.messages
    assert "[Summary request]" in summary.messages[-1].text
    assert not r.conversation.watch.parting


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "x",
        "aaaa " * 400,
        ToolCall(id="c", name="read", arguments={"path": "AGENTS.md"}),
        Failure(kind="overloaded", message="busy"),
        "word after another word " * 9000,
    ],
    ids=["nothing", "one letter", "noise", "a tool call", "a failure", "more than its input"],
)
async def test_a_summariser_that_gives_no_summary_costs_no_history(room: Make, answer: object) -> None:
    """Known defect 13624: a failing compaction made every later message fail too."""
    r = room(window=12_000, settings=SMALL)
    r.model.reply_with(lambda request: answer if "[Summary request]" in request.messages[-1].text else "still here")
    conversation = await filled(r, turns=20)
    messages = conversation.messages()
    await compact(conversation, "t", "threshold")
    assert not any(isinstance(entry.body, Compacted) for entry in conversation.transcript.entries)
    assert conversation.messages() == messages
    assert len(r.model.requests) <= 12
    r.conversation = conversation
    assert (await r.say("are you there?")).reply == "still here"


@parametrize_some(1, "answer", ["They talked.", Failure(kind="overloaded", message="busy")], ids=["no form", "a failure"])
async def test_summaries_that_fail_are_not_asked_for_at_each_turn(
    room: Make, answer: object, caplog: pytest.LogCaptureFixture
) -> None:
    """Two to four requests of a whole conversation at each turn cost twice the conversation itself, and no line said so."""
    caplog.set_level("INFO", logger="agent.context")
    r = room(window=24_000, settings=SMALL)
    r.model.reply_with(lambda request: answer if "[Summary request]" in request.messages[-1].text else "NO_REPLY")
    sizes = []
    for n in range(420):
        await r.say(f"Turn {n}. " + TALK[n % 4] + " And plain talk went on" * 20, turn=f"t{n}")
        sizes.append(r.conversation.tokens())
    asked = [n for n, one in enumerate(r.model.requests) if "[Summary request]" in one.messages[-1].text]
    forgotten = sum(isinstance(entry.body, Compacted) for entry in r.conversation.transcript.entries)
    full = sum(after < before for before, after in itertools.pairwise(sizes))
    assert forgotten
    assert full >= 2
    assert 0 < len(asked) <= 12 * (full + 1), "three tries of at most four requests until the window is full"
    assert len(asked) < len(sizes) / 3
    assert max(sizes) < 24_000
    assert any("no summary could be made" in one.getMessage() for one in caplog.records)
    assert any("memory flush (threshold)" in one.getMessage() for one in caplog.records)


async def test_a_summary_is_asked_for_again_once_the_model_is_another(room: Make) -> None:
    r = room(window=24_000, settings=SMALL)
    conversation = await filled(r, turns=20)
    conversation.summary_ended(failed=True)
    size = conversation.tokens()
    assert not conversation.may_summarise(size)
    assert conversation.may_summarise((size + 24_000) // 2)
    conversation.summary_ended(failed=True)
    assert not conversation.may_summarise((size + 24_000) // 2)
    assert conversation.may_summarise(24_000)
    conversation.model = ScriptedModel(lambda _: "ok", name="another", window=24_000)
    assert conversation.may_summarise(size)
    conversation.summary_ended(failed=False)
    assert conversation.may_summarise(0)


async def test_a_summariser_that_never_answers_is_given_up(room: Make) -> None:
    r = room(window=12_000, settings={"compaction": {**SMALL["compaction"], "timeoutSeconds": 0.05}})
    r.model.reply_with(lambda _: [Stall()])
    conversation = await filled(r, turns=20)
    shrunk = await compact(conversation, "t", "threshold")
    assert not shrunk.helped
    assert "gave no answer within" in shrunk.problem


async def test_old_results_are_cleared_when_no_summary_can_be_made(room: Make) -> None:
    r = room(window=12_000, settings=SMALL)
    r.model.reply_with(lambda _: Failure(kind="overloaded", message="busy"))
    conversation = await filled(r, turns=3)
    call = AssistantMessage(content=(ToolCall(id="c", name="read", arguments={}),), model="m", stop="tools")
    for message in (call, ToolMessage(call_id="c", name="read", text="long " * 4000)):
        await conversation.transcript.append("u", Said(message=message))
    await conversation.transcript.append("v", Said(message=r.message("go on")))
    shrunk = await compact(conversation, "t", "overflow")
    assert not shrunk.summarised
    assert shrunk.after < shrunk.before
    assert isinstance(conversation.transcript.entries[-1].body, ResultsCleared)
    assert "busy" in shrunk.problem


async def test_a_former_summary_is_given_to_be_updated(room: Make) -> None:
    r = room(
        SUMMARY,
        "## Decisions\nTeal for the door still holds, and the roof is next on the list of ours.",
        window=12_000,
        settings=SMALL,
    )
    conversation = await filled(r, turns=30)
    await compact(conversation, "t", "threshold")
    for n in range(20):
        await exchanged(r, f"u{n}", "more words of ours about the roof " * 40)
    await compact(conversation, "t2", "threshold")
    assert any("chose teal for the door" in m.text for m in r.model.requests[-1].messages)
    assert "earlier summary" in r.model.requests[-1].messages[-1].text
    shown = conversation.messages()
    assert "the roof is next" in shown[0].text
    assert not any("chose teal for the door" in m.text for m in shown[1:])


async def test_history_larger_than_the_summarisers_window_is_merged_piece_by_piece(room: Make) -> None:
    r = room(window=12_000, settings=SMALL)
    seen: list[int] = []

    def model(request: Any) -> str:
        text = request.messages[-1].text
        assert estimate(text) < 12_000, "each piece fits"
        seen.append(text.count("message "))
        return f"## Done\nSo far {len(seen)} pieces of some plain talk were heard and merged."

    r.model.reply_with(model)
    conversation = await filled(r, turns=64)
    assert conversation.tokens() > 12_000
    await compact(conversation, "t", "overflow")
    assert len(seen) > 1
    assert all(
        f"Summary so far:\n## Done\nSo far {n} pieces" in r.model.requests[n].messages[0].text for n in range(1, len(seen))
    )
    assert f"So far {len(seen)} pieces" in conversation.messages()[0].text


async def test_a_parted_turn_keeps_what_was_asked_word_for_word(room: Make) -> None:
    r = room(SUMMARY, window=12_000, settings=SMALL)
    conversation = await filled(r, turns=2)
    await conversation.transcript.append("w", Said(message=r.message("Please sort the 17 boxes in the attic by owner.")))
    for n in range(24):
        call = AssistantMessage(content=(ToolCall(id=f"c{n}", name="read", arguments={}),), model="m", stop="tools")
        await conversation.transcript.append("w", Said(message=call))
        result = ToolMessage(call_id=f"c{n}", name="read", text="a box of things " * 60)
        await conversation.transcript.append("w", Said(message=result))
    await compact(conversation, "t", "threshold")
    assert "The turn under way" in r.model.requests[-1].messages[-1].text
    assert sum("sort the 17 boxes in the attic by owner" in m.text for m in conversation.messages()) == 1


async def test_what_the_summary_lost_is_put_back_word_for_word_unless_memory_has_it(room: Make) -> None:
    r = room(window=12_000, settings=SMALL)
    r.model.reply_with(lambda _: SUMMARY)
    conversation = await r.open()
    await conversation.prepare()
    (r.workspace.root / "memory").mkdir(exist_ok=True)
    (r.workspace.root / "memory" / "2026-03-01.md").write_text("- The gate code is 4711.\n")
    facts = [
        "The invoice is INV-2026-0042 over 1,250.50 EUR, due on 2026-04-15.",
        "See https://example.org/a/b?c=1 for it. The gate code is 4711.",
        "Mail it to anna.k@example.org.",
    ]
    for n, fact in enumerate(facts):
        await exchanged(r, f"f{n}", fact)
    for n in range(24):
        await exchanged(r, f"t{n}", "some plain words " * 160)
    await compact(conversation, "t", "threshold")
    summary = conversation.messages()[0].text
    for kept in ("INV-2026-0042", "1,250.50 EUR", "2026-04-15", "https://example.org/a/b?c=1", "anna.k@example.org"):
        assert kept in summary
    assert facts[0] in summary
    assert HEAD in summary


async def test_pins_live_through_all_compactions(room: Make) -> None:
    r = room(window=12_000, settings=SMALL)
    r.model.reply_with(lambda _: SUMMARY)
    conversation = await filled(r, turns=3)
    await conversation.transcript.append("command", Pinned(text="Never mail the tax office without asking."))
    await conversation.transcript.append("command", Pinned(text="The cat is called Mio."))
    for cycle in range(3):
        for n in range(24):
            await exchanged(r, f"c{cycle}-{n}", "some plain words " * 160)
        assert (await compact(conversation, f"t{cycle}", "threshold")).summarised
        assert "Never mail the tax office" in conversation.messages()[0].text
    await conversation.transcript.append("command", Unpinned(text="The cat is called Mio."))
    again = await r.open()
    assert again.transcript.pins == ("Never mail the tax office without asking.",)


async def test_compaction_by_hand_reports_before_and_after_and_follows_the_focus(room: Make) -> None:
    r = room(SUMMARY, window=40_000, settings={"compaction": {"keepRecentTokens": 300, "keepRecentTurns": 1}})
    conversation = await filled(r)
    shrunk = await compact(conversation, "t", "command", focus="the kitchen")
    assert shrunk.after < shrunk.before
    assert "Dwell on: the kitchen" in r.model.requests[-1].messages[-1].text


async def test_two_sessions_compact_at_once_without_touching_each_other(room: Make, tmp_path: Any) -> None:
    r = room(window=12_000, settings=SMALL)
    r.model.reply_with(lambda request: f"## Done\nSome plain talk was heard, {len(request.messages)} times in all.")
    first = await filled(r, turns=30)
    r.root = tmp_path / "other"
    second = await filled(r, turns=24)
    shrunk = await asyncio.gather(compact(first, "t", "threshold"), compact(second, "t", "threshold"))
    assert all(one.summarised for one in shrunk)
    assert first.messages() != second.messages()


async def test_a_smaller_window_in_mid_session_is_made_room_for(room: Make) -> None:
    r = room(window=100_000, settings={"compaction": {"keepRecentTokens": 300, "keepRecentTurns": 1}})
    r.model.reply_with(lambda request: SUMMARY if "[Summary" in str(request.messages[-1]) else "NO_REPLY")
    r.conversation = await filled(r, turns=40)
    r.model.window = 8000
    await r.say("hello?", "late")
    assert r.conversation.tokens() < 8000
    assert any(isinstance(e, Notice) and "Auto-compaction complete" in e.text for e in r.events)


async def test_a_window_smaller_than_the_prompt_is_told_and_does_not_loop(room: Make) -> None:
    r = room(window=4000, settings={"contextTokens": 4000})
    (r.workspace.root / "AGENTS.md").write_text("rule " * 6000)
    r.model.reply_with(lambda _: Failure(kind="overflow", message="prompt is too long"))
    result = await r.say("hello")
    assert result.outcome == "failed"
    assert len(r.model.requests) < 12


async def test_a_message_larger_than_the_window_ends_in_words(room: Make) -> None:
    r = room(window=12_000, settings=SMALL)
    r.model.reply_with(
        lambda request: Failure(kind="overflow", message="too long") if estimate(str(request.messages)) > 12_000 else "NO_REPLY"
    )
    result = await r.say("word " * 300_000)
    assert result.outcome == "failed"
    assert (await r.say("still there?", "t2")).outcome in {"failed", "silent"}


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(st.sampled_from("uactT"), min_size=1, max_size=40), st.integers(0, 3000), st.integers(1, 4))
def test_every_cut_is_legal(tmp_path_factory: Any, shape: list[str], keep: int, turns: int) -> None:
    from agent.models.scripted import ScriptedModel
    from agent.settings import AgentSettings
    from tests.agent.conftest import Room

    async def check() -> None:
        r = Room(tmp_path_factory.mktemp("cut"), ScriptedModel(window=20_000), AgentSettings.model_validate(SMALL))
        conversation = await r.open()
        for n, letter in enumerate(shape):
            call = ToolCall(id=f"c{n}", name="read", arguments={})
            message = {
                "u": UserMessage(content=(Text(text="words " * 50),), at=NOON),
                "a": AssistantMessage(content=(Text(text="words " * 20),), model="m", stop="end"),
                "c": AssistantMessage(content=(call,), model="m", stop="tools"),
                "t": ToolMessage(call_id=f"c{n - 1}", name="read", text="result " * 100),
                "T": ToolMessage(call_id=f"c{n - 2}", name="read", text="result " * 400),
            }[letter]
            await conversation.transcript.append("t", Said(message=message))
        cut = find_cut(conversation, keep, turns)
        if cut is not None:
            assert isinstance(cut.first.body, Said)
            assert not isinstance(cut.first.body.message, ToolMessage)
            assert cut.dropped
            mark = Compacted(summary="s", first_kept=cut.first.id, tokens_before=0, tokens_after=0, model="m", reason="x")
            await conversation.transcript.append("z", mark)
            shown = conversation.messages()
            calls = [call.id for m in shown if isinstance(m, AssistantMessage) for call in m.calls]
            assert [m.call_id for m in shown if isinstance(m, ToolMessage)] == calls
            assert isinstance(shown[0], UserMessage)

    asyncio.run(check())


@given(st.lists(st.text(min_size=0, max_size=400), max_size=30), st.integers(20, 200))
def test_pieces_hold_everything_that_fits_and_none_is_too_long(texts: list[str], limit: int) -> None:
    pieces = cut_into_pieces(texts, limit)
    assert all(estimate(piece) <= 3 * limit + 40 for piece in pieces)
    joined = "\n\n".join(pieces)
    assert all(text in joined for text in texts if estimate(text) <= limit)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see https://example.org/x?y=1, ok", ["https://example.org/x?y=1"]),
        ("on 2026-03-01 at 14:30", ["2026-03-01", "14:30"]),
        ("due 3 March 2026 and April 5th", ["3 March 2026", "April 5th"]),
        ("it cost $1,250.50 or 99 EUR", ["$1,250.50", "99 EUR"]),
        ("ticket ABC-123 in commit 9f86d08", ["ABC-123", "9f86d08"]),
        ("in /etc/hosts.d/home and ~/notes/plan.md", ["/etc/hosts.d/home", "~/notes/plan.md"]),
        ("call +49 30 1234567", ["+49 30 1234567"]),
        ("门牌号是4711号", ["4711"]),
        ("nothing of note here", []),
    ],
)
def test_particulars_are_found(text: str, found: list[str]) -> None:
    assert [one for one in particulars(text) if one] == found


@given(st.lists(st.integers(1000, 9_999_999), max_size=40), st.integers(0, 3000))
def test_what_is_put_back_fits_its_room_and_is_missing_elsewhere(numbers: list[int], room_chars: int) -> None:
    dropped = [UserMessage(content=(Text(text=f"Number {number} matters."),), at=NOON) for number in numbers]
    known = "\n".join(f"Number {number} matters." for number in numbers[::2])
    kept = kept_lines(dropped, "", known, room_chars)
    assert len(kept) <= room_chars + len(HEAD) + 1
    for number in numbers[::2]:
        assert f"Number {number} matters" not in kept or str(number) not in known
    if room_chars > 60 * 40:
        for number in numbers[1::2]:
            assert str(number) in kept + known


async def test_flush_and_compaction_over_a_long_talk_never_overflow(room: Make) -> None:
    dice = random.Random(4)
    r = room(window=12_000, settings=SMALL)
    r.model.reply_with(
        lambda request: (
            SUMMARY
            if "[Summary request]" in str(request.messages[-1])
            else "NO_REPLY"
            if "[Memory flush]" in str(request.messages[-1])
            else "Heard."
        )
    )
    for n in range(60):
        result = await r.say("plain words " * dice.randrange(1, 400), f"t{n}")
        assert result.reply == "Heard."
        assert result.context <= 12_000
    assert flush.is_worthwhile(r.conversation) in {True, False}


async def test_an_overflow_teaches_the_real_window_and_the_flush_fits_into_it(room: Make) -> None:
    real = 14_000
    r = room(window=40_000, settings={"compaction": {"keepRecentTokens": 1000, "keepRecentTurns": 1}})
    refused: list[str] = []

    def model(request: Any) -> object:
        last = "" if isinstance(request.messages[-1], ToolMessage) else request.messages[-1].text
        if weight_of_request(request).total > real:
            refused.append(last[:16])
            return Failure(kind="overflow", message="prompt is too long")
        return SUMMARY if "[Summary request]" in last else "NO_REPLY" if "[Memory flush]" in last else "Heard."

    r.model.reply_with(model)
    for n in range(40):
        assert (await r.say(f"message {n} " + "plain words " * 400, f"t{n}")).reply == "Heard."
    assert len(refused) == 1, "one overflow is enough to know"
    assert r.conversation.window.size < 16_000


REFUSALS = [
    "I can't help with that right now, sorry.",
    "Hello! How can I help?",
    "Let me look at the file first.",
    "## Goal\nI'm sorry, but I can't help with that request right now.",
    "## Goal: Write a summary that lets the work go on.\n## Done\nUse these headings and leave out empty ones.",
    "## Goal\nUse a word that has a special meaning.\n" + "### Use a word that has a special meaning.\n" * 8,
    "## Done\n" + "the boiler in Graz is old " * 40,
]  # fmt: skip
TALK = [
    "Vera lives in Graz.",
    "The boiler is from 1998.",
    "The plumber comes on 14 May.",
    "We chose larch for the stairs, not oak.",
]
GOOD = "## Exact details\nVera, Graz; boiler of 1998; plumber 14 May.\n## Decisions\nLarch for the stairs, not oak."


async def talked(r: Room, turns: int = 20) -> SessionContext:
    conversation = await r.open()
    await conversation.prepare()
    for n in range(turns):
        await exchanged(r, f"talk{n}", TALK[n % 4] + " And plain talk of the weather went on for a good while" * 20)
    return conversation


def test_what_is_no_summary_is_told_from_one() -> None:
    order = SHAPE.format(words=300)
    for text in REFUSALS:
        assert fault_in(text, order, TALK, HEADINGS), text
    assert fault_in(GOOD, order, TALK, HEADINGS) == ""
    german = "## Ziel\nVera zieht nach Graz.\n## Stand\nHeizkessel von 1998, Klempner am 14. Mai, Treppe aus Lärche."
    assert fault_in(german, order, [*TALK, "Heizkessel, Treppe, Lärche, Klempner: Vera zieht um."], HEADINGS) == ""


def test_a_summary_of_babble_that_forgets_what_people_said_is_none() -> None:
    """A small model's words, from a run with one: its own earlier babble shares enough words with it."""
    talk = [
        "Person: Hello. My name is Vera and I live in Graz.",
        "Agent: A number that is not a date. You need to read this file twice, and add a line tomorrow; the task is completed.",
        "Person: My boiler was last serviced on 17 March. Please remember that.\n\nPerson: The plumber is Mr Oduya.",
        "Agent: In two days you will get a block of code for the meeting. The agenda of this week has a bonus point, and a list.",
    ]
    babble = (
        "Here is the summary:\n## What's in this file, and what you need to know.\n### 1234567890\nYour name\nYou are today.\n"
        "This message has already been read twice.\nWe have a block of code that was not completed by last night's meeting. "
        "We will change the agenda tomorrow. You can finish your task in two days, and you will get a bonus point for this task.\n"
        "## What's in your file?\nYou are allowed to add something to this list, but not more than three times during the next week."
    )
    order = SHAPE.format(words=300)
    assert "names and figures" in fault_in(babble, order, talk, HEADINGS)
    assert fault_in(GOOD, order, talk, HEADINGS) == "", "one of them is enough"
    assert fault_in(babble, order, [one.replace("Person: ", "Agent: ") for one in talk], HEADINGS) == "", "people gave none"


@pytest.mark.parametrize("refusal", REFUSALS)
async def test_an_answer_that_is_no_summary_replaces_nothing(room: Make, refusal: str) -> None:
    r = room(window=12_000, settings=SMALL)
    r.model.reply_with(lambda _: refusal)
    conversation = await talked(r)
    before = conversation.messages()
    shrunk = await compact(conversation, "t", "threshold")
    assert not shrunk.summarised
    assert "the model wrote no summary" in shrunk.problem
    assert conversation.messages() == before
    assert "Your last answer was of no use" in r.model.requests[1].messages[-1].text


async def test_a_summary_is_asked_for_again_before_it_is_given_up(room: Make) -> None:
    r = room(REFUSALS[0], GOOD, window=12_000, settings=SMALL)
    conversation = await talked(r)
    shrunk = await compact(conversation, "t", "threshold")
    assert shrunk.summarised
    assert len(r.model.requests) == 2
    assert "Larch" in conversation.messages()[0].text


async def test_a_summary_that_was_cut_off_is_asked_for_shorter_and_keeps_its_exact_details(room: Make) -> None:
    def cut(request: Any) -> AssistantMessage:
        return AssistantMessage(content=(Text(text=f"{GOOD}\n## Next steps\nCall the"),), model="m", stop="length")

    r = room(window=200_000, settings={"compaction": {"keepRecentTokens": 300, "keepRecentTurns": 1}})
    r.model.reply_with(cut)
    conversation = await talked(r, 100)
    shrunk = await compact(conversation, "t", "threshold")
    assert shrunk.summarised
    first, second = r.model.requests
    assert "in at most 1500 words" in first.messages[-1].text
    assert first.max_output >= 8000, "more than the words that are asked for need"
    assert "cut off" in second.messages[-1].text
    shown = conversation.messages()[0].text
    assert "boiler of 1998" in shown
    assert "Call the" not in shown


async def test_messages_that_the_running_turn_has_not_answered_stay_in_sight(room: Make) -> None:
    """Ten collected messages and the tool rounds after them: a compaction between the rounds folded the messages away."""
    r = room(GOOD, GOOD, window=22_000, settings=SMALL)
    conversation = await talked(r, 6)
    for n in range(10):
        await conversation.transcript.append(
            f"w~{n}", Said(message=r.message(f"Question {n} of ten: " + "about the roof " * 60))
        )
    for n in range(20):
        call = AssistantMessage(content=(ToolCall(id=f"c{n}", name="read", arguments={}),), model="m", stop="tools")
        await conversation.transcript.append("w", Said(message=call))
        result = ToolMessage(call_id=f"c{n}", name="read", text="Vera's boiler in Graz, 1998. " * 60)
        await conversation.transcript.append("w", Said(message=result))
    shrunk = await compact(conversation, "t", "threshold")
    assert shrunk.summarised
    for again in (conversation, await r.open()):
        await again.prepare()
        shown = [m.text for m in again.messages() if isinstance(m, UserMessage)]
        assert [sum(f"Question {n} of ten" in text for text in shown[1:]) for n in range(10)] == [1] * 10


async def test_a_turn_makes_room_twice_and_no_more(room: Make) -> None:
    r = room(window=12_000, settings=SMALL)
    r.model.reply_with(lambda request: GOOD if "[Summary request]" in last_text(request) else "NO_REPLY")
    conversation = await talked(r)
    headroom = ContextBudget(conversation, "t", lambda _: None)
    made = []
    for n in range(4):
        made.append(await headroom.after_overflow())
        for more in range(20):
            await exchanged(r, f"more{n}-{more}", TALK[more % 4] + " And plain talk went on" * 40)
    assert made == [True, True, False, False], "what two compactions did not free, a third will not"


def last_text(request: Any) -> str:
    return request.messages[-1].text


async def test_where_no_summary_fits_the_oldest_turns_are_left_out_and_that_is_told_once(room: Make) -> None:
    """A window of 2,048: every message failed from the sixth turn on, and /compact said that there was nothing to do."""
    r = room(settings=SMALL)
    r.model.window = 3000

    def model(request: Any) -> object:
        if weight_of_request(request).total > r.model.window:
            return Failure(kind="overflow", message="prompt is too long")
        return "NO_REPLY" if "[Memory flush]" in last_text(request) else "I see."

    r.model.reply_with(model)
    told = []
    for n in range(25):
        result = await r.say(f"Item {n} is in box {n}. " + "It is an old thing of no worth. " * 12, f"t{n}")
        assert result.reply == "I see.", n
        told += result.asides
    assert sum("not shown to the model" in aside for aside in told) == 1
    assert "box 24" in r.conversation.messages()[-2].text
    shown = "".join(m.text for m in r.conversation.messages())
    notes = "".join(path.read_text() for path in (r.workspace.root / "memory").glob("*.md"))
    assert all(f"box {n}." in notes + shown for n in range(25)), "what is not shown is found by search"
    assert "box 0." in notes
    assert b"".join(r.conversation.transcript.stored.lines()).decode().count('"kind":"compacted","id"') < 12, "not one by one"
