"""The fingerprint of an act: a digest of what would run. An approval holds only as long as it stays the same."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Final

from agent.tools.protocol import Act

PATH: Final = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin:/run/current-system/sw/bin"
"""Where commands are looked for, as in their confinement."""
_PIECE: Final = 1 << 20
_MOST_FILES: Final = 64
"""So many files that a command names are compared. A command with more names than that has no file of its own to change."""


def fingerprint(act: Act, root: str = "/") -> str:
    """Return the digest of an act: what it says, and for a command its program and the files that it names, by their content.

    ``root`` is the folder from which a relative working directory counts. Blocking: it reads files.
    """
    digest = hashlib.sha256(json.dumps(asdict(act), sort_keys=True, ensure_ascii=False).encode("utf-8", "replace"))
    if act.kind == "exec":
        for path in _files_of(act, Path(root)):
            digest.update(f"\0{path}\0{_content(path)}".encode("utf-8", "replace"))
    return digest.hexdigest()


def _files_of(act: Act, root: Path) -> list[str]:
    """Return the program of a command and the regular files among its words, as far as they can be told."""
    folder = root / act.cwd
    search = dict(act.env).get("PATH", PATH)
    words = list(act.argv) if act.argv is not None else ["/bin/sh", *_words(act.command)]
    found: list[str] = []
    for word in words:
        for name in dict.fromkeys((word, word.partition("=")[2])):
            program = shutil.which(name, path=search) if name and "/" not in name else None
            beside = folder / name
            found += [program] if program else []
            found += [str(beside)] if name and _is_file(beside) else []
    return list(dict.fromkeys(found))[:_MOST_FILES]


def _words(command: str) -> list[str]:
    """Return the words of a shell command. It need not be valid: then they are cut at blanks and signs."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        return list(lexer)
    except ValueError:
        return command.replace("'", " ").replace('"', " ").split()


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name that no file can have
        return False


def _content(path: str) -> str:
    """Return the digest of a file, or why it cannot be read."""
    digest = hashlib.sha256()
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            while piece := file.read(_PIECE):
                digest.update(piece)
    except OSError as error:
        return f"unreadable: {error.errno}"
    return digest.hexdigest()
