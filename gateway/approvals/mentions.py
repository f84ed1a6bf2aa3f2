"""Which programs a command calls, read roughly: for rules that ask or deny, and for showing. It finds too much rather than too little."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from agent.tools.command_line import plain_words

if TYPE_CHECKING:
    from gateway.settings.command_pattern import CommandPattern

_ESCAPES: Final = re.compile(r"\\\r?\n|[\\'\"]")
_BREAKS: Final = re.compile(r"[;&|(){}<>`$!\n\r]+")
_ASSIGNMENT: Final = re.compile(r"\w+\+?=.*")
_BEFORE_A_COMMAND: Final = frozenset(
    {"time", "command", "exec", "eval", "coproc", "then", "do", "else", "elif", "if", "while", "until", "builtin"}
)


def calls(command: str) -> Iterator[Sequence[str]]:
    """Yield what a command may call: program and arguments, quotes and backslashes taken away.

    A program that runs others, such as ``sudo`` or ``sh -c``, may call each of its arguments.
    """
    from gateway.settings.command_pattern import runs_others

    words = plain_words(command)
    parts = [list(words)] if words is not None else [part.split() for part in _BREAKS.split(_ESCAPES.sub("", command))]
    for part in parts:
        runs_any = False
        for place, word in enumerate(part):
            if place == 0 or runs_any or _ASSIGNMENT.fullmatch(part[place - 1]):
                yield part[place:]
            runs_any |= word in _BEFORE_A_COMMAND or (runs_others(word) and (place == 0 or runs_any))
            if words is not None and runs_any and " " in word:
                yield from calls(word)


def mentions(pattern: CommandPattern, command: str) -> bool:
    """Whether a command calls, anywhere in it, something that begins with the words of a pattern."""
    return any(pattern.begins(one) or pattern.begins((PurePosixPath(one[0]).name, *one[1:])) for one in calls(command))


def changes_own_rights(command: str) -> bool:
    """Whether a command is this program's own for approvals, pairing, skills, MCP servers, webhooks, settings or keys."""
    own = {"approvals", "pairing", "config", "auth", "skills", "mcp", "hooks"}
    return any(PurePosixPath(one[0]).name in {"homebody", "gateway"} and not own.isdisjoint(one[1:]) for one in calls(command))
