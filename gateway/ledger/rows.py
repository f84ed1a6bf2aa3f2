"""The rows and values of the ledger's interface."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final, Literal

from msgspec import Struct, field

from agent.tools.protocol import Effect
from channels.messages import Button, ChatAddress, OutboundFile
from gateway.settings.quiet_hours import UnaskedRule

TurnState = Literal["running", "suspended", "done", "failed", "stopped"]
"""A suspended turn waits for an owner's decision; nothing runs it until then."""
TurnEnd = Literal["done", "failed", "stopped"]
InboxState = Literal["waiting", "claimed", "answered", "ignored", "failed"]
InboxEnd = Literal["answered", "ignored", "failed"]
ToolState = Literal["planned", "started", "done", "unknown"]
"""How far a tool call got. "planned" is written by earlier versions only: the call was not run yet."""
ApprovalState = Literal["pending", "approved", "denied", "expired", "withdrawn"]
Decision = Literal["approved", "denied", "expired"]
OutboxState = Literal["ready", "sending", "sent", "ambiguous", "dead"]
Role = Literal["owner", "peer"]

CHAT_TTL: Final = timedelta(hours=1)
HELD_TTL: Final = timedelta(days=30)
"""How long a message waits for a person to write whom the platform lets nobody write to before that."""
HELD_RETRY: Final = timedelta(minutes=45)
"""How often it is tried meanwhile: before anything that was queued behind it since the last time expires."""
NOTICE_TTL: Final = timedelta(days=7)
"""How long a notice waits for its conversation to come back."""
LONGEST_WAIT: Final = timedelta(hours=1)
"""No message waits longer for its next attempt, whatever a platform asks for or the clock on the wall says."""
LONGEST_FLOOD: Final = timedelta(hours=2)
"""A message waits beyond its time for the one that a platform names, if that is within so long after it was queued."""
LAST_TRY: Final = timedelta(minutes=1)
"""How long before its end a message is tried once more, where the time that a platform names is later than that."""
SHORT_WAIT: Final = timedelta(minutes=1)
"""A wait that a platform asks for and that need not be told."""
IN_DOUBT: Final = "in doubt since the ledger was damaged"
"""The reason of messages and replies that were recovered from a damaged ledger and may have been dealt with already."""
RESTORED: Final = "held since the backup was restored"
"""The same of a ledger that was restored from a backup."""
UNSURE: Final = (IN_DOUBT, RESTORED)


class Arrival(Struct, frozen=True, kw_only=True):
    """A message to store. ``key`` and ``alias`` are two identities of it; ``payload`` is JSON that the ledger does not read.

    ``message`` is the platform's id. ``takes`` are the ids of the context events that are told with this message, which are then deleted.

    A context event has the line to tell in ``aside``, and in ``aside_sources`` where untrusted text in it comes from. With ``edits`` (the
    ``message`` it changes, of the same sender and conversation) the line is stored only if that message is not waiting any more; while it
    waits, ``reword`` makes its new payload from the old one. ``reword`` must be pure and may be called twice.

    With ``result_of`` (the id of a sub-agent) it is stored at the end of a turn only if that was the sub-agent's last one for now.
    """

    key: str
    alias: str
    conversation: str
    session: str | None
    sender: str
    payload: str
    received_at: datetime
    message: str | None = None
    takes: tuple[int, ...] = ()
    aside: str | None = None
    aside_sources: tuple[str, ...] = ()
    edits: str | None = None
    reword: Callable[[str], str] | None = None
    result_of: str | None = None


class ContextEvent(Struct, frozen=True, kw_only=True):
    """A line that is told to the model with the next message of its conversation. ``sources``: where untrusted text in it comes from.

    ``agent``: the one that is told, where several answer in the conversation; "" for whichever answers next.
    """

    id: int
    line: str
    sources: tuple[str, ...] = ()
    agent: str = ""


class NewEvent(Struct, frozen=True, kw_only=True):
    """A context event to store: a line for the next message of a conversation, with the ``sources`` of untrusted text in it."""

    conversation: ChatAddress
    line: str
    sources: tuple[str, ...] = ()
    agent: str = ""


class ChatMigration(Struct, frozen=True, kw_only=True):
    """A group whose platform gave it another id. ``former`` and ``present`` are the ids."""

    account: str
    former: str
    present: str


@lru_cache(maxsize=256)
def message_uid(account: str, alias: str) -> str:
    """See ``InboxRow.uid``. A turn asks for it ten times."""
    return hashlib.sha256(f"{account}\0{alias}".encode()).hexdigest()[:16]


class InboxRow(Struct, frozen=True, kw_only=True):
    """A received message. ``id`` grows in the order of arrival; ``attempts`` counts attempts to answer it, the running one included."""

    id: int
    account: str
    alias: str
    conversation: str
    session: str | None
    sender: str
    payload: str
    received_at: datetime
    turn: str | None = None
    state: InboxState = "waiting"
    reason: str | None = None
    attempts: int = 0

    @property
    def uid(self) -> str:
        """An id of the message that, unlike ``id``, is the same in a new ledger: transcript entries are named after it."""
        return message_uid(self.account, self.alias)


class Outcome(Struct, frozen=True, kw_only=True):
    """What became of a message. ``suspended``: its turn waits for an approval; ``stopped``: it was stopped before its end.

    ``replies`` are the texts of its turn, or of a command.
    """

    row: InboxRow
    suspended: bool
    stopped: bool
    replies: tuple[str, ...]


class Accepted(Struct, frozen=True, kw_only=True):
    """The result of storing messages: the new ones, and how many had a key that belonged to an older message."""

    rows: tuple[InboxRow, ...]
    renumbered: int = 0


class Turn(Struct, frozen=True, kw_only=True):
    """One answer in progress. ``attempt`` is 1 for the first, and 0 only after the gateway itself interrupted it.

    ``inbox`` are the rows of its messages, ``edited`` those of them whose text was changed while they waited. ``waited``: it is or was
    suspended, and nothing was done in it since.
    """

    id: str
    session: str
    agent: str
    state: TurnState
    attempt: int
    started_at: datetime
    inbox: tuple[int, ...]
    edited: tuple[int, ...] = ()
    waited: bool = False


class Finished(Struct, frozen=True, kw_only=True):
    """What the end of a turn stored: the keys of the reply's chunks, and the new messages for other sessions."""

    keys: tuple[str, ...]
    rows: tuple[InboxRow, ...] = ()


class ToolRecord(Struct, frozen=True, kw_only=True):
    """How far one tool call of a turn got. "unknown": it was running when the process died, and must not be repeated blindly."""

    turn: str
    call_id: str
    name: str
    args_hash: str
    effect: Effect
    state: ToolState
    result_ref: str | None = None


class NewApproval(Struct, frozen=True, kw_only=True):
    """A question to an owner about one tool call. ``id`` follows from the turn and the call, so that a repeat asks once.

    ``round`` is 1, and one more each time that the same call has to be asked about again. ``session`` is the session key, ``transcript``
    the id of the session in which the turn runs. ``place`` is where the question is asked. ``call`` names the call within the turn;
    ``payload`` is JSON that the ledger does not read; ``fingerprint`` is a digest of what would run.
    """

    id: str
    round: int
    session: str
    transcript: str
    agent: str
    place: ChatAddress
    call: str
    payload: str
    fingerprint: str
    expires: datetime


class Approval(NewApproval, frozen=True, kw_only=True):
    """A question that was asked, and its decision. ``always``: the owner's yes holds for calls like it from now on."""

    turn: str | None
    state: ApprovalState
    reason: str | None
    always: bool
    decided_by: str | None
    asked_at: datetime
    decided_at: datetime | None


class Decided(Struct, frozen=True, kw_only=True):
    """The result of a decision. ``changed`` is False when the question was not open any more; ``resumed``: its turn runs again."""

    approval: Approval
    changed: bool
    resumed: bool = False


class Unasked(Struct, frozen=True, kw_only=True):
    """What is known of a message that nobody asked for. ``source`` is what it comes from, such as ``job:abcde``; ``name`` is for people.

    ``rule`` decides when it is sent. One that does not ``count`` has no part in the number of a day.
    """

    agent: str
    source: str
    name: str
    rule: UnaskedRule
    counts: bool = True


class UnaskedRow(Struct, frozen=True, kw_only=True):
    """A message that nobody asked for and that was not sent: ``held`` until quiet hours end, or ``kept`` beyond the number of a day.

    ``chunks`` is how many messages it becomes, ``text`` the beginning of the first, ``since`` when it was made.
    """

    id: int
    agent: str
    source: str
    name: str
    conversation: str
    state: Literal["held", "kept"]
    text: str
    chunks: int
    since: datetime


class KeptMessages(Struct, frozen=True, kw_only=True):
    """How many messages of one agent were kept on one of the owner's days, beyond the number of a day. ``over``: no more will be."""

    agent: str
    day: str
    count: int
    over: bool = True


class NewOutbound(Struct, frozen=True, kw_only=True):
    """One chunk to send. After ``ttl`` it is not sent any more but listed in a notice; None means a week.

    With an ``enclosure`` the text is its caption, and may be empty. A chunk with a ``key`` (25 characters at most) is queued once, however
    often that is asked for. Chunks that are ``unasked`` and are queued together for one conversation are one message, which may be held
    or kept (see ``UnaskedLedger``).
    """

    conversation: ChatAddress
    text: str
    reply_to: str | None = None
    ttl: timedelta | None = CHAT_TTL
    key: str | None = None
    buttons: tuple[Button, ...] = ()
    enclosure: OutboundFile | None = None
    unasked: Unasked | None = None


class OutboxRow(Struct, frozen=True, kw_only=True):
    """One chunk. ``doubts`` counts the attempts that may or may not have arrived."""

    id: int
    key: str
    turn: str | None
    conversation: ChatAddress
    text: str
    reply_to: str | None
    state: OutboxState
    attempt: int
    doubts: int
    recorded: str | None
    not_before: datetime
    expires: datetime
    reason: str | None = None
    buttons: tuple[Button, ...] = ()
    enclosure: OutboundFile | None = None
    notice: bool = False
    """It is a notice of expired chunks."""


class DueChunks(Struct, frozen=True, kw_only=True):
    """Chunks to send now, the time of the next one (None: nothing waits), and how many expired just now."""

    due: list[OutboxRow]
    next: datetime | None
    expired: int
    given_up: tuple[str, ...] = ()
    """The addresses of the conversations whose chunks expired."""


class FirmWait(Struct, frozen=True, kw_only=True):
    """A conversation for which a platform asked to wait: its ``account``, how many chunks wait, and when the next attempt is."""

    account: str
    conversation: str
    count: int
    until: datetime


class PairingRequest(Struct, frozen=True, kw_only=True):
    """A stranger's pairing request."""

    channel: str
    account: str
    sender: str
    name: str
    code: str
    conversation: ChatAddress
    requested_at: datetime
    expires: datetime


class Invitation(Struct, frozen=True, kw_only=True):
    """A one-time code that makes its sender an owner. Only its hash is stored. ``by`` is the sender who used it."""

    channel: str
    account: str
    digest: str
    expires: datetime
    by: str | None = None


class ApprovedSender(Struct, frozen=True, kw_only=True):
    """A sender approved by the owner. ``conversation`` is where they asked."""

    channel: str
    account: str
    sender: str
    name: str
    role: Role
    conversation: ChatAddress
    approved_at: datetime


class Marks(Struct, frozen=True, kw_only=True):
    """Figures that differ once something changed: in what waits, is answered, goes out or is held; and in what was spent."""

    queues: tuple[object, ...] = ()
    costs: tuple[object, ...] = ()


class Tally(Struct, frozen=True, kw_only=True):
    """Counts for a status line."""

    waiting: int
    running: int
    suspended: int = 0
    held: int = 0
    kept: int = 0
    outbox: dict[OutboxState, int] = field(default_factory=dict)
