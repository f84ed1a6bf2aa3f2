"""The keeper of one command: a process that starts it, watches it, and ends all of its processes. Imports the standard library alone.

The runner forks one keeper for each command, and has one more ready. A keeper is a subreaper: whatever the command starts, however it
detaches itself, stays below the keeper, and the keeper ends it together with the command: when the command itself has ended, on an
order, at the time-out, over a limit, and when the runner is gone.

An order is one JSON line on the link to the runner: ``{"grace": seconds, "reason": word}``. The report is one JSON line back:
``code`` or ``signal`` (how the command ended), ``seconds``, ``reason`` ("" when it ended by itself, else "timeout", "processes",
"memory", "disk", or that of the order), ``left`` (how many processes it left behind) and ``cpu`` (seconds). For a command that was
never executed: ``errno``, ``text`` and ``file``.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import mmap
import os
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from gateway.runner import process_tree
from gateway.sandbox import restrict

LOOK_EVERY = 0.2
"""Seconds between two looks at what the processes use."""
GRACE = 1.0
"""Seconds between SIGTERM and SIGKILL at a time-out."""
SETTLE = 0.1
"""Seconds that other processes of a command have to end after it."""
DISK_FLOOR = 64 << 20
"""A command is ended when it has taken the disk below this many free bytes."""
_LENGTH = struct.Struct(">I")
_NOTE_BYTES = 4096
_NOTE_CHARS = 300  # each at most six bytes as JSON
_TIOCSCTTY = 0x540E if sys.platform == "linux" else 0x20007461


class Keeper:
    """Runs in the keeper process: prepared ahead of the order, which comes over the link."""

    def __init__(self, link: socket.socket) -> None:
        process_tree.become_subreaper()
        self._link = link
        self._woken, self._wake = socket.socketpair()
        self._woken.settimeout(0.0)
        self._wake.settimeout(0.0)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        self._note = mmap.mmap(-1, _NOTE_BYTES)
        self._reason = ""
        self._kill_at: float | None = None
        self._ended: tuple[int, Any] | None = None
        self._lines = b""

    def run(self) -> NoReturn:
        """Wait for the order, start the command, and end when none of its processes is left and the report is sent."""
        received = receive(self._link)
        if received is None:
            os._exit(0)
        order, streams = received
        self._timeout: float = order["timeout"]
        self._watch: Mapping[str, int] = order["watch"]
        self._wrapped = order["plan"]["rung"] == "bwrap"
        self._cwd: str = order["plan"]["cwd"]
        self._began = time.monotonic()
        keeper = os.getpid()
        try:
            self._command = os.fork()
        except OSError as error:
            self._report_and_exit({"errno": error.errno, "text": error.strerror, "file": ""})
        if not self._command:
            _execute(order["plan"], streams, self._note, keeper, terminal=order["pty"] is not None)
        for descriptor in streams:
            os.close(descriptor)
        self._free = self._free_bytes()
        self._link.settimeout(0.0)
        self._supervise(self._woken)
        refusal = self._note[:].rstrip(b"\0")
        self._report_and_exit(json.loads(refusal) if refusal else self._report())

    def _supervise(self, woken: socket.socket) -> None:
        """Wait for the command, obeying orders and limits."""
        looked = self._began
        while self._ended is None:
            now = time.monotonic()
            if self._kill_at is None and now - self._began >= self._timeout:
                self._end("timeout", GRACE)
            if now - looked >= LOOK_EVERY:
                looked = now
                self._check_limits()
            if self._kill_at is not None and now >= self._kill_at:
                break
            due = [looked + LOOK_EVERY, self._kill_at or self._began + self._timeout]
            ready, _, _ = select.select([woken, self._link], [], [], max(0.0, min(due) - now))
            if woken in ready:
                with contextlib.suppress(BlockingIOError):
                    woken.recv(4096)
            self._reap()
            if self._link in ready:
                self._obey()
        self._left = 0 if self._reason else self._survivors(woken)
        self._clear(woken)

    def _survivors(self, woken: socket.socket) -> int:
        """Count the processes that the command left behind. One that is just ending is given the time for it."""
        until = time.monotonic() + SETTLE
        while self._reap():
            if time.monotonic() >= until:
                return len(process_tree.descendants(os.getpid()))
            select.select([woken], [], [], 0.01)
            with contextlib.suppress(BlockingIOError):
                woken.recv(4096)
        return 0

    def _check_limits(self) -> None:
        """End a command that uses more than it may."""
        if self._kill_at is not None:
            return
        pids = process_tree.descendants(os.getpid())
        if len(pids) > self._watch["processes"]:
            self._end("processes", 0.0)
        elif process_tree.memory_of(pids) > self._watch["memory"]:
            self._end("memory", 0.0)
        elif self._free_bytes() < min(DISK_FLOOR, self._free - DISK_FLOOR // 4):
            self._end("disk", 0.0)

    def _free_bytes(self) -> int:
        try:
            found = os.statvfs(self._cwd)
        except OSError:
            return 0
        return found.f_bavail * found.f_frsize

    def _obey(self) -> None:
        try:
            read = self._link.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            read = b""
        if not read:  # the runner is gone
            self._end("lost", 0.0)
        *lines, self._lines = (self._lines + read).split(b"\n")
        for line in lines:
            order = json.loads(line)
            self._end(order["reason"], order["grace"])

    def _end(self, reason: str, grace: float) -> None:
        """Ask the processes to end, and kill them after ``grace`` seconds. What is said again can only shorten the wait."""
        now = time.monotonic()
        self._reason = self._reason or reason
        self._kill_at = min(now + grace, self._kill_at or now + grace)
        if grace > 0:
            pids = process_tree.descendants(os.getpid())
            asked = [pid for pid in pids if pid != self._command or not self._wrapped]  # bwrap would leave the command unasked
            process_tree.send(asked, signal.SIGTERM)
            process_tree.send(asked, signal.SIGCONT)
            if not pids:  # no list of processes on this system
                process_tree.send_to_group(self._command, signal.SIGTERM)

    def _clear(self, woken: socket.socket) -> None:
        """Kill until no process is left. Whatever is forked meanwhile comes to be below this process, too."""
        while self._reap():
            process_tree.send_to_group(self._command, signal.SIGKILL)
            process_tree.send(process_tree.descendants(os.getpid()), signal.SIGKILL)
            select.select([woken], [], [], 0.005)
            with contextlib.suppress(BlockingIOError):
                woken.recv(4096)

    def _reap(self) -> bool:
        """Take the exit status of everything that ended; return whether any process is left."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if not pid:
                return True
            if pid == self._command:
                self._ended = (status, usage)

    def _report(self) -> dict[str, Any]:
        status, usage = self._ended or (0, None)
        return {
            "code": os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
            "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
            "seconds": round(time.monotonic() - self._began, 3),
            "reason": self._reason,
            "left": self._left,
            "cpu": round(usage.ru_utime + usage.ru_stime, 3) if usage else 0.0,
        }

    def _report_and_exit(self, report: dict[str, Any]) -> NoReturn:
        """Send the report and end. By now there is nothing left to clean up."""
        with contextlib.suppress(OSError):
            self._link.settimeout(None)
            self._link.sendall(json.dumps(report).encode() + b"\n")
        os._exit(0)


def hand_over(link: socket.socket, order: Mapping[str, Any], streams: Sequence[int]) -> None:
    """Send a keeper its order, with the command's standard input and output. Raises OSError."""
    message = json.dumps(order).encode()
    socket.send_fds(link, [_LENGTH.pack(len(message))], streams)
    link.sendall(message)


def receive(link: socket.socket) -> tuple[Any, list[int]] | None:
    """Wait for what ``hand_over`` sends; None when the runner is gone."""
    head, streams, _, _ = socket.recv_fds(link, _LENGTH.size, 2)
    if len(head) < _LENGTH.size or len(streams) < 2:  # noqa: PLR2004 -- input and output
        return None
    (missing,) = _LENGTH.unpack(head)
    message = bytearray()
    while len(message) < missing:
        piece = link.recv(min(missing - len(message), 1 << 20))
        if not piece:
            return None
        message += piece
    return json.loads(message), streams


def _execute(plan: Mapping[str, Any], streams: Sequence[int], note: mmap.mmap, keeper: int, *, terminal: bool) -> NoReturn:
    """Become the command, in the child. What prevents it is written into the note, which is shared with the keeper."""
    try:
        signal.set_wakeup_fd(-1)
        process_tree.die_with_parent(keeper)
        os.setsid()
        for source, target in zip((*streams, streams[1]), (0, 1, 2), strict=True):
            os.dup2(source, target)
        if terminal and plan["rung"] != "bwrap":  # inside bwrap the command takes the terminal itself
            fcntl.ioctl(0, _TIOCSCTTY, 0)
        _be_first_to_go()
        restrict.become(plan)
    except OSError as error:
        facts = {
            "errno": error.errno or 0,
            "text": (error.strerror or str(error))[:_NOTE_CHARS],
            "file": str(error.filename or "")[:_NOTE_CHARS],
        }
        note.write(json.dumps(facts).encode()[:_NOTE_BYTES])
    except BaseException as error:  # noqa: BLE001 -- a defect in the child must be told, and must never run the parent's code
        note.write(
            json.dumps({"errno": 0, "text": f"{type(error).__name__}: {error}"[:_NOTE_CHARS], "file": ""}).encode()[
                :_NOTE_BYTES
            ]
        )
    finally:
        os._exit(127)


def _be_first_to_go() -> None:
    """Have the kernel end this command before the gateway when the machine runs out of memory."""
    with contextlib.suppress(OSError), Path("/proc/self/oom_score_adj").open("wb", buffering=0) as score:
        score.write(b"800")
