"""Gateways by the dozen: everything is imported once, and each gateway is a fork of this process, which starts in a blink. One that ends
in order says what it has imported besides, so that the next one finds it.

Speaks JSON lines: ``{"home": ..., "log": ...}`` makes a gateway, which waits at the door, and answers ``{"pid": ...}``; ``{"go": pid}``
lets it begin. ``"heavy"`` names what else is imported once. ``"fault"`` arms one of the places of
``agent.fault_injection``; ``"bound"`` makes even root heed the permissions of files; ``"broken"`` names one of
``SABOTAGES``, which an oracle must see. What runs then is the command ``homebody gateway`` itself.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from agent import fault_injection
from tests.fork_server import build_settings, learn, teach

HEAVY = (
    "agent.models.adapters.openai_chat",
    "apsw",
    "apscheduler.schedulers.asyncio",
    "gateway.jobs.waking",
    "channels.telegram.update_loop",
    "channels.telegram.sending",
    "gateway.cli.attached",
    "gateway.cli.gateway_process",
    "gateway.config.secrets",
    "gateway.app.gateway",
    "gateway.api.server",
    "gateway.logs.log_setup",
    "gateway.supervision.platforms",
    "memory.workspace_memory",
    "openai.resources.chat",
    "structlog",
    "uvicorn",
)


def _lock_nobody_out() -> None:
    import gateway.base.state_lock

    gateway.base.state_lock._lock = lambda _descriptor: True


def _append_to_a_torn_tail() -> None:
    from agent.transcript import transcript_file

    def unmended(_self: object, _fd: int, data: bytes, _now: object) -> transcript_file.Contents:
        return transcript_file.Contents(data)

    transcript_file.TranscriptFile._mended = unmended


SABOTAGES = {"no state lock": _lock_nobody_out, "torn tail appended to": _append_to_a_torn_tail}


def main() -> None:
    learn([*HEAVY])
    build_settings()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel buries the children
    doors: dict[int, int] = {}
    learning, learned = os.pipe()
    for end in (learning, learned):
        os.set_blocking(end, False)
    _say({"ready": True})
    for line in sys.stdin:
        asked = json.loads(line)
        if "go" in asked:
            os.write(doors[asked["go"]], b"!")
            os.close(doors.pop(asked["go"]))
            continue
        learn([*asked.get("heavy", ()), *_told(learning)])
        inside, outside = os.pipe()
        pid = os.fork()
        if pid == 0:
            for door in (outside, learning, *doors.values()):
                os.close(door)
            _live(inside, asked, learned)
        os.close(inside)
        doors[pid] = outside
        _say({"pid": pid})


def _told(learning: int) -> list[str]:
    """Return the names of modules that gateways have imported since this was asked last."""
    with contextlib.suppress(BlockingIOError):
        return os.read(learning, 1 << 20).decode().split()
    return []


def _live(door: int, asked: dict[str, str], learned: int) -> None:
    """Be a gateway, in the child. Never returns."""
    code = 70
    known = set(sys.modules)
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        nothing, log = os.open(os.devnull, os.O_RDONLY), os.open(asked["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(nothing, 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        home = asked["home"]
        os.environ.clear()
        os.environ.update({"PATH": os.defpath, "HOME": f"{home}/person", "HOMEBODY_HOME": f"{home}/state", "TZ": "UTC"})
        os.chdir(home)
        fault_injection.arm(asked.get("fault", ""))
        if asked.get("broken"):
            SABOTAGES[asked["broken"]]()
        if asked.get("bound"):
            _give_up_privileges()
        if os.read(door, 1):
            from gateway.cli import main as homebody

            code = homebody(["gateway"])
            with contextlib.suppress(OSError):  # it is full: the next one imports it, too
                teach(learned, known)
    finally:
        os._exit(code)


def _give_up_privileges() -> None:
    """Drop every capability of this thread (capabilities(7), version 3 of its header), those that override permissions among them."""
    libc = ctypes.CDLL(None, use_errno=True)
    header, none = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    if libc.capset(header, none) != 0:
        raise OSError(ctypes.get_errno(), "capset")


def _say(answer: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
