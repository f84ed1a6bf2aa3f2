"""Email: a mailbox of the agent's own. Modules that load the mail packages are imported when the channel runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from channels.common.log import Log
from channels.email.settings import UNVERIFIED, EmailSettings
from channels.platform import Platform, Policy, SetupGuide
from channels.protocol import Channel, Clock

if TYPE_CHECKING:
    from channels.email.settings import EmailAccount


def make(settings: EmailSettings, *, account: str, clock: Clock, log: Log) -> Channel:
    """Return the channel of one mailbox."""
    from channels.email.channel import EmailChannel

    return EmailChannel(settings, account, clock=clock, log=log)


def policy(account: EmailAccount) -> Policy:
    """Return who may write to a mailbox."""
    return Policy(dm_policy=account.dm_policy, allow_from=tuple(account.allow_from), unproven=UNVERIFIED)


GUIDE = SetupGuide(
    title="Email",
    steps=(
        "Get a mailbox for the agent alone, not your own: it answers what comes in.",
        "Switch IMAP on in its settings; most providers want an app password for programs.",
        "Have the names of its IMAP and SMTP servers at hand (their help pages name them).",
    ),
    questions=(
        ("user", "Address of the mailbox"),
        ("imap.host", "IMAP server, such as imap.example.org"),
        ("smtp.host", "SMTP server, such as smtp.example.org"),
    ),
    secrets=(("password", "Password (an app password)"),),
    afterwards=(
        ("authServer", "the first word of Authentication-Results in a mail that came; without it everybody is a stranger"),
    ),
    where="as the only text of a mail to it",
    env={
        "user": "EMAIL_ADDRESS",
        "imap.host": "EMAIL_IMAP_HOST",
        "smtp.host": "EMAIL_SMTP_HOST",
        "password": "EMAIL_PASSWORD",
    },
)

PLATFORM = Platform(
    name="email",
    settings=EmailSettings,
    make=make,
    policy=policy,
    chat_ids={"direct": r"(?:unverified:)?[^\s@<>\"(),;]+@[^\s@<>\"(),;]+"},
    guide=GUIDE,
)
