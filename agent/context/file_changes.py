"""Tells the model how the workspace files changed, so that the prompt can keep the text that the provider has cached.

One new line in USER.md changes the system text, which stands before everything else: all of the conversation is then written into the
provider's cache again. While that cache is warm, the prompt keeps the files as they were, and a note behind the history says what is new.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agent.context.workspace_files import WorkspaceFile
from agent.transcript.history_view import FILES_CHANGED

MOST_CHARS = 4000
"""The longest note. A larger change is not read well in pieces: the prompt is made anew."""


def changes(before: Sequence[WorkspaceFile], after: Sequence[WorkspaceFile]) -> str | None:
    """Return a note of what changed, empty where nothing did.

    None: it cannot be told by a note, since a file came, went or changed too much, or since a file is there now that says how to begin.
    """
    if [(one.name, one.text is None) for one in before] != [(one.name, one.text is None) for one in after]:
        return None
    parts = [
        f"{new.name}:\n{changes}"
        for old, new in zip(before, after, strict=True)
        if (changes := "".join(f"{line}\n" for line in _lines(old.text or "", new.text or "")))
    ]
    if not parts:
        return ""
    note = f"{FILES_CHANGED} Lines with + are new, lines with - are gone; this counts from now on.]\n\n" + "\n".join(parts)
    return note if len(note) <= MOST_CHARS else None


def _lines(old: str, new: str) -> Iterator[str]:
    """Give removed and added lines, those that changed together in one piece."""
    if old.strip() == new.strip():
        return
    before, after = old.strip().splitlines(), new.strip().splitlines()
    from difflib import SequenceMatcher

    for kind, begin, end, new_begin, new_end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind != "equal":
            yield from (f"- {line}" for line in before[begin:end] if line.strip())
            yield from (f"+ {line}" for line in after[new_begin:new_end] if line.strip())
