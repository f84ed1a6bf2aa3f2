"""What an act would write, as its owner is shown it before it is done."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from agent.messages import ToolCall
from agent.tools.apply_patch import ApplyPatch
from agent.tools.change_details import MOST_CHARS, bounded, difference
from agent.tools.files import file_tools
from agent.tools.toolbox import Toolbox
from tests.properties import examples
from tests.taint.test_untrusted_files import CLEAN
from tests.tools.house import House

if TYPE_CHECKING:
    from pathlib import Path

    from agent.tools.protocol import Act

PATH = PurePosixPath("MEMORY.md")


@pytest.fixture
def house(tmp_path: Path) -> House:
    house = House(tmp_path)
    house.box = Toolbox([*file_tools(house.desk), ApplyPatch(house.desk)])
    return house


def act_of(house: House, tool: str, **arguments: Any) -> Act:
    act = house.box.act_of(ToolCall(id="c", name=tool, arguments=arguments), CLEAN)
    assert act is not None
    return act


def test_a_write_shows_the_text_and_an_overwriting_write_the_difference(house: House) -> None:
    new = act_of(house, "write", path="MEMORY.md", content="- milk\n")
    assert (new.summary, new.details) == ("change MEMORY.md", "- milk\n")
    assert act_of(house, "write", path="MEMORY.md", content="- milk\n", mode="overwrite").details == "- milk\n"
    (house.root / "MEMORY.md").write_text("- tea\n- milk\n")
    more = act_of(house, "write", path="MEMORY.md", content="- rice", mode="append")
    assert (more.summary, more.details) == ("add to MEMORY.md", "- rice")
    over = act_of(house, "write", path="MEMORY.md", content="- coffee\n- milk\n", mode="overwrite")
    assert over.details == "--- MEMORY.md\n+++ MEMORY.md\n@@ -1,2 +1,2 @@\n-- tea\n+- coffee\n - milk"


def test_an_edit_and_a_patch_show_the_difference_of_every_file(house: House) -> None:
    (house.root / "TOOLS.md").write_text("one\ntwo\nthree\n")
    (house.root / "a.md").write_text("gone\n")
    edit = act_of(house, "edit", path="TOOLS.md", old="two", new="2")
    assert edit.details == "--- TOOLS.md\n+++ TOOLS.md\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three"
    patch = "*** Begin Patch\n*** Delete File: a.md\n*** Update File: TOOLS.md\n@@\n-two\n+2\n*** End Patch"
    assert act_of(house, "apply_patch", patch=patch).details == f"--- a.md\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n{edit.details}"


def test_a_change_that_does_not_fit_is_shown_as_it_was_asked_for(house: House) -> None:
    (house.root / "TOOLS.md").write_text("one\n")
    edit = act_of(house, "edit", path="TOOLS.md", old="two", new="2")
    assert "old: does not occur in TOOLS.md" in edit.details
    assert edit.details.endswith("\n-two\n+2")
    patch = "*** Begin Patch\n*** Update File: TOOLS.md\n@@\n-two\n+2\n*** End Patch"
    assert act_of(house, "apply_patch", patch=patch).details.endswith(f"\n{patch}")


def test_details_have_a_bound_and_show_any_change(house: House) -> None:
    text = "x" * (3 * MOST_CHARS)
    cut = act_of(house, "write", path="MEMORY.md", content=text).details
    assert len(cut) < MOST_CHARS + 200
    assert "200,000 characters are not shown" in cut
    middle = f"{text[: len(text) // 2]}y{text[len(text) // 2 + 1 :]}"
    assert bounded(middle) != cut


@pytest.mark.skipif(shutil.which("patch") is None, reason="patch is not installed here")
@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_the_difference_turns_the_one_text_into_the_other(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """``patch`` is told the difference alone; without any there is none."""
    lines = st.lists(st.sampled_from(["a", "b", "--- x", "+++", "@@ -1 +1 @@", "\\ No", "", "ä\u2028\x0b"]), max_size=12)
    many = st.integers(150, 300).map(lambda count: [str(n) for n in range(count)])
    texts = st.tuples(lines, st.one_of(st.just([]), many), lines, st.sampled_from(["", "\n"]))
    old, new = ("\n".join([*a, *b, *c]) + end for a, b, c, end in (data.draw(texts), data.draw(texts)))
    assume(old and new)
    folder = tmp_path_factory.mktemp("patched")
    (folder / "MEMORY.md").write_bytes(old.encode())
    told = difference(PATH, old.encode(), new.encode())
    assert (told == "") == (old == new)
    if told:
        command = ["patch", "--fuzz=0", "--no-backup-if-mismatch", "-s", "-o", "out", "MEMORY.md"]
        subprocess.run(command, input=f"{told}\n".encode(), cwd=folder, check=True, capture_output=True)
        assert (folder / "out").read_bytes() == new.encode()
