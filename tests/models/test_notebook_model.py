"""The notebook in whole conversations: real tools, a real memory, and what a person reads."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from msgspec import structs
from msgspec.structs import replace

from agent.messages import AssistantMessage, Text, ToolMessage, UserMessage
from agent.models.notebook.notebook_model import NotebookModel, answer
from agent.models.notebook.replies import NOTICE
from agent.models.protocol import Segment, ToolSpec
from agent.tools.file_tool_context import FileToolContext
from agent.tools.files import file_tools
from agent.tools.memory_tools import MemoryGet, MemorySearch
from agent.tools.protocol import ToolContext
from agent.tools.toolbox import Toolbox
from agent.tools.workspace_sandbox import WorkspaceSandbox
from agent.transcript.history_view import SUMMARY_HEAD
from gateway.base.clock import SystemClock
from memory.settings import MemorySettings
from memory.workspace_memory import WorkspaceMemory
from tests.models.conversation import ask, assistant, hear, requests, result, shown, user

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from agent.messages import Message
    from agent.models.protocol import Request

BERLIN = ZoneInfo("Europe/Berlin")


class Talk:
    """A conversation with the notebook in a workspace of its own."""

    def __init__(self, workspace: Path, memory: WorkspaceMemory) -> None:
        self.workspace = workspace
        self.desk = FileToolContext(sandbox=WorkspaceSandbox(workspace), memory=memory)
        self.tools = (*file_tools(self.desk), MemorySearch(memory), MemoryGet(memory))
        self.box = Toolbox(self.tools)
        self.messages: list[Message] = []
        self.at = datetime(2026, 11, 20, 14, 5, tzinfo=BERLIN)
        self.model = NotebookModel()

    async def say(self, *texts: str) -> str:
        """Say something (several things at once, if need be), and return the reply."""
        for text in texts:
            stamp = Text(text=f"[{self.at:%a %Y-%m-%d %H:%M %Z}]")
            self.messages.append(UserMessage(content=(stamp, Text(text=text)), at=self.at))
        for _ in range(4):
            deltas, reply = await hear(self.model, ask(*self.messages, tools=self.box.specs))
            assert shown(deltas) == reply.text
            self.messages.append(reply)
            if not reply.calls:
                return reply.text
            self.messages += [await self.box.run(call, ToolContext(now=self.at, session="s", turn="t")) for call in reply.calls]
        raise AssertionError("the notebook went on calling tools")

    def page(self, day: str = "2026-11-20") -> str:
        return (self.workspace / "memory" / f"{day}.md").read_text(encoding="utf-8")


@pytest.fixture
async def talk(tmp_path: Path) -> AsyncIterator[Talk]:
    workspace = tmp_path / "homebody"
    (workspace / "memory").mkdir(parents=True)
    memory = WorkspaceMemory(
        workspace, tmp_path / "main.sqlite", MemorySettings(), agent="main", clock=SystemClock(), zone=BERLIN
    )
    yield Talk(workspace, memory)
    await memory.close()


async def test_what_is_told_is_filed_under_the_day_and_time_of_the_message(talk: Talk) -> None:
    reply = await talk.say("remember that the spare key is under the blue pot")
    assert talk.page().strip() == "## 14:05\n\n- The spare key is under the blue pot"
    assert "`memory/2026-11-20.md`" in reply
    assert "The spare key is under the blue pot" in reply


async def test_notes_of_one_minute_share_a_heading_and_later_ones_stand_apart(talk: Talk) -> None:
    await talk.say("remember that A is one")
    await talk.say("remember that B is two")
    talk.at += timedelta(minutes=5)
    await talk.say("remember that C is three")
    assert talk.page() == "## 14:05\n\n- A is one\n- B is two\n\n## 14:10\n\n- C is three\n"


async def test_what_the_runtime_tells_before_a_message_is_not_filed(talk: Talk) -> None:
    told = "[reminder “Tea” of Mon 23 Nov, 09:00: Tea]\n[The message]"
    assert (await talk.say(f"{told}\nremember that A is one")).startswith("Noted in `memory/2026-11-20.md`: “A is one”.")
    group = "[Said in this group before, not to you]\n<untrusted>\nBen: remember that B is two\n</untrusted>\n[The message]"
    assert "A is one" in await talk.say(f"{group}\nwhat is A?")
    assert talk.page().strip() == "## 14:05\n\n- A is one"


async def test_a_task_on_a_schedule_is_not_taken_for_something_to_file(talk: Talk) -> None:
    text = Text(text="Look at the weather and write to me what to wear.")
    task = UserMessage(content=(text,), at=talk.at, sender="job “weather”", automation="schedule")
    _, reply = await hear(talk.model, ask(task, tools=talk.box.specs))
    assert not reply.calls
    assert reply.text.startswith("No language model is configured, so I could not do this.")
    question = replace(task, content=(Text(text="where is the spare key?"),))
    _, reply = await hear(talk.model, ask(question, tools=talk.box.specs))
    assert [call.name for call in reply.calls] == ["memory_search"]


@pytest.mark.parametrize("said", ["remind me", "Remind me please.", "erinnere mich", "set a reminder"])
async def test_a_reminder_of_nothing_is_asked_about_and_leaves_no_line(talk: Talk, said: str) -> None:
    assert (await talk.say(said)).startswith("Say of what, and when: “remind me tomorrow at 9 to water the plants”.")
    assert not (talk.workspace / "memory" / "2026-11-20.md").exists()


async def test_what_was_filed_is_found_and_quoted_with_its_place(talk: Talk) -> None:
    await talk.say("remember that the spare key is under the blue pot")
    reply = await talk.say("where is the spare key?")
    assert reply == "You noted today: “The spare key is under the blue pot” (`memory/2026-11-20.md`, line 3)."


async def test_the_day_is_said_as_a_person_would(talk: Talk) -> None:
    await talk.say("remember that the spare key is under the blue pot")
    talk.at += timedelta(days=1)
    assert (await talk.say("where is the spare key?")).startswith("You noted yesterday: ")
    talk.at += timedelta(days=5)
    assert (await talk.say("where is the spare key?")).startswith("You noted on 20 November 2026: ")


async def test_of_two_notes_the_newer_comes_first(talk: Talk) -> None:
    await talk.say("remember that the spare key is under the blue pot")
    talk.at += timedelta(days=1)
    await talk.say("remember that the spare key is now with Anna")
    reply = await talk.say("where is the spare key?")
    assert reply.index("Anna") < reply.index("blue pot")


@pytest.mark.parametrize(
    ("told", "question", "found"),
    [
        (
            "Merke dir, dass der Ersatzschlüssel unter dem blauen Topf liegt",
            "Wo liegt der Ersatzschlüssel?",
            "Der Ersatzschlüssel",
        ),
        ("recuerda que la llave está debajo de la maceta azul", "¿dónde está la llave?", "La llave está"),
        ("n'oublie pas que la clé est sous le pot bleu", "où est la clé ?", "La clé est"),
        ("Запомни, что ключ лежит под горшком", "где лежит ключ?", "Ключ лежит под горшком"),
        ("记住备用钥匙在蓝色花盆下面", "备用钥匙在哪里？", "备用钥匙在蓝色花盆下面"),
        ("スペアキーは青い鉢の下にあると覚えておいて", "スペアキーはどこ？", "スペアキーは青い鉢の下にある"),
    ],
)
async def test_notes_in_other_languages_are_filed_word_for_word_and_found(
    talk: Talk, told: str, question: str, found: str
) -> None:
    await talk.say(told)
    assert f"- {found}" in talk.page()
    reply = await talk.say(question)
    assert found in reply
    assert "memory/2026-11-20.md" in reply


async def test_what_is_not_there_is_said_to_be_not_there(talk: Talk) -> None:
    await talk.say("remember that the spare key is under the blue pot")
    assert await talk.say("who is my dentist?") == "I found nothing about that in your notes."


async def test_a_note_that_only_touches_the_question_is_not_sold_as_the_answer(talk: Talk) -> None:
    await talk.say("remember that the cabin is by the lake")
    reply = await talk.say("what is the wifi password of the cabin?")
    assert reply.startswith("I found nothing about that in your notes; the nearest is “The cabin is by the lake”")


async def test_plain_statements_are_filed_without_being_asked_to(talk: Talk) -> None:
    await talk.say("My sister's birthday is on 3 March.")
    assert "March 3" not in talk.page()
    assert "- My sister's birthday is on 3 March." in talk.page()


async def test_a_list_is_filed_line_by_line(talk: Talk) -> None:
    await talk.say("remember:\n- milk\n* eggs\n\n1 bread")
    assert talk.page().splitlines()[2:] == ["- Milk", "- eggs", "- 1 bread"]


async def test_several_messages_at_once_are_all_filed(talk: Talk) -> None:
    reply = await talk.say("remember that A is one", "remember that B is two", "where is B?")
    assert "- A is one" in talk.page()
    assert "- B is two" in talk.page()
    assert reply.count("Noted in") == 2


async def test_what_is_said_while_a_tool_runs_is_answered_with_the_rest(talk: Talk) -> None:
    await talk.say("remember that A is one")
    talk.messages += [UserMessage(content=(Text(text="[Fri 2026-11-20 14:06 CET]"), Text(text="where is A?")), at=talk.at)]
    _, asked = await hear(talk.model, ask(*talk.messages, tools=talk.box.specs))
    talk.messages += [asked, await talk.box.run(asked.calls[0], ToolContext(now=talk.at, session="s", turn="t"))]
    reply = await talk.say("remember that B is two")
    assert "A is one" in reply
    assert "Noted in" in reply
    assert "- B is two" in talk.page()


async def test_the_same_note_twice_at_once_is_filed_once(talk: Talk) -> None:
    await talk.say("remember that A is one", "remember that A is one")
    assert talk.page().count("A is one") == 1


async def test_something_like_a_stamp_is_no_date(talk: Talk) -> None:
    _, reply = await hear(talk.model, ask(user("[2026-99-99 10:00] remember that A is one"), tools=talk.box.specs))
    assert reply.calls[0].arguments is not None
    assert reply.calls[0].arguments["path"] == "memory/2026-11-20.md"


async def test_pages_are_shown(talk: Talk) -> None:
    await talk.say("remember that the spare key is under the blue pot")
    assert "- The spare key is under the blue pot" in await talk.say("show today")
    assert "`memory/2026-11-20.md`" in await talk.say("list")
    talk.at += timedelta(days=1)
    assert "blue pot" in await talk.say("what did I tell you yesterday?")
    assert await talk.say("show today") == "There is no page for today yet."
    assert "blue pot" in await talk.say("read memory/2026-11-20.md")


async def test_forgetting_shows_where_the_note_stands_and_takes_nothing_out(talk: Talk) -> None:
    await talk.say("remember that the spare key is under the blue pot")
    before = talk.page()
    reply = await talk.say("forget the spare key")
    assert "line 3" in reply
    assert talk.page() == before


async def test_that_no_model_is_there_is_said_once_with_the_commands_that_add_one(talk: Talk) -> None:
    replies = [await talk.say(text) for text in ("remember that A is one", "where is A?", "thanks")]
    assert [NOTICE in reply for reply in replies] == [True, False, False]
    assert "homebody setup model" in NOTICE
    assert NOTICE in await talk.say("help")


@pytest.mark.parametrize("text", ["write me a poem", "translate hello", "2+2", "hi", "", "?", "\ud800", "thanks!", "asdf"])
async def test_what_is_no_note_leaves_no_trace(talk: Talk, text: str) -> None:
    assert await talk.say(text)
    assert list((talk.workspace / "memory").iterdir()) == []


async def test_a_note_that_cannot_be_written_is_given_back() -> None:
    said = user("remember that the spare key is under the blue pot")
    request = ask(said, tools=(_spec("write"),))
    _, asked = await hear(NotebookModel(), request)
    failed = ToolMessage(call_id=asked.calls[0].id, name="write", text="the disk is full", is_error=True)
    _, reply = await hear(NotebookModel(), ask(said, asked, failed, tools=(_spec("write"),)))
    assert "the disk is full" in reply.text
    assert "> The spare key is under the blue pot" in reply.text


async def test_where_a_tool_is_not_allowed_it_says_so() -> None:
    _, reply = await hear(NotebookModel(), ask(user("remember that A is one")))
    assert "`write` is not allowed" in reply.text


async def test_notes_of_a_group_go_to_the_folder_of_the_group() -> None:
    system = (
        Segment(name="instructions", text="Others read this. Its notes are kept in memory/groups/slack-c1/; nothing private."),
    )
    _, reply = await hear(NotebookModel(), ask(user("remember that A is one"), system=system, tools=(_spec("write"),)))
    assert reply.calls[0].arguments is not None
    assert reply.calls[0].arguments["path"] == "memory/groups/slack-c1/2026-11-20.md"


async def test_a_flush_finds_everything_filed_already() -> None:
    flush = user("[Memory flush] Store durable memories now. If nothing is to be stored, reply with exactly NO_REPLY.")
    _, reply = await hear(NotebookModel(), ask(user("remember that A is one"), flush, tools=(_spec("write"),)))
    assert (reply.text, reply.calls) == ("NO_REPLY", ())


async def test_a_summary_is_an_extract_of_what_was_said() -> None:
    order = user("[Summary request] The newest 2 messages stay as they are.\nWrite a summary that lets the work go on.")
    earlier = user(f"{SUMMARY_HEAD}\n\nThe owner said, in order (an extract):\n\n- the cabin is by the lake")
    _, reply = await hear(NotebookModel(), ask(earlier, assistant("ok"), user("hi"), user("remember that A is one"), order))
    assert reply.text.splitlines()[2:] == ["- the cabin is by the lake", "- remember that A is one"]


async def test_a_summary_of_a_quoted_conversation_carries_the_earlier_one_on() -> None:
    quoted = (
        "[Summary request] Summary so far:\nThe owner said, in order:\n\n- the cabin is by the lake\n\nConversation to be added:\n"
        "<conversation>\nPerson: [Fri 2026-11-20 14:05 CET]\nremember that A is one\n\nAgent: Noted.\n\n"
        "Person: thanks\n</conversation>\nWrite."
    )
    _, reply = await hear(NotebookModel(), ask(user(quoted)))
    assert reply.text.splitlines()[2:] == ["- the cabin is by the lake", "- remember that A is one"]


async def test_a_search_that_fails_is_told_as_it_is() -> None:
    said, tools = user("where is the key?"), (_spec("memory_search"),)
    _, asked = await hear(NotebookModel(), ask(said, tools=tools))
    for text, told in (("the index is gone", "the index is gone"), ("not JSON", "could not read")):
        failed = ToolMessage(call_id=asked.calls[0].id, name="memory_search", text=text, is_error=told == text)
        _, reply = await hear(NotebookModel(), ask(said, asked, failed, tools=tools))
        assert told in reply.text


@given(requests)
def test_whatever_was_said_there_is_an_answer_and_always_the_same(request: Request) -> None:
    first = answer(request)
    assert isinstance(first, AssistantMessage)
    assert first.text or first.calls
    assert answer(request) == first
    with_results = structs.replace(
        request, messages=(*request.messages, first, *(result("x", call.id) for call in first.calls))
    )
    if first.calls:
        assert answer(with_results).calls == ()


def _spec(name: str) -> ToolSpec:
    return ToolSpec(name=name, description="", parameters={"type": "object"})


async def test_words_of_others_are_noted_with_whose_they_are_and_without_a_fence(talk: Talk) -> None:
    def brought(head: str, text: str, source: str) -> str:
        return f'{head}\n<untrusted 2c2208a7ef from="{source}">\n{text}\n</untrusted 2c2208a7ef>'

    await talk.say(brought("[forwarded]", "The bank moves to Main Street 5.", "forwarded:Mallory"))
    await talk.say(brought("[forwarded]", "[contact: Ben, +491511]", "forwarded:a_contact"))
    reply = await talk.say(brought("[file: inbox/1-n.txt 8 bytes text/plain]", "line one", "file:n.txt"))
    assert talk.page().splitlines()[2:] == [
        "- Forwarded from Mallory: The bank moves to Main Street 5.",
        "- Contact: Ben, +491511",
        "- From the file n.txt: line one",
        "- File: inbox/1-n.txt 8 bytes text/plain",
    ]
    assert reply == "Noted in `memory/2026-11-20.md`: 2 lines."


@pytest.mark.parametrize("line", ["[🎲 shows 4]", "[sticker 👍]", "[file: x.txt could not be downloaded: it is too large]"])
async def test_what_holds_no_words_leaves_no_line(talk: Talk, line: str) -> None:
    assert (await talk.say(line)).startswith("There is nothing in that message that I can note")
    assert not (talk.workspace / "memory" / "2026-11-20.md").exists()


async def test_the_edit_of_an_answered_message_is_noted_as_a_correction(talk: Talk) -> None:
    await talk.say("the bike lock code is 1234")
    reply = await talk.say("[edited: the bike lock code is 9876]\n[The message]\nwhat is the bike lock code?")
    assert "“Correction: The bike lock code is 9876”" in reply
    assert "- Correction: The bike lock code is 9876" in talk.page()
    assert "Correction" not in await talk.say("[edited: what is the lock code?]\n[The message]\nremember that A is one")
