"""What came in and what goes out, for the owner to look at and to mend: ``homebody outbox`` and ``homebody inbox``."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from gateway.base.errors import InvalidTransition, UsageError
from gateway.ledger.outbox import FORGOTTEN
from gateway.ledger.protocol import Ledger
from gateway.ledger.rows import InboxRow, OutboxRow, OutboxState, UnaskedRow
from gateway.routing.routed_message import UnreadableMessage, decode_message, words_of

OPEN: tuple[OutboxState, ...] = ("ready", "sending", "ambiguous")
SHOWN = 200
"""Characters of a text in a list."""


class QueueHandlers:
    """Lists, sends again, and gives up. All answers are JSON values.

    ``hand_out`` gives a message to the gateway, where one runs; ``why_waits`` says why one that is to be sent waits.
    """

    def __init__(
        self,
        ledger: Ledger,
        hand_out: Callable[[InboxRow], Awaitable[None]] | None = None,
        why_waits: Callable[[OutboxRow], str] = lambda _: "no gateway runs (homebody start)",
    ) -> None:
        self._ledger = ledger
        self._hand_out = hand_out
        self._why_waits = why_waits

    def calls(self) -> dict[str, Callable[..., Awaitable[dict[str, Any]]]]:
        """The calls by name, for ``POST /admin/CALL``."""
        return {
            "outbox.list": self.outbox,
            "outbox.retry": self.retry,
            "outbox.drop": self.drop,
            "outbox.forget": self.forget,
            "outbox.held": self.held,
            "outbox.send": self.send,
            "inbox.list": self.inbox,
            "inbox.missed": self.missed,
            "inbox.retry": self.take_up,
        }

    async def outbox(self, *, everything: bool = False) -> dict[str, Any]:
        """Tell what is to be sent and why it ``waits``, and what was given up; with ``everything`` what was sent or forgotten as well."""
        states: tuple[OutboxState, ...] = (*OPEN, "dead", "sent") if everything else (*OPEN, "dead")
        rows = await self._ledger.outbox.latest(states)
        first: dict[str, int] = {}
        for row in rows:
            if row.state in OPEN:
                first[row.conversation.address] = min(row.id, first.get(row.conversation.address, row.id))

        def waits(row: OutboxRow) -> str:
            before = first.get(row.conversation.address, row.id)
            return "" if row.state not in OPEN else f"after message {before}" if before != row.id else self._why_waits(row)

        return {"outbox": [_sent(row) | {"waits": waits(row)} for row in rows if everything or row.reason != FORGOTTEN]}

    async def retry(self, row: int) -> dict[str, Any]:
        """Send one that was given up after all. Raises UsageError when there is none, or its text was cleared already."""
        await self._step(self._ledger.outbox.revive, row, "was given up, with its text still kept")
        return {"retried": row}

    async def drop(self, row: int) -> dict[str, Any]:
        """Give one up that is still to be sent. Raises UsageError when it is not."""

        async def give_up(number: int) -> None:
            await self._ledger.outbox.dead(number, "dropped by the owner")

        await self._step(give_up, row, "is still to be sent")
        return {"dropped": row}

    async def forget(self, row: int) -> dict[str, Any]:
        """Clear one that was given up: it is listed no more and cannot be sent again. Raises UsageError when there is none."""
        await self._step(self._ledger.outbox.forget, row, "was given up")
        return {"forgotten": row}

    async def held(self) -> dict[str, Any]:
        """Tell which messages that nobody asked for were held or kept instead of being sent."""
        return {"held": [_unsent(row) for row in await self._ledger.unasked.waiting()]}

    async def send(self, row: int | None = None) -> dict[str, Any]:
        """Send one held or kept message now, or all that are still there. Raises UsageError when there is not the one."""
        if row is not None:
            hint = "`homebody outbox held` shows them with their numbers."
            await self._step(self._ledger.unasked.send, row, "is held or kept", hint)
            return {"sent": [row]}
        sent = []
        for one in await self._ledger.unasked.waiting():
            with contextlib.suppress(InvalidTransition):  # it was sent meanwhile
                await self._ledger.unasked.send(one.id)
                sent.append(one.id)
        return {"sent": sent}

    async def inbox(self) -> dict[str, Any]:
        """Tell what waits for its turn, and what is being answered."""
        return {"inbox": [_message_json(row) for row in await self._ledger.inbox.latest(("waiting", "claimed"))]}

    async def missed(self) -> dict[str, Any]:
        """Tell which messages got no answer: failed, or passed over."""
        return {"inbox": [_message_json(row) for row in await self._ledger.inbox.latest(("failed", "ignored"))]}

    async def take_up(self, row: int) -> dict[str, Any]:
        """Answer a message after all that is in doubt since the ledger was damaged or restored. Raises UsageError when there is none."""

        async def take_up(number: int) -> None:
            found = await self._ledger.inbox.requeue(number)
            if self._hand_out is not None:
                await self._hand_out(found)

        hint = "`homebody inbox missed` shows them with their numbers."
        await self._step(take_up, row, "is in doubt since the ledger was damaged or restored, with its text still kept", hint)
        return {"retried": row}

    async def _step(
        self,
        step: Callable[[int], Awaitable[None]],
        row: int,
        wanted: str,
        hint: str = "`homebody outbox list` shows them with their numbers.",
    ) -> None:
        try:
            await step(row)
        except InvalidTransition as error:
            raise UsageError(f"there is no message {row} that {wanted}", hint=hint) from error


def _sent(row: OutboxRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "state": row.state,
        "conversation": row.conversation.address,
        "text": (row.text if row.enclosure is None else f"{row.enclosure.shown} {row.text}".rstrip())[:SHOWN],
        "attempts": row.attempt,
        "doubts": row.doubts,
        "notBefore": row.not_before.isoformat(timespec="seconds"),
        "expires": row.expires.isoformat(timespec="seconds"),
        "reason": row.reason,
    }


def _unsent(row: UnaskedRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "state": row.state,
        "agent": row.agent,
        "source": row.source,
        "name": row.name,
        "conversation": row.conversation,
        "text": row.text,
        "since": row.since.isoformat(timespec="seconds"),
    }


def _message_json(row: InboxRow) -> dict[str, Any]:
    try:
        text = words_of(decode_message(row)[0]) if row.payload else ""
    except UnreadableMessage as error:
        text = f"({error})"
    return {
        "id": row.id,
        "state": row.state,
        "conversation": row.conversation,
        "sender": row.sender,
        "receivedAt": row.received_at.isoformat(timespec="seconds"),
        "text": text[:SHOWN],
        "reason": row.reason,
    }
