"""What is needed to use a mailbox: both servers, the names and passwords for them, and how errors call it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from pydantic import SecretStr

    from channels.common.mail.server_settings import MailFolders, MailServer


class MailLogin(Protocol):
    """A mailbox, and the server that sends its mail."""

    @property
    def imap(self) -> MailServer:
        """The server that the mailbox is read from."""
        ...

    @property
    def smtp(self) -> MailServer | None:
        """The server that mail is sent through."""
        ...

    @property
    def user(self) -> str:
        """The name to log in with."""
        ...

    @property
    def password(self) -> SecretStr:
        """The password."""
        ...

    @property
    def smtp_user(self) -> str | None:
        """The name at the SMTP server. None: ``user``; empty: no login."""
        ...

    @property
    def smtp_password(self) -> SecretStr | None:
        """The password of the SMTP server. None: ``password``."""
        ...

    @property
    def folders(self) -> MailFolders:
        """Folders by their use."""
        ...

    @property
    def timeout_seconds(self) -> float:
        """Longest duration of one operation."""
        ...


class MailboxNames(Struct, frozen=True):
    """What errors call a mailbox, where it is set up, the command that tries it, and the page about it."""

    title: str
    settings: str
    test: str
    docs: str
