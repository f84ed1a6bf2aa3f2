"""The section ``mail``: mailboxes that an agent reads and sends from."""

from email.utils import parseaddr
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, SecretStr, model_validator

from agent.section import Section
from channels.common.mail.server_settings import MailFolders, MailServer, mail_address

ACCOUNT_NAME: Final = r"^[a-z0-9][a-z0-9_-]{0,31}$"


class MailAccount(Section):
    """One mailbox, and the server that sends its mail."""

    imap: MailServer
    """The server that the mailbox is read from."""
    smtp: MailServer | None = None
    """The server that mail is sent through. Unset: nothing is sent, only drafts are saved."""
    user: str = Field(min_length=1)
    """The name to log in with, mostly the address."""
    password: SecretStr
    """The password; many providers want an app password (docs/mail.md)."""
    smtp_user: str | None = None
    """The name to log in with at the SMTP server. Unset: `user`; empty: no login."""
    smtp_password: SecretStr | None = None
    """The password of the SMTP server. Unset: `password`."""
    from_address: Annotated[str, AfterValidator(mail_address)] | None = None
    """The address that mail is sent from, such as `Ann Lee <ann@example.org>`. Unset: `user`, which must be an address then."""
    own_addresses: tuple[Annotated[str, AfterValidator(mail_address)], ...] = ()
    """Further addresses of this mailbox; a reply to all leaves them out."""
    folders: MailFolders = MailFolders.model_construct()
    """Folders by their use, where the server's own answer is wrong or missing."""
    save_sent: Literal["auto", "always", "never"] = "auto"
    """Who puts sent mail into the folder of sent mail: ``always``: Homebody; ``never``: the server does; ``auto``: Homebody where the server did not within a few seconds."""  # noqa: E501
    auth_server: str | None = None
    """The name with which the server signs its check of senders (Authentication-Results). Unset: names in the domain of the IMAP server count."""  # noqa: E501
    agents: tuple[str, ...] = ()
    """The agents that have this account. Unset: the default agent alone; ``*``: all."""
    watch: Literal["off", "notify", "agent"] = "off"
    """New mail: ``notify``: a short notice in your latest chat, without a model; ``agent``: the agent is given sender, subject and beginning."""  # noqa: E501
    watch_folder: str = Field(default="INBOX", min_length=1)
    """The folder that is watched."""
    watch_instruction: str = ""
    """With ``watch: agent``: what the agent does with new mail, in your words."""
    watch_every_seconds: Annotated[int, Field(ge=10, le=86_400)] = 60
    """The least time between two announcements, in seconds; mail that comes meanwhile is announced together. Also how often a server without IDLE is asked."""  # noqa: E501
    watch_daily_usd: Annotated[float, Field(ge=0)] | None = 1.0
    """With ``watch: agent``: what its turns may cost in a day."""
    timeout_seconds: Annotated[float, Field(ge=1, le=600)] = 60.0
    """Longest duration of one operation at the server, in seconds."""
    max_attachment_bytes: Annotated[int, Field(ge=1000, le=100_000_000)] = 25_000_000
    """Largest attachment that is saved, and largest mail that is sent, in bytes."""

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if self.from_address is None and "@" not in self.user:
            raise ValueError(f"the user {self.user!r} is no address: set fromAddress to the address that mail is sent from")
        if any(ord(char) < ord(" ") for char in self.user + self.watch_folder):
            raise ValueError("user and watchFolder must be one line")
        return self

    @property
    def sender(self) -> str:
        """The address that mail is sent from, with its name."""
        return self.from_address or self.user

    @property
    def addresses(self) -> frozenset[str]:
        """All addresses of the mailbox in small letters, without names."""
        return frozenset(parseaddr(one)[1].casefold() for one in (self.sender, self.user, *self.own_addresses) if "@" in one)


class MailSettings(Section):
    """Mailboxes. An agent that has one gets the tool mail."""

    accounts: dict[Annotated[str, Field(pattern=ACCOUNT_NAME)], MailAccount] = Field(default_factory=dict)
    """The mailboxes by a name of your choice in small letters; the first is used where a call names none."""

    def accounts_of(self, agent: str, default_agent: str) -> dict[str, MailAccount]:
        """Return the accounts that an agent has, by name."""
        return {
            name: account
            for name, account in self.accounts.items()
            if agent in (account.agents or (default_agent,)) or "*" in account.agents
        }
