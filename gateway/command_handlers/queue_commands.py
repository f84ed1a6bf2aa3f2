"""``/queue``: sets how a conversation handles messages that arrive during a turn."""

from __future__ import annotations

from gateway.queue.message_queue import MEANT, TOLD, InvalidQueueChoice, read_choice
from gateway.sessions.store import SessionStore

BACK = frozenset({"default", "reset", "inherit"})


async def choose(store: SessionStore, session: str, argument: str) -> str:
    """Apply the argument of ``/queue`` and return the reply; "" without an argument.

    Raises:
        StorageFailed: the choice could not be stored.
    """
    if not argument:
        return ""
    if argument.casefold() in BACK:
        await store.change(session, queue="")
        return "This conversation uses the queue mode from the settings."
    try:
        choice = read_choice(argument)
    except InvalidQueueChoice as error:
        return f"{error} {MEANT}"
    await store.change(session, queue=choice.written())
    meaning = f": {TOLD[choice.mode]}" if choice.mode else ""
    return f"📥 {choice.written() or 'Queue mode from the settings'}{meaning}."
