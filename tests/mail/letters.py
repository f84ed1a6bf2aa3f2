"""Mails that tests deliver, as bytes."""

from __future__ import annotations

from email.message import EmailMessage


def letter(
    text: str = "See you on Thursday?\n",
    *,
    subject: str = "Thursday",
    sender: str = "Anna <anna@example.org>",
    to: str = "Ann <ann@example.net>",
    html: str | None = None,
    attached: tuple[tuple[str, bytes], ...] = (),
    **headers: str,
) -> bytes:
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = sender, to, subject
    mail["Date"] = headers.pop("date", "Mon, 23 Nov 2026 10:00:00 +0100")
    mail["Message-ID"] = headers.pop("message_id", "<first@example.org>")
    for name, value in headers.items():
        mail[name.replace("_", "-")] = value
    mail.set_content(text)
    if html is not None:
        mail.add_alternative(html, subtype="html")
    for name, data in attached:
        mail.add_attachment(data, maintype="application", subtype="octet-stream", filename=name)
    return mail.as_bytes()
