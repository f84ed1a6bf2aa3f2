"""A mailbox of 200,000 mails in a real dovecot: how long lists and searches take, and what they cost in memory.

    python -m benchmarks.mailbox [--mails 200000]

The mails are hard links to a few hundred files, so that making them takes seconds. Every measurement is made twice: before dovecot knows
the headers of the mails, and after.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import tempfile
import time
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from channels.common.mail.imap_connection import ImapConnection
from channels.common.mail.stored_mail import summary_of
from gateway.mail.search_query import criteria_of
from tests.mail.conftest import account_of
from tests.mail.dovecot import Dovecot, give, make
from tests.mail.letters import letter

if TYPE_CHECKING:
    from collections.abc import Callable

DIFFERENT = 500
USER = "big"


def fill(server: Dovecot, mails: int) -> None:
    """Make a mailbox of so many mails, of which each 5,000th is from Anna."""
    place = server.maildir(USER) / "cur"
    kinds = [
        letter(f"words number {number}\n" * 20, subject=f"subject {number}", sender=f"p{number}@example.org")
        for number in range(DIFFERENT)
    ]
    anna = letter("the rare word is zebra\n", subject="rare")
    for number in range(mails):
        rare = number % 5000 == 77
        path = place / f"{1_700_000_000 + number}.M{number}.test:2,S"
        kind = place.parent / f"kind-{'anna' if rare else number % DIFFERENT}-{number // 20_000}"  # a file has a limit of links
        if not kind.exists():
            kind.write_bytes(anna if rare else kinds[number % DIFFERENT])
            give(kind)
        os.link(kind, path)


def peak() -> float:
    """Return the most memory that this process has had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(connection: ImapConnection) -> dict[str, Any]:
    """Return the seconds of each operation."""
    found: dict[str, Any] = {}

    def timed(name: str, work: Callable[[], Any]) -> None:
        connection.begin(600)
        began = time.perf_counter()
        result = work()
        found[name] = (round(time.perf_counter() - began, 3), result)

    timed("open the folder", lambda: connection.select("INBOX").count)
    selected = connection.select("INBOX")
    today = date(2026, 11, 24)

    def search(query: str, wanted: int = 21) -> str:
        hits = connection.search(selected, criteria_of(query, today), wanted)
        return f"{len(hits.uids)} found, looked at {hits.looked:,}"

    timed("newest 20", lambda: len([summary_of(one) for one in connection.latest(selected, 20, 0)]))
    timed("20 after 100,000", lambda: len([summary_of(one) for one in connection.latest(selected, 20, selected.count // 2)]))
    timed("unread", lambda: connection.unread("INBOX")[1])
    timed("search subject, common", lambda: search("subject:subject"))
    timed("search from:anna, rare", lambda: search("from:anna@example.org"))
    timed("search is:unread, none", lambda: search("is:unread"))
    timed("search the word zebra", lambda: search("zebra"))
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--mails", type=int, default=200_000)
    wanted = parser.parse_args().mails
    base = Path(tempfile.mkdtemp(prefix="dc"))
    server = make(base)
    try:
        began = time.perf_counter()
        fill(server, wanted)
        print(f"{wanted:,} mails made in {time.perf_counter() - began:.0f} s")
        server.start()
        connection = ImapConnection(account_of(server, USER, timeoutSeconds=60))
        connection.begin(600)
        before = peak()
        for run in ("first", "second"):
            for name, (seconds, result) in measure(connection).items():
                print(f"{run:6}  {name:24} {seconds:8.3f} s   {result}")
        print(f"memory: {before:.0f} MB before, {peak():.0f} MB at most")
        connection.close()
    finally:
        server.stop()
        shutil.rmtree(base, ignore_errors=True)


if __name__ == "__main__":
    main()
