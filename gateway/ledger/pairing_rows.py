"""Pairing requests of strangers, invitations of owners, and the senders that were approved."""

from __future__ import annotations

import hmac
import json
import logging
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any, Final, Protocol, TypeVar

from channels.messages import ChatAddress
from gateway.ledger.database import Database
from gateway.ledger.outbox import enqueue
from gateway.ledger.rows import ApprovedSender, Invitation, NewOutbound, PairingRequest, Role
from gateway.ledger.thread import LedgerConnection
from gateway.ledger.values import clean, instant, read_conversation, stamp, write_conversation

log = logging.getLogger(__name__)

T = TypeVar("T")

PAIRING_TTL: Final = timedelta(hours=1)
PENDING_LIMIT: Final = 20
"""The most pending requests of one account. Each has a code of 40 bits."""
KEPT_AT_LEAST: Final = timedelta(minutes=5)
"""A newcomer to a full list replaces the oldest request, once that is so old."""

INVITATIONS: Final = "invitation:"
"""Of the names of these rows in ``meta``, one for each account."""

_REQUEST = "channel, account, sender, name, code, target, requested_at, expires"
_APPROVED = "channel, account, sender, name, role, target, approved_at"


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


class PairingPart:
    """Implements ``PairingLedger``. The approved senders are kept in memory, because few change and every message asks."""

    def __init__(self, connection: LedgerConnection) -> None:
        self._connection = connection
        self._approved: list[ApprovedSender] | None = None
        self._changes = 0

    async def request(self, conversation: ChatAddress, sender: str, name: str, code: str, text: str) -> PairingRequest | None:
        now = self._connection.now()
        where = (clean(conversation.channel), clean(conversation.account))

        def work(db: Database) -> PairingRequest | None:
            db.execute("DELETE FROM pairing WHERE expires <= ?", (stamp(now),))
            query = "SELECT sender, requested_at FROM pairing WHERE channel = ? AND account = ? ORDER BY requested_at, rowid"
            pending = db.execute(query, where).fetchall()
            if any(asked == clean(sender) for asked, _ in pending):
                return None
            if len(pending) >= PENDING_LIMIT:
                oldest, since = pending[0]
                if instant(int(since or 0)) > now - KEPT_AT_LEAST:
                    return None
                db.execute("DELETE FROM pairing WHERE channel = ? AND account = ? AND sender = ?", (*where, oldest))
            values = (
                *(*where, clean(sender), clean(name)[:100], code),
                *(write_conversation(conversation), stamp(now), stamp(now + PAIRING_TTL)),
            )
            query = f"INSERT INTO pairing ({_REQUEST}) VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING {_REQUEST}"
            asked = _request(db.execute(query, values).fetchone())
            enqueue(db, [NewOutbound(conversation=conversation, text=text)], now=now, token=self._connection.new_id)
            return asked

        return await self._connection.run(work, self._connection.notify_outbound)

    async def pending(self) -> list[PairingRequest]:
        query = f"SELECT {_REQUEST} FROM pairing WHERE expires > ? ORDER BY requested_at"
        now = stamp(self._connection.now())
        return await self._connection.run(lambda db: list(_readable(_request, db.execute(query, (now,)))))

    async def approve(self, channel: str, code: str, role: Role, welcome: str) -> ApprovedSender | None:
        now = self._connection.now()

        def work(db: Database) -> ApprovedSender | None:
            query = f"DELETE FROM pairing WHERE channel = ? AND code = ? AND expires > ? RETURNING {_REQUEST}"
            found = db.execute(query, (clean(channel), clean(code), stamp(now))).fetchall()
            if not found:
                return None
            request = _request(found[0])
            who = (request.channel, request.account, request.sender, request.name)
            return _approve(db, who, role, request.conversation, now=now, welcome=welcome, token=self._connection.new_id)

        self._forget()
        return await self._connection.run(work, self._connection.notify_outbound)

    async def invite(self, channel: str, account: str, digest: str) -> datetime:
        expires = self._connection.now() + PAIRING_TTL
        value = json.dumps({"digest": digest, "expires": stamp(expires), "by": None})

        def work(db: Database) -> None:
            query = "INSERT INTO meta VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
            db.execute(query, (_meta_name(channel, account), value))

        await self._connection.run(work)
        return expires

    async def invitation(self, channel: str, account: str) -> Invitation | None:
        now = self._connection.now()
        return await self._connection.run(lambda db: _invitation(db, channel, account, now))

    async def redeem(
        self, conversation: ChatAddress, sender: str, name: str, digest: str, welcome: str
    ) -> ApprovedSender | None:
        now = self._connection.now()
        channel, account = conversation.channel, conversation.account

        def work(db: Database) -> ApprovedSender | None:
            found = _invitation(db, channel, account, now)
            if found is None or not hmac.compare_digest(found.digest, digest) or found.by not in {None, clean(sender)}:
                return None
            where = (clean(channel), clean(account), clean(sender))
            if found.by is not None:
                query = f"SELECT {_APPROVED} FROM approved WHERE channel = ? AND account = ? AND sender = ?"
                known = db.execute(query, where).fetchone()
                return _approved(known) if known else None
            used = json.dumps({"digest": digest, "expires": stamp(found.expires), "by": clean(sender)})
            db.execute("UPDATE meta SET value = ? WHERE name = ?", (used, _meta_name(channel, account)))
            db.execute("DELETE FROM pairing WHERE channel = ? AND account = ? AND sender = ?", where)
            return _approve(
                db, (*where, clean(name)[:100]), "owner", conversation, now=now, welcome=welcome, token=self._connection.new_id
            )

        self._forget()
        return await self._connection.run(work, self._connection.notify_outbound)

    async def revoke(self, channel: str, sender: str) -> list[ApprovedSender]:
        query = f"DELETE FROM approved WHERE channel = ? AND sender = ? RETURNING {_APPROVED}"
        values = (clean(channel), clean(sender))
        self._forget()
        return await self._connection.run(lambda db: [_approved(found) for found in db.execute(query, values).fetchall()])

    async def approved(self) -> list[ApprovedSender]:
        if self._approved is not None:
            return list(self._approved)
        as_of = self._changes
        query = f"SELECT {_APPROVED} FROM approved ORDER BY approved_at, rowid"
        found = await self._connection.run(lambda db: list(_readable(_approved, db.execute(query))))
        if as_of == self._changes:  # otherwise it may be what was before a change
            self._approved = list(found)
        return found

    def _forget(self) -> None:
        """Forget the approved senders before they change: what is read after the change began is read from the file."""
        self._changes += 1
        self._approved = None


def _approve(
    db: Database,
    who: tuple[str, str, str, str],
    role: Role,
    conversation: ChatAddress,
    *,
    now: datetime,
    welcome: str,
    token: Callable[[], str],
) -> ApprovedSender:
    """Store the approval of a person (channel, account, sender, name) and queue the welcome."""
    query = (
        f"INSERT INTO approved ({_APPROVED}) VALUES (?, ?, ?, ?, ?, ?, ?) "
        f"ON CONFLICT (channel, account, sender) DO UPDATE SET name = excluded.name, role = excluded.role, "
        f"target = excluded.target RETURNING {_APPROVED}"
    )
    approved = _approved(db.execute(query, (*who, role, write_conversation(conversation), stamp(now))).fetchone())
    enqueue(db, [NewOutbound(conversation=conversation, text=welcome)], now=now, token=token)
    return approved


def _meta_name(channel: str, account: str) -> str:
    return f"{INVITATIONS}{clean(channel)}:{clean(account)}"


def _invitation(db: Database, channel: str, account: str, now: datetime) -> Invitation | None:
    """Read an invitation; one that expired or cannot be read counts as none."""
    found = db.execute("SELECT value FROM meta WHERE name = ?", (_meta_name(channel, account),)).fetchone()
    try:
        raw = json.loads(str(found[0])) if found else {}
        one = Invitation(
            channel=channel, account=account, digest=str(raw["digest"]), expires=instant(int(raw["expires"])), by=raw["by"]
        )
    except (KeyError, TypeError, ValueError):
        return None
    return one if one.expires > now else None


def _request(found: Any) -> PairingRequest:
    channel, account, sender, name, code, target, requested_at, expires = found
    return PairingRequest(
        channel=channel,
        account=account,
        sender=sender,
        name=name,
        code=code,
        conversation=read_conversation(target),
        requested_at=instant(requested_at),
        expires=instant(expires),
    )


def _readable(read: Callable[[Any], T], rows: Iterable[Any]) -> Iterator[T]:
    """Yield what can be read of rows. One with a damaged value is left out, so that it keeps no gateway from starting."""
    for row in rows:
        try:
            yield read(row)
        except (ValueError, TypeError, OverflowError) as error:
            log.warning("a person in the ledger cannot be read, and has to be paired anew: %s", error)


def _approved(found: Any) -> ApprovedSender:
    channel, account, sender, name, role, target, approved_at = found
    return ApprovedSender(
        channel=channel,
        account=account,
        sender=sender,
        name=name,
        role=role,
        conversation=read_conversation(target),
        approved_at=instant(approved_at),
    )
