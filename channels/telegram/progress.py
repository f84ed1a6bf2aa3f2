"""How far an earlier attempt at a message got, as it is recorded between attempts."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Ids of what the chat holds already: the message that takes the text, and the file.

    They count in their chat alone: a group that became a supergroup numbers its messages anew.
    """

    chat: str
    text: int | None = None
    file: int | None = None

    def written(self) -> str:
        """Return it as a string that ``read`` understands."""
        return json.dumps({key: value for key, value in asdict(self).items() if value is not None}, separators=(",", ":"))


def read(recorded: str | None, chat: str) -> Progress:
    """Return what was recorded for this chat. An older form was the message's number alone."""
    if recorded is not None and recorded.isdecimal():
        return Progress(chat=chat, text=int(recorded))
    try:
        found = json.loads(recorded or "{}")
        progress = Progress(**found)
    except (ValueError, TypeError):
        return Progress(chat=chat)
    return progress if progress.chat == chat else Progress(chat=chat)
