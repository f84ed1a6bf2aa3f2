"""A patch is applied as a whole or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.errors import WorkspaceFileError
from agent.messages import ToolCall
from agent.tools.apply_patch import ApplyPatch
from agent.tools.patch import FileChange, Hunk, parsed, patched
from agent.tools.toolbox import Toolbox
from memory.audience import Audience
from tests.tools.test_toolbox import SCENE

if TYPE_CHECKING:
    from agent.tools.protocol import ToolContext
    from tests.tools.house import House


async def apply(house: House, body: str, scene: ToolContext = SCENE) -> tuple[bool, str]:
    call = ToolCall(id="c", name="apply_patch", arguments={"patch": f"*** Begin Patch\n{body}\n*** End Patch\n"})
    answer = await Toolbox([ApplyPatch(house.desk)]).run(call, scene)
    return not answer.is_error, answer.text


async def put(house: House, path: str, text: str) -> None:
    (house.root / path).write_bytes(text.encode())
    await house.ok("read", path=path)


async def test_files_are_added_updated_moved_and_deleted_at_once(house: House) -> None:
    await put(house, "a.md", "one\ntwo\nthree\n")
    await put(house, "b.md", "x\ny\n")
    await put(house, "c.md", "gone\n")
    done, text = await apply(
        house,
        "*** Add File: memory/n.md\n+new\n+\n+lines\n"
        "*** Update File: a.md\n@@\n one\n-two\n+2\n three\n"
        "*** Update File: b.md\n*** Move to: d/b.md\n@@ x\n-y\n+Y\n"
        "*** Delete File: c.md",
    )
    assert done, text
    assert text == "added memory/n.md\nupdated a.md\nadded d/b.md\ndeleted b.md\ndeleted c.md"
    files = {str(path.relative_to(house.root)): path.read_text() for path in house.root.rglob("*") if path.is_file()}
    assert files == {"memory/n.md": "new\n\nlines\n", "a.md": "one\n2\nthree\n", "d/b.md": "x\nY\n"}
    assert house.memory.written == ["memory/n.md"]
    assert await house.ok("edit", path="a.md", old="2", new="two") == "edited a.md (1 place)"


@pytest.mark.parametrize(
    ("section", "why"),
    [
        ("*** Update File: b.md\n@@\n-nowhere\n+x", "hunk 1 does not fit"),
        ("*** Update File: b.md\n@@\n-same\n+x", "fits in 2 places"),
        ("*** Update File: unread.md\n@@\n-x\n+y", "has not been read"),
        ("*** Delete File: unread.md", "has not been read"),
        ("*** Delete File: missing.md", "no such file"),
        ("*** Add File: b.md\n+x", "exists already"),
        ("*** Update File: b.md\n*** Move to: unread.md\n@@\n+x", "exists already"),
        ("*** Add File: ../safevil/x.md\n+x", "parent folders"),
        ("*** Add File: .git/hooks/x\n+x", "version history"),
        ("*** Update File: a.md\n@@\n-two\n+3", "named twice"),
        ("*** Update File: b.md", "changes nothing"),
        ("*** Rename File: b.md", "line 5 is unclear"),
        ("*** Add File: blocked/x.md\n+x", "nothing was changed"),
    ],
)
async def test_a_patch_that_does_not_fit_changes_nothing(house: House, section: str, why: str) -> None:
    await put(house, "a.md", "one\ntwo\n")
    await put(house, "b.md", "same\nsame\n")
    (house.root / "unread.md").write_text("x\n")
    (house.root / "Blocked").mkdir()
    before = {path: path.read_bytes() for path in house.root.rglob("*") if path.is_file()}
    done, text = await apply(house, f"*** Update File: a.md\n-two\n+2\n{section}")
    assert not done
    assert why in text
    assert {path: path.read_bytes() for path in house.root.rglob("*") if path.is_file()} == before
    assert house.memory.written == []


async def test_a_group_patches_only_its_own_notes(house: House) -> None:
    scene = replace(SCENE, audience=Audience("group", "kitchen"))
    assert not (await apply(house, "*** Add File: AGENTS.md\n+obey", scene))[0]
    assert (await apply(house, "*** Add File: memory/groups/kitchen/a.md\n+x", scene))[0]


def test_bytes_that_are_not_text_and_windows_line_ends_stay() -> None:
    change = parsed("*** Begin Patch\n*** Update File: a\n@@\n one\n-two\n+2\n*** End Patch")[0]
    assert patched(b"\xff\r\none\r\ntwo\r\n\xfe", change) == b"\xff\r\none\r\n2\r\n\xfe"


def test_lines_without_a_place_go_to_the_end() -> None:
    change = parsed("*** Begin Patch\n*** Update File: a\n@@\n+last\n*** End Patch")[0]
    assert patched(b"first\n", change) == b"first\nlast\n"
    assert patched(b"", change) == b"last\n"


lines = st.lists(st.text(alphabet="abc ", max_size=3), min_size=1, max_size=8)


@given(before=lines, after=lines, closed=st.booleans(), new=lines)
def test_only_the_lines_of_a_hunk_change(before: list[str], after: list[str], closed: bool, new: list[str]) -> None:
    old = ["the", "unique", "lines"]
    hunk = Hunk(steps=[(" ", "the"), *(("+", line) for line in new), ("-", "unique"), (" ", "lines")])
    data = "\n".join([*before, *old, *after]) + "\n" * closed
    made = patched(data.encode(), FileChange("update", "a", hunks=[hunk])).decode()
    assert made == "\n".join([*before, "the", *new, "lines", *after]) + "\n" * closed


@given(st.text(alphabet="*+- @\nab:", max_size=60))
def test_any_text_is_a_patch_or_is_refused(body: str) -> None:
    for text in (body, f"*** Begin Patch\n*** Update File: a\n{body}\n*** End Patch"):
        try:
            changes = parsed(text)
        except WorkspaceFileError:
            continue
        for change in changes:
            try:
                patched(b"a\nb\n", change)
            except WorkspaceFileError:
                continue
