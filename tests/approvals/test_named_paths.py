"""A yes holds for the folders that a command names with all that is in them, and for where its paths lead."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.tools.command_line import plain_words
from agent.tools.protocol import Act
from gateway.approvals import named_paths
from gateway.approvals.fingerprint import fingerprint
from gateway.approvals.named_paths import TooManyFiles
from tests.properties import examples

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def act(command: str, cwd: str = "") -> Act:
    return Act(kind="exec", summary=f"run `{command}`", command=command, argv=plain_words(command), cwd=cwd)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("skel/ok.md", "skel/deep/er/x.md", "dst/k", "elsewhere/y", "data.txt", "far/sub/z"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("old")
    (tmp_path / "skel" / "link").symlink_to("../far")
    (tmp_path / "sl").symlink_to("skel")
    return tmp_path


def made(path: str) -> Callable[[Path], object]:
    return lambda root: (root / path).write_text("NEW")


def replaced_by_link(path: str, target: str) -> Callable[[Path], object]:
    def change(root: Path) -> None:
        (root / path).rename(root / f"{path}.away")
        (root / path).symlink_to(target)

    return change


def relinked(root: Path) -> None:
    (root / "sl").unlink()
    (root / "sl").symlink_to("elsewhere")


@pytest.mark.sec(26)
@pytest.mark.parametrize(
    ("command", "cwd", "change"),
    [
        ("cp -r skel/. .", "", made("skel/AGENTS.md")), ("cp -r skel out", "", made("skel/deep/er/x.md")),
        ("cp -r skel/deep out", "", made("skel/deep/new")), ("cp -a sl/. out", "", made("skel/deep/new")),
        ("cp -rL skel out", "", made("far/sub/z")), ("mv skel shared", "", made("skel/leak.md")),
        ("mv -t dst skel", "", made("skel/leak.md")), ("rm -r dst", "", made("dst/precious")),
        ("chmod -R a+x skel", "", made("skel/run")), ("rsync -a ../skel/ out", "dst", made("skel/deep/er/x.md")),
        ("tar cf x.tar -C ../skel deep", "dst", made("skel/deep/er/x.md")), ("zip -r x.zip ../skel", "dst", made("skel/deep/n")),
        ("cp -r ../skel/* .", "dst", made("skel/AGENTS.md")), ("cp ../sl/*.md .", "dst", made("skel/AGENTS.md")),
        ("cp data.txt dst/", "", replaced_by_link("dst", "elsewhere")), ("mv data.txt dst", "", replaced_by_link("dst", "elsewhere")),
        ("mv -t dst data.txt", "", replaced_by_link("dst", "elsewhere")), ("mv -tdst data.txt", "", replaced_by_link("dst", "elsewhere")),
        ("mv --target-directory=dst data.txt", "", replaced_by_link("dst", "elsewhere")),
        ("ln -s data.txt dst/z", "", replaced_by_link("dst", "elsewhere")), ("mkdir dst/z", "", replaced_by_link("dst", "elsewhere")),
        ("touch dst/z", "", replaced_by_link("dst", "elsewhere")), ("cp data.txt new", "", lambda root: (root / "new").symlink_to("x")),
        ("cp data.txt new", "", made("new")), ("cp -r sl out", "", relinked), ("ln data.txt z", "", made("data.txt")),
        ("cp -r skel out", "", replaced_by_link("skel/deep", "../far")),
    ],
)  # fmt: skip
def test_a_change_in_what_a_command_names_is_asked_about_again(
    root: Path, command: str, cwd: str, change: Callable[[Path], object]
) -> None:
    before = fingerprint(act(command, cwd), str(root))
    assert fingerprint(act(command, cwd), str(root)) == before
    change(root)
    assert fingerprint(act(command, cwd), str(root)) != before


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("cp -r skel out", "dst/new"), ("ls skel", "skel/new"), ("du -sh .", "new"), ("mkdir skel/a", "skel/b"),
        ("cp data.txt .", ".homebody/output/1.txt"), ("cp data.txt .", "memory/2026-03-01.md"), ("mv skel dst", "elsewhere/n"),
    ],
)  # fmt: skip
def test_what_it_does_not_take_along_may_change(root: Path, command: str, path: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    before = fingerprint(act(command), str(root))
    (root / path).write_text("new")
    assert fingerprint(act(command), str(root)) == before


def test_the_same_content_written_again_is_no_change(root: Path) -> None:
    before = fingerprint(act("cp -r skel out"), str(root))
    (root / "skel" / "ok.md").unlink()
    (root / "skel" / "ok.md").write_text("old")
    assert fingerprint(act("cp -r skel out"), str(root)) == before


@pytest.mark.sec(26)
def test_of_a_folder_with_very_many_files_each_counts_by_inode_and_times(root: Path) -> None:
    for number in range(named_paths.MOST_READ + 10):
        (root / "skel" / f"{number}").write_text("same")
    deep = root / "skel" / "deep" / "er" / "x.md"
    before = fingerprint(act("cp -r skel out"), str(root))
    assert fingerprint(act("cp -r skel out"), str(root)) == before
    stamp = deep.stat()
    time.sleep(0.02)
    deep.write_text("NEW")
    os.utime(deep, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert fingerprint(act("cp -r skel out"), str(root)) != before


def test_a_folder_with_more_files_than_are_compared_is_refused(root: Path) -> None:
    paths = named_paths.NamedPaths(act("cp -r skel out"), str(root), lambda *_: False, left=3)
    with pytest.raises(TooManyFiles, match="in smaller parts"):
        list(paths.lines())


def test_folders_that_lead_into_each_other_come_to_an_end(root: Path) -> None:
    (root / "skel" / "up").symlink_to("..")
    (root / "skel" / "self").symlink_to("self")
    assert fingerprint(act("cp -rL skel out"), str(root)) == fingerprint(act("cp -rL skel out"), str(root))


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    place=st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3).map("/".join),
    kind=st.sampled_from(["write", "link", "folder", "mode"]),
)
def test_any_change_at_any_depth_is_seen(tmp_path_factory: pytest.TempPathFactory, place: str, kind: str) -> None:
    root = tmp_path_factory.mktemp("w")
    for name in ("a/a", "b/c/b", "c"):
        (root / "t" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "t" / name).write_text("old")
    before = fingerprint(act("cp -r t out"), str(root))
    path = root / "t" / place
    try:
        match kind:
            case "write":
                path.write_text("NEW")
            case "link":
                path.symlink_to("/etc")
            case "folder":
                path.mkdir()
            case _:
                path.chmod(0o751)
    except OSError:
        assert fingerprint(act("cp -r t out"), str(root)) == before
    else:
        assert fingerprint(act("cp -r t out"), str(root)) != before
