"""Matches a regular expression in a process of its own, run by path with ``python -I -S``: it imports nothing of the project.

A pattern that a model wrote can take ages to match and holds the interpreter's lock all the while; a thread cannot be stopped,
a process can. Reads one JSON line ``{pattern, ignoreCase, most, width}``, then for each text a JSON line ``{path, bytes}`` and that
many bytes. Writes JSON lines: ``{path, line, text}`` for each matching line, or one ``{error}``.
"""

from __future__ import annotations

import json
import re
import resource
import sys
from typing import IO, Any

MAX_LINE = 4000
"""Characters of a line that are looked at."""
MAX_CPU_SECONDS = 20
MAX_MEMORY = 512 * 1024 * 1024


def search(orders: IO[bytes], answers: IO[str]) -> None:
    """Answer the orders until they end or ``most`` lines are found."""
    wish: dict[str, Any] = json.loads(orders.readline())
    try:
        pattern = re.compile(wish["pattern"], re.IGNORECASE if wish["ignoreCase"] else 0)
    except (re.error, OverflowError, RecursionError) as error:
        answers.write(json.dumps({"error": str(error)}) + "\n")
        return
    left = wish["most"]
    while left > 0 and (head := orders.readline()):
        text = json.loads(head)
        lines = orders.read(text["bytes"]).decode("utf-8", "replace").split("\n")
        for number, line in enumerate(lines, 1):
            found = pattern.search(line, 0, MAX_LINE)
            if found and left > 0:
                left -= 1
                shown = excerpt(line, found.start(), wish["width"])
                answers.write(json.dumps({"path": text["path"], "line": number, "text": shown}) + "\n")


def excerpt(line: str, at: int, width: int) -> str:
    """Give the part of a long line that surrounds position ``at``, with dots where it was cut."""
    line = line.rstrip("\r")
    if len(line) <= width:
        return line
    start = min(max(0, at - width // 3), len(line) - width)
    return ("…" if start else "") + line[start : start + width] + ("…" if start + width < len(line) else "")


def stay_small() -> None:
    """Bound what this process may take, should nobody be left to stop it."""
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_SECONDS, MAX_CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))


if __name__ == "__main__":
    stay_small()
    search(sys.stdin.buffer, sys.stdout)
