"""Messages too long for a window: kept whole as a file in the workspace, and given to the model in part."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent import tokens
from agent.messages import ToolCall

if TYPE_CHECKING:
    from agent.conversation import Conversation

SHOWN_CHARS = 4000
SHARE = 4
"""A message may fill this part of the window: a quarter."""


async def shelved(conversation: Conversation, text: str, name: str) -> str:
    """Return ``text``, or where it is too long its beginning and where the whole of it now lies.

    The same ``name`` always gives the same file, so that a repeat after a crash changes nothing.
    """
    limit = conversation.window.size // SHARE
    if len(text) <= limit or tokens.estimate(text) <= limit:
        return text
    path = f"{conversation.audience.inbox}/{name}.txt"
    call = ToolCall(id="shelve", name="write", arguments={"path": path, "content": text, "mode": "create"})
    result = await conversation.toolbox.run(call, conversation.scene("shelving"))
    lies = f"The whole of it is in {path}: read it in parts, or search it with grep." if not result.is_error else result.text
    return f"{text[:SHOWN_CHARS]}\n\n[cut: this message has {len(text):,} characters, too many for my window. {lies}]"
