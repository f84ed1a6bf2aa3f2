"""A command in the runner: its keeper process and the descriptors to it. Imports the standard library alone."""

from __future__ import annotations

import contextlib
import fcntl
import gc
import json
import os
import pty
import socket
import struct
import termios
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

from gateway.runner.frames import WINDOW
from gateway.runner.keeper import Keeper, hand_over

MOST_INPUT: Final = 1 << 20
"""How many bytes of input wait in the runner for a command that does not read; more are dropped."""
_PIECE: Final = 64 * 1024


class SpareKeeper:
    """A keeper process that waits for its order. Raises OSError where none can be forked."""

    def __init__(self) -> None:
        self.link, theirs = socket.socketpair()
        try:
            self.pid = os.fork()
        except OSError:
            self.link.close()
            theirs.close()
            raise
        if not self.pid:
            _keep(theirs)
        theirs.close()


def _keep(link: socket.socket) -> None:
    """Be the keeper, in the child: with no descriptor of the runner or of another command."""
    try:
        gc.disable()
        os.setsid()
        os.closerange(3, link.fileno())
        os.closerange(link.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
        Keeper(link).run()
    finally:
        os._exit(0)


class Job:
    """One command. ``output`` is read, ``input`` (None when closed) is written, ``link`` leads to the keeper; none of them blocks."""

    def __init__(self, number: int, order: Mapping[str, Any], keeper: SpareKeeper) -> None:
        self.number = number
        self.report: dict[str, Any] | None = None
        self.ended = False
        """Whether none of the command's processes is left."""
        self.reaped = False
        """Whether the keeper process is gone."""
        self.room = WINDOW
        """How many bytes of output may be sent before the gateway has seen more."""
        self.drained = False
        """Whether the output has come to its end."""
        self._waiting: deque[bytes] = deque()
        self._told = b""
        self._closing = False
        self.output, self.input, streams = _streams(order["pty"], input_open=order["input"])
        self.keeper, self.link = keeper.pid, keeper.link
        try:
            hand_over(self.link, order, streams)
        except OSError:
            self.close()
            raise
        finally:
            for descriptor in set(streams):
                os.close(descriptor)
        self.link.settimeout(0.0)
        os.set_blocking(self.output, False)
        if self.input is not None:
            os.set_blocking(self.input, False)

    @property
    def over(self) -> bool:
        """Whether nothing more will come of this command."""
        return self.ended and self.drained

    def read(self) -> bytes:
        """Read some output; b"" when there is none now or the output has come to its end."""
        try:
            read = os.read(self.output, min(_PIECE, max(1, self.room)))
        except BlockingIOError:
            return b""
        except OSError:  # a terminal whose last user is gone
            read = b""
        self.drained = not read
        self.room -= len(read)
        return read

    def add_input(self, data: bytes) -> None:
        """Take in bytes for the command."""
        if self.input is not None and not self._closing and sum(map(len, self._waiting)) < MOST_INPUT:
            self._waiting.append(data)

    def end_input(self) -> None:
        """Close the command's input after what was taken in; a terminal gets its end-of-file character."""
        if self.input == self.output:
            self.add_input(b"\x04")
        else:
            self._closing = True

    @property
    def wants_to_write(self) -> bool:
        """Whether there is input to write, or to close."""
        return self.input is not None and bool(self._waiting or self._closing)

    def write(self) -> int:
        """Write as much input as goes; return how many bytes."""
        done = 0
        try:
            while self._waiting and self.input is not None:
                piece = self._waiting[0]
                written = os.write(self.input, piece)
                done += written
                if written < len(piece):
                    self._waiting[0] = piece[written:]
                    return done
                self._waiting.popleft()
        except BlockingIOError:
            return done
        except OSError:  # nobody reads it any more
            done += sum(map(len, self._waiting))
            self._waiting.clear()
        return done

    def close_input_if_due(self) -> int | None:
        """Close the input when it is to be closed and all is written; return its descriptor then."""
        if not self._closing or self._waiting or self.input is None:
            return None
        closed, self.input = self.input, None
        return closed

    def order(self, grace: float, reason: str) -> None:
        """Have the keeper end the command."""
        with contextlib.suppress(OSError):
            self.link.send(json.dumps({"grace": grace, "reason": reason}).encode() + b"\n")

    def read_reports(self) -> bool:
        """Read what the keeper reports; return False when the link has come to its end."""
        try:
            data = self.link.recv(65_536)
        except BlockingIOError:
            return True
        except OSError:
            data = b""
        self._told += data
        if self.report is None and b"\n" in self._told:
            self.report = json.loads(self._told.partition(b"\n")[0])
            self.ended = True
        return bool(data)

    def close(self) -> None:
        """Close every descriptor. A keeper that still runs ends the command then."""
        self.link.close()
        for descriptor in {self.output, self.input} - {None}:
            with contextlib.suppress(OSError):
                os.close(descriptor or 0)
        self.input = None


def _streams(size: Sequence[int] | None, *, input_open: bool) -> tuple[int, int | None, tuple[int, int]]:
    """Return our end of the output, our end of the input (None for a command without), and the command's input and output."""
    if size is not None:
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
        return master, master, (slave, slave)
    reading, writing = os.pipe()
    if input_open:
        theirs, ours = os.pipe()
        return reading, ours, (theirs, writing)
    return reading, None, (os.open(os.devnull, os.O_RDONLY), writing)
