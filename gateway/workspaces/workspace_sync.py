"""Keeps a workspace and its repository in step while the gateway runs: no turn waits for it, and no commit for the network.

One thread commits, another one asks the repository of all.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any, Final, Protocol

from gateway.base.errors import GitFailed, HomebodyError
from gateway.workspaces.authored_commits import OWNER, Reported, former_texts
from gateway.workspaces.change_journal import ChangeJournal
from gateway.workspaces.git_workspace import GitWorkspace
from gateway.workspaces.standing_writer import StandingWriter
from gateway.workspaces.sync_notices import SyncNotices, Trouble
from memory.protocol import Author

log = logging.getLogger(__name__)

QUIET_SECONDS: Final = 3.0
"""A change is committed once nothing else changed for this long."""
LONGEST_SECONDS: Final = 15.0
"""... or this long after it, when changes do not stop."""
AGAIN_SECONDS: Final = (15.0, 600.0)
"""The first and the longest wait before an other repository that does not answer is asked again."""
PULL_SECONDS: Final = 30.0
"""How long a new workspace, or one that is taken over, waits for the repository of all."""
START_SECONDS: Final = 5.0
"""How long a workspace that was here before waits for it."""
_LISTED: Final = 20
_TIDY_EVERY: Final = 200
"""Commits after which it is seen whether the repository should be packed."""


class SyncClock(Protocol):
    """What this needs of a clock."""

    def now(self) -> datetime:
        """Return the current instant."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class WorkspaceSync:
    """Commits what changed, pushes it and pulls what others pushed. Made in the event loop; ``wrote`` may be called from any thread.

    ``tell`` takes sentences for the owner, ``tell_both`` those that the agent needs to know, too. ``may_push`` says whether this gateway
    may still write for the agent; a push is left out where it may not. ``standing`` tells the other gateways of a cluster how far it has
    come. ``left``: the agent works on another gateway, and what this one left is to be brought to the repository of all.
    """

    def __init__(
        self,
        workspace: GitWorkspace,
        clock: SyncClock,
        *,
        pull_every: float,
        tell: Callable[[str], None],
        tell_both: Callable[[str], None],
        may_push: Callable[[], bool] = lambda: True,
        quiet: float = QUIET_SECONDS,
        standing: StandingWriter | None = None,
        left: bool = False,
    ) -> None:
        self.workspace = workspace
        self.trouble: Trouble | None = None
        self._clock = clock
        self._pull_every = pull_every
        self._may_push = may_push
        self._quiet = quiet
        self.standing = standing
        self._left = left
        self._doubt = False
        self._journal = ChangeJournal(workspace.folder)
        self._reported: list[Reported] = []
        self._guard = threading.Lock()
        self._loop = asyncio.get_running_loop()
        soon = self._loop.call_soon_threadsafe
        self._notices = SyncNotices(workspace, lambda text: soon(tell, text), lambda text: soon(tell_both, text))
        self._changed = asyncio.Event()
        self._stirs = self._stirs_committed = 0
        self._committed = asyncio.Event()
        self._asking = asyncio.Lock()
        name = f"workspace-{workspace.agent}"
        self._here, self._far = (ThreadPoolExecutor(1, thread_name_prefix=f"{name}-{kind}") for kind in ("here", "far"))
        self._tasks: list[asyncio.Task[None]] = []
        self._facts: dict[str, Any] = {}
        self._ahead = 0
        self._commands: dict[str, Author] = {}
        self._ran: Author | None = None
        self._commits = 0
        self._pulled_at: datetime | None = None

    def wrote(self, path: str, author: Author, text: str | None = None) -> None:
        """Note who changed a file; ``text`` is what it holds now, if that is at hand."""
        with self._guard:
            former = self._reported
            if former and former[-1].path == path and former[-1].author == author:
                text = former.pop().text if text is None else text
            else:
                self._journal.wrote(path, author)
            former.append(Reported(path, author, text))
            self._stirs += 1
        if self.standing is not None:
            self.standing.changed()
        self._loop.call_soon_threadsafe(self._changed.set)

    def command(self, job: str, session: str | None) -> None:
        """Note that a command of a session works in the folder, with None that it has ended. What it changes is the agent's."""
        author = Author("agent", self.workspace.agent, session) if session is not None else None
        with self._guard:
            self._journal.command(job, author)
            if author is not None:
                self._commands[job] = self._ran = author
            else:
                self._commands.pop(job, None)
            self._stirs += 1
        if self.standing is not None:
            self.standing.changed()
        if author is None:
            self._changed.set()

    def start(self) -> None:
        """Begin to work in the background."""
        if not self._tasks:
            self._tasks = [asyncio.create_task(self._commit_changes()), asyncio.create_task(self._exchange())]

    async def pull(self, seconds: float = PULL_SECONDS) -> None:
        """Commit what is here and bring in what others pushed. Where the other repository does not answer, work goes on without it."""
        await self._round(pull=True, push=False, seconds=seconds)

    async def begin(self, wanted: str = "") -> bool:
        """Do the first pull. A workspace that was here before does not wait long for it; return whether commit ``wanted`` is here then."""
        try:
            await self._loop.run_in_executor(self._here, self._open)
        except HomebodyError as failed:
            self._failed(getattr(failed, "kind", "failed"), failed)
            return not wanted
        here = await self._has(wanted)
        await self.pull(START_SECONDS if self.workspace.state.pushed and here else PULL_SECONDS)
        return here or await self._has(wanted)

    async def bring(self) -> bool:
        """Bring what was left here to the repository of all; return whether nothing is left."""
        await self.begin()
        return await self.settle(PULL_SECONDS)

    async def _has(self, commit: str) -> bool:
        if not commit:
            return True
        try:
            return await self._loop.run_in_executor(self._here, self.workspace.has, commit)
        except HomebodyError as failed:
            log.warning("the workspace of %s cannot be looked at: %s", self.workspace.agent, failed)
            return False

    def _open(self) -> None:
        self.workspace.open()
        with self._guard:
            reported, commands = self._journal.read()
            self._reported = reported + self._reported
            self._stirs += len(reported)
            if commands:  # of a gateway that was killed
                self._ran = next(iter(commands.values()))
                self._doubt = self._left

    async def release(self) -> None:
        """Let go of the repository, which another one is about to open. The next change opens it again."""
        await self._let_go()

    async def settle(self, seconds: float) -> bool:
        """Commit everything now and push it; return whether all of it arrived."""
        try:
            async with asyncio.timeout(seconds):
                await self._round(pull=False, push=True, seconds=seconds)
        except TimeoutError:
            log.warning("the workspace of %s was not pushed within %.0f s", self.workspace.agent, seconds)
            return False
        return self.trouble is None and self._ahead == 0

    async def sync(self, *, removals: bool = False, restore: bool = False) -> dict[str, Any]:
        """Commit, pull and push at once, for somebody who waits; return ``facts``. Raises HomebodyError."""
        await self._work(self._commit, removals=removals, restore=restore)
        async with self._asking:
            await self._ask(pull=True, push=True)
            self._went_well(pulled=True)
        return self.facts()

    @property
    def pending(self) -> bool:
        """Whether something was changed that may not have arrived yet, and could arrive now."""
        return self._uncommitted or (self._ahead > 0 and self.trouble is None)

    @property
    def _uncommitted(self) -> bool:
        return self._stirs != self._stirs_committed

    def facts(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        return {
            "agent": self.workspace.agent,
            "remote": self.workspace.access.url,
            "branch": self.workspace.access.branch,
            "ahead": self._ahead,
            "uncommitted": self._uncommitted,
            "lastPull": self._pulled_at.isoformat(timespec="seconds") if self._pulled_at else None,
            "lastPush": self.workspace.state.last_push or None,
            "trouble": self.trouble and self.trouble.facts(),
            "gone": sorted(self.workspace.held)[:_LISTED],
            "goneCount": len(self.workspace.held),
            **self._facts,
        }

    async def close(self) -> None:
        """Stop. What was not pushed is at the next start."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._let_go()
        for thread in (self._here, self._far):
            thread.shutdown(wait=False)

    async def _let_go(self) -> None:
        self.workspace.interrupt()
        await self._loop.run_in_executor(self._far, lambda: None)  # what was asked there has ended then
        await self._loop.run_in_executor(self._here, self.workspace.close)

    async def _commit_changes(self) -> None:
        while True:
            await self._stirred()
            await self._round(pull=False, push=False)
            self._committed.set()

    async def _exchange(self) -> None:
        """Push what was committed, pull now and then, and ask a repository that is away again after a while."""
        await self._round(pull=False, push=True)
        again, due = AGAIN_SECONDS[0], self._next_pull()
        while True:
            retry = self._clock.monotonic() + again
            failed = self.trouble is not None
            if failed:
                await self._clock.sleep(max(0.0, min(retry, due) - self._clock.monotonic()))
            else:
                await self._set_within(self._committed, due - self._clock.monotonic())
            self._committed.clear()
            pull = failed or self._clock.monotonic() >= due
            await self._round(pull=pull, push=True)
            if pull:
                due = self._next_pull()
            again = AGAIN_SECONDS[0] if self.trouble is None else min(again * 2, AGAIN_SECONDS[1])

    def _next_pull(self) -> float:
        return self._clock.monotonic() + (self._pull_every or float("inf"))

    async def _stirred(self) -> None:
        """Wait until something was changed and nothing is any more."""
        await self._changed.wait()
        ends = self._clock.monotonic() + LONGEST_SECONDS
        while (left := ends - self._clock.monotonic()) > 0:
            self._changed.clear()
            if not await self._set_within(self._changed, min(self._quiet, left)):
                break
        self._changed.clear()

    async def _set_within(self, event: asyncio.Event, seconds: float) -> bool:
        waiting = asyncio.ensure_future(event.wait())
        clock = asyncio.ensure_future(self._clock.sleep(seconds)) if seconds != float("inf") else None
        try:
            await asyncio.wait([one for one in (waiting, clock) if one is not None], return_when=asyncio.FIRST_COMPLETED)
            return event.is_set()
        finally:
            for one in (waiting, clock):
                if one is not None:
                    one.cancel()

    async def _round(self, *, pull: bool, push: bool, seconds: float = 120.0) -> None:
        """Do one round. What fails is kept as ``trouble`` and tried again later."""
        asked = pull
        try:
            await self._work(self._commit)
            if pull or push:
                async with self._asking:
                    pushing = push and self._may_push()
                    asked = pull or (pushing and self._ahead > 0)  # a push of nothing asks nobody
                    await self._ask(pull=pull, push=pushing, seconds=seconds)
        except GitFailed as failed:
            if failed.kind == "damaged" and await self._mended():
                return
            self._failed(failed.kind, failed)
        except HomebodyError as failed:
            self._failed("failed", failed)
        else:
            self._went_well(pulled=pull, cleared=asked)

    async def _work(self, step: Callable[..., None], **arguments: Any) -> None:
        await self._loop.run_in_executor(self._here, lambda: step(**arguments))

    async def _ask(self, **arguments: Any) -> None:
        await self._loop.run_in_executor(self._far, lambda: self._step(**arguments))

    def _commit(self, *, removals: bool = False, restore: bool = False) -> None:
        """Commit what changed. Runs in either thread."""
        workspace = self.workspace
        with workspace.alone():
            workspace.open()
            with self._guard:
                reported, self._reported, stirs = self._reported, [], self._stirs
                ran, self._ran = self._ran, next(iter(self._commands.values()), None)
            try:
                made = workspace.commit(
                    former_texts(reported), rest=ran or OWNER, removals=removals, restore=restore, doubt=self._doubt
                )
            except BaseException:  # whatever it is, who changed what must not be forgotten
                with self._guard:
                    self._reported = reported + self._reported
                    self._ran = ran
                raise
            with self._guard:
                self._stirs_committed = stirs
                if reported or ran:
                    self._journal.keep(self._reported, self._commands)
            self._commits += made
            self._notices.secrets()
            self._look()
            if self._commits >= _TIDY_EVERY:
                self._commits = 0
                workspace.tidy()

    def _step(self, *, pull: bool, push: bool, seconds: float = 120.0) -> None:
        """Pull and push. Runs in the thread for that."""
        workspace = self.workspace
        try:
            if pull:
                self._notices.joined(workspace.pull(self._commit, seconds=seconds))
            if push:
                self._notices.joined(workspace.push(self._commit, seconds=seconds))
        finally:
            self._look()

    def _look(self) -> None:
        """Take down what ``facts`` says, which the event loop must not look up."""
        workspace = self.workspace
        self._ahead = workspace.ahead
        left_out = workspace.scanned.left_out
        self._facts = {
            "leftOut": dict(sorted(left_out.items())[:_LISTED]),
            "leftOutCount": len(left_out),
            "unapplied": {path: why for path, (_, why) in sorted(workspace.state.unapplied.items())[:_LISTED]},
            "sideBySide": workspace.side_by_side()[:_LISTED],
            "damaged": workspace.state.damaged or None,
        }
        self._notices.gone()

    async def _mended(self) -> bool:
        """Replace a damaged repository, tell the owner, and try again once."""
        try:
            if not await self._loop.run_in_executor(self._here, self.workspace.mend):
                return False
            self._notices.mended()
            async with self._asking:
                await self._ask(pull=True, push=True)
        except HomebodyError as failed:
            self._failed(getattr(failed, "kind", "failed"), failed)
        else:
            self._went_well(pulled=True)
        return True

    def _failed(self, kind: str, failed: HomebodyError) -> None:
        former = self.trouble
        since = former.since if former is not None and former.kind == kind else self._clock.now()
        self.trouble = Trouble(kind, str(failed), failed.hint, since)
        if former is None or former.kind != kind:
            log.warning("the workspace of %s is not in step with its repository: %s", self.workspace.agent, failed)
        self._notices.failed(kind, failed)

    def _went_well(self, *, pulled: bool, cleared: bool = True) -> None:
        if pulled:
            self._pulled_at = self._clock.now()
        if self.standing is not None and self._ahead == 0 and not self._uncommitted and (commit := self.workspace.state.pushed):
            self.standing.arrived(commit)
        if cleared and self.trouble is not None:
            log.info("the workspace of %s is in step with its repository again", self.workspace.agent)
            self.trouble = None
