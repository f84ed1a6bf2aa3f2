"""Failures of mail servers as the mail tool and its commands tell them."""

from __future__ import annotations

from typing import Final

from agent.errors import MailRefused
from channels.common.mail.explanations import explained
from channels.common.mail.login import MailboxNames
from channels.common.mail.server_settings import MailServer
from channels.errors import MailProblem
from gateway.base.installation import how_to_add

FOLDERS: Final = ("mail:folders",)
"""The source of names of folders: who shares one chooses its name."""


def names_of(account: str) -> MailboxNames:
    """Return what errors call an account of the section ``mail``."""
    return MailboxNames(f"the account {account}", f"mail.accounts.{account}", f"homebody mail test {account}", "docs/mail.md")


def refused(error: BaseException, account: str, server: MailServer, protocol: str = "imap") -> MailRefused:
    """Return the error that people are shown for one of a library or of the network."""
    return refusal(explained(error, names_of(account), server, protocol))


def refusal(problem: MailProblem) -> MailRefused:
    """Return a problem with a mailbox as an error of the tool."""
    return MailRefused(str(problem), hint=problem.hint, sources=FOLDERS if problem.quotes else ())


def missing(error: ImportError) -> MailRefused:
    """Return the error for a package that is not installed."""
    return MailRefused(f"the package {error.name} is not installed", hint=f"install it: {how_to_add('mail')}")
