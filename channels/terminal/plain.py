"""Chat without a terminal: each line of the input is a message, and only the replies are written."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from typing import BinaryIO

from channels.common.control_characters import visible
from channels.errors import ChannelError, LinkLost
from channels.live import LiveEvent, Note, Rejected, Reply
from channels.terminal.link import Exchange, Link

FAILED = 1


async def converse(
    link: Link,
    *,
    source: BinaryIO,
    out: BinaryIO,
    err: BinaryIO,
    new_key: Callable[[], str],
    hints: Mapping[str, str] | None = None,
    rewrite: Callable[[str], str] = str,
) -> int:
    """Send each line that is not blank, and write its replies as Markdown before the next is sent.

    Bytes that are not UTF-8 become replacement characters, which is reported on ``err`` like every error. Returns the exit code: 0, or that
    of the last turn that gave another. A reader that went away ends the conversation quietly. The link is left open.
    ``rewrite`` is applied to whatever is printed.
    """
    talk = _Talk(link, out, err, new_key=new_key, hints=hints or {}, rewrite=rewrite)
    try:
        async for number, line in _lines(source):
            text = line.decode("utf-8", "replace").rstrip("\r\n")
            if "\ufffd" in text and "\ufffd".encode() not in line:
                await talk.tell(f"line {number} is not valid UTF-8: the broken bytes are shown as \ufffd")
            if text.strip():
                await talk.say(text)
    except LinkLost as error:
        await talk.trouble(str(error), error.hint)
    except BrokenPipeError:
        _silence(out)
    finally:
        await talk.close()
    return talk.exit_code


class _Talk:
    def __init__(
        self,
        link: Link,
        out: BinaryIO,
        err: BinaryIO,
        *,
        new_key: Callable[[], str],
        hints: Mapping[str, str],
        rewrite: Callable[[str], str],
    ) -> None:
        self.exit_code = 0
        self._rewrite = rewrite
        self._link = link
        self._out = out
        self._err = err
        self._new_key = new_key
        self._hints = hints
        self._frames = link.frames()

    async def say(self, text: str) -> None:
        exchange = Exchange(self._new_key())
        try:
            await self._link.say(text, key=exchange.key, hints=self._hints)
        except LinkLost:
            raise
        except ChannelError as error:
            await self.trouble(str(error), error.hint)
            return
        while not exchange.over:
            try:
                frame = await anext(self._frames)
            except StopAsyncIteration:
                raise LinkLost("the conversation was closed", hint="start it again") from None
            if exchange.hear(frame):
                await self._show(frame)
        self.exit_code = exchange.exit_code or self.exit_code

    async def _show(self, frame: LiveEvent) -> None:
        if isinstance(frame, Reply):
            await asyncio.to_thread(_write, self._out, self._rewrite(frame.text))
        elif isinstance(frame, Note):
            await self.tell(frame.text)
        elif isinstance(frame, Rejected):
            await self.trouble(frame.reason, frame.hint)

    async def tell(self, text: str) -> None:
        with contextlib.suppress(OSError):
            await asyncio.to_thread(_write, self._err, self._rewrite(text))

    async def trouble(self, text: str, hint: str) -> None:
        self.exit_code = FAILED
        await self.tell(f"{text}\n  {hint}" if hint else text)

    async def close(self) -> None:
        if hasattr(self._frames, "aclose"):
            await self._frames.aclose()


def _write(stream: BinaryIO, text: str) -> None:
    stream.write(visible(text).rstrip("\n").encode("utf-8", "replace") + b"\n")
    stream.flush()


def _silence(stream: BinaryIO) -> None:
    """Discard what is still buffered, so that the interpreter does not complain at its end."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


async def _lines(source: BinaryIO) -> AsyncIterator[tuple[int, bytes]]:
    """Yield numbered lines, read one at a time by a thread that the end of the program need not wait for."""
    loop = asyncio.get_running_loop()
    wanted = threading.Semaphore(0)
    arrived: asyncio.Queue[bytes] = asyncio.Queue()

    def read() -> None:
        with contextlib.suppress(RuntimeError, ValueError, OSError):  # the loop or the input may be closed by then
            while True:
                wanted.acquire()
                line = source.readline()
                loop.call_soon_threadsafe(arrived.put_nowait, line)
                if not line:
                    return

    threading.Thread(target=read, name="reads the input", daemon=True).start()
    number = 0
    while True:
        wanted.release()
        line = await arrived.get()
        if not line:
            return
        number += 1
        yield number, line
