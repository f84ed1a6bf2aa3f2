"""Git commands that only look, in repositories whose own settings make git run nothing else.

Git runs what a repository's settings, hooks and submodules name, even for ``git status``. An agent can write such files, so only
repositories are looked at whose settings are all known to be harmless.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from gateway.approvals.command_paths import Place, is_inside

_LONGEST_CONFIG: Final = 65_536
_LONGEST_INDEX: Final = 32 << 20
_GITLINK: Final = (0o160000).to_bytes(4, "big")
"""The mode of a submodule, as the index holds it."""

_DIFF: Final = (
    r"--(?:stat|shortstat|numstat|name-only|name-status|summary|patch|no-patch|cached|staged|ignore-all-space|ignore-space-change|word-diff"
    r"|no-color|color=never|no-ext-diff|no-textconv|no-renames|find-renames|minimal|patience|histogram|compact-summary|raw|exit-code|quiet"
    r"|check|merge-base|stat=\d+(?:,\d+)*|unified=\d+|diff-filter=[A-Za-z]+)|-[psuwbRMz]|-U\d+"
)
_LOG: Final = (
    rf"{_DIFF}|--(?:oneline|graph|all|decorate|no-decorate|no-merges|merges|first-parent|reverse|follow|abbrev-commit|tags|branches|remotes"
    r"|topo-order|date-order|left-right|regexp-ignore-case|abbrev=\d+|max-count=\d+|skip=\d+|decorate=(?:short|full|no|auto))"
    r"|--(?:since|until|after|before|author|committer|grep|date)=.*|-[iEF]|-\d+|-n\d+|-[SG].+"
    r"|--(?:pretty|format)=(?:(?!%[-+ ]?G).)*"
)
_OPTIONS: Final[Mapping[str, str]] = {
    "diff": _DIFF,
    "log": _LOG,
    "show": _LOG,
    "shortlog": r"--(?:summary|numbered|email|no-merges|since=.*|until=.*)|-[sne]{1,3}",
    "status": r"--(?:short|branch|porcelain|porcelain=v[12]|untracked-files(?:=(?:no|normal|all))?|ignored|long|show-stash|ahead-behind)"
    r"|-(?:[sbz]+|u(?:no|normal|all)?)",
    "branch": r"--(?:all|remotes|list|show-current|no-color)|-(?:[ar]|v|vv|av|avv|rv)",
    "remote": r"-v|--verbose",
    "tag": r"--list|-l|-n\d*",
    "ls-files": r"--(?:cached|deleted|modified|others|exclude-standard|stage|full-name)|-[cdmost]+",
    "rev-parse": r"--(?:abbrev-ref|short|short=\d+|show-toplevel|verify|is-inside-work-tree)",
    "describe": r"--(?:tags|always|long|dirty|all)",
}
_TAKE_ARGUMENTS: Final = frozenset({"diff", "log", "show", "shortlog", "status", "ls-files", "rev-parse", "describe"})
_EXACT: Final = frozenset({("stash", "list"), ("config", "--list"), ("config", "-l"), ("remote",), ("worktree", "list")})

_HARMLESS: Final[Mapping[str, frozenset[str]]] = {
    "core": frozenset(
        {
            "repositoryformatversion",
            "filemode",
            "bare",
            "logallrefupdates",
            "ignorecase",
            "precomposeunicode",
            "symlinks",
            "autocrlf",
            "eol",
        }
    ),
    "remote": frozenset({"url", "pushurl", "fetch", "tagopt"}),
    "branch": frozenset({"remote", "merge", "rebase", "description"}),
    "user": frozenset({"name", "email"}),
    "init": frozenset({"defaultbranch"}),
    "pull": frozenset({"rebase", "ff"}),
    "push": frozenset({"default", "autosetupremote", "followtags"}),
    "gc": frozenset({"auto"}),
}
"""Settings of a repository that make git run nothing."""
_HEADER: Final = re.compile(r'\[([A-Za-z0-9]+)(?: "[^"\\]*")?\]')
_SETTING: Final = re.compile(r"([A-Za-z][A-Za-z0-9-]*)(?:\s*=[^\\]*)?")


def git_only_looks(arguments: Sequence[str], place: Place) -> bool:
    """Whether ``git`` with these arguments only looks, at a repository in the workspace that makes it run nothing else."""
    words = list(arguments)
    while words and words[0] in {"--no-pager", "-P", "-C"}:
        if words.pop(0) == "-C":
            if not words or not place.holds(words[0]):
                return False
            place = Place(os.path.join(os.path.realpath(place.cwd), words.pop(0)), place.workspace)  # noqa: PTH118 -- it may be absolute
    return _is_harmless(words, place) and _trouble(place) is None


def _is_harmless(words: Sequence[str], place: Place) -> bool:
    if not words:
        return False
    if tuple(words) in _EXACT or (words[0] == "config" and len(words) == 3 and words[1] == "--get"):  # noqa: PLR2004 -- config --get KEY
        return not words[-1].startswith("-") or tuple(words) in _EXACT
    allowed = _OPTIONS.get(words[0])
    if allowed is None:
        return False
    options, operands = _parted(words[1:])
    if words[0] == "shortlog" and not operands:
        return False  # it would wait for a list of commits
    return (
        all(re.fullmatch(allowed, one) for one in options)
        and (not operands or words[0] in _TAKE_ARGUMENTS)
        and all(place.holds(one) for one in operands)
    )


def _parted(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Part options from the rest; behind ``--`` there are paths only."""
    options: list[str] = []
    operands: list[str] = []
    for place, word in enumerate(words):
        if word == "--":
            operands += words[place + 1 :]
            break
        (options if word.startswith("-") else operands).append(word)
    return options, operands


def _trouble(place: Place) -> str | None:
    """Say why git might run something else in the repository around a place; None if it does not."""
    here = Path(os.path.realpath(place.cwd))
    while is_inside(here, place.workspace):
        if os.path.lexists(here / ".git"):
            return _trouble_in(here / ".git")
        if (here / "HEAD").exists() or (here / "objects").exists():
            return "the folder looks like a bare repository"
        here = here.parent
        if here == here.parent:
            break
    return "there is no repository in the workspace"


def _trouble_in(folder: Path) -> str | None:
    try:
        if not stat.S_ISDIR(folder.lstat().st_mode):
            return f"{folder} is not a folder"
        unusual = ("commondir", "config.worktree", "objects/info/alternates", "objects/info/http-alternates")
        if found := next((name for name in unusual if os.path.lexists(folder / name)), None):
            return f"there is a file {found}"
        hooks = folder / "hooks"
        if os.path.lexists(hooks) and (hooks.is_symlink() or any(not one.name.endswith(".sample") for one in hooks.iterdir())):
            return "it has hooks"
        if any(one.name.startswith("sharedindex.") for one in folder.iterdir()):
            return "its index is split"
        return _index_trouble(folder / "index") or _config_trouble(_text(folder / "config"))
    except (OSError, ValueError) as error:
        return f"it cannot be read: {error}"


def _index_trouble(index: Path) -> str | None:
    if not os.path.lexists(index):
        return None
    data = _bytes(index, _LONGEST_INDEX)
    return "it has submodules, with settings of their own" if _GITLINK in data else None


def _config_trouble(text: str) -> str | None:
    known: frozenset[str] = frozenset()
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip(" \t")
        if not line or line.startswith(("#", ";")):
            continue
        header, setting = _HEADER.fullmatch(line), _SETTING.fullmatch(line)
        if header is not None and header[1].lower() in _HARMLESS:
            known = _HARMLESS[header[1].lower()]
        elif setting is None or setting[1].lower() not in known:
            return f"line {number} of its settings is not known to be harmless: {line[:80]}"
    return None


def _text(path: Path) -> str:
    text = _bytes(path, _LONGEST_CONFIG).decode("utf-8")
    if any(char < " " and char not in "\n\t" for char in text):
        raise ValueError(f"{path} holds control characters")
    return text


def _bytes(path: Path, most: int) -> bytes:
    """Read a regular file that is no link and not longer than ``most``."""
    opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(opened, "rb") as file:  # noqa: PTH123 -- opened by its number
        found = os.fstat(opened)
        if not stat.S_ISREG(found.st_mode) or found.st_size > most:
            raise ValueError(f"{path} is not a file of the usual size")
        return file.read(most)
