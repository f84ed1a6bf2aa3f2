"""What a failure of a mail server means, and what mends it, in words for people."""

from __future__ import annotations

import imaplib
import socket
import ssl
from typing import Final

from agent.characters import without_smuggled
from agent.errors import MailRefused
from gateway.mail.bounded_imap import TooMuch
from gateway.settings.mail import DEFAULT_PORTS, MailServer

_SHOWN: Final = 200
LOGIN_HINT: Final = (
    "check user and password; many providers want an app password and IMAP switched on in their settings (docs/mail.md): "
    "homebody config set mail.accounts.{account}.password env:MAIL_PASSWORD"
)


class LoginRefused(Exception):
    """The server does not let the user in. The text is the server's."""


def refused(error: BaseException, account: str, server: MailServer, protocol: str = "imap") -> MailRefused:
    """Return the error that people are shown for one of a library or of the network."""
    port = server.port or DEFAULT_PORTS[protocol, server.security]
    where = f"{server.host}:{port}"
    test = f"homebody mail test {account}"
    if isinstance(error, LoginRefused):
        return MailRefused(
            f"{where} refused the login of the account {account}: {_words(error)}", hint=LOGIN_HINT.format(account=account)
        )
    if isinstance(error, ssl.SSLError):
        return _not_encrypted(error, account, server, protocol, where)
    for kinds, text, hint in (
        (
            socket.gaierror,
            f"the server {server.host} is not found",
            f"check mail.accounts.{account}.{protocol}.host and the network",
        ),
        (ConnectionRefusedError, f"nothing answers at {where}", f"check host and port of mail.accounts.{account}.{protocol}"),
        (TimeoutError, f"{where} does not answer in time", f"try again later, or: {test}"),
        (TooMuch, f"{where} sends more than is read", "ask for less, such as by since: or another folder"),
        ((imaplib.IMAP4.abort, OSError), f"the connection to {where} broke: {_words(error)}", f"try again, or: {test}"),
    ):
        if isinstance(error, kinds):
            return MailRefused(text, hint=hint)
    return MailRefused(f"{where} refused it: {_words(error)}", hint=test)


def _not_encrypted(error: ssl.SSLError, account: str, server: MailServer, protocol: str, where: str) -> MailRefused:
    if isinstance(error, ssl.SSLCertVerificationError):
        why = error.verify_message or "it cannot be verified"
        hint = f"check mail.accounts.{account}.{protocol}.host; for a certificate of your own set caFile there"
        return MailRefused(f"the certificate of {where} is not accepted: {why}", hint=hint)
    other = "starttls" if server.security == "tls" else "tls"
    hint = f"perhaps the port speaks otherwise: homebody config set mail.accounts.{account}.{protocol}.security {other}"
    return MailRefused(f"no encrypted connection to {where}: {error.reason or _words(error)}", hint=hint)


def is_broken(error: BaseException) -> bool:
    """Return whether a connection cannot be used any more after an error."""
    return isinstance(error, imaplib.IMAP4.abort | OSError)


def _words(error: BaseException) -> str:
    text = without_smuggled(" ".join(str(error).split())) or type(error).__name__
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
