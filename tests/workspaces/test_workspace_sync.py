"""The part that works beside the turns: when it commits, what it tells, and what it does while the repository of all is away."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import pytest

from gateway.base.clock import ManualClock
from gateway.base.errors import StorageFailed, UsageError
from gateway.cluster.home_proof import elsewhere, leave_name, refuse_own_folders
from gateway.workspaces.carried_record import LOST
from gateway.workspaces.repository import REPOSITORY
from gateway.workspaces.standing_writer import StandingWriter
from gateway.workspaces.workspace_sync import AGAIN_SECONDS, QUIET_SECONDS, WorkspaceSync
from memory.protocol import Author
from tests.patience import PATIENCE
from tests.workspaces.clones import Clone, Clones, git

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

AGENT = Author("agent", "main", "agent:main:main", "t1")


class Bench:
    """A machine whose clock the test moves."""

    def __init__(self, clone: Clone) -> None:
        self.clone = clone
        self.clock = ManualClock(datetime(2026, 11, 26, 10, 0, tzinfo=UTC))
        self.told: list[str] = []
        self.both: list[str] = []
        self.sync = WorkspaceSync(clone.kept, self.clock, pull_every=300, tell=self.told.append, tell_both=self.both.append)

    async def move_until(self, wanted: Callable[[], Any], seconds: float = QUIET_SECONDS) -> None:
        """Let time pass until something is so."""
        async with asyncio.timeout(PATIENCE):
            while not wanted():
                if self.clock.alarms:
                    self.clock.move(seconds)
                await asyncio.sleep(0.01)


@asynccontextmanager
async def bench(clone: Clone) -> AsyncIterator[Bench]:
    made = Bench(clone)
    try:
        yield made
    finally:
        await made.sync.close()


async def test_what_a_turn_wrote_is_one_commit_a_moment_later_and_what_others_push_comes_in(clones: Clones) -> None:
    other = clones.clone("other")
    async with bench(clones.clone("one")) as one:
        await one.sync.begin()
        one.sync.start()
        for name in ("a.md", "b.md", "c.md"):
            one.clone.write(name, f"{name}\n")
            one.sync.wrote(name, AGENT)
        await one.move_until(lambda: one.sync.facts()["lastPush"])
        assert git("log", "--format=%an %s", "main", at=clones.remote) == "main main: a.md, b.md, c.md\n"
        other.sync()
        other.write("MEMORY.md", "from another machine\n")
        other.sync()
        await one.move_until((one.clone.root / "MEMORY.md").exists, 60)
        assert one.sync.trouble is None


async def test_what_changes_while_a_command_runs_is_the_agents_and_later_the_owners(clones: Clones) -> None:
    async with bench(clones.clone("one")) as one:
        await one.sync.begin()
        one.sync.command("a1b2", "agent:main:main")
        one.clone.write("made.txt", "by a command\n")
        one.sync.command("a1b2", None)
        await one.sync.sync()
        one.clone.write("by hand.txt", "by hand\n")
        await one.sync.sync()
        assert git("log", "--format=%an %s", "main", at=clones.remote) == "owner main: by hand.txt\nmain main: made.txt\n"


async def test_a_repository_that_is_away_is_told_in_the_status_alone_and_gets_all_of_it_later(clones: Clones) -> None:
    away = clones.remote.rename(clones.folder / "away.git")
    async with bench(clones.clone("one")) as one:
        await one.sync.begin()
        assert one.sync.facts()["trouble"]["kind"] == "away"
        one.sync.start()
        one.clone.write("a.md", "1\n")
        one.sync.wrote("a.md", AGENT)
        await one.move_until(lambda: one.sync.facts()["ahead"] == 1)
        away.rename(clones.remote)
        await one.move_until(lambda: one.sync.trouble is None, AGAIN_SECONDS[0])
        assert one.sync.facts()["ahead"] == 0
        assert one.told == one.both == []


async def test_a_push_of_nothing_does_not_end_the_trouble_with_a_repository_that_is_away(clones: Clones) -> None:
    clones.clone("other").sync()
    async with bench(clones.clone("one")) as one:
        await one.sync.sync()
        clones.remote.rename(clones.folder / "away.git")
        await one.sync.pull()
        assert not await one.sync.settle(PATIENCE)
        assert one.sync.facts()["trouble"]["kind"] == "away"


async def test_a_file_that_holds_a_secret_is_told_once_on_a_machine(clones: Clones) -> None:
    clone, told = clones.clone("one", withheld=lambda _path, data: b"sesame" in data), list[str]()
    clone.write("leak.md", "the word is sesame\n")
    for _ in range(2):
        async with bench(clone) as one:
            await one.sync.begin()
            await one.sync.sync()
            await asyncio.sleep(0)
            told += one.told
    assert [text.partition(" ")[0] for text in told] == ["leak.md"]


async def test_versions_side_by_side_are_told_to_the_owner_and_the_agent_once(clones: Clones) -> None:
    other = clones.clone("other")
    async with bench(clones.clone("one")) as one:
        one.clone.write("MEMORY.md", "a\n")
        await one.sync.begin()
        assert await one.sync.settle(PATIENCE)
        other.sync()
        other.write("MEMORY.md", "other\n")
        other.sync()
        one.clone.write("MEMORY.md", "one\n")
        await one.sync.sync()
        await one.sync.sync()
        await asyncio.sleep(0)
        assert len(one.both) == 1
        assert "MEMORY.md (the other is MEMORY.conflict-2026-11-26.md)" in one.both[0]
        assert one.sync.facts()["sideBySide"] == ["MEMORY.conflict-2026-11-26.md"]


async def test_a_repository_that_breaks_while_the_gateway_runs_is_replaced_and_told(clones: Clones) -> None:
    async with bench(clones.clone("one")) as one:
        one.clone.write("a.md", "a\n")
        await one.sync.begin()
        assert await one.sync.settle(PATIENCE)
        for path in (one.clone.state / REPOSITORY).glob("objects/??/*"):
            path.chmod(0o600)
            path.write_bytes(b"")
        one.clone.write("b.md", "b\n")
        await one.sync.pull()
        assert await one.sync.settle(PATIENCE)
        await asyncio.sleep(0)
        assert len([text for text in one.told if "was damaged" in text]) == 1
        assert git("ls-tree", "--name-only", "main", at=clones.remote).split() == ["a.md", "b.md"]


async def test_what_changes_while_the_repository_of_all_hangs_is_committed_at_once(clones: Clones) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/all.git"
        async with bench(clones.clone("one", url=url)) as one:
            asked = asyncio.create_task(one.sync.pull())
            await one.move_until(lambda: one.clone.kept.asking)
            one.sync.start()
            one.clone.write("a.md", "1\n")
            one.sync.wrote("a.md", AGENT)
            assert one.sync.facts()["uncommitted"]
            await one.move_until(lambda: one.sync.facts()["ahead"] == 1 and not one.sync.facts()["uncommitted"])
            assert not asked.done()
            assert git("log", "--format=%an", "workspace", at=one.clone.state / REPOSITORY) == "main\n"
            one.clone.kept.interrupt()
            await asked


async def test_what_the_agent_wrote_just_before_it_was_killed_is_still_its_own(clones: Clones) -> None:
    clone = clones.clone("one")
    async with bench(clone) as killed:
        await killed.sync.begin()
        clone.write("note.md", "by a tool\n")
        killed.sync.wrote("note.md", AGENT)
        killed.sync.command("a1b2", "agent:main:main")
        clone.write("made.txt", "by a command\n")
    async with bench(clone) as one:
        await one.sync.begin()
        assert await one.sync.settle(PATIENCE)
        clone.write("by hand.txt", "by hand\n")
        await one.sync.sync()
    log = git("log", "--format=%an %s%n%(trailers:key=Homebody-Turn)", "main", at=clones.remote)
    assert [line for line in log.splitlines() if line] == [
        "owner main: by hand.txt",
        "main main: note.md",
        "Homebody-Turn: t1",
        "main main: made.txt",
    ]


async def test_what_a_killed_gateway_left_is_brought_and_what_a_lost_command_may_have_written_is_untrusted(
    clones: Clones,
) -> None:
    clone = clones.clone("one")
    async with bench(clone) as killed:
        await killed.sync.begin()
        clone.write("note.md", "by a tool\n")
        killed.sync.wrote("note.md", AGENT)
        killed.sync.command("a1b2", "agent:main:main")
        clone.write("made.md", "by a command\n")
    left = WorkspaceSync(
        clone.kept, killed.clock, pull_every=0, tell=killed.told.append, tell_both=killed.both.append, left=True
    )
    assert await left.bring()
    await left.close()
    other = clones.clone("other")
    other.sync()
    assert LOST in other.untrusted.of(PurePosixPath("made.md"))
    assert other.untrusted.of(PurePosixPath("note.md")) == ()


async def test_others_are_told_first_that_something_changed_and_last_that_it_has_arrived(clones: Clones) -> None:
    said: list[tuple[str, bool]] = []
    away = asyncio.Event()

    async def write(commit: str, unsent: bool) -> None:
        if not away.is_set():
            away.set()
            raise StorageFailed("the database does not answer")
        said.append((commit, unsent))

    async with bench(clones.clone("one")) as one:
        await one.sync.begin()
        one.sync.standing = StandingWriter(write)
        for name in ("a.md", "b.md"):
            one.clone.write(name, "a\n")
            one.sync.wrote(name, AGENT)
            await asyncio.sleep(0)
            await one.sync.standing.settled()
        assert await one.sync.settle(PATIENCE)
        await one.sync.standing.settled()
        head = git("rev-parse", "main", at=clones.remote).strip()
        assert said == [("", True), (head, False)]


def test_gateways_with_homes_of_their_own_may_not_keep_notes_in_folders_alone(tmp_path: Path) -> None:
    for name in ("kitchen", "cellar"):
        (tmp_path / name).mkdir()
        for process in range(25):
            leave_name(tmp_path / name, f"{name}.{process}")
    assert elsewhere(tmp_path, [("kitchen", "kitchen.24"), ("cellar", "cellar.20"), ("attic", "attic.1")]) == ["attic"]
    refuse_own_folders([], ["attic"], tmp_path)
    with pytest.raises(UsageError, match="attic has another home than this gateway"):
        refuse_own_folders(["main"], ["attic"], tmp_path)
    with pytest.raises(
        UsageError, match=r"attic and cellar have other homes than .* the workspaces of main, home and work are folders alone"
    ):
        refuse_own_folders(["main", "home", "work"], ["attic", "cellar"], tmp_path)
