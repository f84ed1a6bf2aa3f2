"""What a person sees of an answer while it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from channels.errors import Uncertain
from tests.channels.telegram_line import ANNA, FAMILY, GROUP, PRIVATE, Line, opened

if TYPE_CHECKING:
    from channels.messages import ChatAddress


def shown(line: Line) -> list[str]:
    return line.peer.chats.said(FAMILY)


async def later(line: Line, seconds: float) -> None:
    await line.clock.sleep(seconds)


async def test_a_short_turn_is_sent_whole() -> None:
    async with opened() as line:
        line.peer.chats.group(FAMILY)
        for place in (PRIVATE, GROUP):
            await line.channel.draft(place, "t1", "Let me")
            await later(line, 0.9)
            await line.channel.draft(place, "t1", "Let me see")
            await line.send("Let me see. Done.", place)
        assert line.peer.count("sendMessageDraft") == 0
        assert line.peer.count("editMessageText") == 0
    assert line.recorded is None


async def test_a_private_answer_shows_as_a_draft_that_the_message_replaces() -> None:
    async with opened() as line:
        for seconds, text in ((0, "It"), (1.1, "It is **un"), (0.5, "It is **under"), (0.6, "It is **under** the")):
            await later(line, seconds)
            await line.channel.draft(PRIVATE, "t1", text)
        assert line.peer.chats.drafts[ANNA] == ["It is **un", "It is under the"]
        sent = await line.send("It is **under** the pot.")
        await later(line, 2)
        await line.channel.draft(PRIVATE, "t1", "It is **under** the pot.")
        assert ANNA not in line.peer.chats.drafts
        assert line.peer.chats.said(ANNA) == ["It is under the pot."]
        drafts = {arguments["draft_id"] for name, arguments in line.peer.calls if name == "sendMessageDraft"}
        assert len(drafts) == 1
    assert sent
    assert line.recorded is None


async def test_a_draft_does_not_fade_while_a_tool_works() -> None:
    async with opened() as line:
        for seconds in (0, 1.5):
            await later(line, seconds)
            await line.channel.draft(PRIVATE, "t1", "Let me look")
        for _ in range(15):
            await later(line, 4)
            await line.channel.typing(PRIVATE)
        assert line.peer.chats.drafts[ANNA] == ["Let me look"] * 4
        await line.send("Found it.")
        await later(line, 30)
        await line.channel.typing(PRIVATE)
        assert ANNA not in line.peer.chats.drafts


async def test_a_server_without_drafts_gets_messages_that_are_edited() -> None:
    async with opened() as line:
        line.peer.fault("sendMessageDraft", "refuse", code=404, text="Not Found")
        for number in range(8):
            await line.channel.draft(PRIVATE, "t1", f"word {number}")
            await later(line, 1.5)
        assert line.peer.count("sendMessageDraft") == 1
        assert line.peer.chats.said(ANNA) == ["word 7"]
        await line.send("all words")
    assert line.peer.chats.said(ANNA) == ["all words"]


@pytest.mark.parametrize("streaming", ["auto", "edit"])
async def test_a_groups_answer_is_the_last_edit_of_what_was_shown(streaming: str) -> None:
    async with opened(streaming=streaming) as line:
        line.peer.chats.group(FAMILY)
        for number in range(30):
            await line.channel.draft(GROUP, "t1", "word " * (number + 1))
            await later(line, 0.5)
        assert 3 <= line.peer.count("editMessageText") <= 5
        posted = line.peer.chats.messages[FAMILY][-1]["message_id"]
        sent = await line.send("All the words.", GROUP)
        assert (shown(line), int(sent)) == (["All the words."], posted)
        await line.channel.draft(GROUP, "t1", "late")
        await line.send("And a second message.", GROUP)
    assert shown(line) == ["All the words.", "And a second message."]


@pytest.mark.parametrize("kind", ["drop_before", "drop_after", "status"])
async def test_the_last_edit_is_repeated_unseen_after_a_crash(kind: str) -> None:
    async with opened() as line:
        line.peer.chats.group(FAMILY)
        for _ in range(2):
            await line.channel.draft(GROUP, "t1", "wor")
            await later(line, 4)
        assert shown(line) == ["wor"]
        line.peer.fault("editMessageText", kind)
        with pytest.raises(Uncertain):
            await line.send("words", GROUP)
        again = Line(line.peer)
        again.recorded = line.recorded
        await again.send("words", GROUP, attempt=2, uncertain=True)
        await again.channel.close()
    assert shown(line) == ["words"]


async def test_a_preview_that_may_have_arrived_is_not_posted_twice() -> None:
    async with opened() as line:
        line.peer.chats.group(FAMILY)
        await line.channel.draft(GROUP, "t1", "one")
        line.peer.fault("sendMessage", "drop_after")
        for text in ("two", "three", "four"):
            await later(line, 4)
            await line.channel.draft(GROUP, "t1", text)
        assert shown(line) == ["two"]
        await line.send("the answer", GROUP)
    assert shown(line) == ["two", "the answer"]


@pytest.mark.parametrize(
    ("place", "method"), [(PRIVATE, "sendMessageDraft"), (GROUP, "sendMessage"), (GROUP, "editMessageText")]
)
async def test_a_preview_waits_when_telegram_asks_to(place: ChatAddress, method: str) -> None:
    async with opened() as line:
        line.peer.chats.group(FAMILY)
        line.peer.fault(method, "retry_after", seconds=30)
        calls = []
        for number in range(20):
            await line.channel.draft(place, "t1", f"word {number}")
            calls.append(line.peer.count(method))
            await later(line, 4)
        refused = calls.index(1)
        assert calls[refused : refused + 7] == [1] * 7
        assert calls[-1] >= 2
        await line.send("all words", place)
    assert "all words" in line.peer.chats.said(int(place.id))


async def test_off_means_off() -> None:
    async with opened(streaming="off") as line:
        for number in range(5):
            await line.channel.draft(PRIVATE, "t1", f"word {number}")
            await later(line, 4)
        assert line.peer.calls == []


async def test_drafts_alone_leave_groups_without_previews() -> None:
    async with opened(streaming="draft") as line:
        line.peer.chats.group(FAMILY)
        for number in range(5):
            await line.channel.draft(GROUP, "t1", f"word {number}")
            await later(line, 4)
    assert shown(line) == []


async def test_a_long_answer_shows_its_beginning() -> None:
    async with opened() as line:
        await line.channel.draft(PRIVATE, "t1", "w")
        await later(line, 4)
        await line.channel.draft(PRIVATE, "t1", "word " * 3000)
        [draft] = line.peer.chats.drafts[ANNA]
    assert 3900 < len(draft) <= 4000


async def test_blanks_alone_are_not_shown() -> None:
    async with opened() as line:
        await line.channel.draft(PRIVATE, "t1", "\u200b")
        await later(line, 4)
        await line.channel.draft(PRIVATE, "t1", "\u200b\u200b")
        assert line.peer.calls == []
