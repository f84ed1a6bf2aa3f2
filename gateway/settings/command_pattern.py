"""Patterns for commands in ``approvals.rules``: words as they are typed, in which ``*`` and ``?`` stand for other characters."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from functools import cache
from pathlib import PurePosixPath
from typing import Final

from msgspec import Struct

from agent.tools.command_line import plain_words

_QUOTED: Final = re.compile("('[^']*')")
_STARS: Final = {"*": "\ue000", "?": "\ue001"}
"""Characters of no other meaning that stand in for wildcards while a pattern is read."""
_WILD: Final = re.compile("[\ue000\ue001]")
_NO_PARENT: Final = r"(?!(?:.*/)?\.\.(?:/|$))"

_INTERPRETERS: Final = (
    "ash awk bash bun busybox dash deno ed fish gawk java ksh lua mawk nawk node nodejs osascript perl php pypy python ruby sed sh tclsh "
    "zsh"
)
_WRAPPERS: Final = (
    "chroot doas env expect find flock gdb ionice ltrace nice nohup nsenter parallel prlimit script screen setarch setpriv setsid ssh "
    "stdbuf strace su sudo systemd-run taskset time timeout tmux unshare watch xargs"
)
_RUNNERS: Final = (
    "ansible ant bundle cargo cmake composer docker docker-compose go gradle just make mvn ninja npm npx nerdctl pip pipx pnpm podman "
    "poetry rake tox uv uvx yarn kubectl helm systemctl crontab at batch man less more vi vim nvim emacs nano"
)
_TAKE_A_SCRIPT: Final = frozenset(
    {"bash", "dash", "ksh", "lua", "node", "nodejs", "perl", "php", "python", "ruby", "sh", "zsh"}
)
_RUN_OTHERS: Final = frozenset(f"{_INTERPRETERS} {_WRAPPERS} {_RUNNERS}".split())


def runs_others(program: str) -> bool:
    """Whether a program runs what its arguments or the files around it say: interpreters, wrappers and build tools of any version."""
    return _without_version(program) in _RUN_OTHERS


def takes_script(program: str) -> bool:
    """Whether a program's first argument, unless it is an option, is the file that it runs."""
    return _without_version(program) in _TAKE_A_SCRIPT


def _without_version(program: str) -> str:
    return re.sub(r"[-.\d]+$", "", PurePosixPath(program).name)


class CommandPattern(Struct, frozen=True):
    """The words of a pattern, each as a regular expression; ``wild`` holds the places of those with wildcards."""

    words: tuple[re.Pattern[str], ...]
    wild: tuple[int, ...] = ()

    def matches(self, argv: Sequence[str]) -> bool:
        """Whether a command has as many words as the pattern, each like its own."""
        return len(argv) == len(self.words) and self.begins(argv)

    def begins(self, argv: Sequence[str]) -> bool:
        """Whether a command begins with the words of the pattern."""
        return len(argv) >= len(self.words) and all(
            word.fullmatch(given) is not None for word, given in zip(self.words, argv, strict=False)
        )

    def chosen(self, argv: Sequence[str]) -> list[str]:
        """The words of a command that wildcards stand for."""
        return [argv[place] for place in self.wild if place < len(argv)]


@cache
def command_pattern(text: str, *, strict: bool) -> CommandPattern:
    """Read a pattern. ``strict``: a wildcard stands for no slash, no colon and no first dash of an argument, and makes no ``..``.

    Raises:
        ValueError: it is not plain words with ``*`` and ``?``.
    """
    words = _words(text)
    wild = tuple(place for place, word in enumerate(words) if _WILD.search(word))
    return CommandPattern(tuple(_expression(word, strict=strict) for word in words), wild)


def too_broad(text: str) -> str | None:
    """Say why a rule that allows may not have this pattern; None when it may.

    Raises:
        ValueError: it is not plain words with ``*`` and ``?``.
    """
    program, *arguments = _words(text)
    wild = any(_WILD.search(one) for one in arguments)
    if _WILD.search(program):
        return "the program must be written out, without * and ?"
    if "/" in program and not program.startswith("/"):
        return "the program must be a name or a path that begins with /; a program in the workspace can be changed by the agent"
    if wild and runs_others(program):
        return f"{program} runs other programs, so its arguments must be written out, without * and ?"
    if wild and program == "git" and (_WILD.search(arguments[0]) or arguments[0].startswith("-")):
        return "the subcommand of git must be written out right after it, such as `git fetch *`"
    if arguments and not _WILD.sub("", arguments[0]):
        return f"the first argument must be more than a wildcard, which would allow most of what {program} can do"
    return None


def _words(text: str) -> list[str]:
    marked = "".join(part if part.startswith("'") else _with_marks(part) for part in _QUOTED.split(text))
    if plain_words(_WILD.sub("0", marked)) is None:
        raise ValueError(f"{text!r} is not a program and its arguments in plain words, with * and ? as wildcards")
    return shlex.split(marked)


def _with_marks(part: str) -> str:
    for star, mark in _STARS.items():
        part = part.replace(star, mark)
    return part


def _expression(word: str, *, strict: bool) -> re.Pattern[str]:
    some, one = ("[^/:]*", "[^/:]") if strict else (".*", ".")
    body = "".join(some if char == _STARS["*"] else one if char == _STARS["?"] else re.escape(char) for char in word)
    if strict and _WILD.search(word):
        body = _NO_PARENT + ("(?!-)" if _WILD.match(word) else "") + body
    return re.compile(body, re.DOTALL)
