"""The ledger's interface: parts that can be named and implemented one by one, and ``Ledger``, which holds them.

The Protocols of inbox and turns are here; those of the others stand beside what implements them.

Every call is one transaction and is durable when it returns. A call that raises has changed nothing. Errors: ``StorageFailed`` when the
disk refuses, ``InvalidTransition`` when a row is not in a state that allows the step. Conversations are named by their address.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from agent.tools.protocol import Effect
from channels.messages import Cursor
from gateway.ledger.activation_rows import ActivationLedger
from gateway.ledger.approval_rows import ApprovalLedger
from gateway.ledger.forget_requests import ForgetRequestLedger
from gateway.ledger.heartbeat_rows import HeartbeatLedger
from gateway.ledger.hook_rows import HookLedger
from gateway.ledger.job_rows import JobLedger
from gateway.ledger.outbox_rows import OutboxLedger
from gateway.ledger.pairing_rows import PairingLedger
from gateway.ledger.rows import (
    Accepted,
    Arrival,
    ChatMigration,
    ContextEvent,
    Finished,
    InboxEnd,
    InboxRow,
    InboxState,
    Marks,
    NewApproval,
    NewEvent,
    NewOutbound,
    Outcome,
    Tally,
    ToolRecord,
    ToolState,
    Turn,
    TurnEnd,
)
from gateway.ledger.spending_rows import SpendingLedger
from gateway.ledger.subagent_rows import SubAgentLedger
from gateway.ledger.unasked import UnaskedLedger

if TYPE_CHECKING:
    from datetime import datetime

    from gateway.ledger.word_erasure import WordErasurePart


class InboxLedger(Protocol):
    """Received messages."""

    async def accept(self, account: str, arrivals: Sequence[Arrival], cursor: Cursor | None = None) -> Accepted:
        """Store the messages that are new and move the account's cursor, in one transaction.

        A message whose ``alias`` is known is a duplicate. One whose ``key`` is known under another alias is new: the platform has started
        to number anew. Context events (see ``Arrival``) are stored or applied here and are not among the rows returned.
        """
        ...

    async def outcome(self, account: str, alias: str) -> Outcome | None:
        """Return what became of a message and what was replied to it so far; None for an unknown one."""
        ...

    async def newest(self, account: str, conversation: str) -> InboxRow | None:
        """Return the message of a conversation that came last, whatever became of it."""
        ...

    async def written_as(self, conversation: str, message: str, sender: str) -> InboxRow | None:
        """Return what a sender wrote under a platform's id in this conversation or one of its threads; None for what is not known."""
        ...

    async def knows(self, conversation: str, message: str) -> bool:
        """Return whether a platform's id names a message of this conversation or one of its threads, sent or received."""
        ...

    async def cursor(self, account: str, name: str) -> str | None:
        """Return the value stored last, or None."""
        ...

    async def waiting(self, *, after: int = 0, limit: int = 500) -> list[InboxRow]:
        """Return messages that no turn has claimed, in the order of arrival, beginning after row ``after``."""
        ...

    async def rows(self, ids: Sequence[int]) -> list[InboxRow]:
        """Return messages by id, in the order of arrival, without those that were deleted meanwhile."""
        ...

    async def latest(self, states: Collection[InboxState], *, limit: int = 100) -> list[InboxRow]:
        """Return the newest messages in these states, oldest first."""
        ...

    async def in_doubt(self, conversation: str) -> list[InboxRow]:
        """Return the messages of the last week that are in doubt since the ledger was damaged, oldest first."""
        ...

    async def requeue(self, row: int) -> InboxRow:
        """Let a message that is in doubt since the ledger was damaged wait again. Raises InvalidTransition for any other."""
        ...

    async def settle(
        self, ids: Sequence[int], end: InboxEnd, *, reason: str = "", reply: Sequence[NewOutbound] = ()
    ) -> list[str]:
        """End waiting messages without a turn and queue the reply; return the keys of its chunks.

        Messages that have ended already stay as they are.
        """
        ...


class ContextEventLedger(Protocol):
    """Events between two messages, such as edits and reactions, that the model is told of with the next message."""

    async def pending(self, conversation: str) -> list[ContextEvent]:
        """Return the events stored for the conversation's next message, oldest first."""
        ...

    async def announce(
        self,
        message: NewOutbound,
        line: str,
        *,
        agent: str,
        more: Sequence[NewOutbound] = (),
        sources: Sequence[str] = (),
    ) -> bool:
        """Queue a message and store the event ``line`` for ``agent`` in the same conversation; neither where its key is known already.

        Without a line there is no event. ``more`` are further chunks of the message, ``sources`` those of untrusted text in the line.
        Returns whether it was new.
        """
        ...


class ChatMigrationLedger(Protocol):
    """Groups whose platform gave them another id."""

    async def record(self, account: str, former: str, present: str) -> None:
        """Record a new id. Messages queued for the former id go to the present one, now and later."""
        ...

    async def all(self) -> list[ChatMigration]:
        """Return all migrations, oldest first. ``present`` is the id in force, also after several migrations."""
        ...


class TurnLedger(Protocol):
    """Turns and their tool calls."""

    async def claim(self, session: str, agent: str, inbox_ids: Sequence[int]) -> Turn:
        """Begin a turn that answers waiting messages. Raises InvalidTransition when one of them is not waiting.

        From now on their texts do not change; ``Turn.edited`` says which of them did.
        """
        ...

    async def join(self, turn: str, inbox_ids: Sequence[int]) -> Turn:
        """Add waiting messages to a running turn. Raises InvalidTransition when it has ended, or one of them is not waiting."""
        ...

    async def release(self, turn: str) -> None:
        """Undo ``claim`` and ``join``: delete the turn and let its messages wait again. Raises InvalidTransition when it is not running."""
        ...

    async def unfinished(self) -> list[Turn]:
        """Return the turns that are running, oldest first; behind them those that were suspended and not taken up since."""
        ...

    async def retry(self, turn: str) -> Turn:
        """Count one more attempt. Calls with an effect that were "started" become "unknown" in the same transaction."""
        ...

    async def interrupted(self, turn: str) -> None:
        """Take the last attempt back from the count, because the gateway itself ended it (a restart)."""
        ...

    async def suspend(self, turn: str, approvals: Sequence[NewApproval], chunks: Sequence[NewOutbound]) -> Turn | None:
        """Store questions, queue ``chunks`` that ask them, and suspend the turn until all are decided, in one transaction.

        The attempt is taken back from the count. A question whose id and round are known stays as it is. Returns the turn, still
        running, when none of its questions is open any more; otherwise None. Raises InvalidTransition when it is not running.
        """
        ...

    async def get(self, turn: str) -> Turn | None:
        """Return a turn, in whatever state."""
        ...

    async def first_message(self, turn: str) -> str:
        """Return the name of a turn's first message (``InboxRow.uid``), after which its entries are named; "" if it is not known."""
        ...

    async def finish(
        self,
        turn: str,
        state: TurnEnd,
        chunks: Sequence[NewOutbound] = (),
        *,
        reason: str = "",
        returned: Collection[int] = (),
        arrivals: Sequence[tuple[str, Arrival]] = (),
        events: Sequence[NewEvent] = (),
    ) -> Finished:
        """End the turn and its messages and queue the reply, in one transaction; return what was stored.

        Its open questions are withdrawn. The messages ``returned`` (ids) wait again instead, with their attempts counted. ``arrivals``
        are messages for other sessions, each with its account: those that are new are stored, and their rows returned. ``events`` are
        context lines for conversations.

        Raises InvalidTransition when the turn is not running.
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


class Ledger(Protocol):
    """All parts of the ledger."""

    @property
    def where(self) -> str:
        """The file or the database, in words for people."""
        ...

    @property
    def warning(self) -> str | None:
        """What the owner should know of how it was opened."""
        ...

    @property
    def inbox(self) -> InboxLedger:
        """Received messages."""
        ...

    @property
    def words(self) -> WordErasurePart:
        """Removing somebody's words."""
        ...

    async def leave_no_trace(self) -> None:
        """Leave nothing of removed words in freed pages and copies that are the ledger's own. What fails is logged."""
        ...

    @property
    def context_events(self) -> ContextEventLedger:
        """Events between two messages."""
        ...

    @property
    def chat_migrations(self) -> ChatMigrationLedger:
        """Groups with a new id."""
        ...

    @property
    def turns(self) -> TurnLedger:
        """Turns and their tool calls."""
        ...

    @property
    def approvals(self) -> ApprovalLedger:
        """Questions to owners and their decisions."""
        ...

    @property
    def outbox(self) -> OutboxLedger:
        """Messages to send."""
        ...

    @property
    def activations(self) -> ActivationLedger:
        """What was chosen with ``/activation`` in groups."""
        ...

    @property
    def forget_requests(self) -> ForgetRequestLedger:
        """Wishes to be forgotten that wait for an owner."""
        ...

    @property
    def heartbeats(self) -> HeartbeatLedger:
        """When each agent's last heartbeat was."""
        ...

    @property
    def unasked(self) -> UnaskedLedger:
        """Messages that nobody asked for and that wait."""
        ...

    @property
    def pairing(self) -> PairingLedger:
        """Pairing requests and approved senders."""
        ...

    @property
    def spending(self) -> SpendingLedger:
        """Tokens and cost of model calls."""
        ...

    @property
    def hooks(self) -> HookLedger:
        """Webhooks that come in."""
        ...

    @property
    def subagents(self) -> SubAgentLedger:
        """Sessions that other sessions started."""
        ...

    @property
    def jobs(self) -> JobLedger:
        """Jobs and the log of their runs."""
        ...

    async def tally(self) -> Tally:
        """Count waiting messages, running and suspended turns, and the outbox by state."""
        ...

    async def marks(self) -> Marks:
        """Return figures that differ after a change. They are asked for twice a second while a page is open."""
        ...

    async def sweep(self) -> int:
        """Delete the content of messages a week after they ended, and rows after 30 days; the last 100,000 keys of an account stay.

        Works through a bounded number of rows and returns how many it changed: 0 means that nothing is left to delete.
        """
        ...

    async def last_swept(self) -> datetime | None:
        """Return when ``sweep`` was called last, by the clock of then."""
        ...

    async def took_any(self) -> bool:
        """Return whether any message was ever accepted into this ledger."""
        ...

    async def begin_restored(self) -> dict[str, Any] | None:
        """At the first start after a restore: have jobs that were due up to now told and not fired; return what was restored, once."""
        ...

    async def copy_to(self, place: Path) -> None:
        """Copy the ledger as it is now to an SQLite file at ``place``, beside the work of the gateway. Raises StorageFailed."""
        ...

    async def backup(self) -> Path | None:
        """Make a verified copy of the ledger if anything changed since the last one; return it. The newest three are kept.

        Does not raise: a copy that cannot be made is logged.
        """
        ...

    async def close(self) -> None:
        """Finish pending work and close the file."""
        ...
