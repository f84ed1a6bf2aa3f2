"""Python programs that start in some milliseconds: what they import is imported once, and each program is a fork of this process.

What runs then is what ``python -m MODULE ...`` or ``python SCRIPT ...`` would run, with the arguments, the environment, the folder, the
streams and the signals of a new process. A program that ends says which modules it has imported, and the next one finds them there. A test
of imports, of Python's own options or of the time that a start takes starts a real Python. The client is ``tests/programs.py``.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import gc
import importlib
import io
import json
import os
import runpy
import selectors
import signal
import socket
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LONGEST_REQUEST = 1 << 20
ATOMIC = 4096
"""Bytes that several processes may write to one pipe without mixing them up."""


class Server:
    """Forks for each request, and reports process id and exit status to the pipe that came with it."""

    def __init__(self, requests: socket.socket) -> None:
        self.requests = requests
        self.waking, self.wake = os.pipe()
        self.learning, self.learned = os.pipe()
        for end in (self.waking, self.wake, self.learning):
            os.set_blocking(end, False)
        self.reports: dict[int, int] = {}

    def serve(self) -> dict[str, Any]:
        """Serve until the tests end. Returns in the children alone, with what was asked for."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self.wake)
        with selectors.DefaultSelector() as ready:
            for source in (self.requests, self.waking, self.learning):
                ready.register(source, selectors.EVENT_READ)
            while True:
                for key, _ in ready.select():
                    if key.fileobj == self.waking:
                        os.read(self.waking, ATOMIC)
                        self.bury()
                    elif key.fileobj == self.learning:
                        learn(os.read(self.learning, 1 << 20).decode().split())
                    elif asked := self.request():
                        if self.fork(asked):
                            return asked
                    else:
                        os._exit(0)

    def request(self) -> dict[str, Any] | None:
        """Take a request with its four file descriptors, or nothing where the tests have ended."""
        message, handed_over, _, _ = self.requests.recvmsg(LONGEST_REQUEST, socket.CMSG_SPACE(4 * array.array("i").itemsize))
        if not message:
            return None
        descriptors = array.array("i", b"".join(data for _, _, data in handed_over))
        return json.loads(message) | {"streams": list(descriptors[:3]), "report": descriptors[3]}

    def fork(self, asked: dict[str, Any]) -> bool:
        """Return True in the child. What a gateway imports is imported before: many are killed, and cannot say it."""
        if "gateway" in asked["program"][2:]:
            from tests.fire.nursery import HEAVY

            learn([*HEAVY])
        if pid := os.fork():
            for stream in asked["streams"]:
                os.close(stream)
            self.reports[pid] = asked["report"]
            with contextlib.suppress(BrokenPipeError):
                os.write(asked["report"], b"%d\n" % pid)
            return False
        signal.set_wakeup_fd(-1)
        for end in (self.requests.detach(), self.waking, self.wake, self.learning, asked["report"], *self.reports.values()):
            os.close(end)
        return True

    def bury(self) -> None:
        """Report those that have ended, and the CPU time that each used with all that it started."""
        while self.reports:
            pid, status, used = os.wait4(-1, os.WNOHANG)
            if not pid:
                return
            report = self.reports.pop(pid)
            with contextlib.suppress(BrokenPipeError):  # nobody waits for it
                os.write(report, b"%d %.3f\n" % (os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime))
            os.close(report)


def learn(names: list[str]) -> None:
    """Import what programs have imported."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:
            with contextlib.suppress(Exception):  # what only a program's own folder has
                importlib.import_module(name)
    gc.freeze()


def build_settings() -> None:
    """Build the models of the settings, which nearly each program would build anew."""
    from gateway.config.load import check

    check("{agents: {list: [{id: 'one'}]}}", Path("/nowhere"), {"HOME": "/nowhere"})
    gc.freeze()


def teach(learned: int, known: set[str]) -> None:
    """Tell which modules this program has imported, in their order."""
    line = b""
    for name in [name for name in sys.modules if name not in known]:
        word = name.encode() + b"\n"
        if len(line) + len(word) > ATOMIC:
            os.write(learned, line)
            line = b""
        line += word
    if line:
        os.write(learned, line)


def become(asked: dict[str, Any]) -> None:
    """Make this process what a new one would be."""
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where whoever started the tests ignores it
    if asked["session"]:
        os.setsid()
    for number, stream in enumerate(asked["streams"]):
        os.dup2(stream, number)
    for stream in asked["streams"]:
        os.close(stream)
    os.umask(asked["umask"])
    os.environ.clear()
    os.environ.update(asked["env"])
    time.tzset()
    os.chdir(asked["cwd"])
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = open(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    bare = open(2, "wb", closefd=False)  # noqa: SIM115
    sys.stderr = sys.__stderr__ = io.TextIOWrapper(bare, encoding="utf-8", errors="backslashreplace", line_buffering=True)


def run(asked: dict[str, Any]) -> None:
    """Run the module or the script, as Python would."""
    from agent import fault_injection

    fault_injection.arm(asked["env"].get(fault_injection.VARIABLE, ""))
    for choice in asked["warnings"]:
        warnings.simplefilter(choice)
    kind, what, *words = asked["program"]
    sys.argv = [what, *words]
    sys.orig_argv = [
        sys.executable,
        *([] if kind == "script" else [kind]),
        what,
        *words,
    ]  # a program may start itself again by it
    if kind == "-c":
        sys.argv[0] = "-c"
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102
    elif kind == "-m":
        sys.path.insert(0, asked["cwd"])
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, str(Path(what).parent))
        runpy.run_path(what, run_name="__main__")


def run_to_the_end(asked: dict[str, Any], learned: int) -> None:
    """Run it and end as Python does, but for taking all modules apart, which would take longer than most programs."""
    known = set(sys.modules)
    code: Any = 1
    try:
        run(asked)
        code = 0
    except SystemExit as ended:
        code = ended.code
    except BaseException:  # noqa: BLE001 - as the interpreter does
        sys.excepthook(*sys.exc_info())
    threading._shutdown()
    atexit._run_exitfuncs()
    if code is not None and not isinstance(code, int):
        sys.stderr.write(f"{code}\n")
        code = 1
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    with contextlib.suppress(OSError):  # it closed what it did not know
        teach(learned, known)
    os._exit((code or 0) & 0xFF)


if __name__ == "__main__":
    sys.path[0] = str(ROOT)
    SERVER = Server(socket.socket(fileno=int(sys.argv[1])))
    learn(["agent.fault_injection", "gateway.cli"])
    build_settings()
    ASKED = SERVER.serve()
    become(ASKED)
    run_to_the_end(ASKED, SERVER.learned)
