"""How a mail is named in a conversation: account, folder, number, and a check that the server has not numbered the folder anew."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from agent.errors import MailRefused

_WRITTEN: Final = re.compile(
    r"(?:(?P<account>[a-z0-9][a-z0-9_-]{0,31}):)?(?P<folder>.{1,250})#(?P<check>[a-z2-7]{4})\.(?P<uid>[1-9]\d{0,9})"
)


@dataclass(frozen=True, slots=True)
class MessageId:
    """A mail in a folder of an account. ``check`` follows from the folder's UIDVALIDITY: numbers hold only as long as that stays."""

    account: str
    folder: str
    check: str
    uid: int

    def written(self, *, alone: bool) -> str:
        """Return it as people and models write it; ``alone``: there is one account."""
        return f"{'' if alone else f'{self.account}:'}{self.folder}#{self.check}.{self.uid}"


def parse_id(written: str, accounts: Collection[str]) -> MessageId:
    """Read the id of a mail. ``accounts``: the names of those there are, the one that is meant without a name first.

    Raises:
        MailRefused: it is none, or of an account that is not there.
    """
    match = _WRITTEN.fullmatch(written.strip())
    if match is None:
        raise MailRefused(f"id: {written[:80]!r} is no id of a mail; take one from list or search, such as INBOX#1a2b.17")
    account = match["account"]
    if account is None or account not in accounts:
        folder = match["folder"] if account is None else f"{account}:{match['folder']}"
        return MessageId(next(iter(accounts)), folder, match["check"], int(match["uid"]))
    return MessageId(account, match["folder"], match["check"], int(match["uid"]))
