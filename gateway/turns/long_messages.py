"""Messages that are too long for the context window: stored as a file, and given to the model in part."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.messages import ToolCall
from agent.models import token_estimate

if TYPE_CHECKING:
    from agent.context.session_context import SessionContext

SHOWN_CHARS = 4000
SHARE = 4
"""A message may fill this part of the window: a quarter."""
ENOUGH = 20
"""Of a very long message so many characters a token are looked at: no text has more, and looking at it all would take seconds."""
PART_CHARS = 2_000_000
"""A longer message becomes several files, each of which the file tools can read in whatever script it is."""


async def shelved(conversation: SessionContext, text: str, name: str) -> str:
    """Return ``text``, or where it is too long its beginning and where the whole of it now lies.

    The same ``name`` always gives the same file, so that a repeat after a crash changes nothing.
    """
    limit = conversation.window.size // SHARE
    if len(text) <= limit or token_estimate.estimate(text[: limit * ENOUGH]) <= limit:
        return text
    parts = [text[at : at + PART_CHARS] for at in range(0, len(text), PART_CHARS)]
    paths = [f"{conversation.audience.inbox}/{name}{f'.{n}' if n else ''}.txt" for n in range(len(parts))]
    trouble = ""
    for path, part in zip(paths, parts, strict=True):
        call = ToolCall(id="shelve", name="write", arguments={"path": path, "content": part, "mode": "create"})
        result = await conversation.keep(call, "shelving")
        trouble = trouble or (result.text if result.is_error else "")
    lies = trouble or f"The whole of it is in {', '.join(paths)}: read it in parts, or search it with grep."
    return f"{text[:SHOWN_CHARS]}\n\n[cut: this message has {len(text):,} characters, too many for my window. {lies}]"
