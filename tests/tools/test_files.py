"""What the file tools do, and what they refuse."""

from __future__ import annotations

import asyncio
import base64
import struct
import tempfile
import zlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.taint import unfenced
from agent.tools.grep_files import GrepFiles
from agent.tools.protocol import ToolContext
from memory.audience import Audience
from memory.errors import IndexBroken
from tests.properties import examples
from tests.tools.house import CANARY, House

GROUP = Audience("group", "kitchen")
OWN = "memory/groups/kitchen"


def png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"\0" * 10)) + chunk(b"IEND", b"")


class TestRead:
    async def test_a_file_is_given_as_it_is(self, house: House) -> None:
        (house.root / "a.md").write_text("one\n  two\n\nthree")
        assert await house.ok("read", path="a.md") == "one\n  two\n\nthree"

    async def test_a_part_says_how_to_go_on_and_the_parts_make_the_whole(self, tmp_path: Path) -> None:
        house = House(tmp_path, max_chars=1000)
        lines = [f"line {number} " + "x" * (number % 50) for number in range(1, 200)]
        (house.root / "a.md").write_text("\n".join(lines))
        got: list[str] = []
        while len(got) < len(lines):
            text = await house.ok("read", path="a.md", offset=len(got) + 1)
            assert len(text) <= 1000
            got += [line for line in text.split("\n") if not line.startswith("[")]
            if len(got) < len(lines):
                assert text.endswith(f"of 199; go on with offset {len(got) + 1}]")
        assert got == lines

    async def test_a_very_long_line_is_cut_and_the_next_one_can_be_reached(self, tmp_path: Path) -> None:
        house = House(tmp_path, max_chars=1000)
        (house.root / "a.md").write_text("x" * 5000 + "\nsecond")
        text = await house.ok("read", path="a.md")
        assert "line 1 is 5,000 characters long and cut here" in text
        assert len(text) <= 1000
        assert await house.ok("read", path="a.md", offset=2) == "second"
        assert "lines 1-0 of the 2" in await house.refused("write", path="a.md", content="lost?", mode="overwrite")

    async def test_offset_and_limit_choose_lines(self, house: House) -> None:
        (house.root / "a.md").write_text("1\n2\n3\n4\n")
        assert await house.ok("read", path="a.md", offset=2, limit=2) == "2\n3\n[lines 2-3 of 4; go on with offset 4]"
        assert await house.ok("read", path="a.md", offset=3, limit=2) == "3\n4"
        assert await house.ok("read", path="a.md", offset=9) == "[the file has 4 lines]"

    async def test_an_empty_file_says_that_it_is_empty(self, house: House) -> None:
        (house.root / "a.md").touch()
        assert await house.ok("read", path="a.md") == "[the file is empty]"

    async def test_broken_characters_are_replaced_and_marks_of_order_and_windows_ends_dropped(self, house: House) -> None:
        (house.root / "a.md").write_bytes(b"\xef\xbb\xbfone\r\nna\xefve and more text to be plain text")
        assert await house.ok("read", path="a.md") == "one\nna\ufffdve and more text to be plain text"

    async def test_what_is_no_text_is_refused_with_type_and_size(self, house: House) -> None:
        (house.root / "a.zip").write_bytes(b"PK\x03\x04" + bytes(100))
        assert await house.refused("read", path="a.zip") == "a.zip is not text (application/zip, 104 bytes)"

    async def test_a_picture_is_shown_as_a_picture(self, house: House) -> None:
        (house.root / "a.png").write_bytes(png(3, 2))
        answer = await house.call("read", path="a.png")
        assert answer.text.startswith("a.png (image/png, 3x2, ")
        assert (answer.images[0].width, answer.images[0].height) == (3, 2)
        assert base64.b64decode(answer.images[0].data).startswith(b"\x89PNG")

    @pytest.mark.parametrize(("data", "why"), [(png(90_000, 1000), "too large"), (png(3, 2)[:12], "broken")])
    async def test_a_picture_that_no_model_takes_is_refused(self, house: House, data: bytes, why: str) -> None:
        (house.root / "a.png").write_bytes(data)
        answer = await house.call("read", path="a.png")
        assert answer.is_error
        assert why in answer.text
        assert not answer.images

    async def test_a_missing_file_says_so(self, house: House) -> None:
        assert await house.refused("read", path="b.md") == "b.md: no such file here; list shows what there is"


class TestWrite:
    async def test_a_new_file_is_made_with_its_folders(self, house: House) -> None:
        await house.ok("write", path="projects/roof/plan.md", content="Grüße")
        assert house.text("projects/roof/plan.md") == "Grüße"

    async def test_an_existing_file_is_not_replaced_unawares(self, house: House) -> None:
        (house.root / "a.md").write_text("precious")
        assert "exists already" in await house.refused("write", path="a.md", content="new")
        assert "has not been read yet" in await house.refused("write", path="a.md", content="new", mode="overwrite")
        assert house.text("a.md") == "precious"

    async def test_what_was_read_may_be_replaced_until_it_changes(self, house: House) -> None:
        (house.root / "a.md").write_text("one")
        await house.ok("read", path="a.md")
        await house.ok("write", path="a.md", content="two", mode="overwrite")
        await house.ok("write", path="a.md", content="three", mode="overwrite")
        (house.root / "a.md").write_text("by the owner")
        assert "changed since" in await house.refused("write", path="a.md", content="four", mode="overwrite")
        assert house.text("a.md") == "by the owner"

    async def test_reading_in_one_session_permits_nothing_in_another(self, house: House) -> None:
        (house.root / "a.md").write_text("one")
        await house.ok("read", path="a.md", session="first")
        await house.refused("write", path="a.md", content="two", mode="overwrite", session="second")
        assert house.text("a.md") == "one"

    async def test_what_was_read_in_part_may_be_edited_but_not_replaced(self, house: House) -> None:
        (house.root / "a.md").write_text("1\n2\n3\n")
        await house.ok("read", path="a.md", offset=2)
        assert "only lines 1-0 of the 3" in await house.refused("write", path="a.md", content="x", mode="overwrite")
        await house.ok("edit", path="a.md", old="3", new="three")
        await house.refused("write", path="a.md", content="x", mode="overwrite")
        await house.ok("read", path="a.md", limit=1)
        await house.ok("read", path="a.md", offset=2)
        await house.ok("write", path="a.md", content="x", mode="overwrite")
        assert house.text("a.md") == "x"

    @pytest.mark.parametrize("mode", ["create", "overwrite", "append"])
    async def test_a_repeat_changes_nothing(self, house: House, mode: str) -> None:
        await house.ok("write", path="a.md", content="- one", mode=mode)
        before = house.text("a.md")
        await house.ok("write", path="a.md", content="- one", mode=mode, session="after a restart")
        assert house.text("a.md") == before

    async def test_appended_blocks_stand_on_lines_of_their_own(self, house: House) -> None:
        (house.root / "a.md").write_text("no end of line")
        await house.ok("write", path="a.md", content="## 10:00\nfirst", mode="append")
        await house.ok("write", path="a.md", content="\n## 11:00\nsecond\n", mode="append")
        assert house.text("a.md") == "no end of line\n## 10:00\nfirst\n\n## 11:00\nsecond\n"

    async def test_a_lone_half_of_a_character_becomes_a_mark_and_two_halves_one_character(self, house: House) -> None:
        await house.ok("write", path="a.md", content="\ud83d\ude00 \ud83d")
        assert house.text("a.md") == "😀 \ufffd"

    async def test_nul_and_nothing_are_refused(self, house: House) -> None:
        assert "NUL" in await house.refused("write", path="a.md", content="a\0b")
        assert "nothing to append" in await house.refused("write", path="a.md", content=" \n", mode="append")
        assert not list(house.root.iterdir())

    async def test_the_version_history_is_not_written(self, house: House) -> None:
        assert "version history" in await house.refused("write", path=".git/hooks/post-commit", content="#!/bin/sh")
        assert "version history" in await house.refused("write", path="notes/.GIT/config", content="x")

    async def test_the_memory_hears_of_notes_and_files_of_prompts_and_of_nothing_else(self, house: House) -> None:
        for path in ("MEMORY.md", "memory/2026-02-03.md", "memory/a/b.md", "memory/a.txt", "AGENTS.md", "notes/memory.md"):
            await house.ok("write", path=path, content="x", mode="append")
        assert house.memory.written == ["MEMORY.md", "memory/2026-02-03.md", "memory/a/b.md", "AGENTS.md"]

    async def test_a_broken_index_does_not_make_a_written_note_fail(self, house: House) -> None:
        house.memory.trouble = IndexBroken("no index")
        await house.ok("write", path="memory/a.md", content="x")
        assert house.text("memory/a.md") == "x"


class TestEdit:
    async def test_one_place_is_replaced(self, house: House) -> None:
        (house.root / "a.md").write_text("likes tea\nlikes rain\n")
        await house.ok("read", path="a.md")
        assert await house.ok("edit", path="a.md", old="tea", new="coffee") == "edited a.md (1 place)"
        await house.ok("edit", path="a.md", old="likes", new="loves", all=True)
        assert house.text("a.md") == "loves coffee\nloves rain\n"

    async def test_a_place_that_is_missing_or_not_the_only_one_is_told(self, house: House) -> None:
        (house.root / "a.md").write_text("x y x")
        await house.ok("read", path="a.md")
        assert "does not occur" in await house.refused("edit", path="a.md", old="z", new="w")
        assert "occurs 2 times" in await house.refused("edit", path="a.md", old="x", new="w")
        assert "same as old" in await house.refused("edit", path="a.md", old="y", new="y")
        assert house.text("a.md") == "x y x"

    async def test_no_update_is_lost(self, house: House) -> None:
        (house.root / "a.md").write_text("one two")
        await house.ok("read", path="a.md")
        (house.root / "a.md").write_text("one two, and a line by the owner")
        assert "changed since" in await house.refused("edit", path="a.md", old="one", new="1")
        assert house.text("a.md") == "one two, and a line by the owner"

    async def test_windows_line_ends_stay(self, house: House) -> None:
        (house.root / "a.md").write_bytes(b"one\r\ntwo\r\nthree\r\n")
        await house.ok("read", path="a.md")
        await house.ok("edit", path="a.md", old="one\ntwo", new="1\n2")
        assert house.text("a.md") == "1\r\n2\r\nthree\r\n"

    async def test_of_edits_at_once_none_is_lost(self, house: House) -> None:
        (house.root / "a.md").write_text(" ".join(f"<{n}>" for n in range(20)))
        await house.ok("read", path="a.md")
        answers = await asyncio.gather(*(house.call("edit", path="a.md", old=f"<{n}>", new=f"[{n}]") for n in range(20)))
        done = [n for n in range(20) if not answers[n].is_error]
        assert done
        assert [n for n in range(20) if f"[{n}]" in house.text("a.md")] == done

    async def test_the_argument_names_of_other_agents_are_understood(self, house: House) -> None:
        (house.root / "a.md").write_text("one")
        await house.ok("read", file_path="a.md", limit=None)
        await house.ok("edit", file_path="a.md", old_string="one", new_string="two", replace_all=False)
        assert house.text("a.md") == "two"


nearly_text = st.builds(
    lambda text, stray: text.replace("\0", "").encode("utf-8", "replace") + stray,
    st.text(min_size=30, max_size=60),
    st.sampled_from([b"", b"\xff", b"\xc3", b"\r\n"]),
)


@settings(max_examples=examples(60))
@given(
    before=nearly_text,
    old=st.text(min_size=1, max_size=6),
    after=nearly_text,
    new=st.text(max_size=6),
)
def test_an_edit_changes_its_place_and_no_other_byte(before: bytes, old: str, after: bytes, new: str) -> None:
    async def check() -> None:
        with tempfile.TemporaryDirectory() as folder:
            house = House(Path(folder))
            data = before + old.encode("utf-8", "replace") + after
            (house.root / "a.md").write_bytes(data)
            await house.call("read", path="a.md")
            answer = await house.call("edit", path="a.md", old=old, new=new)
            written = (house.root / "a.md").read_bytes()
            if answer.is_error:
                assert written == data
            else:
                at = data.index(old.encode())
                assert written == data[:at] + new.encode() + data[at + len(old.encode()) :]

    asyncio.run(check())


class TestListAndGrep:
    @pytest.fixture(autouse=True)
    def files(self, house: House) -> None:
        for path, text in {
            "AGENTS.md": "be kind\n",
            "memory/2026-02-03.md": "the spare key is under the blue pot\n",
            "memory/groups/kitchen/2026-02-03.md": "the kitchen key hangs by the door\n",
            "memory/groups/garden/2026-02-03.md": "the garden key is lost\n",
            "photo.bin": "key\0",
            ".git/config": "key = token",
        }.items():
            (house.root / path).parent.mkdir(parents=True, exist_ok=True)
            (house.root / path).write_text(text)
        (house.root / "link.md").symlink_to(house.outside / "secret.md")
        (house.root / "away").symlink_to(house.outside)

    async def test_a_folder_is_listed_by_name(self, house: House) -> None:
        assert await house.ok("list") == "AGENTS.md  8\naway  (a link)\nlink.md  (a link)\nmemory/\nphoto.bin  4"
        assert await house.ok("list", path="memory") == "memory/2026-02-03.md  36\nmemory/groups/"
        assert await house.ok("list", path="AGENTS.md") == "AGENTS.md  8"
        assert "no such file" in await house.refused("list", path="nowhere")

    async def test_a_long_list_is_cut_with_a_mark(self, house: House) -> None:
        for number in range(600):
            (house.root / "memory" / f"{number:03}.md").touch()
        text = await house.ok("list", path="memory")
        assert text.endswith("[102 more; list a folder of it, or grep]")

    async def test_lines_are_found_in_text_and_never_through_links(self, house: House) -> None:
        (house.root / "seven.md").write_text("7731? no\r\n")
        assert await house.ok("grep", pattern=r"77\d1|TOKEN", ignoreCase=True) == "seven.md:1: 7731? no"
        assert (
            await house.ok("grep", pattern="spare k.y", glob="*.md")
            == "memory/2026-02-03.md:1: the spare key is under the blue pot"
        )
        assert await house.ok("grep", pattern="spare", glob="AGENTS*") == "[no match in 1 files]"
        assert "memory/groups/garden" in await house.ok("grep", pattern="key", path="memory/groups/garden/2026-02-03.md")

    async def test_a_long_line_is_shown_around_its_match(self, house: House) -> None:
        (house.root / "long.md").write_text("a" * 2000 + "needle" + "b" * 2000)
        text = await house.ok("grep", pattern="needle")
        assert "needle" in text
        assert len(text) < 350

    async def test_too_many_matches_are_told(self, house: House) -> None:
        (house.root / "many.md").write_text("hit\n" * 150)
        text = await house.ok("grep", pattern="hit")
        assert text.count("many.md:") == 100
        assert text.endswith("[there are more than these 100; narrow the pattern, path or glob]")

    async def test_a_wrong_pattern_is_told(self, house: House) -> None:
        assert await house.refused("grep", pattern="(") == "pattern: missing ), unterminated subpattern at position 0"

    async def test_a_pattern_that_never_ends_is_stopped(self, house: House) -> None:
        (house.root / "trap.md").write_text("a" * 60 + "!")
        started: list[asyncio.subprocess.Process] = []

        async def spawn(*arguments: Any, **options: Any) -> asyncio.subprocess.Process:
            started.append(await asyncio.create_subprocess_exec(*arguments, **options))
            return started[-1]

        tool = GrepFiles(house.desk, spawn=spawn, seconds=0.5)
        scene = ToolContext(now=datetime(2026, 2, 3, tzinfo=UTC), session="s", turn="t")
        outcome = await tool.run({"pattern": "(a|aa)+$", "path": "trap.md"}, scene)
        assert outcome.is_error
        assert "takes longer than 0.5 seconds" in outcome.text
        assert started[0].returncode == -9

    async def test_a_group_sees_its_own_notes_and_no_others(self, house: House) -> None:
        listed = await house.ok("list", depth=8, audience=GROUP)
        assert "memory/groups/kitchen/2026-02-03.md" in listed
        assert "memory/2026-02-03.md" not in listed
        assert "garden" not in listed
        found = unfenced(await house.ok("grep", pattern="key", audience=GROUP))
        assert found == f"{OWN}/2026-02-03.md:1: the kitchen key hangs by the door"
        for path in ("memory/groups/garden/2026-02-03.md", "memory/2026-02-03.md", "Memory/2026-02-03.md"):
            assert (
                await house.refused("read", path=path, audience=GROUP) == f"{path}: no such file here; list shows what there is"
            )
            assert "no such file" in await house.refused("grep", pattern="key", path=path, audience=GROUP)
            assert "no such file" in await house.refused("list", path=path, audience=GROUP)

    async def test_a_group_changes_only_its_own_notes(self, house: House) -> None:
        await house.ok("write", path=f"{OWN}/2026-02-03.md", content="more", mode="append", audience=GROUP)
        before = {str(path): path.read_bytes() for path in house.root.rglob("*.md") if path.is_file() and not path.is_symlink()}
        for path in (
            "AGENTS.md",
            "MEMORY.md",
            "new.md",
            "memory/2026-02-03.md",
            "memory/groups/garden/2026-02-03.md",
            "memory/groups/x.md",
        ):
            for tool, arguments in {
                "write": {"content": "x", "mode": "append"},
                "edit": {"old": "key", "new": "x"},
            }.items():
                refusal = await house.refused(tool, path=path, audience=GROUP, **arguments)
                assert refusal == f"{path}: in this conversation only files in {OWN}/ can be written"
        after = {str(path): path.read_bytes() for path in house.root.rglob("*.md") if path.is_file() and not path.is_symlink()}
        assert after == before


hostile = st.sampled_from(
    [
        "../safevil/secret.md",
        "link.md",
        "away/secret.md",
        "hard.md",
        "away",
        "..",
        "%2e%2e/safevil/secret.md",
        "a.md",
        "away/new.md",
    ]
)


@settings(max_examples=examples(40))
@given(
    calls=st.lists(
        st.tuples(st.sampled_from(["read", "write", "append", "overwrite", "edit", "list", "grep"]), hostile), max_size=8
    )
)
def test_no_series_of_calls_reveals_or_changes_what_is_outside(calls: list[tuple[str, str]]) -> None:
    async def check() -> None:
        with tempfile.TemporaryDirectory() as folder:
            house = House(Path(folder))
            (house.root / "link.md").symlink_to(house.outside / "secret.md")
            (house.root / "away").symlink_to(house.outside)
            (house.root / "hard.md").hardlink_to(house.outside / "secret.md")
            before = house.beyond()
            for act, path in calls:
                arguments: dict[str, Any] = {"path": path}
                match act:
                    case "write":
                        arguments |= {"content": "x"}
                    case "append" | "overwrite":
                        arguments |= {"content": "x", "mode": act}
                    case "edit":
                        arguments |= {"old": "vault", "new": "x"}
                    case "grep":
                        arguments |= {"pattern": "vault"}
                answer = await house.call("write" if act in {"append", "overwrite"} else act, **arguments)
                assert CANARY not in answer.text
            assert house.beyond() == before

    asyncio.run(check())


async def test_an_edit_that_the_owner_approved_needs_no_further_reading(house: House) -> None:
    """What was read is forgotten by a restart, and the answer to a question may come after one. The text must be there all the same."""
    (house.root / "a.md").write_text("one\ntwo\n")
    assert "has not been read" in await house.refused("edit", path="a.md", old="two", new="three")
    await house.ok("edit", path="a.md", old="two", new="three", approved=True)
    assert house.text("a.md") == "one\nthree\n"
    await house.refused("edit", path="a.md", old="two", new="four", approved=True)


async def test_an_overwriting_that_the_owner_approved_needs_no_further_reading(house: House) -> None:
    (house.root / "a.md").write_text("one\ntwo\n")
    assert "has not been read" in await house.refused("write", path="a.md", content="three\n", mode="overwrite")
    await house.ok("write", path="a.md", content="three\n", mode="overwrite", approved=True)
    assert house.text("a.md") == "three\n"
