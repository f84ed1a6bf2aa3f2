"""Measures what real servers take and give without any gateway: the limit of a figure of throughput.py behind which they stand.

    PYTHONPATH=. python benchmarks/servers_alone.py                      dovecot, and the SMTP server of the tests

Whoever stands in for the gateway does nothing but ask, over as many connections as a gateway has.
"""

from __future__ import annotations

import argparse
import asyncio
import imaplib
import smtplib
import time
from typing import Any

from tests.fire.mailbox import AGENT, PASSWORD, WatchedMail, dovecot
from tests.fire.platforms import nobody

SENDERS = 4
AT_ONCE = 20


def say(name: str, messages: int, seconds: float) -> None:
    """Print one line."""
    print(f"{name:60} {messages / seconds:>10.0f}/s", flush=True)


def fetch(user: str, messages: int) -> None:
    """Read so many mails, twenty at once, and mark them as read."""
    with imaplib.IMAP4("127.0.0.1", dovecot().port) as client:
        client.login(user, PASSWORD)
        client.select("INBOX")
        for start in range(1, messages + 1, AT_ONCE):
            which = f"{start}:{start + AT_ONCE - 1}"
            client.uid("FETCH", which, "(UID FLAGS BODYSTRUCTURE BODY.PEEK[HEADER])")
            client.uid("FETCH", which, "(UID BODY.PEEK[1])")
            client.uid("STORE", which, "+FLAGS.SILENT", "(\\Seen)")


def hand_over(port: int, user: str, mails: int) -> None:
    """Send so many mails over one connection."""
    with smtplib.SMTP("127.0.0.1", port) as client:
        client.login(user, PASSWORD)
        for number in range(mails):
            client.sendmail(AGENT, [f"p{number}@example.org"], f"Subject: {number}\r\n\r\nmessage {number}\r\n")


async def email(messages: int) -> None:
    """Measure the servers of email one after the other: writing into the mailbox, reading it, and sending."""
    async with WatchedMail() as peer:
        peer.watcher = nobody
        given: dict[str, Any] = peer.settings()
        began = time.perf_counter()
        for number in range(messages):
            await peer.write(f"p{number % 100}@example.org", f"message {number}")
        say("mails written into the mailbox", messages, wrote := time.perf_counter() - began)
        began = time.perf_counter()
        await asyncio.to_thread(fetch, peer.user, messages)
        say("mails read from dovecot and marked", messages, read := time.perf_counter() - began)
        began = time.perf_counter()
        each = messages // SENDERS
        await asyncio.gather(*(asyncio.to_thread(hand_over, given["smtp"]["port"], peer.user, each) for _ in range(SENDERS)))
        say(f"mails taken by the SMTP server, {SENDERS} connections", each * SENDERS, sent := time.perf_counter() - began)
        say("all of it, one after the other", messages, wrote + read + sent)


def main() -> None:
    """Read the command line and measure."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--messages", type=int, default=600)
    asyncio.run(email(options.parse_args().messages))


if __name__ == "__main__":
    main()
