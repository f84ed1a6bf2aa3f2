"""What the agent keeps about a group is shown there, and words of a member are forgotten when an owner confirms it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.messages import AssistantMessage, Text, Thinking, ToolCall, ToolMessage, UserMessage
from agent.transcript.entries import Entry, Opened, Said, decode, encode
from agent.transcript.transcript_file import TranscriptFile
from gateway.sessions.forgetting import REMOVED, Speaker, Words, own_lines, take_out, without_lines
from memory.audience import OWNER, Audience
from tests.gateway.test_telegram_house import ANNA, BEN, BOT, FAMILY, Home, Seen
from tests.peers.telegram import TelegramPeer
from tests.properties import examples

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from agent.models.protocol import Request

NOW = datetime(2026, 5, 1, tzinfo=UTC)
LETTERS = "abAB wW\nö:"
BENS = Speaker(channel="telegram", id="43", name="Ben")
RULES: dict[int, Any] = {FAMILY: {"allowFrom": [ANNA, BEN]}}


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    async with TelegramPeer(local=True) as peer:
        peer.chats.group(FAMILY)
        yield Home(tmp_path, peer)


async def test_a_member_is_forgotten_when_the_owner_confirms_it(home: Home) -> None:
    async with home.lived_in(groups=RULES) as gateway:
        agent = gateway.agents["main"]
        await home.peer.say(ANNA, "hello")
        await home.says(1)
        await home.peer.say(BEN, "overheard: my pin is 4711", name="Ben", chat=FAMILY)
        await home.peer.say(BEN, f"{BOT} I am afraid of the dentist", name="Ben", chat=FAMILY)
        await home.says(1, FAMILY)
        await home.peer.say(ANNA, f"{BOT} dinner is at seven", name="Anna", chat=FAMILY)
        await home.says(2, FAMILY)
        [folder] = (
            (home.root / "workspace/memory/groups").glob("*") if (home.root / "workspace/memory/groups").exists() else [None]
        )
        group = gateway.router.audience(next(one.key for one in agent.store.all() if ":group:" in one.key))
        folder = home.root / "workspace" / group.folder
        folder.mkdir(parents=True, exist_ok=True)
        note = folder / "2026-05-01.md"
        note.write_text("# Day\n- Ben is afraid of the dentist\n- Dinner is at seven\n")
        await agent.memory.wrote(f"{group.folder}/2026-05-01.md")
        assert (await agent.memory.search("dentist", audience=group)).hits

        await home.peer.say(BEN, f"/memory{BOT}", name="Ben", chat=FAMILY)
        assert "Ben is afraid of the dentist" in (await home.says(3, FAMILY))[2]
        await home.peer.say(BEN, f"/memory{BOT} forget me", name="Ben", chat=FAMILY)
        assert (await home.says(4, FAMILY))[3] == "My owner is asked to confirm that. I say here when it is done."
        asked = (await home.says(2))[1]
        assert "Ben asks me to forget all that they said there" in asked
        assert "dentist" in note.read_text()
        await home.peer.say(BEN, f"/memory{BOT} allow {asked.split('/memory allow ')[1][:8]}", name="Ben", chat=FAMILY)
        assert (await home.says(5, FAMILY))[4] == "Only my owner can decide this."
        await home.peer.press(ANNA, ANNA, "🧽 Forget")
        done = (await home.says(6, FAMILY))[5]
        assert done.startswith("🧽 Ben: removed ")
        assert "1 line of notes" in done

        kept = "".join(path.read_text() for path in (home.root / "home").rglob("*.jsonl"))
        assert "dentist" not in kept
        assert "pin is" not in kept  # the figure alone may be in a checksum
        assert "dinner is at seven" in kept
        assert note.read_text() == "# Day\n- Dinner is at seven\n"
        assert not (await agent.memory.search("dentist", audience=group)).hits
        assert (await agent.memory.search("dinner", audience=group)).hits
        await home.peer.say(ANNA, f"{BOT} what now?", name="Anna", chat=FAMILY)
        await home.says(7, FAMILY)
        assert "dentist" not in home.seen.shown[-1]
        assert "dinner is at seven" in home.seen.shown[-1]
        assert await gateway.ledger.forget_requests.all() == []


class Spawning(Seen):
    """A model that has a sub-agent look after what is said with “look”, and says the last line back."""

    def __call__(self, request: Request) -> Any:
        said = super().__call__(request)
        last = request.messages[-1]
        if isinstance(last, ToolMessage) or "You are a sub-agent" in "".join(one.text for one in request.system):
            return said
        if "please look" not in last.text.splitlines()[-1]:
            return said
        words = last.text.splitlines()[-1]
        return [ToolCall(id=f"c{len(self.shown)}", name="spawn", arguments={"task": words, "label": words.split()[-1]})]


def holding(root: Path, word: str) -> list[str]:
    """Return the files below a folder whose bytes hold a word."""
    return sorted(
        str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and word.encode() in path.read_bytes()
    )


@pytest.mark.parametrize("what", ["me", "DINGO7775", 'DINGO"7<7>5"'])
async def test_no_file_of_the_home_holds_the_words_and_the_owner_does_not_find_them(home: Home, what: str) -> None:
    said = "DINGO7775" if what == "me" else what
    home.seen = Spawning()
    async with home.lived_in(groups=RULES) as gateway:
        agent = gateway.agents["main"]
        await home.peer.say(ANNA, "hello")
        await home.says(1)
        await home.peer.say(BEN, f"{said} was said beside it", name="Ben", chat=FAMILY)
        await home.peer.say(BEN, f"{BOT} please look at {said}", name="Ben", chat=FAMILY)
        await home.peer.until(lambda: sum("sub-agent" in one and "DINGO" in one for one in home.seen.shown) >= 1)
        await gateway.lanes.quiet()
        await home.peer.until(lambda: len(home.peer.chats.said(FAMILY, None)) >= 2)
        await home.peer.say(ANNA, f"{BOT} dinner is at seven", name="Anna", chat=FAMILY)
        await home.peer.until(lambda: any("dinner" in one for one in home.peer.chats.said(FAMILY, None)))
        await gateway.ledger.backup()
        assert not (await agent.memory.search("DINGO", audience=OWNER)).hits
        assert any("ledger.sqlite.copy" in one for one in holding(home.root / "home", "DINGO"))
        count = len(home.peer.chats.said(FAMILY, None))
        await home.peer.say(BEN, f"/memory{BOT} forget {what}", name="Ben", chat=FAMILY)
        await home.says(count + 1, FAMILY)
        await home.says(2)
        [wish] = await gateway.ledger.forget_requests.all()
        await home.peer.say(ANNA, f"/memory allow {wish.id}")
        await home.peer.until(lambda: home.peer.chats.said(FAMILY, None)[-1].startswith("🧽"))
        await home.peer.until(lambda: not holding(home.root / "home", "DINGO"))
        rows = len(home.peer.chats.said(FAMILY, None))
    assert holding(home.root / "home", "DINGO") == []
    assert any("ledger.sqlite" in one for one in holding(home.root / "home", "dinner is at seven"))
    async with home.lived_in(groups=RULES) as gateway:
        assert gateway.ledger.warning is None
        await home.peer.say(ANNA, f"{BOT} what now?", name="Anna", chat=FAMILY)
        await home.says(rows + 1, FAMILY)
        assert "DINGO" not in home.seen.shown[-1]


async def test_a_wish_waits_over_a_restart_and_may_be_denied(home: Home) -> None:
    async with home.lived_in(groups=RULES):
        await home.peer.say(ANNA, "hello")
        await home.says(1)
        for words, told in (("hi", "Say which words"), ("the dentist", "My owner is asked")):
            await home.peer.say(BEN, f"/memory{BOT} forget {words}", name="Ben", chat=FAMILY)
            count = len(home.peer.chats.said(FAMILY, None)) + 1
            assert (await home.says(count, FAMILY))[-1].startswith(told)
        await home.says(2)
    async with home.lived_in(groups=RULES):
        await home.peer.say(ANNA, "/memory")
        shown = (await home.says(3))[2]
        assert "Ben asks me to forget what they said with “the dentist”" in shown
        await home.peer.press(ANNA, ANNA, "⛔ Deny")
        assert (await home.says(4))[3] == "Nothing is removed, and they are told."
        assert (await home.says(3, FAMILY))[2] == "Ben: my owner did not confirm that I forget your words."


async def test_a_groups_notes_are_nobody_elses(home: Home) -> None:
    async with home.lived_in(groups=RULES) as gateway:
        await home.peer.say(ANNA, f"{BOT} hello", name="Anna", chat=FAMILY)
        await home.says(1, FAMILY)
        agent = gateway.agents["main"]
        group = gateway.router.audience(next(one.key for one in agent.store.all() if ":group:" in one.key))
        private = home.root / "workspace/memory/2026-05-01.md"
        private.write_text("the safe is behind the picture\n")
        await agent.memory.wrote("memory/2026-05-01.md")
        await home.peer.say(ANNA, f"/memory{BOT}", name="Anna", chat=FAMILY)
        assert (await home.says(2, FAMILY))[1].startswith("I have no notes about this group yet.")
        assert not (await agent.memory.search("safe", audience=group)).hits
        assert not (await agent.memory.search("safe", audience=Audience("group", "other"))).hits
        assert (await agent.memory.search("safe", audience=OWNER)).hits


class Naming(Seen):
    """A model that makes a title from the talk."""

    def __call__(self, request: Request) -> Any:
        return "dentist visit" if "[Title request]" in request.messages[-1].text else super().__call__(request)


async def test_the_note_of_a_groups_ended_conversation_is_named_after_its_time_and_no_word_of_the_talk(home: Home) -> None:
    home.seen = Naming()
    async with home.lived_in(groups=RULES) as gateway:
        agent = gateway.agents["main"]
        await home.peer.say(ANNA, f"{BOT} the dentist is on Monday", name="Anna", chat=FAMILY)
        await home.says(1, FAMILY)
        await home.peer.say(ANNA, "hello, the dentist is on Monday")
        await home.says(1)
        for chat in (FAMILY, ANNA):
            await home.peer.say(ANNA, f"/new{BOT}" if chat == FAMILY else "/new", name="Anna", chat=chat)
            await home.says(2, chat)
        await agent.quiet()
        named = sorted(path.stem[11:] for path in (home.root / "workspace/memory").rglob("2???-??-??-*.md"))
        ends = [name for name in named if not name.endswith("said")]
        assert [name for name in ends if not name.isdecimal()] == ["dentist-visit"]
        assert len(ends) == 2


async def test_a_guest_is_not_offered_in_private_what_is_for_groups(home: Home) -> None:
    async with home.lived_in(groups=RULES, allowFrom=[ANNA, BEN]):
        await home.peer.say(ANNA, "hello")
        await home.says(1)
        for count, command in enumerate(("/memory", "/memory forget me", "/memory dance"), 1):
            await home.peer.say(BEN, command, name="Ben")
            answer = (await home.says(count, BEN))[-1]
            assert "/memory forget is for groups: in private, tell me what to forget." in answer
            assert "asks my owner" not in answer


def transcript(path: Path, *bodies: Any) -> Path:
    opened = Opened(agent="main", session="s", key="agent:main:telegram:group:-1")
    path.write_bytes(
        b"".join(encode(Entry(id=f"t:{n}", parent=None, at=NOW, body=one)) for n, one in enumerate([opened, *bodies]))
    )
    return path


def user(text: str, who: str = "“Ben” telegram:43, member") -> Said:
    return Said(message=UserMessage(content=(Text(text=text),), at=NOW, sender=who))


def test_repetitions_by_the_agent_and_its_tools_go_too_and_others_words_stay(tmp_path: Path) -> None:
    call = ToolCall(id="c", name="write", arguments={"path": "memory/x.md", "content": "Ben: I am afraid of the dentist"})
    answer = AssistantMessage(
        content=(
            Thinking(text="He says: I am afraid of the dentist"),
            Text(text="“I am afraid of the dentist”, I see."),
            call,
        ),
        model="m",
        stop="end",
    )
    path = transcript(
        tmp_path / "s.jsonl",
        user(
            "[Said in this group before, not to you]\nAnna: hi\nBen: yes, my pin is 4711\n[The message]\nwhat?",
            "“Anna” telegram:42, owner",
        ),
        user("I am afraid of the dentist"),
        Said(message=answer),
        user("yes", "“Anna” telegram:42, owner"),
        user("mine", "“Ben” telegram:431, member"),
    )
    words = Words(BENS)
    lines = own_lines([TranscriptFile(path)], words)
    assert take_out(TranscriptFile(path), words, lines) == 1
    read = [decode(line) for line in path.read_bytes().splitlines()]
    text = path.read_text()
    assert "dentist" not in text
    assert "4711" not in text
    assert [one.body.message.text for one in read[1:] if isinstance(one.body, Said)] == [
        f"[Said in this group before, not to you]\nAnna: hi\nBen: {REMOVED}\n[The message]\nwhat?",
        REMOVED,
        f"“{REMOVED}”, I see.",
        "yes",
        "mine",
    ]
    assert not any(isinstance(part, Thinking) for part in read[3].body.message.content)
    before = path.read_bytes()
    assert take_out(TranscriptFile(path), words, own_lines([TranscriptFile(path)], words)) == 0
    assert path.read_bytes() == before


def test_words_alone_leave_the_rest_of_a_person(tmp_path: Path) -> None:
    path = transcript(
        tmp_path / "s.jsonl",
        user("the Dentist again"),
        user("pizza today"),
        user("text user role", "“Anna” telegram:42, owner"),
    )
    words = Words(BENS, "dentist")
    assert take_out(TranscriptFile(path), words, own_lines([TranscriptFile(path)], words)) == 1
    assert b"pizza today" in path.read_bytes()
    role = Words(BENS, "user")
    assert take_out(TranscriptFile(path), role, own_lines([TranscriptFile(path)], role)) == 0
    assert f"text {REMOVED} role" in path.read_text()


def test_names_of_sources_go_from_emptied_messages_too(tmp_path: Path) -> None:
    sources = ("guest:job_DINGO_7775", "guest:other", "guest:tea")
    said = UserMessage(content=(Text(text="DINGO 7775"),), at=NOW, sender="“Ben” telegram:43, member", taint=sources)
    path = transcript(tmp_path / "s.jsonl", Said(message=said))
    words = Words(BENS, "DINGO 7775")
    assert take_out(TranscriptFile(path), words, own_lines([TranscriptFile(path)], words)) == 1
    assert b"DINGO" not in path.read_bytes()
    assert b"guest:other" in path.read_bytes()
    assert take_out(TranscriptFile(path), words, []) == 0


def test_words_of_signs_alone_are_looked_for_as_they_are() -> None:
    assert Words(BENS, "???").without_names("guest:unknown") == "guest:unknown"
    assert Words(BENS, "<a>", ()).without_names("a man <a>") == "a man removed"


def test_lines_of_notes_go_with_the_words_or_the_name() -> None:
    note = "# Ben\n- Ben: likes tea\n- Benno likes milk\n- afraid of the dentist\n"
    assert without_lines(note, Words(BENS), ["afraid of the dentist"]) == ("# Ben\n- Benno likes milk\n", 2)
    assert without_lines(note, Words(BENS, "tea"), []) == ("# Ben\n- Benno likes milk\n- afraid of the dentist\n", 1)


def test_a_heading_goes_with_the_last_line_below_it_and_no_other() -> None:
    note = "# Day\n\n## Kept\n\n- tea\n\n## Kept\n\n- tea\n- milk\n\n## Empty before\n\n"
    note += "## With parts\n- tea\n### Part\n- milk\n## Last\n- tea\n"
    left = "# Day\n\n## Kept\n\n- milk\n\n## Empty before\n\n## With parts\n### Part\n- milk\n"
    assert without_lines(note, Words(BENS, "tea"), []) == (left, 4)
    assert without_lines("# Day\n- tea\n", Words(BENS, "tea"), []) == ("# Day\n", 1)
    assert without_lines("## Day\n- milk\n", Words(BENS, "tea"), []) == ("## Day\n- milk\n", 0)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.text(LETTERS, max_size=40)), max_size=8), st.text(LETTERS, min_size=3, max_size=6))
def test_whatever_was_said_the_transcript_stays_readable_and_others_stay(
    tmp_path_factory: pytest.TempPathFactory, said: list[tuple[bool, str]], phrase: str
) -> None:
    path = transcript(
        tmp_path_factory.mktemp("t") / "s.jsonl",
        *(user(text, *([] if bens else ["“Anna” telegram:42, owner"])) for bens, text in said),
    )
    words = Words(BENS, phrase)
    take_out(TranscriptFile(path), words, own_lines([TranscriptFile(path)], words))
    read = [decode(line) for line in path.read_bytes().split(b"\n")[:-1]]
    assert [one.id for one in read] == [f"t:{n}" for n in range(len(said) + 1)]
    for entry, (_, text) in zip(read[1:], said, strict=True):
        assert isinstance(entry.body, Said)
        found = entry.body.message.text
        assert phrase.casefold() not in "\n".join(found.casefold().split(REMOVED.casefold())) or "\n" in phrase
        assert found == text or REMOVED in found
