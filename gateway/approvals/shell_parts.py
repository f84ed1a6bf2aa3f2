"""Takes a shell command apart into the commands that it is made of, for people to read. Nothing is decided by it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

_SECONDS: Final = 5.0
_LONGEST: Final = 100_000


def shell_parts(command: str, program: str | None = None) -> list[str] | None:
    """Return the simple commands of a shell command in their order, each with its redirections.

    ``program`` is the path of ``shfmt``; default: the one that is installed. None where the command cannot be read, or where there is no
    such program. Blocking.
    """
    program = program or installed_shfmt()
    source = command.encode("utf-8", "replace")
    if program is None or len(source) > _LONGEST:
        return None
    try:
        ran = subprocess.run(  # noqa: S603 -- a full path; the command is read from the input, not run
            [program, "--to-json", "-ln", "bash"], input=source, capture_output=True, timeout=_SECONDS, env={}, check=True
        )
        return [text for _, text in sorted(_simple(json.loads(ran.stdout), source))]
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError, RecursionError):
        return None


def installed_shfmt() -> str | None:
    """Return the path of ``shfmt``, beside this Python or on the PATH; None if it is not installed."""
    return shutil.which("shfmt", path=str(Path(sys.executable).parent)) or shutil.which("shfmt")


def _simple(node: Any, source: bytes) -> Iterator[tuple[int, str]]:
    """Yield the simple commands below a node of the syntax tree, each with its place."""
    if isinstance(node, list):
        for one in node:
            yield from _simple(one, source)
    if not isinstance(node, dict):
        return
    command, redirections = node.get("Cmd"), node.get("Redirs") or []
    if redirections or (command is not None and command["Type"] in {"CallExpr", "DeclClause"}):
        simple = command is not None and command["Type"] in {"CallExpr", "DeclClause"}
        pieces = [_slice(command, source) if simple else "…"] if command is not None else []
        pieces += [_redirection(one, source) for one in redirections]
        yield node["Pos"]["Offset"], " ".join(pieces)
    for key, value in node.items():
        if key not in {"Pos", "End"}:
            yield from _simple(value, source)


def _redirection(node: dict[str, Any], source: bytes) -> str:
    """Return a redirection as it is written, but for the text of a heredoc, of which the length is told."""
    body = node.get("Hdoc")
    written = source[node["Pos"]["Offset"] : node["Word"]["End"]["Offset"]].decode("utf-8", "replace")
    return written if body is None else f"{written} ({len(_slice(body, source)):,} characters of input)"


def _slice(node: dict[str, Any], source: bytes) -> str:
    return source[node["Pos"]["Offset"] : node["End"]["Offset"]].decode("utf-8", "replace")
