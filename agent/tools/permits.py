"""What may run in turns that nobody watches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.errors import PathRefused
from agent.tools.paths import workspace_path

if TYPE_CHECKING:
    from pathlib import PurePosixPath

    from agent.messages import ToolCall
    from agent.tools.toolbox import Permit, Toolbox


def only_notes(toolbox: Toolbox, note: PurePosixPath) -> Permit:
    """Permit reading, and appending to ``note`` (relative to the workspace); refuse everything else with the way that is open."""

    def permit(call: ToolCall) -> str | None:
        if toolbox.effect_of(call.name) == "pure" or _appends_to(call, note):
            return None
        return f"not now: in this turn only reading is possible, and write with mode append to {note}"

    return permit


def _appends_to(call: ToolCall, note: PurePosixPath) -> bool:
    arguments = call.arguments or {}
    path = next((arguments[name] for name in ("path", "file_path", "filePath") if name in arguments), None)
    if call.name != "write" or arguments.get("mode") != "append" or not isinstance(path, str):
        return False
    try:
        return workspace_path(path) == note
    except PathRefused:
        return False
