"""Calendars in text, and a real radicale to keep them."""

from __future__ import annotations

import asyncio
import contextlib
import random
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from gateway.calendar.accounts import Account
from tests import programs
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def event(*lines: str, uid: str = "one") -> str:
    return "\r\n".join(["BEGIN:VEVENT", f"UID:{uid}", "DTSTAMP:20260101T000000Z", *lines, "END:VEVENT"])


def calendar(*events: str) -> str:
    return "\r\n".join(["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//test//", *events, "END:VCALENDAR", ""])


def free_port() -> int:
    """A port below the range from which the system takes those of outgoing connections."""
    for _ in range(200):
        port = random.randint(20_000, 32_000)
        with contextlib.suppress(OSError), socket.socket() as tried:
            tried.bind(("127.0.0.1", port))
            return port
    raise AssertionError("there is no free port")


@dataclass
class Radicale:
    """A radicale with the user anna, whose calendars and address books are made by requests as other programs make them."""

    port: int
    folder: Path
    process: programs.Program | None = None
    calendars: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def account(self, **values: Any) -> Account:
        return Account(
            **{"name": "personal", "url": self.url, "user": "anna", "password": "s3cret-word", "seconds": PATIENCE} | values
        )

    async def start(self) -> None:
        users = self.folder / "users"
        users.write_text("anna:s3cret-word\n")
        command = [
            *(sys.executable, "-m", "radicale", "--server-hosts", f"127.0.0.1:{self.port}"),
            *("--storage-filesystem-folder", self.folder / "collections"),
            *("--auth-type", "htpasswd", "--auth-htpasswd-filename", users, "--auth-htpasswd-encryption", "plain"),
            *("--auth-delay", "0", "--config", "", "--logging-level", "warning"),
        ]
        self.process = programs.start(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        async with asyncio.timeout(PATIENCE):
            while True:
                with contextlib.suppress(OSError):
                    _, writer = await asyncio.open_connection("127.0.0.1", self.port)
                    writer.close()
                    return
                assert self.process.poll() is None
                await asyncio.sleep(0.02)

    async def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            try:
                await asyncio.to_thread(self.process.wait, 5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                await asyncio.to_thread(self.process.wait)

    async def make(self, name: str, kind: str = "calendar") -> None:
        """Make a calendar or an address book with a name."""
        card = kind == "addressbook"
        types = (
            '<A:addressbook xmlns:A="urn:ietf:params:xml:ns:carddav"/>'
            if card
            else '<C:calendar xmlns:C="urn:ietf:params:xml:ns:caldav"/>'
        )
        body = (
            '<?xml version="1.0"?><D:mkcol xmlns:D="DAV:"><D:set><D:prop><D:resourcetype><D:collection/>'
            f"{types}</D:resourcetype><D:displayname>{name}</D:displayname></D:prop></D:set></D:mkcol>"
        )
        assert await self.ask("MKCOL", f"/anna/{name.casefold()}/", body) == 201

    async def put(self, path: str, text: str, media_type: str = "text/calendar") -> None:
        assert await self.ask("PUT", f"/anna/{path}", text, media_type) in {201, 204}

    async def ask(self, method: str, path: str, body: str = "", media_type: str = "application/xml") -> int:
        """Make a request with a client of our own, and return the status."""
        from base64 import b64encode

        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        data = body.encode()
        head = [
            f"{method} {path} HTTP/1.1", "Host: test", f"Content-Length: {len(data)}", f"Content-Type: {media_type}; charset=utf-8",
            f"Authorization: Basic {b64encode(b'anna:s3cret-word').decode()}", "Connection: close", "", "",
        ]  # fmt: skip
        writer.write("\r\n".join(head).encode() + data)
        async with asyncio.timeout(PATIENCE):
            answer = await reader.read()
        writer.close()
        return int(answer.split(b" ", 2)[1])

    def objects(self, calendar: str = "personal") -> list[str]:
        """The texts of the objects as they are on the disk."""
        folder = self.folder / "collections" / "collection-root" / "anna" / calendar
        return [path.read_bytes().decode() for path in sorted(folder.glob("*.ics"))]


@pytest.fixture(scope="session")
def kept_radicale(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Radicale]:
    """The one that all tests of this process use: starting it takes longer than most of them."""
    made = Radicale(0, tmp_path_factory.mktemp("radicale"))
    yield made
    if made.process is not None:
        made.process.kill()
        made.process.wait()


@pytest.fixture
async def radicale(kept_radicale: Radicale) -> Radicale:
    """A radicale with an empty calendar; a test may stop it."""
    shutil.rmtree(kept_radicale.folder / "collections/collection-root", ignore_errors=True)
    if kept_radicale.process is None or kept_radicale.process.poll() is not None:
        kept_radicale.port = free_port()
        await kept_radicale.start()
    await kept_radicale.make("personal")
    return kept_radicale
