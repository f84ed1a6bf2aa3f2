"""Messages of which nobody knows whether they were answered, because the ledger that knew was damaged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.base.errors import InvalidTransition
from gateway.ledger.expired_notice import PATIENCE
from gateway.ledger.inbox import COLUMNS, read_row
from gateway.ledger.recovery import IN_DOUBT
from gateway.ledger.values import Part, clean, stamp

if TYPE_CHECKING:
    import apsw

    from gateway.ledger.rows import InboxRow


class DoubtPart(Part):
    """Implements what ``InboxLedger`` says of messages in doubt."""

    async def in_doubt(self, conversation: str) -> list[InboxRow]:
        """See the protocol."""
        query = (
            f"SELECT {COLUMNS} FROM inbox WHERE conversation = ? AND state = 'failed' AND reason = ? AND payload IS NOT NULL "
            "AND received_at > ? ORDER BY id"
        )
        values = (clean(conversation), IN_DOUBT, stamp(self._clock.now() - PATIENCE))
        return [read_row(row) for row in await self._thread.run(lambda db: db.execute(query, values).fetchall())]

    async def take_up(self, row: int) -> InboxRow:
        """See the protocol."""

        def work(db: apsw.Connection) -> InboxRow:
            found = db.execute(
                "UPDATE inbox SET state = 'waiting', reason = NULL, ended_at = NULL "
                f"WHERE id = ? AND state = 'failed' AND reason = ? AND payload IS NOT NULL RETURNING {COLUMNS}",
                (row, IN_DOUBT),
            ).fetchall()
            if not found:
                raise InvalidTransition("the message is not in doubt", where=f"inbox {row}")
            return read_row(found[0])

        return await self._thread.run(work)
