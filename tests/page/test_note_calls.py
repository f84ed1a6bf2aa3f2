"""The page's calls about notes: what is served and changed, and what never is."""

from __future__ import annotations

import os
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.messages import ToolCall
from gateway.api.handlers.note_requests import EDITABLE, PAGE
from gateway.base.errors import Conflict, HomebodyError, UsageError
from memory.errors import MemoryTrouble
from tests.gateway.conftest import street
from tests.page.desk import Desk, desk
from tests.sampling import parametrize_some

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from tests.gateway.conftest import Street

__all__ = ["street"]
NOTE = "memory/2026-01-26.md"


@pytest.fixture
async def page(tmp_path: Path) -> AsyncIterator[Desk]:
    folder = tmp_path / "workspace"
    (folder / "memory").mkdir(parents=True)
    (folder / "MEMORY.md").write_text("# Long-term\n\n- Alice drinks jasmine tea\n")
    (folder / NOTE).write_text("# 2026-01-26\n\nWe chose REST over GraphQL\n")
    async with desk(tmp_path) as made:
        yield made


async def test_notes_and_prompt_files_are_listed_and_nothing_else(page: Desk, tmp_path: Path) -> None:
    (tmp_path / "workspace/secret.txt").write_text("x")
    (tmp_path / "workspace/inbox").mkdir(exist_ok=True)
    (tmp_path / "workspace/inbox/letter.md").write_text("x")
    found = await page("memory.files", agent="main")
    kinds = {one["path"]: one["kind"] for one in found["files"]}
    assert kinds["MEMORY.md"] == kinds[NOTE] == "note"
    assert kinds["SOUL.md"] == "prompt"
    assert not {"secret.txt", "inbox/letter.md"} & kinds.keys()
    assert found["journal"] is True


async def test_a_note_is_read_changed_and_its_change_is_the_owners(page: Desk) -> None:
    read = await page("memory.read", agent="main", path=NOTE)
    assert (read["editable"], read["next"]) == (True, None)
    text = read["text"] + "And Postgres.\n"
    done = await page("memory.write", agent="main", path=NOTE, text=text, expected=read["hash"])
    assert (done["written"], done["text"]) == (True, text)
    (newest, first) = (await page("memory.log", agent="main", path=NOTE))["versions"]
    assert (newest["author"]["name"], first["kind"]) == ("browser page", "created")
    assert "+And Postgres." in (await page("memory.diff", agent="main", version=newest["name"]))["diff"]
    lines = (await page("memory.blame", agent="main", path=NOTE))["lines"]
    assert [one["version"] for one in lines] == [first["name"]] * 3 + [newest["name"]]
    found = await page("memory.explain", agent="main", query="postgres")
    assert found["results"][0]["path"] == NOTE
    await page("memory.undo", agent="main", version=newest["name"])
    assert (await page("memory.read", agent="main", path=NOTE))["text"] == read["text"]


async def test_a_change_is_undone_once_until_its_undo_is_undone(page: Desk) -> None:
    read = await page("memory.read", agent="main", path=NOTE)
    await page("memory.write", agent="main", path=NOTE, text="", expected=read["hash"])

    async def told() -> list[tuple[str, bool]]:
        return [(one["name"], one["undone"]) for one in (await page("memory.log", agent="main", path=NOTE))["versions"]]

    (removed, _), _ = await told()
    made = (await page("memory.undo", agent="main", version=removed))["name"]
    assert (await told())[:2] == [(made, False), (removed, True)]
    with pytest.raises(Conflict, match=f"undone already, by version {made}") as refused:
        await page("memory.undo", agent="main", version=removed)
    assert refused.value.hint.endswith(f"homebody memory undo {made}")
    assert (await page("memory.read", agent="main", path=NOTE))["text"] == read["text"], "its lines came back once"
    again = (await page("memory.undo", agent="main", version=made))["name"]
    assert (await told())[:3] == [(again, False), (made, True), (removed, False)]
    await page("memory.undo", agent="main", version=removed)
    assert (await page("memory.read", agent="main", path=NOTE))["text"] == read["text"]


async def test_what_another_tab_wrote_meanwhile_is_shown_and_not_written_over(page: Desk, tmp_path: Path) -> None:
    read = await page("memory.read", agent="main", path=NOTE)
    await page("memory.write", agent="main", path=NOTE, text="the other tab\n", expected=read["hash"])
    mine = await page("memory.write", agent="main", path=NOTE, text="mine\n", expected=read["hash"])
    assert mine["written"] is False
    assert mine["present"]["text"] == "the other tab\n"
    assert {"-the other tab", "+mine"} <= set(mine["diff"])
    assert (tmp_path / "workspace" / NOTE).read_text() == "the other tab\n"
    again = await page("memory.write", agent="main", path=NOTE, text="mine\n", expected=mine["present"]["hash"])
    assert again["written"] is True


async def test_a_text_that_the_file_has_already_is_saved_and_no_conflict(page: Desk) -> None:
    """The answer to the first save was lost, so that the page still knows the former hash."""
    read = await page("memory.read", agent="main", path=NOTE)
    arguments = {"agent": "main", "path": NOTE, "text": "mine\n", "expected": read["hash"]}
    first = await page("memory.write", **arguments)
    again = await page("memory.write", **arguments)
    assert (again["written"], again["changed"], again["hash"]) == (True, False, first["hash"])
    new = {"agent": "main", "path": "memory/new.md", "text": "mine\n", "expected": None}
    await page("memory.write", **new)
    assert (await page("memory.write", **new))["written"] is True
    assert (await page("memory.write", **new | {"text": "other\n"}))["written"] is False


async def test_a_new_note_is_made_once(page: Desk) -> None:
    made = await page("memory.write", agent="main", path="memory/garden/beds.md", text="Beans\n", expected=None)
    assert made["written"] is True
    twice = await page("memory.write", agent="main", path="memory/garden/beds.md", text="Peas\n", expected=None)
    assert (twice["written"], twice["present"]["text"]) == (False, "Beans\n")
    gone = await page("memory.remove", agent="main", path="memory/garden/beds.md", expected=twice["present"]["hash"])
    assert gone["written"] is True
    (removed, *_) = (await page("memory.log", agent="main", path="memory/garden/beds.md"))["versions"]
    assert removed["kind"] == "deleted"
    await page("memory.undo", agent="main", version=removed["name"])
    assert (await page("memory.read", agent="main", path="memory/garden/beds.md"))["text"] == "Beans\n"


async def test_a_file_is_not_removed_that_changed(page: Desk, tmp_path: Path) -> None:
    kept = await page("memory.remove", agent="main", path=NOTE, expected="0" * 64)
    assert kept["written"] is False
    assert (tmp_path / "workspace" / NOTE).exists()


async def test_prompt_files_are_edited_too(page: Desk, tmp_path: Path) -> None:
    read = await page("memory.read", agent="main", path="SOUL.md")
    await page("memory.write", agent="main", path="SOUL.md", text="Be kind.\n", expected=read["hash"])
    assert (tmp_path / "workspace/SOUL.md").read_text() == "Be kind.\n"
    (tmp_path / "workspace/SOUL.md").write_text("Be kind.\nBe brief.\n")  # in an editor
    by_hand, by_page, *_ = (await page("memory.log", agent="main", path="SOUL.md"))["versions"]
    assert [(one["author"]["kind"], one["author"]["name"]) for one in (by_hand, by_page)] == [
        ("owner", ""),
        ("owner", "browser page"),
    ]
    assert "+Be brief." in (await page("memory.diff", agent="main", version=by_hand["name"]))["diff"]
    await page("memory.undo", agent="main", version=by_page["name"])
    left = (tmp_path / "workspace/SOUL.md").read_text().splitlines()
    assert [line for line in left if line != "Be brief."] == read["text"].splitlines()
    assert "Be brief." in left
    lines = (await page("memory.blame", agent="main", path="SOUL.md"))["lines"]
    assert [one["version"] for one in lines if one["text"] == "Be brief."] == [by_hand["name"]]


async def test_what_an_agent_makes_of_its_prompt_files_is_undone(street: Callable[..., Street]) -> None:
    here = street()
    calls = [("read", {"path": "USER.md"}), ("write", {"path": "USER.md", "content": "Likes tea.\n", "mode": "overwrite"})]
    here.model.then(*([ToolCall(id=name, name=name, arguments=given)] for name, given in calls), "Noted.")
    async with here.house() as (house, talk):
        page = Desk(house)
        file = house.agents["main"].workspace.root / "USER.md"
        before = file.read_text()
        await talk.ask("I like tea")
        assert file.read_text() == "Likes tea.\n"
        (newest, *_) = (await page("memory.log", agent="main", path="USER.md"))["versions"]
        assert (newest["author"]["kind"], newest["kind"]) == ("agent", "changed")
        await page("memory.undo", agent="main", version=newest["name"])
        assert file.read_text() == before
        found = await page("memory.explain", agent="main", query="tea likes")
        assert all(one["source"] == "sessions" for one in found["results"]), "prompt files are in no search"


TRICKS = [
    "../home/state/ledger.sqlite",
    "memory/../../home/homebody.yaml",
    "/etc/passwd",
    "memory/..",
    "..",
    "",
    ".",
    "memory",
    "~/.ssh/id_rsa",
    "memory/\0.md",
    "memory/a\u202e.md",
    "memory/%2e%2e/%2e%2e/x.md",
    "memory/．．/x.md",
    "memory\\..\\x.md",
    "file:///etc/passwd",
    ".git/config",
    "memory/.hidden/x.md",
    "memory/.env",
    "skills/one/SKILL.md",
    "inbox/letter.md",
    "memory/groups/g/inbox/letter.md",
    "notes.md",
    "memory/linked.md",
    "memory/folder/inner.md",
    "memory/hard.md",
    "memory/pipe.md",
    "@notes/../../etc/passwd",
    "@nowhere/x.md",
    "memory/" + "a" * 300 + ".md",
    "memory/" + "a/" * 3000 + "x.md",
    "memory/\ud800.md",
    "home/agents/main/untrusted.jsonl",
]


@parametrize_some(8, "path", TRICKS)
async def test_no_trick_leads_to_another_file(page: Desk, tmp_path: Path, path: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "inner.md").write_text("outside")
    memory = tmp_path / "workspace/memory"
    (memory / "linked.md").symlink_to(outside / "inner.md")
    (memory / "folder").symlink_to(outside)
    os.link(outside / "inner.md", memory / "hard.md")
    os.mkfifo(memory / "pipe.md")
    before = {one: one.read_bytes() for one in (outside / "inner.md", tmp_path / "workspace/SOUL.md")}
    with pytest.raises((HomebodyError, MemoryTrouble)):
        await page("memory.read", agent="main", path=path)
    with pytest.raises((HomebodyError, MemoryTrouble)):
        await page("memory.write", agent="main", path=path, text="mine", expected=None)
    with pytest.raises((HomebodyError, MemoryTrouble)):
        await page("memory.remove", agent="main", path=path, expected="")
    assert {one: one.read_bytes() for one in before} == before
    assert sorted(one.name for one in outside.iterdir()) == ["inner.md"]


async def test_a_folder_of_other_notes_is_read_and_never_changed(tmp_path: Path) -> None:
    (tmp_path / "wiki").mkdir()
    (tmp_path / "wiki/pond.md").write_text("Koi\n")
    extra = {"defaults": {"memorySearch": {"extraPaths": [str(tmp_path / "wiki")]}}}
    async with desk(tmp_path, agents=extra) as page:
        assert ("@wiki/pond.md", "elsewhere") in {
            (one["path"], one["kind"]) for one in (await page("memory.files", agent="main"))["files"]
        }
        read = await page("memory.read", agent="main", path="@wiki/pond.md")
        assert (read["text"], read["editable"]) == ("Koi\n", False)
        with pytest.raises(UsageError, match="outside of the workspace"):
            await page("memory.write", agent="main", path="@wiki/pond.md", text="x", expected=read["hash"])
        with pytest.raises(UsageError, match="outside of the workspace"):
            await page("memory.remove", agent="main", path="@wiki/pond.md", expected=read["hash"])


async def test_an_agent_reaches_its_own_files_alone(tmp_path: Path) -> None:
    two = {"list": [{"id": "main"}, {"id": "work", "workspace": str(tmp_path / "work")}]}
    async with desk(tmp_path, agents=two) as page:
        await page("memory.write", agent="work", path="memory/plan.md", text="Plan\n", expected=None)
        with pytest.raises(UsageError, match="no file"):
            await page("memory.read", agent="main", path="memory/plan.md")
        with pytest.raises(UsageError, match="no agent"):
            await page("memory.files", agent="../work")
        assert (await page("memory.log", agent="main", path="memory/plan.md"))["versions"] == []


@pytest.mark.parametrize("lines", [40_000, pytest.param(200_000, marks=pytest.mark.long)])
async def test_a_note_of_a_few_mb_is_read_in_pages_and_not_edited(page: Desk, tmp_path: Path, lines: int) -> None:
    text = "".join(f"line {number} of a long note\n" for number in range(lines))
    (tmp_path / "workspace/memory/long.md").write_text(text)
    read = await page("memory.read", agent="main", path="memory/long.md")
    assert (read["editable"], len(read["text"]) <= PAGE) == (False, True)
    assert "are only read here" in read["why"]
    joined, pages = read["text"], 1
    while read["next"] is not None:
        read = await page("memory.read", agent="main", path="memory/long.md", offset=read["next"])
        joined, pages = joined + read["text"], pages + 1
    assert joined == text
    assert pages == pytest.approx(len(text) / PAGE, abs=2)
    with pytest.raises(UsageError, match="only read here"):
        await page("memory.write", agent="main", path="memory/long.md", text="short", expected=read["hash"])
    with pytest.raises(UsageError, match="too long to be told line by line"):
        await page("memory.blame", agent="main", path="memory/long.md")


async def test_a_text_that_is_too_long_or_no_text_is_refused(page: Desk) -> None:
    for text in ("x" * (EDITABLE + 1), "a\0b", "\ud800"):
        with pytest.raises(UsageError):
            await page("memory.write", agent="main", path="memory/new.md", text=text, expected=None)


async def test_marks_and_ends_of_lines_stay_as_the_file_has_them(page: Desk, tmp_path: Path) -> None:
    file = tmp_path / "workspace/memory/windows.md"
    file.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    read = await page("memory.read", agent="main", path="memory/windows.md")
    assert read["text"] == "one\ntwo\n"
    await page("memory.write", agent="main", path="memory/windows.md", text="one\nmore\ntwo\n", expected=read["hash"])
    assert file.read_bytes() == b"\xef\xbb\xbfone\r\nmore\r\ntwo\r\n"


async def test_a_file_of_another_encoding_is_read_only(page: Desk, tmp_path: Path) -> None:
    (tmp_path / "workspace/memory/old.md").write_bytes("Käse\n".encode("cp1252"))
    read = await page("memory.read", agent="main", path="memory/old.md")
    assert (read["text"], read["editable"]) == ("Käse\n", False)


async def test_blame_tells_what_came_from_strangers_and_the_owner_vouches_for_what_they_write(page: Desk) -> None:
    agent = page.house.agents["main"]
    agent.workspace.untrusted.mark(PurePosixPath(NOTE), "We chose REST over GraphQL", ["web:example.org"])
    lines = (await page("memory.blame", agent="main", path=NOTE))["lines"]
    assert "web:example.org" in lines[2]["untrusted"]
    assert lines[0]["untrusted"] == []
    (listed,) = [one for one in (await page("memory.files", agent="main"))["files"] if one["path"] == NOTE]
    assert "web:example.org" in listed["untrusted"]
    for text in ("# 2026-01-26\n", "# 2026-01-26\n\nWe chose REST over GraphQL\n"):  # removed, and typed again by the owner
        present = (await page("memory.read", agent="main", path=NOTE))["hash"]
        await page("memory.write", agent="main", path=NOTE, text=text, expected=present)
    assert all(one["untrusted"] == [] for one in (await page("memory.blame", agent="main", path=NOTE))["lines"])


async def test_a_search_says_why_a_line_was_missed(page: Desk) -> None:
    found = await page("memory.explain", agent="main", query="jasmine", line=f"{NOTE}:3")
    assert found["candidates"][0]["keywordRank"] == 1
    assert (found["line"]["found"], "no distinctive word" in found["line"]["reason"]) == (False, True)
    with pytest.raises(UsageError):
        await page("memory.explain", agent="main", query=" ")


async def test_without_a_memory_prompt_files_are_served_and_searches_say_so(tmp_path: Path) -> None:
    async with desk(tmp_path, plugins={"slots": {"memory": "none"}}) as page:
        found = await page("memory.files", agent="main")
        assert found["journal"] is False
        assert {one["kind"] for one in found["files"]} == {"prompt"}
        with pytest.raises(UsageError, match="no memory index"):
            await page("memory.explain", agent="main", query="tea")


async def test_a_call_with_other_arguments_is_refused(page: Desk) -> None:
    with pytest.raises(UsageError, match="not called so"):
        await page("memory.read", agent="main", file=NOTE)


@given(st.text(max_size=300), st.integers(0, 400))
def test_pages_join_to_the_text(text: str, size: int) -> None:
    from gateway.api.handlers.note_requests import page_end

    joined, at = "", 0
    while at < len(text):
        end = page_end(text, at, size + 1)
        assert at < end <= at + size + 1
        joined, at = joined + text[at:end], end
    assert joined == text
