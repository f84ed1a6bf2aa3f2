"""Stands between two programs that speak HTTP on loopback: changes what is said, or takes it by TLS."""

from __future__ import annotations

import asyncio
import subprocess
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable
    from pathlib import Path


class Between:
    """Listens at ``port`` and passes everything on to the port ``to``; ``asked`` and ``answered`` change what goes there and back."""

    def __init__(
        self,
        to: int,
        *,
        asked: Callable[[bytes], bytes] = bytes,
        answered: Callable[[bytes], bytes] = bytes,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self._to, self._asked, self._answered, self._context = to, asked, answered, context
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self.port = 0
        self.carried = 0
        """Connections that were passed on."""

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        self._end = asyncio.Event()
        server = await asyncio.start_server(self._carry, "127.0.0.1", 0, ssl=self._context)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._end.wait()
        server.close()
        for task in (tasks := asyncio.all_tasks() - {asyncio.current_task()}):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.carried += 1
        back, onward = await asyncio.open_connection("127.0.0.1", self._to)
        try:
            await asyncio.gather(_pass(reader, onward, self._asked), _pass(back, writer, self._answered))
        except OSError:  # one of the two is gone
            return
        finally:
            for end in (onward, writer):
                end.transport.abort()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, change: Callable[[bytes], bytes]) -> None:
    while data := await reader.read(65_536):
        writer.write(change(data))
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


@dataclass(frozen=True)
class Certificates:
    """An authority of one's own, and a certificate for 127.0.0.1 that it signed."""

    authority: Path
    chain: Path
    key: Path


def certificates(folder: Path) -> Certificates:
    """Make them with openssl, as somebody does who has no other authority."""
    made = Certificates(folder / "ca.pem", folder / "here.pem", folder / "here.key")
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    authority = ["-x509", *curve, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=an authority of one's own"]
    signed = ["-x509", *curve, "-CA", "ca.pem", "-CAkey", "ca.key", "-keyout", "here.key", "-out", "here.pem"]
    names = ["-subj", "/CN=here", "-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE"]
    for arguments in (authority, [*signed, *names]):
        subprocess.run(["openssl", "req", *arguments], cwd=folder, check=True, capture_output=True)
    return made
