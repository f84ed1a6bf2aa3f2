"""What a ledger is to the gateway: five small parts, so that each user names the part it needs.

Every call is one transaction and is durable when it returns. A call that raises has changed nothing. Errors: ``StorageFailed``
when the disk refuses, ``InvalidTransition`` when the rows do not allow the step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from datetime import datetime
    from pathlib import Path

    from agent.tools.protocol import Effect
    from channels.messages import ChatAddress, Cursor
    from gateway.ledger.rows import (
        Accepted,
        ApprovedSender,
        Arrival,
        ChatMigration,
        ContextEvent,
        DueChunks,
        InboxEnd,
        InboxRow,
        InboxState,
        NewOutbound,
        OutboxRow,
        OutboxState,
        PairingRequest,
        Role,
        Tally,
        ToolRecord,
        ToolState,
        Turn,
        TurnEnd,
    )
    from gateway.ledger.spending import Limit, NewCall, Reserved, Spent, UsageRow


class InboxLedger(Protocol):
    """Messages in."""

    async def accept(self, account: str, arrivals: Sequence[Arrival], cursor: Cursor | None = None) -> Accepted:
        """Take the messages in that were not seen before, and move the cursor, together.

        A message is known when its ``alias`` is. A known ``key`` with another alias is a platform that began to count anew:
        the message is taken. What is no message of its own (see ``Arrival``) is dealt with here, and not among the rows returned.
        """
        ...

    async def asides(self, conversation: str) -> list[ContextEvent]:
        """Return the lines that wait for the next message of the conversation with this address, oldest first."""
        ...

    async def knows(self, conversation: str, message: str) -> bool:
        """Say whether a platform's id names a message of this conversation or of a thread of it, one of ours or one taken in."""
        ...

    async def move(self, account: str, former: str, present: str) -> None:
        """Note that a group has another id. What waits to be sent there follows, and so does all that is queued later."""
        ...

    async def moves(self) -> list[ChatMigration]:
        """Return all such groups, the earliest first; ``present`` is always the id in force."""
        ...

    async def cursor(self, account: str, name: str) -> str | None:
        """Return the value last stored, or None."""
        ...

    async def waiting(self, *, after: int = 0, limit: int = 500) -> list[InboxRow]:
        """Return messages that no turn has claimed, in the order of arrival, beginning after row ``after``."""
        ...

    async def inbox_rows(self, ids: Sequence[int]) -> list[InboxRow]:
        """Return messages by id, in the order of arrival; those swept away are missing."""
        ...

    async def inbox(self, states: Collection[InboxState], *, limit: int = 100) -> list[InboxRow]:
        """Return the latest messages in these states, oldest first, for people to look at."""
        ...

    async def in_doubt(self, conversation: str) -> list[InboxRow]:
        """Return the messages of a conversation, of the last week, that are in doubt since the ledger was damaged, oldest first."""
        ...

    async def take_up(self, row: int) -> InboxRow:
        """Let a message wait after all that was in doubt since the ledger was damaged. Raises InvalidTransition for any other."""
        ...

    async def settle(
        self, ids: Sequence[int], end: InboxEnd, *, reason: str = "", reply: Sequence[NewOutbound] = ()
    ) -> list[str]:
        """End waiting messages without a turn, and queue the reply; return the keys of its pieces.

        Messages that have ended already stay as they are.
        """
        ...


class TurnLedger(Protocol):
    """Turns and what their tools did."""

    async def claim(self, session: str, agent: str, inbox_ids: Sequence[int]) -> Turn:
        """Begin a turn for waiting messages. Raises InvalidTransition when one of them is not waiting."""
        ...

    async def join(self, turn: str, inbox_ids: Sequence[int]) -> Turn:
        """Let a running turn answer further waiting messages. Raises InvalidTransition when it has ended, or one of them is not waiting."""
        ...

    async def release(self, turn: str) -> None:
        """Undo ``claim`` and ``join``: the messages wait again and the turn is deleted. Raises InvalidTransition unless it is running."""
        ...

    async def unfinished(self) -> list[Turn]:
        """Return the turns that are running, oldest first."""
        ...

    async def retry(self, turn: str) -> Turn:
        """Count one more attempt. Calls with an effect that were running become "unknown" in the same transaction."""
        ...

    async def interrupted(self, turn: str) -> None:
        """Note that the attempt ended by our own wish (a restart): it does not count."""
        ...

    async def finish(
        self,
        turn: str,
        state: TurnEnd,
        chunks: Sequence[NewOutbound] = (),
        *,
        reason: str = "",
        returned: Collection[int] = (),
    ) -> list[str]:
        """End the turn and its messages and queue the reply, together; return the keys of its pieces.

        The messages ``returned`` (ids) do not end with it: they wait again, with the attempts counted that were made.

        Raises InvalidTransition for a turn that is not running.
        """
        ...

    async def begin_call(self, turn: str, call_id: str, name: str, args_hash: str, effect: Effect) -> ToolState | None:
        """Record that a tool call is about to run; return the state it had before, or None when it is new.

        Afterwards the call is "started", unless it has an effect and was "started", "done" or "unknown" before: such a call keeps its
        state and must not be run again. Raises InvalidTransition when the turn is not running.
        """
        ...

    async def end_call(self, turn: str, call_id: str, result_ref: str | None = None) -> None:
        """Record that a call has ended. Changes only a call that is "started"."""
        ...

    async def tool_call(self, turn: str, call_id: str) -> ToolRecord | None:
        """Return what is recorded of a call, or None when it was never begun."""
        ...


class OutboxLedger(Protocol):
    """Messages out, in order within each conversation."""

    async def notice(self, chunks: Sequence[NewOutbound]) -> list[int]:
        """Queue something to say outside a turn."""
        ...

    async def say(self, turn: str, chunks: Sequence[NewOutbound]) -> None:
        """Queue something that a turn says before it is over; what has a key that is known stays as it is."""
        ...

    async def due(self, accounts: Collection[str], *, limit: int = 64) -> list[OutboxRow]:
        """Return the next chunk of each conversation of these accounts that may be sent now, oldest first, ``limit`` for each account.

        A conversation whose first open chunk is being sent, or must wait, has none: order is kept.
        """
        ...

    async def due_in(self, conversation: str) -> OutboxRow | None:
        """Return the next chunk of the conversation with this address, if it may be sent now."""
        ...

    async def look(self, accounts: Collection[str], *, limit: int = 64) -> DueChunks:
        """Give up what waited too long, then return what is ``due``, and when something will be next.

        Each conversation gets one notice, in its place, that lists what it missed.
        """
        ...

    async def sending(self, row: int) -> OutboxRow:
        """Note an attempt, before the network is touched. Raises InvalidTransition when it is not open, or is being sent."""
        ...

    async def recorded(self, row: int, text: str) -> None:
        """Keep what the channel wants to find again in a later attempt."""
        ...

    async def sent(self, row: int, platform_id: str) -> OutboxRow | None:
        """Note that it arrived, and return the next chunk of its conversation, if it may be sent now."""
        ...

    async def retry_later(self, row: int, not_before: datetime, *, firm: bool = False) -> None:
        """Note that the attempt had no effect, and when to try again. ``firm``: the platform named the time, so it holds."""
        ...

    async def hurry(self, account: str) -> None:
        """The platform answers again: what waits by our own back-off may go now."""
        ...

    async def ambiguous(self, row: int, not_before: datetime) -> None:
        """Note that nobody knows whether it arrived, and when to look again."""
        ...

    async def postpone(self, row: int, not_before: datetime) -> None:
        """Note that it was not tried, because the platform does not answer yet, and when to look again."""
        ...

    async def clock_set_back(self, seconds: float) -> None:
        """The clock on the wall was set back by this much: what waits does not wait longer for that."""
        ...

    async def dead(self, row: int, reason: str, *, tell: bool = False) -> None:
        """Give it up. With ``tell`` the conversation gets a notice that names it, as for one that expired."""
        ...

    async def revive(self, row: int) -> None:
        """Send a dead one after all."""
        ...

    async def revive_missed(self, conversation: str) -> int:
        """Send what the conversation with this address missed, of the last week; return how many chunks.

        That is what a notice told it, and what is in doubt since the ledger was damaged.
        """
        ...

    async def outbox(self, states: Collection[OutboxState], *, limit: int = 100) -> list[OutboxRow]:
        """Return the latest chunks in these states, oldest first, for people to look at."""
        ...

    async def said(self, conversation: str, platform_id: str) -> tuple[str, ChatAddress] | None:
        """Return the text of a message of ours by the platform's id, and its place: this conversation or a thread of it.

        None for one that is not known (any more).
        """
        ...

    async def enclosed(self) -> list[Path]:
        """Return the copies of files that may still have to be sent."""
        ...

    async def renew_epoch(self) -> str:
        """Begin a new epoch (after a restore): what was queued before is never sent by itself. Returns its name."""
        ...

    def on_outbound(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` on the event loop whenever something new was queued."""
        ...


class PairingLedger(Protocol):
    """Who asked to be let in, and who was."""

    async def request_pairing(
        self, conversation: ChatAddress, sender: str, name: str, code: str, text: str
    ) -> PairingRequest | None:
        """Note a stranger's request and queue ``text`` for them, once.

        Returns the request when it is new. Returns None when they asked within the hour, or when twenty others asked on this channel
        account within five minutes: nothing is kept and nothing is said then. Of twenty, the oldest makes place for a newcomer.
        """
        ...

    async def pending_pairings(self) -> list[PairingRequest]:
        """Return the requests that have not expired, oldest first."""
        ...

    async def approve(self, channel: str, code: str, role: Role, welcome: str) -> ApprovedSender | None:
        """Let the person with this code in and queue ``welcome`` for them; None when no such request is open."""
        ...

    async def revoke(self, channel: str, sender: str) -> list[ApprovedSender]:
        """Shut someone out again, on all accounts of the channel. Returns whom it met."""
        ...

    async def approved(self) -> list[ApprovedSender]:
        """Return everybody who was let in, the first one first."""
        ...


class SpendingLedger(Protocol):
    """What model calls cost."""

    async def reserve(self, call: NewCall, limits: Sequence[Limit], *, force: bool = False) -> Reserved:
        """Note a call about to be made, unless it could break one of the limits. ``force`` notes it all the same."""
        ...

    async def settle_call(self, row: int, spent: Spent) -> None:
        """Note what a call used in the end."""
        ...

    async def allow(self, session: str) -> None:
        """Let the next turn of a session go beyond every limit."""
        ...

    async def use_allowance(self, session: str, turn: str) -> bool:
        """Say whether a turn may: one that was allowed and not used yet is this turn's from now on, however often it is begun."""
        ...

    async def first_time(self, day: str, what: str) -> bool:
        """Note that something happened on a day; say whether it was the first time. Notes of other days are forgotten."""
        ...

    async def usage(self, since: str) -> list[UsageRow]:
        """Return what was used from a day (``YYYY-MM-DD``) on, by day, agent and model."""
        ...


class Ledger(InboxLedger, TurnLedger, OutboxLedger, PairingLedger, SpendingLedger, Protocol):
    """All of it."""

    async def tally(self) -> Tally:
        """Count what is under way."""
        ...

    async def sweep(self) -> int:
        """Clear payloads a week after their end and forget keys after 30 days, but never the last 100,000 of an account.

        Works through a bounded number of rows; returns how many, so that 0 means clean.
        """
        ...

    async def close(self) -> None:
        """Finish what was begun and let go of the file."""
        ...
