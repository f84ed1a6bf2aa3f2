"""The notes that a session begins with: the long-term memory, and those of the last days."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import PurePosixPath

from agent.context.prompt import WINDOW_SHARE, cut_middle
from agent.context.workspace_files import LONG_TERM, Workspace
from agent.settings import AgentSettings
from agent.taint import merged
from memory.audience import Audience


def start_notes(
    workspace: Workspace, audience: Audience, settings: AgentSettings, *, today: date, private: bool, window: int
) -> tuple[str, tuple[str, ...]]:
    """Return the notes that a session begins with, and their taint. The owner's sessions begin without untrusted lines.

    The long-term memory is for ``private`` sessions alone. Blocks.
    """
    given = settings.startup_context
    if not given.enabled:
        return "", ()
    paths = [audience.daily_note(today - timedelta(days=back)) for back in range(given.days)]
    daily = [(str(path), _trusted(workspace, audience, path, workspace.note(path))) for path in paths]
    memory = workspace.memory_file() if private else None
    notes = notes_text(
        _trusted(workspace, audience, PurePosixPath(LONG_TERM), memory),
        daily,
        memory_chars=min(settings.bootstrap_max_chars, window // WINDOW_SHARE),
        daily_chars=min(given.max_chars, window // WINDOW_SHARE),
    )
    if audience.kind == "owner":
        return notes, ()
    return notes, merged(*(workspace.untrusted.of(path, text) for path, (_, text) in zip(paths, daily, strict=True) if text))


def notes_text(memory: str | None, daily: Sequence[tuple[str, str]], *, memory_chars: int, daily_chars: int) -> str:
    """Return the text of the notes that a session begins with, or an empty string when there are none.

    ``daily`` holds (path, text), newest first; together they get ``daily_chars``, and the newest are served first.
    """
    parts = []
    if memory and memory.strip():
        parts.append("## MEMORY.md\n\n" + cut_middle(memory.strip(), memory_chars, "read MEMORY.md for the rest"))
    left = daily_chars
    for path, text in daily:
        body = text.strip()
        if not body:
            continue
        shown = _keep_newest(body, left, f"read {path} for the rest")
        left = max(0, left - len(body))
        parts.append(f"## {path}\n\n{shown}")
    return "# Notes at the start of this session\n\n" + "\n\n".join(parts) + "\n" if parts else ""


def _trusted(workspace: Workspace, audience: Audience, path: PurePosixPath, text: str | None) -> str:
    """Return a note as a session begins with it: the owner's begins without untrusted lines, and is told where they are."""
    if not text or audience.kind != "owner":
        return text or ""
    kept, sources = workspace.untrusted.trusted(path, text)
    if not sources:
        return text
    return f"{kept.rstrip()}\n[left out: what was noted with untrusted text in view; read {path} if it matters]"


def _keep_newest(text: str, limit: int, advice: str) -> str:
    """Shorten ``text`` to about ``limit`` characters, keeping its end, with a mark before it."""
    if len(text) <= limit:
        return text
    kept = text[len(text) - limit :] if limit else ""
    _, newline, whole_lines = kept.partition("\n")
    kept = whole_lines if newline else kept
    return f"[cut: the first {len(text) - len(kept):,} of {len(text):,} characters are left out; {advice}]\n{kept}"
