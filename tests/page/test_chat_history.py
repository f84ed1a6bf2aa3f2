"""Conversations as the page shows them: nothing twice, in order, of any length, and read from the end."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.events import TextDelta
from agent.messages import AssistantMessage, Text, ToolCall, UserMessage
from agent.models.scripted import Stall
from agent.taint import fenced
from agent.transcript.entries import Entry, Opened, Said, encode
from agent.transcript.transcript_file import TranscriptFile
from gateway.page.chat_history import read_history, search_history
from tests.openai_api.conftest import until
from tests.page.conftest import PageVillage
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from tests.page.conftest import Tab

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SESSION = "agent:main:main"


def written(path: Path, texts: list[str]) -> None:
    """Write a transcript in which a person and the agent take turns."""
    lines = [encode(Entry(id="open:0", parent=None, at=NOON, body=Opened(agent="main", session="s", key=SESSION)))]
    for number, text in enumerate(texts):
        at = NOON + timedelta(seconds=number + 1)
        message: Any = UserMessage(content=(Text(text=text),), at=at)
        if number % 2:
            message = AssistantMessage(content=(Text(text=text),), model="m/m", stop="end")
        lines.append(encode(Entry(id=f"t{number // 2}:{number % 2}", parent=None, at=at, body=Said(message=message))))
    path.write_bytes(b"".join(lines))


@given(lengths=st.lists(st.sampled_from([1, 10, 300_000]), max_size=12), limit=st.integers(1, 5))
def test_the_parts_of_a_conversation_are_the_whole(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], limit: int
) -> None:
    path = tmp_path_factory.mktemp("history") / "s.jsonl"
    texts = [f"{number}:" + "ü" * length for number, length in enumerate(lengths)]
    written(path, texts)
    found: list[str] = []
    before: int | None = None
    while True:
        part = read_history(TranscriptFile(path), [], NOON, before, limit)
        assert len(part.items) <= limit
        found = [item["text"] for item in part.items] + found
        before = part.before
        if before is None:
            break
    assert [text[:100] for text in found] == [text[:100] for text in texts]


@given(limit=st.integers(1, 9), turns=st.integers(1, 8))
def test_what_was_said_between_two_parts_is_in_one_of_them(
    tmp_path_factory: pytest.TempPathFactory, limit: int, turns: int
) -> None:
    path = tmp_path_factory.mktemp("history") / "s.jsonl"
    written(path, ["said", "answered"] * turns)
    kept = []
    for number in range(turns):
        at = NOON + timedelta(seconds=2 * number + 0.5)  # before the entry of the same message, and after the answer before
        kept.append({"who": "user", "key": f"in:{number}", "uid": f"t{number}", "text": "said", "at": at.isoformat()})
        kept.append({"who": "agent", "key": f"out:{number}", "uid": "command", "text": "/status says", "at": at.isoformat()})
    found: dict[str, str] = {}
    before: int | None = None
    while True:
        part = read_history(TranscriptFile(path), kept, NOON, before, limit)
        found |= {item["id"]: item["who"] for item in part.items}
        before = part.before
        if before is None:
            break
    assert sorted(found) == sorted([line["key"] for line in kept] + [f"t{number}:1" for number in range(turns)])


def test_a_message_that_waits_is_shown_before_its_conversation_has_it(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    written(path, [])
    begun = NOON + timedelta(seconds=1)
    line = {"who": "user", "key": "in:1", "uid": "u1", "text": "hello", "at": NOON.isoformat(), "during": "former"}
    assert read_history(TranscriptFile(path), [line], begun, None, 10, session="s", waiting={"u1"}).items[0]["text"] == "hello"
    assert read_history(TranscriptFile(path), [line], begun, None, 10, session="s").items == []


def test_a_command_that_began_the_first_conversation_is_in_it_and_in_one_part(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    written(path, ["said", "answered"] * 4)
    command = {"who": "user", "key": "in:1", "uid": "u1", "text": "/status", "at": (NOON - timedelta(seconds=1)).isoformat()}
    reply = {"who": "agent", "key": "c:1", "uid": "u1", "text": "well", "at": NOON.isoformat(), "during": "s"}
    shown: list[list[str]] = []
    before: int | None = None
    while not shown or before is not None:
        part = read_history(TranscriptFile(path), [command, reply], NOON, before, 3, session="s")
        shown.insert(0, [item["text"] for item in part.items])
        before = part.before
    assert shown[0][:2] == ["/status", "well"]
    assert [text for texts in shown for text in texts].count("/status") == 1
    other = read_history(TranscriptFile(path), [command, reply], NOON, None, 20, session="other")
    assert "/status" not in [item["text"] for item in other.items]


def test_a_session_of_fifty_thousand_messages_is_opened_at_its_end_at_once(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    written(path, [f"message {number} about blue pots" for number in range(50_000)])
    began = time.process_time()
    part = read_history(TranscriptFile(path), [], NOON, None, 200)
    took = time.process_time() - began
    assert [item["text"] for item in part.items[-2:]] == ["message 49998 about blue pots", "message 49999 about blue pots"]
    assert took < 1
    [found] = search_history(TranscriptFile(path), ["message", "17", "17123"], 10)
    assert found["text"].startswith("message 17123")


def test_a_transcript_that_is_damaged_or_missing_hides_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    assert read_history(TranscriptFile(path), [], NOON, None, 10).items == []
    written(path, ["a", "b"])
    path.write_bytes(path.read_bytes() + b'{"torn')
    assert [item["text"] for item in read_history(TranscriptFile(path), [], NOON, None, 10).items] == ["a", "b"]
    line = {"who": "agent", "key": "x", "uid": "u", "text": "/help says", "at": "no time"}
    assert len(read_history(TranscriptFile(path), [line], NOON, None, 10).items) == 2


async def eventually(ask: Callable[[], Awaitable[Any]], good: Callable[[Any], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not good(await ask()):  # noqa: ASYNC110  (nobody announces it)
            await asyncio.sleep(0.05)


async def said(tab: Tab, text: str, key: str = "0123456789ab", **more: Any) -> str:
    uid: str = (await tab.call("chat.say", session=SESSION, text=text, key=key, **more))["uid"]
    return uid


async def texts_of(tab: Tab) -> list[tuple[str, str]]:
    items = (await tab.call("chat.history", session=SESSION))["items"]
    return [(item["who"], item["text"]) for item in items if item["who"] in {"user", "agent"}]


async def test_each_message_is_shown_once_and_in_order(village: PageVillage) -> None:
    village.model.then([ToolCall(id="c1", name="read", arguments={"path": "MEMORY.md"})], "It is **there**.")
    async with village.page() as served:
        tab = await served.tab()
        await said(tab, "Where?")
        await said(tab, "Where?")  # the answer to the first request was lost
        wanted = [("user", "Where?"), ("agent", "It is **there**.")]
        await eventually(lambda: texts_of(tab), lambda found: found == wanted)
        items = (await tab.call("chat.history", session=SESSION))["items"]
        assert [item["who"] for item in items] == ["user", "tool", "result", "agent"]
        assert items[-1]["tree"] == [["p", "It is ", ["strong", "there"], "."]]
        await said(tab, "/status", key="another-key-1")
        await eventually(lambda: texts_of(tab), lambda found: len(found) == 4)
        assert (await texts_of(tab))[2] == ("user", "/status")
        found = await tab.call("chat.search", session=SESSION, words="where")
        assert [one["who"] for one in found] == ["user"]


async def test_the_first_command_of_all_is_shown_with_its_reply(village: PageVillage) -> None:
    async with village.page() as served:
        tab = await served.tab()
        answer = await tab.call("chat.say", session=SESSION, text="/status", key="0123456789ab")
        await eventually(lambda: texts_of(tab), lambda found: [who for who, _ in found] == ["user", "agent"])
        assert (await tab.call("chat.history", session=SESSION))["items"][0] == answer["item"]


async def test_nothing_runs_any_more_after_a_command_that_took_long(village: PageVillage) -> None:
    village.model.then("Hello.", "NO_REPLY")
    async with village.page() as served:
        tab = await served.tab()
        await said(tab, "hi")
        await eventually(lambda: texts_of(tab), lambda found: len(found) == 2)
        async with tab.events() as events, asyncio.timeout(PATIENCE):
            uid = await said(tab, "/new", key="another-key-1")
            while (event := await anext(events))["kind"] != "chat.done" or event["data"]["uid"] != uid:
                pass
        assert (await tab.call("chat.history", session=SESSION))["live"] is None


async def test_a_restart_in_the_midst_of_a_turn_answers_once(village: PageVillage) -> None:
    village.model.then([Stall(asyncio.Event())])
    async with village.page() as served:
        tab = await served.tab()
        await said(tab, "Where?")
        await until(lambda: len(village.model.requests) == 1)
    village.model.then("Under the pot.")
    async with village.page() as served:
        tab = await served.tab()
        wanted = [("user", "Where?"), ("agent", "Under the pot.")]
        await eventually(lambda: texts_of(tab), lambda found: found == wanted)


async def test_sessions_are_apart_and_those_of_no_agent_do_not_exist(village: PageVillage) -> None:
    village.model.then("One.", "Two.")
    async with village.page() as served:
        tab = await served.tab()
        await tab.call("chat.say", session="agent:main:travel", text="go", key="0123456789ab")
        travel = "agent:main:travel"
        await eventually(lambda: tab.call("chat.history", session=travel), lambda found: len(found["items"]) == 2)
        assert await texts_of(tab) == []
        assert {row["key"] for row in await tab.call("chat.sessions")} == {"agent:main:travel", SESSION}
        for wrong in (
            "agent:other:main",
            "main",
            "agent:main:../x",
            "agent:main:a/b",
            "",
            "agent:main:" + "x" * 300,
            "agent:main",
        ):
            answer = await tab.post("/page/call/chat.history", {"session": wrong})
            assert answer.status_code == 400, wrong
        for key in ("", "short", "x" * 65, "../../etc/passwd", "a b c d e f"):
            answer = await tab.post("/page/call/chat.say", {"session": SESSION, "text": "x", "key": key})
            assert answer.status_code == 400, key
        for refused, why in (
            ({"text": " \n"}, "empty"),
            ({"text": "x" * 200_001}, "200,000"),
            ({"text": "x", "files": ["0" * 32]}, "not there any more"),
        ):
            answer = await tab.post("/page/call/chat.say", {"session": SESSION, "key": "0123456789cd", **refused})
            assert (answer.status_code, why in answer.json()["error"]["message"]) == (400, True), why
        pressed = {"session": SESSION, "target": "o:1", "value": "yes", "key": "0123456789ef"}
        answer = await tab.post("/page/call/chat.press", pressed)
        assert (answer.status_code, answer.json()["error"]["hint"]) == (400, "Reload the page.")


async def test_messages_that_are_answered_together_are_shown_once(tmp_path: Path) -> None:
    going = asyncio.Event()
    village = PageVillage(tmp_path, messages={"queue": {"mode": "collect", "debounceMs": 0}})
    village.model.then([Stall(going), TextDelta("First.")], "All three.")
    async with village.page() as served:
        tab = await served.tab()
        await said(tab, "go")
        await until(lambda: len(village.model.requests) == 1)
        for number in range(3):
            await said(tab, "same words", key=f"while-it-runs-{number}")
        going.set()
        wanted = [("user", "go"), *[("user", "same words")] * 3, ("agent", "First."), ("agent", "All three.")]
        await eventually(lambda: texts_of(tab), lambda found: ("agent", "All three.") in found)
        await asyncio.sleep(0.3)
        assert sorted(await texts_of(tab)) == sorted(wanted)
        assert len(village.model.requests) == 2


async def test_a_restored_conversation_is_shown_and_the_other_one_is_not(village: PageVillage) -> None:
    answers = {"Which pot?": "The blue one.", "Which cup?": "The red one.", "And?": "Back again."}
    village.model.reply_with(
        lambda asked: next((said for words, said in answers.items() if asked.messages[-1].text.endswith(words)), "NO_REPLY")
    )
    async with village.page() as served:
        tab = await served.tab()
        await said(tab, "Which pot?")
        former = [("user", "Which pot?"), ("agent", "The blue one.")]
        await eventually(lambda: texts_of(tab), lambda found: found == former)
        first = (await tab.call("chat.history", session=SESSION))["session"]
        await said(tab, "/new", key="another-key-1")
        await eventually(lambda: tab.call("chat.history", session=SESSION), lambda found: found["session"] != first)
        await eventually(lambda: texts_of(tab), lambda found: found and found[-1][0] == "agent")
        assert former[0] not in await texts_of(tab)
        await said(tab, "Which cup?", key="another-key-2")
        other = [("user", "Which cup?"), ("agent", "The red one.")]
        await eventually(lambda: texts_of(tab), lambda found: found[-2:] == other)
        async with tab.events() as events, asyncio.timeout(PATIENCE):
            await tab.call("sessions.undo", key=SESSION)
            while (await anext(events))["kind"] != "sessions":
                pass
        former.append(("user", "/new"))
        assert await texts_of(tab) == former
        await said(tab, "And?", key="another-key-3")
        more = [*former, ("user", "And?"), ("agent", "Back again.")]
        await eventually(lambda: texts_of(tab), lambda found: found == more)
        await tab.call("sessions.undo", key=SESSION)
        found = await texts_of(tab)
        assert found[-2:] == other, found
        assert not {*more} & {*found}
        await said(tab, "/whoami", key="another-key-4")
        await eventually(lambda: texts_of(tab), lambda found: found[-1][0] == "agent" and found[-2] == ("user", "/whoami"))
        whole = await texts_of(tab)
        await tab.call("sessions.undo", key=SESSION)
        assert await texts_of(tab) == more
        await tab.call("sessions.undo", key=SESSION)
        assert await texts_of(tab) == whole, "commands of a restored conversation are shown"


async def test_a_question_has_the_decision_wherever_that_was_made(village: PageVillage) -> None:
    village.model.then([ToolCall(id="c1", name="exec", arguments={"command": "touch x"})], "Then not.")
    async with village.page() as served:
        tab = await served.tab()
        await said(tab, "do it")

        async def question() -> dict[str, Any] | None:
            items = (await tab.call("chat.history", session=SESSION))["items"]
            return next((one for one in items if one.get("buttons")), None)

        await eventually(question, lambda found: found is not None)
        asked = await question()
        assert asked is not None
        assert asked["approval"] == {"state": "pending", "always": False}
        name = asked["buttons"][0]["value"].split()[1]
        await served.house.approvals.decisions.decide(name, "deny", "command line, deny")
        press = {"session": SESSION, "target": asked["id"], "value": asked["buttons"][0]["value"], "key": "press-press-press"}
        refused = await tab.post("/page/call/chat.press", press)
        assert refused.status_code == 400
        assert refused.json()["error"]["message"] == f"#{name} is not open any more: denied"
        now = await question()
        assert now is not None
        assert now["approval"]["state"] == "denied"
        assert "pressed" not in now


@pytest.mark.parametrize("end", ["deny", "once"])
async def test_the_answer_to_a_question_that_was_open_over_a_restart_is_shown_once(village: PageVillage, end: str) -> None:
    village.model.then([ToolCall(id="c1", name="exec", arguments={"command": "touch x"})], *["Then I go on."] * 3)
    async with village.page() as served:
        tab = await served.tab()
        await said(tab, "do it")
        await eventually(lambda: tab.call("approvals.list"), lambda found: bool(found["approvals"]))
    async with village.page() as served:
        tab = await served.tab()
        (waiting,) = (await tab.call("approvals.list"))["approvals"]
        await tab.call("approvals.decide", name=waiting["name"], choice=end)

        async def answers() -> list[str]:
            found = (await tab.call("chat.history", session=SESSION))["items"]
            return [one["text"] for one in found if one["who"] == "agent" and "go on" in one["text"]]

        def delivered() -> bool:
            lines = [path.read_text() for path in (served.state / "web").glob("*.jsonl")]
            return any("Then I go on." in one for one in lines)

        await until(delivered)
        await eventually(answers, lambda found: found == ["Then I go on."])


def test_what_others_wrote_is_told_apart_from_the_words_of_the_person(tmp_path: Path) -> None:
    bill = fenced("pay at once", ["file:bill.pdf"])
    written(tmp_path / "s.jsonl", [f"what is in it\n[file: inbox/bill.pdf]\n{bill}", "A bill.", "no file"])
    found = read_history(TranscriptFile(tmp_path / "s.jsonl"), [], NOON, None, 10).items
    first, _, last = [{key: item[key] for key in ("text", "others") if key in item} for item in found]
    assert first == {"text": "what is in it\n[file: inbox/bill.pdf]", "others": "pay at once"}
    assert last == {"text": "no file"}
