"""What a failure of a mail server means, and what mends it, in words for people."""

from __future__ import annotations

import imaplib
import socket
import ssl
from typing import Final

from channels.common.control_characters import visible
from channels.common.mail.bounded_imap import TooMuch
from channels.common.mail.login import MailboxNames
from channels.common.mail.server_settings import DEFAULT_PORTS, MailServer
from channels.errors import MailProblem

_SHOWN: Final = 200


class LoginRefused(Exception):
    """The server does not let the user in. The text is the server's."""


def explained(error: BaseException, names: MailboxNames, server: MailServer, protocol: str = "imap") -> MailProblem:
    """Return the error that people are shown for one of a library or of the network."""
    port = server.port or DEFAULT_PORTS[protocol, server.security]
    where = f"{server.host}:{port}"
    if isinstance(error, MailProblem):
        return error
    if isinstance(error, LoginRefused):
        return MailProblem(f"{where} refused the login of {names.title}: {_words(error)}", hint=_login_hint(names))
    if isinstance(error, ssl.SSLError):
        return _not_encrypted(error, names, server, protocol, where)
    for kinds, text, hint in (
        (
            socket.gaierror,
            f"the server {server.host} is not found",
            f"check {names.settings}.{protocol}.host and the network",
        ),
        (ConnectionRefusedError, f"nothing answers at {where}", f"check host and port of {names.settings}.{protocol}"),
        (TimeoutError, f"{where} does not answer in time", f"try again later, or: {names.test}"),
        (TooMuch, f"{where} sends more than is read", "ask for less, such as by since: or another folder"),
        ((imaplib.IMAP4.abort, OSError), f"the connection to {where} broke: {_words(error)}", f"try again, or: {names.test}"),
    ):
        if isinstance(error, kinds):
            return MailProblem(text, hint=hint)
    if server.security == "starttls" and "starttls" in str(error).lower():
        hint = _other_security(names, server, protocol)
        return MailProblem(f"{where} does not encrypt after the greeting: {_words(error)}", hint=hint)
    return MailProblem(f"{where} refused it: {_words(error)}", hint=names.test)


def _not_encrypted(error: ssl.SSLError, names: MailboxNames, server: MailServer, protocol: str, where: str) -> MailProblem:
    if isinstance(error, ssl.SSLCertVerificationError):
        why = error.verify_message or "it cannot be verified"
        hint = f"check {names.settings}.{protocol}.host; for a certificate of your own set caFile there"
        return MailProblem(f"the certificate of {where} is not accepted: {why}", hint=hint)
    hint = _other_security(names, server, protocol)
    return MailProblem(f"no encrypted connection to {where}: {error.reason or _words(error)}", hint=hint)


def _other_security(names: MailboxNames, server: MailServer, protocol: str) -> str:
    other = "starttls" if server.security == "tls" else "tls"
    return f"perhaps the port speaks otherwise: homebody config set {names.settings}.{protocol}.security {other}"


def _login_hint(names: MailboxNames) -> str:
    return (
        "check user and password; many providers want an app password and IMAP switched on in their settings "
        f"({names.docs}), then: homebody config set {names.settings}.password env:MAIL_PASSWORD"
    )


def is_of_mail(error: BaseException) -> bool:
    """Return whether an error comes from a server or the network, and not from a defect of ours."""
    from imap_tools.errors import ImapToolsError

    from channels.common.mail.imap_values import NotReadable

    return isinstance(error, OSError | MailProblem | LoginRefused | imaplib.IMAP4.error | ImapToolsError | NotReadable)


def is_broken(error: BaseException) -> bool:
    """Return whether a connection cannot be used any more after an error."""
    return isinstance(error, imaplib.IMAP4.abort | OSError)


def _words(error: BaseException) -> str:
    text = visible(" ".join(str(error).split())) or type(error).__name__
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
