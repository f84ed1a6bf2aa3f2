"""Nothing leaves the sandbox, and nothing in it is lost."""

from __future__ import annotations

import os
import resource
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import PathNotAllowed, StaleFile, WorkspaceFileError, WorkspaceFileNotFound
from agent.tools.workspace_sandbox import Content, WorkspaceSandbox, refuse_stranger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

P = PurePosixPath
CANARY = b"outside"


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "safevil"
    folder.mkdir()
    (folder / "secret.md").write_bytes(CANARY)
    return folder


@pytest.fixture
def sandbox(tmp_path: Path) -> WorkspaceSandbox:
    (tmp_path / "safe").mkdir()
    return WorkspaceSandbox(tmp_path / "safe")


CHANGES: dict[str, Callable[[WorkspaceSandbox, PurePosixPath], object]] = {
    "read": lambda sandbox, path: sandbox.read(path),
    "create": lambda sandbox, path: sandbox.create(path, b"changed"),
    "replace": lambda sandbox, path: sandbox.replace(path, b"changed", expected=CANARY),
    "append": lambda sandbox, path: sandbox.append(path, b"changed"),
    "remove": lambda sandbox, path: sandbox.remove(path, expected=CANARY),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("path", ["link.md", "folder/secret.md", "dangling.md", "loop.md", "hard.md", "up/secret.md"])
@pytest.mark.sec(42)
def test_no_kind_of_link_leads_out(sandbox: WorkspaceSandbox, outside: Path, change: str, path: str) -> None:
    (sandbox.root / "link.md").symlink_to(outside / "secret.md")
    (sandbox.root / "folder").symlink_to(outside)
    (sandbox.root / "dangling.md").symlink_to(outside / "new.md")
    (sandbox.root / "loop.md").symlink_to("loop.md")
    (sandbox.root / "hard.md").hardlink_to(outside / "secret.md")
    (sandbox.root / "up").symlink_to("../safevil")
    with pytest.raises(WorkspaceFileError):
        CHANGES[change](sandbox, P(path))
    assert names(outside) == ["secret.md"]
    assert (outside / "secret.md").read_bytes() == CANARY


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("path", ["../safevil/secret.md", "a/../../safevil/secret.md", "/etc/hostname", ".."])
def test_a_path_that_no_one_checked_is_still_refused(sandbox: WorkspaceSandbox, outside: Path, change: str, path: str) -> None:
    with pytest.raises(WorkspaceFileError):
        CHANGES[change](sandbox, P(path))
    assert (outside / "secret.md").read_bytes() == CANARY


def test_a_pipe_a_socket_and_a_folder_are_refused_without_waiting(sandbox: WorkspaceSandbox) -> None:
    os.mkfifo(sandbox.root / "pipe")
    (sandbox.root / "folder").mkdir()
    listener = socket.socket(socket.AF_UNIX)
    here = Path.cwd()
    os.chdir(sandbox.root)  # the address of a Unix socket is short
    try:
        listener.bind("socket")
    finally:
        os.chdir(here)
    for name in ("pipe", "socket", "folder"):
        for change in ("read", "append", "replace"):
            with pytest.raises(PathNotAllowed):
                CHANGES[change](sandbox, P(name))
    listener.close()


def test_the_root_may_be_a_link_of_the_owner(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "chosen").symlink_to("real")
    WorkspaceSandbox(tmp_path / "chosen").create(P("a.md"), b"x")
    assert (tmp_path / "real" / "a.md").read_bytes() == b"x"


def test_a_root_that_was_made_anew_is_used_as_before(sandbox: WorkspaceSandbox) -> None:
    sandbox.create(P("a.md"), b"x")
    sandbox.root.rename(sandbox.root.with_name("old"))
    with pytest.raises(WorkspaceFileError, match="workspace folder"):
        sandbox.read(P("a.md"))
    sandbox.root.mkdir()
    sandbox.create(P("a.md"), b"y")
    assert sandbox.read(P("a.md")).data == b"y"


def test_replacing_keeps_the_mode_and_leaves_nothing_behind(sandbox: WorkspaceSandbox) -> None:
    sandbox.create(P("a.md"), b"one")
    (sandbox.root / "a.md").chmod(0o640)
    sandbox.replace(P("a.md"), b"two", expected=b"one")
    assert stat.S_IMODE((sandbox.root / "a.md").stat().st_mode) == 0o640
    assert names(sandbox.root) == ["a.md"]


def test_new_files_and_folders_are_for_the_owner_alone(sandbox: WorkspaceSandbox) -> None:
    sandbox.append(P("memory/groups/x/2026-01-01.md"), b"hello")
    assert stat.S_IMODE((sandbox.root / "memory/groups/x/2026-01-01.md").stat().st_mode) == 0o600
    assert stat.S_IMODE((sandbox.root / "memory").stat().st_mode) == 0o700


def test_replacing_what_has_changed_is_refused(sandbox: WorkspaceSandbox) -> None:
    sandbox.create(P("a.md"), b"one")
    with pytest.raises(StaleFile):
        sandbox.replace(P("a.md"), b"two", expected=b"other")
    assert sandbox.read(P("a.md")).data == b"one"


def test_creating_never_replaces(sandbox: WorkspaceSandbox) -> None:
    sandbox.create(P("a.md"), b"one")
    with pytest.raises(WorkspaceFileError, match="exists already"):
        sandbox.create(P("a.md"), b"two")
    assert sandbox.read(P("a.md")).data == b"one"
    assert names(sandbox.root) == ["a.md"]


@pytest.mark.parametrize("twin", ["memory.md", "Memory.MD", "NOTES/a.md"])
def test_a_name_that_differs_only_in_case_is_not_made(sandbox: WorkspaceSandbox, twin: str) -> None:
    sandbox.create(P("MEMORY.md"), b"one")
    sandbox.create(P("notes/a.md"), b"one")
    with pytest.raises(WorkspaceFileError, match=r"case|exists"):
        sandbox.create(P(twin), b"two")
    assert len(list(sandbox.root.rglob("*.*"))) == 2


def test_an_empty_file_can_be_appended_to(sandbox: WorkspaceSandbox) -> None:
    (sandbox.root / "a.md").touch()
    assert sandbox.append(P("a.md"), b"x")
    assert sandbox.read(P("a.md")).data == b"x\n"


def test_a_file_that_is_too_large_is_refused(sandbox: WorkspaceSandbox) -> None:
    sandbox.create(P("a.md"), b"x" * 11)
    with pytest.raises(WorkspaceFileError, match="too large"):
        sandbox.read(P("a.md"), limit=10)


def test_a_missing_file_and_a_file_used_as_a_folder_read_the_same(sandbox: WorkspaceSandbox) -> None:
    sandbox.create(P("a.md"), b"x")
    for path in ("b.md", "a.md/b.md", "c/d.md"):
        with pytest.raises(WorkspaceFileNotFound, match=f"{path}: no such file here"):
            sandbox.read(P(path))


blocks = st.lists(
    st.one_of(
        st.just(b"- same"), st.just(b"\n## ten\ntext\n"), st.binary(min_size=1, max_size=30).filter(lambda b: b.strip(b"\n"))
    ),
    max_size=8,
)


@given(start=st.one_of(st.none(), st.binary(max_size=80)), added=blocks)
def test_appending_only_ever_adds_and_a_repeat_adds_nothing(start: bytes | None, added: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        sandbox, file = WorkspaceSandbox(Path(folder)), Path(folder) / "a.md"
        if start is not None:
            file.write_bytes(start)
        for block in added:
            before = file.read_bytes() if file.exists() else b""
            grew = sandbox.append(P("a.md"), block)
            after = file.read_bytes()
            assert after.startswith(before)
            assert after.rstrip(b"\n").endswith(block.rstrip(b"\n"))
            assert grew == (after != before)
            if grew:
                assert after.endswith(block.rstrip(b"\n") + b"\n")
                begins = len(after) - len(block.rstrip(b"\n")) - 1
                assert begins == 0 or after[begins - 1 : begins] == b"\n"
            assert not sandbox.append(P("a.md"), block)
            assert file.read_bytes() == after


def test_what_others_append_meanwhile_is_kept(sandbox: WorkspaceSandbox) -> None:
    def work(name: str) -> None:
        for number in range(40):
            sandbox.append(P("a.md"), f"{name} {number}".encode())

    def foreign() -> None:
        for number in range(200):
            with (sandbox.root / "a.md").open("ab") as file:
                file.write(f"owner {number}\n".encode())

    sandbox.create(P("a.md"), b"start\n")
    threads = [threading.Thread(target=work, args=(name,)) for name in "xyz"] + [threading.Thread(target=foreign)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = sandbox.read(P("a.md")).data.decode().split("\n")
    assert {f"{name} {n}" for name in "xyz" for n in range(40)} | {f"owner {n}" for n in range(200)} <= set(lines)


RACER = """
import contextlib, os, shutil, sys
from pathlib import Path
root, outside = map(Path, sys.argv[1:])
secret, file, folder = outside / "secret.md", root / "a.md", root / "memory"
new, aside = root.parent / "new", root.parent / "aside"
print("ready", flush=True)

def swap_file():  # it is now a link out, now itself, now the outer file's second name
    for make in (lambda: new.symlink_to(secret), lambda: new.write_bytes(b"inside"), lambda: new.hardlink_to(secret)):
        make()
        new.rename(file)
    file.unlink()
    new.write_bytes(b"inside")
    new.rename(file)

while True:
    swap_file()
    folder.rename(aside)
    with contextlib.suppress(FileExistsError):  # a writer may have made a new folder in the gap
        folder.symlink_to(outside)
    swap_file()
    while not (folder.exists() and not aside.exists()):
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(folder, ignore_errors=True) if folder.is_dir() and not folder.is_symlink() else folder.unlink()
        with contextlib.suppress(OSError):
            aside.rename(folder)
"""


@pytest.fixture
def racer(sandbox: WorkspaceSandbox, outside: Path) -> Iterator[None]:
    """A process that puts links out of the workspace in the place of its files and folders, as fast as it goes."""
    sandbox.create(P("a.md"), b"inside")
    sandbox.create(P("memory/secret.md"), b"inside")
    command = [sys.executable, "-c", RACER, str(sandbox.root), str(outside)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        yield
        still_racing = process.poll() is None
        process.kill()
        trouble = process.stderr.read().decode() if process.stderr else ""
    assert still_racing, trouble


@pytest.mark.usefixtures("racer")
@pytest.mark.parametrize("changes", [("read",), ("append", "replace", "create")])
@pytest.mark.sec(42, 56)
def test_swapping_links_under_our_hands_reveals_and_changes_nothing_outside(
    sandbox: WorkspaceSandbox, outside: Path, changes: tuple[str, ...]
) -> None:
    tried = got = 0
    until = time.monotonic() + 1.0
    while time.monotonic() < until:
        for path in (P("a.md"), P("memory/secret.md")):
            for change in changes:
                tried += 1
                try:
                    result = CHANGES[change](sandbox, path)
                except WorkspaceFileError:
                    continue
                got += 1
                assert not isinstance(result, Content) or CANARY not in result.data
    assert (outside / "secret.md").read_bytes() == CANARY
    assert names(outside) == ["secret.md"]
    assert got > 0, "the tools never got through, so nothing was raced"
    assert tried > got, "no link was ever in the way, so nothing was raced"


def test_a_file_that_has_lost_the_name_it_was_opened_by_is_not_ours(sandbox: WorkspaceSandbox, outside: Path) -> None:
    name = sandbox.root / "a.md"
    name.hardlink_to(outside / "secret.md")
    descriptor, folder = os.open(name, os.O_RDONLY), os.open(sandbox.root, os.O_RDONLY)
    name.unlink()  # now the outer file has one name again, and looks like any other
    name.write_bytes(b"inside")
    try:
        with pytest.raises(StaleFile):
            refuse_stranger(descriptor, folder, "a.md", P("a.md"))
    finally:
        os.close(descriptor)
        os.close(folder)


UNPRIVILEGED = """
import os, sys
from pathlib import Path, PurePosixPath
from agent.errors import WorkspaceNotWritable
from agent.tools.workspace_sandbox import WorkspaceSandbox
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
sandbox = WorkspaceSandbox(Path(sys.argv[1]))
for change in (
    lambda: sandbox.create(PurePosixPath("b.md"), b"x"),
    lambda: sandbox.replace(PurePosixPath("a.md"), b"x", expected=b"kept"),
    lambda: sandbox.append(PurePosixPath("a.md"), b"x"),
    lambda: sandbox.append(PurePosixPath("memory/b.md"), b"x"),
    lambda: sandbox.remove(PurePosixPath("a.md"), expected=b"kept"),
):
    try:
        change()
    except WorkspaceNotWritable as trouble:
        assert trouble.hint, trouble
    else:
        sys.exit("a change went through")
print(sandbox.read(PurePosixPath("a.md")).data.decode())
"""


def test_a_read_only_workspace_says_so_and_still_reads() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="homebody-test-") as name:
        folder = Path(name) / "safe"
        folder.mkdir()
        (folder / "a.md").write_bytes(b"kept")
        (folder / "a.md").chmod(0o444)
        Path(name).chmod(0o755)
        folder.chmod(0o555)
        run = subprocess.run(
            [sys.executable, "-c", UNPRIVILEGED, str(folder)],
            capture_output=True,
            text=True,
            check=False,
            cwd=Path(__file__).parents[2],
        )
        folder.chmod(0o755)
        assert (run.returncode, run.stdout.strip()) == (0, "kept"), run.stderr


CRAMPED = """
import resource, sys
from pathlib import Path, PurePosixPath
from agent.errors import WorkspaceNotWritable
from agent.tools.workspace_sandbox import WorkspaceSandbox
sandbox = WorkspaceSandbox(Path(sys.argv[1]))
for change in (
    lambda: sandbox.create(PurePosixPath("b.md"), b"x" * 5000),
    lambda: sandbox.replace(PurePosixPath("a.md"), b"x" * 5000, expected=b"kept\\n"),
    lambda: sandbox.append(PurePosixPath("a.md"), b"y" * 5000),
):
    try:
        change()
    except WorkspaceNotWritable as trouble:
        print(trouble)
    else:
        sys.exit("a change went through")
"""


def test_a_disk_without_room_is_told_and_costs_nothing_that_was_there(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(b"kept\n")
    run = subprocess.run(
        [sys.executable, "-B", "-c", CRAMPED, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)),
    )
    assert run.returncode == 0, run.stderr
    assert "995 of 5,001 bytes were added" in run.stdout
    assert (tmp_path / "a.md").read_bytes() == b"kept\n" + b"y" * 995
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["a.md"]


def test_a_file_with_a_second_name_has_no_stamp(sandbox: WorkspaceSandbox, outside: Path) -> None:
    """A stamp says that a file may be read as the one it was, so it is refused wherever reading is."""
    (sandbox.root / "plain.md").write_text("x")
    (sandbox.root / "hard.md").hardlink_to(outside / "secret.md")
    assert sandbox.stamp(P("plain.md")) is not None
    assert sandbox.stamp(P("hard.md")) is None
    assert sandbox.stamps(["plain.md", "hard.md"]).keys() == {"plain.md"}


def test_a_file_that_got_the_inode_of_a_closed_file_that_is_gone_is_opened(tmp_path: Path) -> None:
    """Files of the state are replaced all the time, and file systems give their inodes to the next new file."""
    (tmp_path / "a.md").write_text("mine")
    inode = (tmp_path.stat().st_dev, (tmp_path / "a.md").stat().st_ino)
    closed = {inode}
    sandbox = WorkspaceSandbox(tmp_path, lambda: frozenset(closed))
    with pytest.raises(PathNotAllowed):
        sandbox.read(PurePosixPath("a.md"))
    closed.clear()
    assert sandbox.read(PurePosixPath("a.md")).data == b"mine"
    closed.add(inode)
    with pytest.raises(PathNotAllowed):
        sandbox.read(PurePosixPath("a.md"))
