"""Several windows on one conversation, without a gateway: a person's view, through pseudo-terminals and the shipped command."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import programs
from tests.patience import PATIENCE

if TYPE_CHECKING:
    import subprocess

HOMEBODY = Path(sys.executable).with_name("homebody")
_ESCAPES = re.compile(rb"\x1b(\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07|[=>()][A-Z0-9]?)")


class Window:
    """A terminal with `homebody chat` in it."""

    def __init__(self, home: Path) -> None:
        self._master, slave = pty.openpty()
        env = {
            **os.environ,
            "TERM": "xterm",
            "COLUMNS": "80",
            "LINES": "24",
            "HOME": str(home),
            "HOMEBODY_HOME": str(home / "state"),
        }
        self._process = programs.start(
            [HOMEBODY, "chat"], stdin=slave, stdout=slave, stderr=slave, env=env, start_new_session=True
        )
        os.close(slave)
        self.seen = b""

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def sees(self, words: str) -> None:
        """Wait until it shows some words that it did not show before."""
        wanted, until = re.sub(r"\s+", "", words).encode(), time.monotonic() + PATIENCE
        while time.monotonic() < until:
            if select.select([self._master], [], [], 0.1)[0]:
                try:
                    self.seen += os.read(self._master, 65536)
                except OSError:
                    break
            shown = re.sub(rb"\s+", b"", _ESCAPES.sub(b"", self.seen))
            if wanted in shown:
                self.seen = b""
                return
        raise AssertionError(f"never saw {words!r}; it shows {_ESCAPES.sub(b'', self.seen)[-2000:].decode(errors='replace')}")

    def leave(self) -> int:
        """Press Ctrl-D, again after a while: between two prompts nobody reads it."""
        until, pressed = time.monotonic() + PATIENCE, 0.0
        while self._process.poll() is None and time.monotonic() < until:
            if time.monotonic() - pressed > 5:
                pressed = time.monotonic()
                self.type("\x04")
            if select.select([self._master], [], [], 0.1)[0]:
                try:
                    os.read(self._master, 65536)
                except OSError:
                    break
        return self._process.wait(PATIENCE)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._master)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "h"


def homebody(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "HOME": str(home), "HOMEBODY_HOME": str(home / "state")}
    return programs.run([HOMEBODY, *arguments], env=env, capture_output=True, text=True, check=False)


def test_a_second_window_joins_the_first_and_goes_on_when_it_is_left(home: Path) -> None:
    first = Window(home)
    try:
        first.sees("Type a message")
        first.type("remember that the spare key is under the blue pot\r")
        first.sees("Noted in")
        second = Window(home)
        try:
            second.sees("Type a message")
            second.type("where is the spare key?\r")
            second.sees("You noted today")
            first.sees("You noted today")
            told = json.loads(homebody(home, "status", "--json").stdout)
            assert told["conversation"] is True
            refused = homebody(home, "gateway")
            assert refused.returncode == 5
            assert "a conversation in a terminal" in refused.stderr
            assert first.leave() == 0
            second.sees("The gateway is back.")
            second.type("where is the spare key?\r")
            second.sees("You noted today")
            assert second.leave() == 0
        finally:
            second.close()
    finally:
        first.close()
    assert homebody(home, "status").returncode == 1


def test_a_file_of_this_machine_is_sent_along(home: Path, tmp_path: Path) -> None:
    plan = tmp_path / "garden plan.txt"
    plan.write_text("The beech stands north of the well.\n")
    window = Window(home)
    try:
        window.sees("Type a message")
        window.type(f"/file {plan} note: this is my garden\r")
        window.sees("Noted in")
        assert window.leave() == 0
    finally:
        window.close()
    kept = [path for path in (home / "homebody").rglob("*garden*plan*") if path.is_file()]
    assert [path.read_text() for path in kept] == [plan.read_text()]
