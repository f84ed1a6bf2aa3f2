"""The bare repository of one workspace, in the state folder: trees, contents, commits, and the branch that others share."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

from agent import fault_injection
from gateway.base.errors import GitFailed, StorageFailed
from gateway.base.paths import private_folder
from gateway.workspaces.commit_stream import Entry, NewCommit, Tree, commit_stream
from gateway.workspaces.git_program import LOCAL_SECONDS, GitProgram, RemoteAccess

REPOSITORY: Final = "repository.git"
LOCK_SECONDS: Final = 60.0
_OLDEST: Final = (2, 31)
_OURS: Final = "refs/heads/workspace"
_THEIRS: Final = "refs/homebody/theirs"
_MADE: Final = "refs/homebody/made"
_NEXT: Final = "refs/homebody/next"
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")


class Repository:
    """All methods block, and raise GitFailed."""

    def __init__(self, folder: Path, git: GitProgram, lock: int) -> None:
        self.folder = folder
        self.git = git
        self._lock = lock

    @classmethod
    def open(
        cls, folder: Path, access: RemoteAccess, environ: Mapping[str, str], *, wait: Callable[[float], None] = time.sleep
    ) -> Repository:
        """Open the repository in ``folder``, and make it where there is none. One process has it at a time.

        Raises:
            GitFailed: git is missing or too old, the repository is damaged, or another process has it.
            StorageFailed: the folder cannot be used.
        """
        private_folder(folder)
        lock = _locked(folder / "lock", wait)
        try:
            git = GitProgram(folder / REPOSITORY, access, environ, lock)
            _check_version(git)
            if not (folder / REPOSITORY).exists():
                _make(folder, GitProgram(folder / "new.git", access, environ, lock))
            _clear(folder / REPOSITORY)
        except BaseException:  # whatever it is, the lock must not stay
            os.close(lock)
            raise
        return cls(folder, git, lock)

    def close(self) -> None:
        """End what runs, and release the lock."""
        self.git.close()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    @property
    def head(self) -> str | None:
        """The commit that the working folder was made from; None before the first."""
        return self._ref(_OURS)

    @property
    def theirs(self) -> str | None:
        """The newest commit that was fetched; None where the other repository has none."""
        return self._ref(_THEIRS)

    @property
    def unfinished(self) -> str | None:
        """The commit towards which the working folder is being changed."""
        return self._ref(_NEXT)

    def tree(self, commit: str | None) -> Tree:
        """Return the files of a commit; of None, none."""
        if commit is None:
            return {}
        listed = self.git.run("ls-tree", "-r", "-l", "-z", "--full-tree", commit)
        found: Tree = {}
        for row in listed.split(b"\0"):
            if row:
                facts, _, name = row.partition(b"\t")
                mode, _, blob, size = facts.decode().split()
                found[os.fsdecode(name)] = Entry(mode, blob, int(size) if size.isdigit() else 0)
        return found

    def contents(self, blobs: Iterable[str]) -> dict[str, bytes]:
        """Return contents by their names."""
        wanted = list(dict.fromkeys(blobs))
        if not wanted:
            return {}
        printed = self.git.run("cat-file", "--batch", data="\n".join(wanted).encode() + b"\n")
        found: dict[str, bytes] = {}
        at = 0
        for blob in wanted:
            end = printed.index(b"\n", at)
            words = printed[at:end].split()
            if len(words) != 3 or words[1] != b"blob":  # noqa: PLR2004 - name, kind, size
                raise GitFailed(f"the content {blob} is missing", kind="damaged", where=str(self.git.folder))
            size = int(words[2])
            found[blob] = printed[end + 1 : end + 1 + size]
            at = end + 2 + size
        return found

    def commit(self, commits: Sequence[NewCommit], parents: Sequence[str], at: datetime) -> str:
        """Make commits, each on the one before it and the first on ``parents``; return the last. The branch stays where it is."""
        fault_injection.point("before", "git-commit")
        words = ("fast-import", "--quiet", "--force", "--date-format=raw", "--done")
        made = self.git.stream(words, commit_stream(commits, parents, at, _MADE), seconds=10 * LOCAL_SECONDS).decode().strip()
        fault_injection.point("after", "git-commit")
        if not _COMMIT.fullmatch(made):
            raise GitFailed("git made no commit", where=str(self.git.folder))
        return made

    def advance(self, commit: str, *, former: str | None) -> None:
        """Say that the working folder is as ``commit`` says; ``former`` is where it was. What was unfinished is finished."""
        fault_injection.point("before", "git-advance")
        self.git.run("update-ref", "--stdin", data=_moves((_OURS, commit, former), (_NEXT, None, None)))
        fault_injection.point("after", "git-advance")

    def begin(self, commit: str) -> None:
        """Say that the working folder is about to be changed into ``commit``."""
        self.git.run("update-ref", _NEXT, commit)
        fault_injection.point("after", "git-begin")

    def fetch(self, *, seconds: float) -> str | None:
        """Fetch the branch of all, and return its newest commit; None where there is no such branch yet."""
        fault_injection.point("before", "git-fetch")
        access = self.git.access
        wanted = f"refs/heads/{access.branch}"
        listed = self.git.remote("ls-remote", access.url, wanted, seconds=seconds)
        if not listed:
            if (
                self.theirs is not None
            ):  # another repository or branch than before, or one that was made anew: it has nothing of ours
                self.git.run("update-ref", "-d", _THEIRS)
            return None
        newest = listed.decode().split()[0]
        if newest != self.theirs:
            words = (
                "fetch",
                "--no-tags",
                "--no-auto-gc",
                "--no-write-fetch-head",
                "--force",
                access.url,
                f"{wanted}:{_THEIRS}",
            )
            self.git.remote(*words, seconds=seconds)
        fault_injection.point("after", "git-fetch")
        return self.theirs

    def push(self, commit: str, *, seconds: float) -> None:
        """Bring a commit to the repository of all. Raises GitFailed of kind "rejected" where somebody else was first."""
        fault_injection.point("before", "git-push")
        access = self.git.access
        words = ("push", "--quiet", "--no-verify", *self.git.receiver, access.url, f"{commit}:refs/heads/{access.branch}")
        self.git.remote(*words, seconds=seconds)
        fault_injection.point("after", "git-push")
        self.git.run("update-ref", _THEIRS, commit)

    def objects(self, commit: str) -> frozenset[str]:
        """Return the names of all contents that a commit and those before it have."""
        listed = self.git.run("rev-list", "--objects", "--no-object-names", commit)
        return frozenset(listed.decode().split())

    def contains(self, commit: str, older: str) -> bool:
        """Whether ``older`` is ``commit`` or one of those before it."""
        return self.git.succeeds("merge-base", "--is-ancestor", older, commit)

    def base(self, one: str, two: str) -> str | None:
        """Return the newest commit that is before both, or None."""
        try:
            return self.git.run("merge-base", one, two).decode().split()[0]
        except GitFailed as failed:
            if getattr(failed, "status", None) == 1:
                return None
            raise

    def ahead(self) -> int:
        """Return how many commits of ours were not brought to the repository of all."""
        head, theirs = self.head, self.theirs
        if head is None:
            return 0
        return int(self.git.run("rev-list", "--count", head, *([f"^{theirs}"] if theirs else [])))

    def knows(self, commit: str) -> bool:
        """Whether a commit is here, with its tree."""
        try:
            self.git.run("cat-file", "-e", f"{commit}^{{tree}}")
        except GitFailed:
            return False
        return True

    def sound(self) -> bool:
        """Whether all that our commits need is here and can be read."""
        try:
            self.git.run("fsck", "--full", "--no-dangling", "--no-progress", "--no-reflogs", seconds=10 * LOCAL_SECONDS)
        except GitFailed:
            return False
        return True

    def lines(self, base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
        """Join two texts that were made from one, line by line; None where both changed the same lines."""
        with tempfile.TemporaryDirectory(dir=self.folder, prefix="join-") as folder:
            places = [Path(folder) / name for name in ("ours", "base", "theirs")]
            for place, text in zip(places, (ours, base, theirs), strict=True):
                place.write_bytes(text)
            try:
                return self.git.run("merge-file", "-p", "-q", *map(str, places))
            except GitFailed as failed:
                if getattr(failed, "status", -1) > 0:
                    return None
                raise

    def adopt(self, commit: str) -> None:
        """Take a commit for the one that the working folder was made from."""
        self.git.run("update-ref", _OURS, commit)

    def tidy(self) -> None:
        """Pack what has gathered, if it is much."""
        self.git.run("-c", "gc.auto=3000", "gc", "--auto", "--quiet", seconds=20 * LOCAL_SECONDS)

    def _ref(self, name: str) -> str | None:
        try:
            return self.git.run("rev-parse", "--verify", "--quiet", name).decode().strip()
        except GitFailed as failed:
            if getattr(failed, "status", None) == 1:
                return None
            raise


def _moves(*moves: tuple[str, str | None, str | None]) -> bytes:
    lines = ["start"]
    for ref, new, old in moves:
        lines.append(f"update {ref} {new}{f' {old}' if old else ''}" if new else f"delete {ref}")
    return "\n".join([*lines, "commit", ""]).encode()


def _locked(path: Path, wait: Callable[[float], None]) -> int:
    """Take the lock. A git that an ended gateway left behind has it, too, until it has ended."""
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise StorageFailed.from_os(error, "lock the repository of the workspace", path) from error
    ends = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() < ends:
                wait(0.1)
                continue
            os.close(lock)
            hint = "Let it finish, or end it, and try again."
            raise GitFailed("another process uses this repository", where=str(path.parent), hint=hint) from None
        return lock


def set_repository_aside(folder: Path, now: datetime) -> Path:
    """Rename a damaged repository, which nobody may have open; return its new place."""
    name = f"damaged-{now:%Y-%m-%d}"
    places = (folder / (f"{name}.git" if number == 1 else f"{name}-{number}.git") for number in range(1, 10_000))
    aside = next(place for place in places if not place.exists())
    (folder / REPOSITORY).rename(aside)
    return aside


def check_git(environ: Mapping[str, str]) -> None:
    """Raise GitFailed where git is missing or too old. Blocks."""
    _check_version(GitProgram(Path("/"), RemoteAccess(url=""), environ))


def _check_version(git: GitProgram) -> None:
    said = git.run("version").decode()
    found = re.search(r"(\d+)\.(\d+)", said)
    if found is None or (int(found[1]), int(found[2])) < _OLDEST:
        raise GitFailed(f"{said.strip()} is too old; 2.31 or newer is needed", hint="sudo apt install git")


def _make(folder: Path, git: GitProgram) -> None:
    """Make a repository beside its place and put it there, so that a crash leaves none or a whole one."""
    shutil.rmtree(git.folder, ignore_errors=True)
    git.run("init", "--bare", "--quiet", "--template=", str(git.folder))
    git.folder.rename(folder / REPOSITORY)


def _clear(repository: Path) -> None:
    """Remove what a git that was ended leaves in the way. Only the holder of the lock may."""
    for place in [*repository.glob("*.lock"), *repository.glob("refs/**/*.lock"), *repository.glob("fast_import_crash_*")]:
        with contextlib.suppress(OSError):
            place.unlink()
    for place in repository.glob("objects/**/tmp_*"):
        with contextlib.suppress(OSError):
            place.unlink()
