"""Parses git commands whose words say which files they read, so far as that is certain."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

_COMMANDS: Final = frozenset({"blame", "cat-file", "diff", "log", "show"})
"""Those that print contents, of the files that they are given."""
_SWITCHES: Final = frozenset({"--no-pager", "-P", "--no-optional-locks"})
_REVISION: Final = re.compile(r"(?:HEAD|@)(?:[~^]\d*)*")
_OPTION: Final = re.compile(
    r"-[pustwbe]|-\d+|-[nU]\d+|--(?:stat|shortstat|numstat|name-only|name-status|summary|patch|no-patch|cached|staged|oneline|follow|graph"
    r"|reverse|no-color|color=\w+|word-diff|no-ext-diff|no-textconv|no-renames|abbrev-commit|max-count=\d+|unified=\d+)"
)
"""Options of those that take no further word and read nothing else."""


class GitWords(Struct, frozen=True):
    """What a git command reads: it starts in ``folders``, one in the other, and uses ``repository`` if that is said.

    ``words`` are files of the work tree or revisions with unusual names; ``objects`` are files as revisions hold them.
    """

    folders: tuple[str, ...]
    repository: str
    words: tuple[str, ...]
    objects: tuple[str, ...]


def parse_git(given: Sequence[str]) -> GitWords | None:
    """Parse the words behind ``git``; None where it may print other files than those that are named."""
    words, folders, repository = list(given), [], ""
    while words and words[0].startswith("-"):
        option, _, value = words.pop(0).partition("=")
        if option in {"-C", "--git-dir"} and (value or words):
            value = value or words.pop(0)
            if option == "-C":
                folders.append(value)
            else:
                repository = value
        elif option not in _SWITCHES or value:
            return None
    if not words or words.pop(0) not in _COMMANDS:
        return None
    split = words.index("--") if "--" in words else len(words)
    before, files = words[:split], words[split + 1 :]
    options = [word for word in before if word.startswith("-")]
    operands = [word for word in before if not word.startswith("-")]
    if not all(map(_OPTION.fullmatch, options)):
        return None
    objects = [word.partition(":")[2] for word in operands if ":" in word]
    plain = [word for word in operands if ":" not in word and not _REVISION.fullmatch(word)]
    only_objects = bool(objects) and len(objects) == len(operands)
    if not (plain or files or only_objects):
        return None
    return GitWords(tuple(folders), repository, (*plain, *files), tuple(objects))
