"""What a change of files would write, as text for people: new text as it is, and other changes as a unified diff."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Final, TypeAlias

MOST_CHARS: Final = 100_000
"""Characters of the details of an act. What is longer is cut, with the digest of all of it, so that any change shows."""
_CONTEXT: Final = 3
_MOST_COMPARED: Final = 200
"""So many lines are compared line by line, which takes time that grows with their square; more are shown as replaced altogether."""
_Opcode: TypeAlias = "tuple[str, int, int, int, int]"


def difference(path: PurePosixPath, before: bytes | None, after: bytes | None) -> str:
    """Return the unified diff of a file; None stands for no file. "" where nothing changes."""
    old, new = _lines(before), _lines(after)
    if old == new and (before is None) == (after is None):
        return ""
    shown = [f"--- {'/dev/null' if before is None else path}", f"+++ {'/dev/null' if after is None else path}"]
    for first, group in _groups(old, new):
        _, old_from, _, new_from, _ = group[0]
        _, _, old_to, _, new_to = group[-1]
        shown.append(f"@@ -{_span(first + old_from, first + old_to)} +{_span(first + new_from, first + new_to)} @@")
        for kind, a, b, c, d in group:
            if kind == "equal":
                shown += [f" {line}" for line in old[first + a : first + b]]
            else:
                shown += replaced(old[first + a : first + b], new[first + c : first + d])
    return "\n".join(shown)


def replaced(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """Return the lines of a diff that replace ``old`` by ``new``."""
    return [*(f"-{line}" for line in old), *(f"+{line}" for line in new)]


def not_fitting(trouble: Exception, wanted: str) -> str:
    """Return the details of a change that does not fit the files as they are."""
    return f"It does not fit the files as they are now ({trouble}). What it asks for:\n{wanted}"


def bounded(text: str) -> str:
    """Return details of at most about ``MOST_CHARS`` characters: the beginning and the end of longer ones, and their digest."""
    if len(text) <= MOST_CHARS:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
    half = MOST_CHARS // 2
    return f"{text[:half]}\n… {len(text) - 2 * half:,} characters are not shown; SHA-256 of all: {digest} …\n{text[-half:]}"


def _lines(data: bytes | None) -> list[str]:
    """Return lines without their ends. A last line without one says so, as in the output of ``diff``."""
    lines = (data or b"").decode("utf-8", "backslashreplace").split("\n")
    last = lines.pop()
    return [*lines, f"{last}\n\\ No newline at end of file"] if last else lines


def _groups(old: list[str], new: list[str]) -> Iterator[tuple[int, list[_Opcode]]]:
    """Yield the hunks: the line from which their opcodes count, and the opcodes."""
    shorter = min(len(old), len(new))
    start = next((n for n in range(shorter) if old[n] != new[n]), shorter)
    end = next((n for n in range(shorter - start) if old[-1 - n] != new[-1 - n]), shorter - start)
    first, after = max(0, start - _CONTEXT), min(end, _CONTEXT)
    a, b = old[first : len(old) - end + after], new[first : len(new) - end + after]
    if max(len(a), len(b)) <= _MOST_COMPARED:
        from difflib import SequenceMatcher

        for group in SequenceMatcher(None, a, b, autojunk=False).get_grouped_opcodes(_CONTEXT):
            yield first, list(group)
        return
    head = start - first
    a_end, b_end = len(a) - after, len(b) - after
    yield (
        first,
        [
            ("equal", 0, head, 0, head),
            ("replace", head, a_end, head, b_end),
            ("equal", a_end, len(a), b_end, len(b)),
        ],
    )


def _span(start: int, end: int) -> str:
    """Return lines ``start`` (from 0) to ``end`` (exclusive) as the head of a hunk names them."""
    return str(start + 1) if end - start == 1 else f"{start + (end > start)},{end - start}"
