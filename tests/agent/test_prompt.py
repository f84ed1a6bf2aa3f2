"""The system text says what is so in this conversation, and nothing else."""

from __future__ import annotations

from itertools import chain, combinations
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace

from agent.context.prompt import PromptFacts, instructions, system_text
from agent.context.window import Window, least_window
from agent.context.workspace_files import WorkspaceFile
from agent.models import token_estimate
from memory.audience import OWNER, Audience

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.models.protocol import Segment
    from tests.agent.conftest import Room

    Make = Callable[..., Room]

ALL = ("memory_search", "memory_get", "read", "write", "edit")
THERE = PromptFacts(
    zone=ZoneInfo("Europe/Berlin").key, audience=OWNER, tools=ALL, writes=True, notes_given=True, private=True, window=200_000
)
GROUP = Audience("group", "chess")


@pytest.mark.parametrize("tools", list(chain.from_iterable(combinations(ALL, n) for n in range(len(ALL) + 1))))
@pytest.mark.parametrize("window", [4000, 200_000])
@pytest.mark.parametrize("audience", [OWNER, GROUP])
def test_only_tools_that_are_sent_are_spoken_of(tools: tuple[str, ...], window: int, audience: Audience) -> None:
    text = instructions("full", replace(THERE, tools=tools, window=window, audience=audience, writes="write" in tools))
    for tool in ("memory_search", "memory_get"):
        assert (tool in text) == (tool in tools and "memory_search" in tools)
    assert ("append to" in text) == ("write" in tools)


def test_a_group_is_told_of_its_own_notes_and_of_no_memory_file() -> None:
    text = instructions("full", replace(THERE, audience=GROUP, private=False))
    assert "append to memory/groups/chess/YYYY-MM-DD.md" in text
    assert "MEMORY.md" not in text
    assert "append to memory/YYYY" not in text


def test_a_named_conversation_of_the_owner_is_told_that_memory_md_is_not_given() -> None:
    assert "MEMORY.md is not given in this conversation" in instructions("full", replace(THERE, private=False))
    assert "MEMORY.md is not given" not in instructions("full", THERE)


async def test_where_no_notes_are_given_the_agent_is_told_to_read_them(room: Make) -> None:
    r = room("ok", settings={"startupContext": {"enabled": False}})
    (r.workspace.root / "memory").mkdir()
    (r.workspace.root / "memory" / "2026-03-01.md").write_text("- The cat is Mio.\n")
    await r.say("hello")
    system = "".join(segment.text for segment in r.model.requests[-1].system)
    assert "Mio" not in system
    assert "read MEMORY.md and memory/YYYY-MM-DD.md of today and yesterday first" in system
    assert "is given below" not in system


async def test_an_agent_that_may_not_write_is_not_told_to(room: Make) -> None:
    r = room("ok", settings={"sandbox": {"workspaceAccess": "ro"}})
    await r.say("hello")
    system = "".join(segment.text for segment in r.model.requests[-1].system)
    assert "You cannot write notes here" in system
    assert "append to" not in system


async def test_instructions_shrink_with_the_window(room: Make) -> None:
    r = room()
    r.model.reply_with(lambda _: "NO_REPLY")
    (r.workspace.root / "AGENTS.md").write_text("A rule of the house. " * 400)
    await r.say("hello")
    large = sum(len(segment.text) for segment in r.model.requests[-1].system)
    r.model.window = 4000
    await r.say("hello", "t2")
    small = sum(len(segment.text) for segment in r.model.requests[-1].system)
    assert small < large / 2
    assert small < 4000


async def test_a_window_that_is_too_small_is_told_once_with_the_least_that_is_needed(room: Make) -> None:
    r = room("ok", "ok")
    r.model.window = 2048
    result = await r.say("hello")
    [told] = result.asides
    assert "has a window of 2,048 tokens, which is too small" in told
    assert (await r.say("hello", "t2")).asides == ()
    fixed = token_estimate.weight_of_request(replace(r.model.requests[-1], messages=()))
    least = least_window(r.conversation.calibration.apply(fixed))
    assert f"At least {least:,} are needed" in told
    r.model.window = least
    assert r.conversation.too_small == ""
    assert Window.of(least, r.settings.compaction).flush_at >= r.conversation.tokens()


def test_sessions_share_the_text_of_files_in_memory() -> None:
    def segments(text: str) -> tuple[Segment, ...]:
        files = (
            WorkspaceFile("AGENTS.md", f"Be kind. {text}"),
            WorkspaceFile("TOOLS.md", None),
            WorkspaceFile("USER.md", "Anna"),
        )
        return system_text(mode="full", there=THERE, files=files, notes="", file_chars=50, total_chars=80)

    one, same, changed = segments("a" * 90), segments("a" * 90), segments("b" * 20)
    assert [segment.name for segment in one] == ["instructions", "AGENTS.md", "TOOLS.md", "USER.md"]
    assert all(first is second for first, second in zip(one[1:3], same[1:3], strict=True))
    assert "read AGENTS.md for the rest" in one[1].text
    assert changed[1].text == f"# AGENTS.md\n\nBe kind. {'b' * 20}\n"
    assert one[2].text.endswith("(missing)\n")
