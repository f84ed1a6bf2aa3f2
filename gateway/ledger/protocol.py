"""The ledger's interface: parts that can be named and implemented one by one, and ``Ledger``, which holds them.

Every call is one transaction and is durable when it returns. A call that raises has changed nothing. Errors: ``StorageFailed`` when the
disk refuses, ``InvalidTransition`` when a row is not in a state that allows the step. Conversations are named by their address.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from agent.tools.protocol import Effect
from channels.messages import ChatAddress, Cursor
from gateway.ledger.activations import ActivationLedger
from gateway.ledger.forget_requests import ForgetRequestLedger
from gateway.ledger.heartbeats import HeartbeatLedger
from gateway.ledger.hooks import HookLedger
from gateway.ledger.job_rows import JobLedger
from gateway.ledger.rows import (
    Accepted,
    Approval,
    ApprovalState,
    ApprovedSender,
    Arrival,
    ChatMigration,
    ContextEvent,
    Decided,
    Decision,
    DueChunks,
    Finished,
    InboxEnd,
    InboxRow,
    InboxState,
    Invitation,
    KeptMessages,
    Marks,
    NewApproval,
    NewEvent,
    NewOutbound,
    OutboxRow,
    OutboxState,
    Outcome,
    PairingRequest,
    Role,
    Tally,
    ToolRecord,
    ToolState,
    Turn,
    TurnEnd,
    UnaskedRow,
)
from gateway.ledger.spending import Limit, NewCall, RecordedCall, Reserved, Spent, SpentOn, UsageBy, UsageRow
from gateway.ledger.subagents import SubAgentLedger
from gateway.settings.quiet_hours import UnaskedRule

if TYPE_CHECKING:
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
        self, message: NewOutbound, line: str, *, more: Sequence[NewOutbound] = (), sources: Sequence[str] = ()
    ) -> bool:
        """Queue a message and store the event ``line`` for the same conversation; neither where the message's key is known already.

        ``more`` are further chunks of the message, ``sources`` those of untrusted text in the line. Returns whether it was new.
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


class ApprovalLedger(Protocol):
    """Questions to owners about tool calls, and their decisions. ``TurnLedger.suspend`` asks."""

    async def get(self, approval: str) -> Approval | None:
        """Return a question by its id."""
        ...

    async def of_turn(self, turn: str) -> list[Approval]:
        """Return all questions of a turn, oldest first."""
        ...

    async def latest(self, states: Collection[ApprovalState], *, limit: int = 100) -> list[Approval]:
        """Return the newest questions in these states, oldest first."""
        ...

    async def overdue(self) -> list[Approval]:
        """Return the open questions whose time is over."""
        ...

    async def decide(
        self,
        approval: str,
        number: int,
        decision: Decision,
        *,
        always: bool = False,
        by: str = "",
        reply: Sequence[NewOutbound] = (),
    ) -> Decided | None:
        """Decide an open question of this round, and let its turn run again once none of its questions is open.

        A yes that comes after the question's time is over is stored as "expired". ``reply`` is queued if the question was open. ``by``
        says who decided. Returns None for an id that is not known.
        """
        ...

    async def withdraw(self, session: str, reason: str) -> list[str]:
        """Withdraw the open questions of a session; return the turns that run again, whose work is only to end."""
        ...


class OutboxLedger(Protocol):
    """Messages to send, in order within each conversation."""

    async def taken_over(self, accounts: Collection[str]) -> None:
        """Record that nobody knows of the chunks that another process was sending on these accounts when it ended."""
        ...

    async def enqueue(self, chunks: Sequence[NewOutbound]) -> list[int]:
        """Queue chunks that belong to no turn; return their ids."""
        ...

    async def enqueue_for_turn(self, turn: str, chunks: Sequence[NewOutbound]) -> None:
        """Queue chunks of a turn that is still running. A chunk whose key is known stays as it is."""
        ...

    async def due(self, accounts: Collection[str], *, limit: int = 64) -> list[OutboxRow]:
        """Return the next chunk of each conversation that may be sent now, oldest first, at most ``limit`` for each account.

        A conversation whose first open chunk is being sent, or has to wait, has none, so that order is kept.
        """
        ...

    async def due_in(self, conversation: str) -> OutboxRow | None:
        """Return the next chunk of one conversation, if it may be sent now."""
        ...

    async def poll(self, accounts: Collection[str], *, limit: int = 64) -> DueChunks:
        """Expire chunks that waited too long, then return those that are due and when the next one will be.

        Each conversation gets one notice, in the place of what it missed, that lists it.
        """
        ...

    async def sending(self, row: int) -> OutboxRow:
        """Record an attempt before the network is used. Raises InvalidTransition when the chunk is not open, or is being sent."""
        ...

    async def recorded(self, row: int, text: str) -> None:
        """Store what the channel needs to find this chunk again in a later attempt."""
        ...

    async def sent(self, row: int, platform_id: str) -> OutboxRow | None:
        """Record that a chunk arrived; return the next chunk of its conversation, if it may be sent now."""
        ...

    async def retry_later(self, row: int, not_before: datetime, *, firm: bool = False) -> None:
        """Record that the attempt had no effect, and when to retry. ``firm``: the platform named the time, so it is kept."""
        ...

    async def hold(self, row: int, not_before: datetime) -> None:
        """Record that the platform takes the chunk once its person has written: the conversation's chunks are kept for ``HELD_TTL``."""
        ...

    async def bounced(self, conversation: str, platform_id: str, reason: str, *, hold: bool) -> bool:
        """Record that a chunk, which counted as sent, did not arrive: it is queued again and held, or given up.

        Returns whether there was such a chunk.
        """
        ...

    async def retry_now(self, account: str) -> None:
        """Make due what waits by our own back-off, because the platform answers again."""
        ...

    async def ambiguous(self, row: int, not_before: datetime) -> None:
        """Record that the chunk may or may not have arrived, and when to look again."""
        ...

    async def postpone(self, row: int, not_before: datetime) -> None:
        """Record that no attempt was made, because the platform does not answer, and when to look again."""
        ...

    async def clock_set_back(self, seconds: float) -> None:
        """Shift waiting times after the wall clock was set back by this much, so that nothing waits longer for it."""
        ...

    async def dead(self, row: int, reason: str, *, tell: bool = False) -> None:
        """Give a chunk up. With ``tell`` its conversation gets a notice that lists it, as for one that expired."""
        ...

    async def revive(self, row: int) -> None:
        """Make a chunk that was given up ready again."""
        ...

    async def forget(self, row: int) -> None:
        """Clear the text of a chunk that was given up, so that it cannot be sent any more. Raises InvalidTransition for another one."""
        ...

    async def revive_expired(self, conversation: str) -> int:
        """Make ready what the conversation missed in the last week; return how many chunks.

        That is what a notice listed, and what is in doubt since the ledger was damaged.
        """
        ...

    async def latest(self, states: Collection[OutboxState], *, limit: int = 100) -> list[OutboxRow]:
        """Return the newest chunks in these states, oldest first."""
        ...

    async def find_sent(self, conversation: str, platform_id: str) -> tuple[str, ChatAddress] | None:
        """Return the text of a message that was sent, by the platform's id, and its place: the conversation or one of its threads.

        None for an id that is not known (any more).
        """
        ...

    async def files(self) -> list[Path]:
        """Return the files that may still have to be sent."""
        ...

    def on_outbound(self, listener: Callable[[Sequence[OutboxRow] | None], None]) -> None:
        """Call ``listener`` on the event loop whenever a chunk was queued or became due earlier.

        It gets the chunks that are due by that, of each conversation the first; or None where they are to be looked for.
        """
        ...


class UnaskedLedger(Protocol):
    """Messages that nobody asked for (``NewOutbound.unasked``) and that are not sent yet.

    Where they are queued, each is sent now, held until the quiet hours end, or kept, as its rule says. By the key of its first chunk a
    message is taken once.
    """

    async def release(self, rules: Mapping[str, UnaskedRule]) -> int:
        """Queue the held messages that may be sent now by the rules of their agents, in their order; return how many chunks.

        Messages that were queued, but could not be sent before quiet hours began, are held again first.
        """
        ...

    async def waiting(self, *, limit: int = 1000) -> list[UnaskedRow]:
        """Return the newest messages that are held or kept, oldest first."""
        ...

    async def send(self, row: int) -> None:
        """Queue a message now, whatever the rules say. Raises InvalidTransition when it is neither held nor kept."""
        ...

    async def untold(self, today: Mapping[str, str]) -> list[KeptMessages]:
        """Return what was kept and the owner was not told of. ``today`` is the owner's date by agent: that day is told of once."""
        ...

    async def tell(self, kept: KeptMessages, line: NewOutbound) -> None:
        """Record that the owner was told, and queue the line that tells, in one transaction."""
        ...


class PairingLedger(Protocol):
    """Pairing requests and the senders that were approved."""

    async def request(self, conversation: ChatAddress, sender: str, name: str, code: str, text: str) -> PairingRequest | None:
        """Store a stranger's request and queue ``text`` for them, once; return the request when it is new.

        Returns None, and stores and queues nothing, when they asked within the hour, or when twenty others asked on this account within
        five minutes. A newcomer to a full list replaces the oldest request.
        """
        ...

    async def pending(self) -> list[PairingRequest]:
        """Return the requests that have not expired, oldest first."""
        ...

    async def approve(self, channel: str, code: str, role: Role, welcome: str) -> ApprovedSender | None:
        """Approve the sender with this code and queue ``welcome`` for them; None when no such request is pending."""
        ...

    async def invite(self, channel: str, account: str, digest: str) -> datetime:
        """Store the hash of a one-time code for an owner of this account; a former one is void. Returns when it expires."""
        ...

    async def invitation(self, channel: str, account: str) -> Invitation | None:
        """Return the invitation of an account that has not expired, used or not."""
        ...

    async def redeem(
        self, conversation: ChatAddress, sender: str, name: str, digest: str, welcome: str
    ) -> ApprovedSender | None:
        """Make the sender of an invitation's code an owner and queue ``welcome``, once; None for another code, or one that was used.

        The one who used it gets the same result again, and nothing is queued.
        """
        ...

    async def revoke(self, channel: str, sender: str) -> list[ApprovedSender]:
        """Delete a sender's approvals on all accounts of the channel, and return them."""
        ...

    async def approved(self) -> list[ApprovedSender]:
        """Return all approved senders, oldest first."""
        ...


class SpendingLedger(Protocol):
    """Tokens and cost of model calls."""

    async def reserve(self, call: NewCall, limits: Sequence[Limit], *, force: bool = False) -> Reserved:
        """Record a call about to be made, unless it could exceed one of the limits. ``force`` records it anyway."""
        ...

    async def settle_call(self, row: int, spent: Spent) -> None:
        """Record what a call used."""
        ...

    async def allow(self, session: str) -> None:
        """Let the session's next turn exceed every limit."""
        ...

    async def use_allowance(self, session: str, turn: str) -> bool:
        """Return whether a turn may exceed the limits. It takes an unused allowance of its session, and keeps it over restarts."""
        ...

    async def first_time(self, day: str, what: str) -> bool:
        """Record that something happened on a day; return whether it was the first time. Records of other days are deleted."""
        ...

    async def spent_on(self, day: str) -> list[SpentOn]:
        """Return what each session used on a day (``YYYY-MM-DD``), in the background and otherwise, by source."""
        ...

    async def calls_since(self, day: str, *, limit: int = 50_000) -> list[RecordedCall]:
        """Return the latest calls from a day on that were booked with the provider's figures, oldest first."""
        ...

    async def of_sessions(self, sessions: Sequence[str]) -> dict[str, tuple[int, float]]:
        """Return the tokens and the USD that sessions have used in all, by their keys; without those that used nothing."""
        ...

    async def cost_since(self, day: str) -> float:
        """Return what all calls from a day on cost, in USD, reservations included. It is read once, and kept up to date."""
        ...

    async def usage(self, since: str, by: UsageBy = "model") -> list[UsageRow]:
        """Return the usage from a day (``YYYY-MM-DD``) on, by day, agent and model, or origin or source of the turns.

        For people the source is their origin; outside of turns both are empty.
        """
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
