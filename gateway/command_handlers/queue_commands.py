"""The command ``/queue``: how a conversation wants its waiting messages dealt with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.queue.mode_choice import MEANT, TOLD, InvalidQueueChoice, read_choice

if TYPE_CHECKING:
    from gateway.sessions.store import SessionStore

BACK = frozenset({"default", "reset", "inherit"})


async def choose(store: SessionStore, session: str, argument: str) -> str:
    """Take over what was said behind ``/queue``, and return what to answer; nothing for one who only asks.

    Raises:
        StorageFailed: it could not be written down.
    """
    if not argument:
        return ""
    if argument.casefold() in BACK:
        await store.change(session, queue="")
        return "This conversation queues as the settings say."
    try:
        choice = read_choice(argument)
    except InvalidQueueChoice as error:
        return f"{error} {MEANT}"
    await store.change(session, queue=choice.written())
    meaning = f": {TOLD[choice.mode]}" if choice.mode else ""
    return f"📥 {choice.written() or 'As the settings say'}{meaning}."
