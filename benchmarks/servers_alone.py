"""Measures what real servers take and give without any gateway: the limit of a figure of throughput.py behind which they stand.

    PYTHONPATH=. python benchmarks/servers_alone.py             dovecot, and the SMTP server of the tests
    PYTHONPATH=. python benchmarks/servers_alone.py --synapse   Synapse (sh tests/matrix/install), in rooms without encryption

Whoever stands in for the gateway does nothing but ask, over as many connections as a gateway has.
"""

from __future__ import annotations

import argparse
import asyncio
import imaplib
import smtplib
import tempfile
import time
from pathlib import Path
from typing import Any

import aiohttp

from tests.fire.mailbox import AGENT, PASSWORD, WatchedMail, dovecot
from tests.fire.platforms import nobody
from tests.matrix.synapse import PASSWORD as SYNAPSE_PASSWORD
from tests.matrix.synapse import Synapse

V3 = "/_matrix/client/v3"
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


async def synapse(messages: int) -> None:
    """Measure a homeserver: so many messages sent to ten rooms, each room one after the other, and then read by one sync."""
    with tempfile.TemporaryDirectory() as folder:
        async with Synapse(Path(folder)) as server, aiohttp.ClientSession(server.root) as session:
            user = await server.register("speaker")
            asked = {
                "type": "m.login.password",
                "identifier": {"type": "m.id.user", "user": user},
                "password": SYNAPSE_PASSWORD,
            }
            async with session.post(f"{V3}/login", json=asked) as answer:
                session.headers["Authorization"] = f"Bearer {(await answer.json())['access_token']}"

            async def made() -> str:
                async with session.post(f"{V3}/createRoom", json={"preset": "private_chat"}) as answer:
                    return str((await answer.json())["room_id"])

            async def speak(number: int, room: str) -> None:
                for one in range(messages // 10):
                    content = {"msgtype": "m.text", "body": f"message {one}"}
                    async with session.put(f"{V3}/rooms/{room}/send/m.room.message/{number}.{one}", json=content) as answer:
                        assert answer.status == 200, await answer.text()

            rooms = [await made() for _ in range(10)]
            began = time.perf_counter()
            await asyncio.gather(*(speak(number, room) for number, room in enumerate(rooms)))
            say("messages sent to ten rooms of Synapse", messages // 10 * 10, time.perf_counter() - began)
            began = time.perf_counter()
            wanted = '{"room":{"timeline":{"limit":100000}}}'
            async with session.get(f"{V3}/sync", params={"filter": wanted}) as answer:
                told = (await answer.json())["rooms"]["join"].values()
            found = sum(one["type"] == "m.room.message" for room in told for one in room["timeline"]["events"])
            say("messages read by one sync", found, time.perf_counter() - began)


def main() -> None:
    """Read the command line and measure."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--messages", type=int, default=600)
    options.add_argument("--synapse", action="store_true")
    given = options.parse_args()
    asyncio.run((synapse if given.synapse else email)(given.messages))


if __name__ == "__main__":
    main()
