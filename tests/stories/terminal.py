"""A terminal: a program behind a pseudo-terminal, what it shows, and the keys that a person presses."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import termios
import time
from typing import TYPE_CHECKING

from tests.stories.house import command

if TYPE_CHECKING:
    from tests.stories.house import House

CTRL_C = "\x03"
ENTER = "\r"
WHERE = b"\x1b[6n"
"""By this a program asks where the cursor is; a terminal answers."""
ESCAPES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[@-Z\\-_]|[()][A-Z0-9])|[\x00-\x08\x0b-\x1f]")


class Terminal:
    """One window of 40 lines in which a command of the house runs."""

    def __init__(self) -> None:
        self._screen = b""
        self._process: asyncio.subprocess.Process | None = None
        self._master = -1

    async def open(self, house: House, *arguments: str) -> None:
        """Run a command in it."""
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))

        def own() -> None:
            # where a script started these tests in the background, both are ignored
            for number in (signal.SIGINT, signal.SIGQUIT):
                signal.signal(number, signal.SIG_DFL)
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self._process = await asyncio.create_subprocess_exec(
            command(),
            *arguments,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=house.environ(),
            cwd=house.folder,
            preexec_fn=own,
        )
        os.close(slave)
        os.set_blocking(self._master, False)
        asyncio.get_running_loop().add_reader(self._master, self._read)

    @property
    def shown(self) -> str:
        """All that was ever shown, without colours and movements."""
        return ESCAPES.sub("", self._screen.decode(errors="replace"))

    def press(self, keys: str) -> None:
        """Press keys."""
        os.write(self._master, keys.encode())

    async def say(self, text: str) -> None:
        """Type a line, as a person does: the last key by itself."""
        self.press(text)
        await asyncio.sleep(0.3)
        self.press(ENTER)

    async def until(self, words: str, seconds: float = 60.0, *, since: int = 0) -> bool:
        """Wait until words are shown, counted from a length of ``shown`` on."""
        ends = time.monotonic() + seconds
        while words not in self.shown[since:]:
            if time.monotonic() > ends or self.ended:
                return words in self.shown[since:]
            await asyncio.sleep(0.05)
        return True

    @property
    def ended(self) -> bool:
        """Whether the program is gone."""
        return self._process is None or self._process.returncode is not None

    async def until_ended(self, seconds: float) -> int | None:
        """Wait for the program's end; return its exit code, or None when it stays."""
        assert self._process is not None
        try:
            return await asyncio.wait_for(self._process.wait(), seconds)
        except TimeoutError:
            return None

    async def close(self) -> None:
        """Close the window, whatever runs in it."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGKILL)
            await self._process.wait()
        if self._master >= 0:
            asyncio.get_running_loop().remove_reader(self._master)
            os.close(self._master)
            self._master = -1

    def _read(self) -> None:
        try:
            got = os.read(self._master, 1 << 16)
        except BlockingIOError:
            return
        except OSError:  # the program closed its side
            asyncio.get_running_loop().remove_reader(self._master)
            return
        self._screen += got
        for _ in range(got.count(WHERE)):
            self.press("\x1b[1;1R")
