"""A workspace file that changes in mid-conversation: the prompt stays while the provider has it cached, and the model is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from agent.context.file_changes import MOST_CHARS, changes
from agent.context.workspace_files import WorkspaceFile
from agent.transcript.history_view import FILES_CHANGED

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.agent.conftest import Room

LINES = st.lists(st.sampled_from(["kind", "brief", "  ", "Käse", "- 1", "+ 2", "kind "]), max_size=8)


async def test_while_the_cache_is_warm_the_prompt_stays_and_the_model_is_told_once(room: Callable[..., Room]) -> None:
    r = room(settings={"cacheRetention": "5m"})
    r.model.reply_with(lambda _: "ok")
    user = r.workspace.root / "USER.md"
    user.write_text("Name: Ada\nTea\n")
    await r.say("first", "t0")
    first = r.model.requests[-1]
    user.write_text("Name: Ada\nCoffee\n")
    r.clock.move(60)
    await r.say("second", "t1")
    second = r.model.requests[-1]
    assert second.system == first.system
    assert second.messages[: len(first.messages)] == first.messages
    told = second.messages[-2].text
    assert told.startswith(FILES_CHANGED)
    assert "USER.md:\n- Tea\n+ Coffee\n" in told
    assert "Ada" not in told
    await r.say("third", "t2")
    assert str(r.model.requests[-1].messages).count(FILES_CHANGED) == 1
    user.write_text("Name: Ada\nCoffee\nMilk\n")
    await r.say("fourth", "t3")
    assert "USER.md:\n+ Milk\n" in r.model.requests[-1].messages[-2].text
    assert r.model.requests[-1].system == first.system


async def test_when_the_cache_has_run_out_the_prompt_is_made_anew(room: Callable[..., Room]) -> None:
    r = room(settings={"cacheRetention": "5m"})
    r.model.reply_with(lambda _: "ok")
    user = r.workspace.root / "USER.md"
    user.write_text("Tea\n")
    await r.say("first", "t0")
    user.write_text("Coffee\n")
    r.clock.move(301)
    await r.say("second", "t1")
    assert "Coffee" in str(r.model.requests[-1].system)
    assert FILES_CHANGED not in str(r.model.requests[-1].messages)


async def test_after_a_summary_the_prompt_holds_what_was_told(room: Callable[..., Room]) -> None:
    from agent.context.compaction import compact

    r = room(settings={"cacheRetention": "5m"})
    r.model.reply_with(
        lambda _: "## Goal\n\nNothing much so far; they talked about tea and about coffee.\n\n## Next steps\n\nNone."
    )
    user = r.workspace.root / "USER.md"
    user.write_text("Tea\n")
    for n in range(6):
        await r.say(f"something long about tea {n} " * 60, f"t{n}")
    user.write_text("Coffee\n")
    await r.say("told", "u0")
    assert FILES_CHANGED in str(r.model.requests[-1].messages)
    assert r.conversation is not None
    assert (await compact(r.conversation, "command", "command")).summarised
    await r.say("on", "u1")
    assert "Coffee" in str(r.model.requests[-1].system)


async def test_a_file_that_goes_or_comes_and_a_large_change_remake_the_prompt(room: Callable[..., Room]) -> None:
    r = room(settings={"cacheRetention": "5m"})
    r.model.reply_with(lambda _: "ok")
    user = r.workspace.root / "USER.md"
    await r.say("first", "t0")
    for text in ("Tea\n", "word\n" * MOST_CHARS, None):
        user.unlink() if text is None else user.write_text(text)
        await r.say("next", f"t{text!r:.5}")
        assert FILES_CHANGED not in str(r.model.requests[-1].messages)
        shown = next(one.text for one in r.model.requests[-1].system if one.name == "USER.md")
        assert ("(missing)" if text is None else text[:3]) in shown


async def test_the_former_way_is_a_setting(room: Callable[..., Room]) -> None:
    r = room(settings={"bootstrapChanges": "rewrite"})
    r.model.reply_with(lambda _: "ok")
    user = r.workspace.root / "USER.md"
    user.write_text("Tea\n")
    await r.say("first", "t0")
    user.write_text("Coffee\n")
    await r.say("second", "t1")
    assert "Coffee" in str(r.model.requests[-1].system)
    assert FILES_CHANGED not in str(r.model.requests[-1].messages)


@given(LINES, LINES)
def test_a_note_lists_what_is_new_and_what_is_gone(old: list[str], new: list[str]) -> None:
    before, after = "\n".join(old), "\n".join(new)
    note = changes([WorkspaceFile("A.md", before)], [WorkspaceFile("A.md", after)])
    assert note is not None
    told = note.partition("A.md:\n")[2].splitlines()
    gone, come = ([line[2:] for line in told if line.startswith(mark)] for mark in ("- ", "+ "))
    left = [line for line in before.strip().splitlines() if line.strip()]
    for line in gone:
        left.remove(line)
    assert sorted([*left, *come]) == sorted(line for line in after.strip().splitlines() if line.strip())
