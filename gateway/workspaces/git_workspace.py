"""A workspace that is kept in a repository, too: what changed is committed, what others pushed is brought into the folder.

The folder is the truth. The branch ``workspace`` of the repository names the commit that the folder was made from: what differs
from that was changed since. A commit of others is first put into ``refs/homebody/next``, then written into the folder file by file,
and last becomes the branch, so that a crash in between leaves what is needed to go on.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import date, datetime
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from agent.tools.workspace_sandbox import WorkspaceSandbox
from gateway.base.errors import GitFailed, StorageFailed
from gateway.workspaces.authored_commits import OWNER, AuthoredCommits, Reported
from gateway.workspaces.carried_files import CarriedFiles, Scan, WorkspaceScanner
from gateway.workspaces.carried_record import CarriedRecord, Record
from gateway.workspaces.checkout import Checkout
from gateway.workspaces.commit_stream import Tree
from gateway.workspaces.folder_writer import FolderWriter
from gateway.workspaces.git_program import REMOTE_SECONDS, RemoteAccess
from gateway.workspaces.lost_files import lost_files
from gateway.workspaces.merge_commit import merge_commit
from gateway.workspaces.merging import Beside, is_beside
from gateway.workspaces.repository import Repository, set_repository_aside
from gateway.workspaces.sync_state import SyncState
from memory.protocol import Author

log = logging.getLogger(__name__)

PUSHES: Final = 8
"""How often a push is tried again that others were before."""


class Pulled(Struct):
    """What a pull brought: paths that changed, versions that were kept side by side, and removals that were not carried out."""

    changed: list[str] = field(default_factory=list)
    beside: list[Beside] = field(default_factory=list)
    stayed: list[str] = field(default_factory=list)

    def add(self, more: Pulled) -> None:
        """Add what another pull brought."""
        self.changed += more.changed
        self.beside += more.beside
        self.stayed += more.stayed


class GitWorkspace:
    """One workspace and its repository in ``folder``. All methods block. Raises GitFailed, StorageFailed.

    Any thread may call them: what is done here is done one after the other, and none of it waits for another one that asks the
    repository of all.

    ``agent`` is its id. ``sandbox`` is the one that the tools use. ``withheld`` says which contents may not leave the machine,
    ``templates`` are names of contents that nobody wrote. ``record`` says which lines are untrusted. ``day`` is the owner's date.
    """

    def __init__(
        self,
        agent: str,
        folder: Path,
        sandbox: WorkspaceSandbox,
        access: RemoteAccess,
        environ: Mapping[str, str],
        *,
        rules: CarriedFiles,
        now: Callable[[], datetime],
        day: Callable[[], date],
        withheld: Callable[[str, bytes], bool] = lambda _path, _data: False,
        templates: frozenset[str] = frozenset(),
        record: Record | None = None,
    ) -> None:
        self.agent = agent
        self.folder = folder
        self.access = access
        self.state = SyncState()
        self.scanned = Scan()
        self.asking = False
        """Whether the repository of all is asked now."""
        self.held: list[str] = []
        """Files that are gone, which was not committed, because they are so many."""
        self._sandbox = sandbox
        self._environ = environ
        self._rules = rules
        self._now = now
        self._day = day
        self._withheld = withheld
        self._templates = templates
        self._record = CarriedRecord(record)
        self._scanner = WorkspaceScanner(sandbox, rules, withheld=withheld)
        self._guard = threading.RLock()
        self._repository: Repository | None = None
        self._tree: Tree = {}
        self._noted: list[Beside] = []
        self._unknown = False
        """The repository was made anew, and the one of all has not answered yet: what was committed before is not known."""

    def alone(self) -> AbstractContextManager[object]:
        """Return what keeps other threads from changing anything while it is entered."""
        return self._guard

    def open(self) -> None:
        """Open the repository, replace a damaged one, and finish what was begun. Does nothing where it is open."""
        with self._guard:
            if self._repository is None:
                self._open()

    def _open(self) -> None:
        self.state = SyncState.read(self.folder)
        self._repository = Repository.open(self.folder, self.access, self._environ)
        try:
            try:
                self._load()
                self._finish()
            except GitFailed as failed:
                if failed.kind != "damaged":
                    raise
                self._replace()
        except BaseException:  # whatever it is, the lock must not stay
            self.close()
            raise

    def close(self) -> None:
        """Close the repository; ends a git that runs."""
        with self._guard:
            repository, self._repository = self._repository, None
            if repository is not None:
                repository.close()

    def interrupt(self) -> None:
        """End a git that runs. May be called from another thread."""
        if (repository := self._repository) is not None:
            repository.git.close()

    def mend(self) -> bool:
        """Replace the repository if it is damaged; return whether it was."""
        with self._guard:
            if self._repo.sound():
                return False
            self._replace()
            return True

    @property
    def ahead(self) -> int:
        """How many commits were not pushed yet."""
        with self._guard:
            return self._repo.ahead()

    def has(self, commit: str) -> bool:
        """Whether the folder has all that a commit has, or what came after it."""
        with self._guard:
            head = self._repo.head
            return head is not None and self._repo.knows(commit) and self._repo.contains(head, commit)

    def side_by_side(self) -> list[str]:
        """Return the files that are another version of the one beside them."""
        return sorted(path for path in self._tree if is_beside(path) and self._rules.takes(path))

    def tidy(self) -> None:
        """Pack the repository if much has gathered."""
        with self._guard:
            self._repo.tidy()

    @property
    def _repo(self) -> Repository:
        self.open()
        assert self._repository is not None
        return self._repository

    @property
    def _checkout(self) -> Checkout:
        writer = FolderWriter(
            self._sandbox, self.state.unapplied, lines=self._repo.lines, day=self._day, beside=self._is_beside
        )
        return Checkout(writer, self._repo.contents, self._rules.takes)

    def _is_beside(self, beside: Beside) -> None:
        self._record.copied(beside)
        self._noted.append(beside)

    def _load(self) -> None:
        head = self._repo.head
        if head is None and self.state.head:
            raise GitFailed("the repository has lost its branch", kind="damaged", where=str(self.folder))
        self._tree = self._repo.tree(head)

    def _finish(self) -> None:
        """Go on with what was begun before a crash."""
        target = self._repo.unfinished
        if target is not None:
            head = self._repo.head
            self._become(self._repo.tree(target))
            self._repo.advance(target, former=head)
            self._remember()

    def _replace(self) -> None:
        """Set the repository aside and begin another. What it knew is fetched again; the folder is as it was."""
        self.close()
        aside = set_repository_aside(self.folder, self._now())
        log.warning("the repository of the workspace of %s was damaged; it is %s now", self.agent, aside)
        self._repository = Repository.open(self.folder, self.access, self._environ)
        self._tree = {}
        self._unknown = bool(self.state.pushed)
        self.state.damaged = str(aside)
        self.state.write(self.folder)

    def _known_again(self) -> None:
        """After the first fetch into a new repository: find the commit that the folder was made from."""
        self._unknown = False
        for commit in (self.state.head, self.state.pushed):
            if commit and self._repo.knows(commit):
                self._repo.adopt(commit)
                self._tree = self._repo.tree(commit)
                break
        self._remember()

    def _remember(self) -> None:
        self.state.head = self._repo.head or ""
        self.state.write(self.folder)

    def commit(
        self,
        reported: Sequence[Reported] = (),
        *,
        rest: Author = OWNER,
        removals: bool = False,
        restore: bool = False,
        doubt: bool = False,
    ) -> int:
        """Commit what changed in the folder; return the number of commits. What was not reported is by ``rest``.

        ``removals``: also when most files are gone. ``restore``: write those that are gone again, instead of committing that.
        ``doubt``: what was not reported may be by a command whose end nobody saw, so it is untrusted from now on.
        """
        with self._guard:
            return self._commit(reported, rest, removals=removals, restore=restore, doubt=doubt)

    def _commit(self, reported: Sequence[Reported], rest: Author, *, removals: bool, restore: bool, doubt: bool) -> int:
        repository = self._repo
        if self._unknown:
            return 0
        self._checkout.retry(self._tree, self.state.unapplied)
        scan = self.scanned = self._scan()
        lost = lost_files(
            self._tree,
            scan,
            reported={one.path for one in reported},
            templates=self._templates,
            laid_anew=self.state.laid_anew,
        )
        decided = removals or restore
        if lost.laid_anew != self.state.laid_anew or decided:
            self.state.laid_anew = lost.laid_anew and not decided
            self._remember()
        self.held = lost.paths if lost.doubtful and not decided else []
        if self.state.laid_anew:
            return 0
        if restore:
            self._checkout.restore(
                self._tree, lost.paths, lambda path: self._scanner.read(path) if path in scan.present else None
            )
        for path in lost.paths if restore else self.held:
            del scan.changed[path]
        if not scan.changed and self._record.ahead_of(self._tree, repository.contents) is None:
            return 0

        if doubt:
            known = {one.path for one in reported}
            self._record.doubt([path for path, entry in scan.changed.items() if entry is not None and path not in known])

        def record() -> bytes | None:
            self._record.committed([path for path, entry in scan.changed.items() if entry is not None])
            return self._record.ahead_of(self._tree, repository.contents)

        made = AuthoredCommits(self.agent, scan, self._scanner.read, record)
        commits = made.of(reported, rest, [one for one in reported if self._is_former(one, scan)])
        head = repository.head
        commit = repository.commit(commits, [head] if head else [], self._now())
        repository.advance(commit, former=head)
        self._tree.update(made.taken)
        for path in made.dropped:
            self._tree.pop(path, None)
        self._remember()
        return len(commits)

    def _scan(self) -> Scan:
        try:
            scan = self._scanner.scan(self._tree)
        except OSError as error:
            raise StorageFailed.from_os(error, "read the workspace", self._sandbox.root) from error
        for path in self.state.unapplied:
            scan.changed.pop(path, None)
        return scan

    def _is_former(self, one: Reported, scan: Scan) -> bool:
        """Whether a text was in a file that somebody else changed since, and is to be committed before that."""
        if one.text is None or one.path not in scan.changed or not self._rules.takes(one.path):
            return False
        there = self._tree.get(one.path)
        return not self._withheld(one.path, one.data) and (
            there is None or self._repo.contents([there.blob])[there.blob] != one.data
        )

    def pull(self, commit: Callable[[], object] | None = None, *, seconds: float = REMOTE_SECONDS) -> Pulled:
        """Fetch what others pushed, commit, and bring theirs into the folder. ``commit`` is called in place of our own."""
        with self._guard:
            repository = self._repo
        self.asking = True
        try:
            theirs = repository.fetch(seconds=seconds)
        finally:
            self.asking = False
        with self._guard:
            self._still(repository)
            if self._unknown:
                self._known_again()
            (commit or self.commit)()
            if theirs is None or self.state.laid_anew:
                return Pulled()
            self.state.pushed = theirs
            pulled = self._join(theirs)
            self._remember()
            return pulled

    def push(self, commit: Callable[[], object] | None = None, *, seconds: float = REMOTE_SECONDS) -> Pulled:
        """Bring our commits to the repository of all. Where others were before, theirs are pulled first (``pull``)."""
        pulled = Pulled()
        for _ in range(PUSHES):
            with self._guard:
                repository, head = self._repo, self._unsent()
            if head is None:
                return pulled
            try:
                repository.push(head, seconds=seconds)
            except GitFailed as failed:
                if failed.kind != "rejected":
                    raise
                pulled.add(self.pull(commit, seconds=seconds))
                continue
            with self._guard:
                self._still(repository)
                self.state.pushed = head
                self.state.last_push = self._now().isoformat(timespec="seconds")
                self._remember()
        raise GitFailed(f"others pushed before us {PUSHES} times", kind="away", where=self.access.url)

    def _unsent(self) -> str | None:
        """Return the commit that is to be pushed, or None."""
        head = self._repo.head
        return None if self._unknown or self.state.laid_anew or head == self._repo.theirs else head

    def _still(self, repository: Repository) -> None:
        if repository is not self._repository:
            raise GitFailed("the repository was closed meanwhile", where=str(self.folder))

    def _join(self, theirs: str) -> Pulled:
        repository, pulled = self._repo, Pulled()
        head = repository.head
        if head is not None and repository.contains(head, theirs):
            return pulled
        target = theirs
        if head is not None and not repository.contains(theirs, head):
            target, pulled = self._merge(head, theirs)
        repository.begin(target)
        self._noted = []
        pulled.changed = self._become(repository.tree(target))
        pulled.beside += self._noted
        repository.advance(target, former=head)
        return pulled

    def _merge(self, head: str, theirs: str) -> tuple[str, Pulled]:
        commit, merged = merge_commit(
            self._repo,
            self._record,
            self._tree,
            (head, theirs),
            agent=self.agent,
            templates=self._templates,
            now=self._now(),
            day=self._day(),
        )
        return commit, Pulled(beside=merged.beside, stayed=merged.stayed)

    def _become(self, target: Tree) -> list[str]:
        """Change the folder from the tree that it was made from into another; return the paths that were changed."""
        self._record.take_in(target, self._repo.contents)
        changed = self._checkout.switch(self._tree, target)
        self._tree = target
        self.state.write(self.folder)
        return changed
