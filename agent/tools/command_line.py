"""Splits a command into words where it means the same with a shell and without one."""

from __future__ import annotations

import re
import shlex

_PLAIN = re.compile(r"(?:[A-Za-z0-9_@%+=:,./ -]|'[\x20-\x26\x28-\x7e]*')+")
_SHELL_WORDS = frozenset(
    re.findall(
        r"\S+",
        """
    . : alias bg bind break builtin caller case cd command compgen complete compopt continue coproc declare dirs disown do done elif
    else enable esac eval exec exit export fc fg fi for function getopts hash help history if in jobs let local logout mapfile popd
    pushd read readarray readonly return select set shift shopt source suspend then time times trap type typeset ulimit umask unalias
    unset until wait while
    """,
    )
)
"""Keywords of a shell, and commands that exist only within one."""


def plain_words(command: str) -> tuple[str, ...] | None:
    """Return the words of a command that needs no shell; None for every other command.

    Plain are letters, digits, spaces and ``_@%+=:,./-``, and printable ASCII between single quotes. Nothing else is: no other kind of
    quotes, no line break, no expansion, no redirection, no second command. A command whose first word is an assignment, a shell's keyword
    or a command built into shells is not plain either, because without a shell it would mean something else. The words are to be run
    as they are, without a shell.
    """
    if not _PLAIN.fullmatch(command):
        return None
    words = tuple(shlex.split(command))
    if not words or not words[0] or "=" in words[0] or words[0] in _SHELL_WORDS:
        return None
    return words
