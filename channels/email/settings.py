"""The section ``channels.email`` of the configuration."""

from email.utils import parseaddr
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, SecretStr

from channels.common.mail.login import MailboxNames
from channels.common.mail.server_settings import MailFolders, MailServer, mail_address
from channels.common.shared_settings import DEFAULT, AccountSection, DmPolicy, SeveralAccounts, empty_list
from channels.errors import ChannelBroken

UNVERIFIED = "unverified:"
"""Begins the id of a sender for whom the owner's server does not vouch."""


def _person(value: object) -> str:
    text = str(value).strip()
    if text == "*":
        return text
    if text.casefold().startswith(UNVERIFIED):
        raise ValueError(
            f"{text[:80]!r}: anybody can write as somebody whom the server does not vouch for, so they cannot be let in"
        )
    return parseaddr(mail_address(text))[1].casefold()


Person = Annotated[str, BeforeValidator(_person)]
OwnAddress = Annotated[str, AfterValidator(mail_address)]


class EmailAccount(AccountSection):
    """One mailbox, which the agent has for itself."""

    enabled: bool = True
    """Whether this mailbox is used."""
    imap: MailServer | None = None
    """The server that the mailbox is read from."""
    smtp: MailServer | None = None
    """The server that answers are sent through."""
    user: str | None = None
    """The name to log in with, mostly the address."""
    password: SecretStr | None = None
    """The password; many providers want an app password (docs/email.md)."""
    smtp_user: str | None = None
    """The name to log in with at the SMTP server. Unset: `user`; empty: no login."""
    smtp_password: SecretStr | None = None
    """The password of the SMTP server. Unset: `password`."""
    from_address: OwnAddress | None = None
    """The address that answers come from, such as `Homebody <agent@example.org>`. Unset: `user`, which must be an address then."""
    own_addresses: tuple[OwnAddress, ...] = ()
    """Further addresses of this mailbox. Mail from one of its own addresses is never answered."""
    auth_server: str | None = None
    """The name with which your server signs its check of senders (the first word of `Authentication-Results`). Unset: everybody is a stranger."""  # noqa: E501
    dm_policy: DmPolicy = "pairing"
    """Who may write: those approved after a pairing code, those in `allowFrom` only, everybody if it lists `*`, or nobody."""
    allow_from: list[Person] = Field(default_factory=empty_list)
    """Addresses of the people who may write without pairing, once your server vouches for them; the first is the owner."""
    folder: str = Field(default="INBOX", min_length=1)
    """The folder that is read."""
    folders: MailFolders = MailFolders.model_construct()
    """Folders by their use, where the server's own answer is wrong or missing."""
    save_sent: Literal["auto", "always", "never"] = "auto"
    """Who puts answers into the folder of sent mail: ``always``: Homebody; ``never``: the server does; ``auto``: the first mail that is sent shows whether the server does."""  # noqa: E501
    mark_read: bool = True
    """Whether mails that were taken are marked as read."""
    most_per_minute: Annotated[int, Field(ge=1, le=10_000)] = 30
    """Mails of one sender that are taken in a minute; more of them look like two programs that answer each other, and are left."""
    poll_seconds: Annotated[int, Field(ge=5, le=3600)] = 60
    """How often a server that does not tell of new mail by itself (IDLE) is asked."""
    text_chunk_limit: Annotated[int, Field(ge=1000, le=500_000)] = 50_000
    """The longest mail that is sent, in characters; longer answers become several mails."""
    media_max_mb: Annotated[float, Field(ge=0, le=100)] | None = None
    """The largest file that is taken or sent, in MB (1,048,576 bytes); as `messages.attachments.maxBytes` says when not set."""
    timeout_seconds: Annotated[float, Field(gt=0, le=600)] = 60
    """Longest duration of one operation at a server, in seconds."""
    block_streaming: bool | None = False
    """Whether answers are sent in blocks while they are written, each a mail of its own."""

    @property
    def sender(self) -> str:
        """The address that answers come from, with its name."""
        return self.from_address or self.user or ""

    @property
    def address(self) -> str:
        """The address alone, in small letters."""
        return parseaddr(self.sender)[1].casefold()

    @property
    def addresses(self) -> frozenset[str]:
        """All addresses of the mailbox in small letters, without names."""
        return frozenset(
            parseaddr(one)[1].casefold() for one in (self.sender, self.user or "", *self.own_addresses) if "@" in one
        )


class EmailSettings(EmailAccount, SeveralAccounts[EmailAccount]):
    """The mailbox `default`, and further ones by name."""

    ACCOUNT: ClassVar[type[BaseModel]] = EmailAccount
    OWN: ClassVar[tuple[str, ...]] = ("user", "password", "smtp_user", "smtp_password", "from_address")
    SECRETS: ClassVar[tuple[str, ...]] = ("user", "password")

    accounts: dict[str, EmailAccount] = Field(default_factory=dict)
    """Further mailboxes by name; what one does not set it takes from the section itself, but for the login and the addresses."""


class Mailbox(BaseModel):
    """What is needed to use the servers of an account, all of which is set: a ``channels.common.mail.login.MailLogin``."""

    imap: MailServer
    smtp: MailServer
    user: str
    password: SecretStr
    smtp_user: str | None
    smtp_password: SecretStr | None
    folders: MailFolders
    timeout_seconds: float


def mailbox_of(account: EmailAccount, name: str) -> Mailbox:
    """Return the mailbox of an account.

    Raises:
        ChannelBroken: something of it is not set.
    """
    section = section_of(name)
    for key, value, example in (
        ("imap.host", account.imap, "imap.example.org"),
        ("smtp.host", account.smtp, "smtp.example.org"),
        ("user", account.user, "agent@example.org"),
        ("password", account.password, "env:EMAIL_PASSWORD"),
    ):
        if value is None or not str(value):
            raise ChannelBroken(
                f"{section}.{key} is not set",
                hint=f"set it up: homebody setup email, or: homebody config set {section}.{key} {example}",
            )
    if "@" not in account.address:
        raise ChannelBroken(
            f"{section}.user is no address",
            hint=f"say which address answers come from: homebody config set {section}.fromAddress ADDRESS",
        )
    return Mailbox.model_construct(
        imap=account.imap,
        smtp=account.smtp,
        user=account.user,
        password=account.password,
        smtp_user=account.smtp_user,
        smtp_password=account.smtp_password,
        folders=account.folders,
        timeout_seconds=account.timeout_seconds,
    )


def section_of(name: str) -> str:
    """Return where an account is set up."""
    return "channels.email" if name == DEFAULT else f"channels.email.accounts.{name}"


def names_of(name: str) -> MailboxNames:
    """Return what errors call the mailbox of an account."""
    return MailboxNames("the mailbox", section_of(name), "homebody channels status --probe", "docs/email.md")
