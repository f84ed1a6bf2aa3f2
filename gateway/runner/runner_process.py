"""The runner process: starts commands for the gateway and ends them with all their processes. Imports the standard library alone.

Run as ``python -I -S runner_process.py FD PARENT`` with an empty environment; FD is a socket to the gateway, over which ``frames.py``
is spoken. It has one thread, so forking is safe, and it holds none of the gateway's memory. When the socket closes, which is what the
death of the gateway does, it ends every command and itself.
"""

from __future__ import annotations

import contextlib
import gc
import os
import selectors
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Final

if __name__ == "__main__":
    sys.path.append(str(Path(__file__).resolve().parents[2]))

from gateway.runner import frames, process_tree
from gateway.runner.frames import Frame
from gateway.runner.job import Job, SpareKeeper

MOST_UNSENT: Final = 1 << 20
"""With so many bytes waiting for the gateway, no more output is read."""
LINGER: Final = 1.0
"""Seconds for which output is read after a command's processes are gone, in case another process holds its pipe."""
ENDING: Final = 5.0
"""Longest wait for the keepers at the end, in seconds."""
_SELDOM: Final = 60.0


class Runner:
    """The loop of the runner process."""

    def __init__(self, gateway: socket.socket) -> None:
        self._gateway = gateway
        self._gateway.settimeout(0.0)
        self._unpacker = frames.Unpacker()
        self._unsent = bytearray()
        self._jobs: dict[int, Job] = {}
        self._gone_at: dict[int, float] = {}
        self._selector = selectors.DefaultSelector()
        self._open = True
        self._strays = False
        self._spare: SpareKeeper | None = None
        self._leaving: set[int] = set()
        """Keepers that have reported and are about to end."""
        self._woken, wake = socket.socketpair()
        self._woken.settimeout(0.0)
        wake.settimeout(0.0)
        self._wake = wake
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, self._signalled)
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)

    def run(self) -> None:
        """Serve until the gateway is gone."""
        self._selector.register(self._gateway, selectors.EVENT_READ, self._hear_gateway)
        self._selector.register(self._woken, selectors.EVENT_READ, self._hear_signal)
        while self._open:
            ready = self._selector.select(0 if self._spare is None else self._pause())
            if not ready and self._spare is None:
                self._prepare()
            for key, events in ready:
                if key.fileobj in self._selector.get_map():  # an earlier one of these may have closed it
                    key.data(events)
            self._settle()
        self._leave()

    def _prepare(self) -> None:
        """Fork a keeper for the next command while there is nothing else to do."""
        try:
            self._spare = SpareKeeper()
        except OSError:  # the next command tries it again, and tells
            time.sleep(0.05)

    def _pause(self) -> float:
        if self._strays:
            return 0.05
        return LINGER / 4 if self._gone_at else _SELDOM

    def _signalled(self, number: int, _: object) -> None:
        if number == signal.SIGTERM:
            self._open = False

    def _hear_signal(self, _: int) -> None:
        with contextlib.suppress(BlockingIOError):
            self._woken.recv(4096)

    def _hear_gateway(self, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            self._flush()
        if not events & selectors.EVENT_READ:
            return
        try:
            read = self._gateway.recv(256 * 1024)
        except BlockingIOError:
            return
        except OSError:
            read = b""
        if not read:
            self._open = False
        for frame in self._unpacker.feed(read):
            self._obey(frame)

    def _obey(self, frame: Frame) -> None:
        if frame.kind == frames.START:
            self._start(frame)
            return
        job = self._jobs.get(frame.job)
        if job is None:  # it ended meanwhile
            return
        if frame.kind == frames.SEEN:
            job.room += frame.number
        elif frame.kind == frames.INPUT:
            job.add_input(frame.payload)
        elif frame.kind == frames.END_INPUT:
            job.end_input()
        elif frame.kind == frames.KILL:
            job.order(frame.json["grace"], frame.json["reason"])

    def _start(self, frame: Frame) -> None:
        try:
            spare, self._spare = self._spare or SpareKeeper(), None
            job = Job(frame.job, frame.json, spare)
        except OSError as error:
            facts = {"errno": error.errno, "text": error.strerror, "file": ""}
            self._send(frames.packed_json(frames.FAILED, frame.job, facts))
            return
        self._jobs[frame.job] = job
        self._send(frames.packed_json(frames.STARTED, frame.job, {"pid": job.keeper}))
        self._selector.register(job.link, selectors.EVENT_READ, lambda _: self._hear_keeper(job))

    def _hear_keeper(self, job: Job) -> None:
        if not job.read_reports():
            self._selector.unregister(job.link)

    def _settle(self) -> None:
        """After each round: reap, read what may be read, and finish commands that are over."""
        self._reap()
        for job in list(self._jobs.values()):
            self._attend(job)
            self._linger(job)
            if job.over:
                self._finish(job)
        self._flush()

    def _linger(self, job: Job) -> None:
        """Stop waiting for output that no process of the command can write any more."""
        if not job.ended or job.drained or job.room <= 0 or len(self._unsent) >= MOST_UNSENT:
            self._gone_at.pop(job.number, None)
        elif time.monotonic() - self._gone_at.setdefault(job.number, time.monotonic()) > LINGER:
            job.drained = True

    def _attend(self, job: Job) -> None:
        """Say which of a job's descriptors are waited for now."""
        wanted = 0
        if not job.drained and job.room > 0 and len(self._unsent) < MOST_UNSENT:
            wanted = selectors.EVENT_READ
        if job.input == job.output and job.wants_to_write:
            wanted |= selectors.EVENT_WRITE
        self._watch_for(job.output, wanted, lambda events: self._output(job, events))
        if job.input is not None and job.input != job.output:
            self._watch_for(job.input, selectors.EVENT_WRITE if job.wants_to_write else 0, lambda _: self._input(job))

    def _watch_for(self, descriptor: int, events: int, then: object) -> None:
        known = self._selector.get_map().get(descriptor)
        if known is None and events:
            self._selector.register(descriptor, events, then)
        elif known is not None and not events:
            self._selector.unregister(descriptor)
        elif known is not None and known.events != events:
            self._selector.modify(descriptor, events, known.data)

    def _output(self, job: Job, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            self._input(job)
        if events & selectors.EVENT_READ and (read := job.read()):
            self._gone_at.pop(job.number, None)
            self._send(frames.packed(frames.OUTPUT, job.number, read))

    def _input(self, job: Job) -> None:
        if written := job.write():
            self._send(frames.packed_count(frames.TAKEN, job.number, written))
        if (closed := job.close_input_if_due()) is not None:
            self._watch_for(closed, 0, None)
            os.close(closed)

    def _reap(self) -> None:
        """Take the exit status of what ended. A keeper that was killed leaves its command's processes to this one: they are ended."""
        keepers = {job.keeper: job for job in self._jobs.values()}
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                pid = 0
            if not pid:
                break
            self._leaving.discard(pid)
            if self._spare is not None and pid == self._spare.pid:
                self._spare.link.close()
                self._spare = None
            if (job := keepers.get(pid)) is not None:
                while job.report is None and job.read_reports():
                    pass
                job.ended = job.reaped = True
                self._strays = self._strays or job.report is None
        if self._strays:
            spare = {self._spare.pid} if self._spare is not None else set()
            strays = process_tree.descendants(os.getpid(), besides=self._leaving | keepers.keys() | spare)
            process_tree.send(strays, signal.SIGKILL)
            self._strays = bool(strays)

    def _finish(self, job: Job) -> None:
        del self._jobs[job.number]
        if not job.reaped:
            self._leaving.add(job.keeper)
        self._gone_at.pop(job.number, None)
        for descriptor in (job.output, job.input, job.link):
            if descriptor is not None and descriptor in self._selector.get_map():
                self._selector.unregister(descriptor)
        job.close()
        report = job.report or {
            "code": None,
            "signal": None,
            "seconds": 0.0,
            "reason": "lost",
            "left": 0,
            "cpu": 0.0,
            "memory": 0,
        }
        self._send(frames.packed_json(frames.FAILED if "errno" in report else frames.EXITED, job.number, report))

    def _send(self, data: bytes) -> None:
        self._unsent += data

    def _flush(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: self._gateway.send(self._unsent[: 256 * 1024])]
        except BlockingIOError:
            pass
        except OSError:
            self._open = False
            return
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._unsent else 0)
        self._watch_for(self._gateway.fileno(), wanted, self._hear_gateway)

    def _leave(self) -> None:
        """End every command. A keeper whose link closes kills all that it has."""
        for link in [*(job.link for job in self._jobs.values()), *([self._spare.link] if self._spare is not None else [])]:
            link.close()
        until = time.monotonic() + ENDING
        while time.monotonic() < until:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                time.sleep(0.005)
        process_tree.send(process_tree.descendants(os.getpid()), signal.SIGKILL)


def main() -> None:
    """Be the runner."""
    process_tree.become_subreaper()
    process_tree.die_with_parent(int(sys.argv[2]), signal.SIGTERM)
    gateway = socket.socket(fileno=int(sys.argv[1]))
    gateway.set_inheritable(False)
    gc.collect()
    gc.freeze()
    Runner(gateway).run()


if __name__ == "__main__":
    main()
