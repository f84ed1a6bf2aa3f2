"""Commands whose streams are closed, whose reader has seen enough, or whose terminal goes away."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gateway.base.state_lock import describe
from tests.patience import PATIENCE
from tests.sampling import parametrize_some

if TYPE_CHECKING:
    from collections.abc import Callable

HOMEBODY = f"{sys.executable} -m gateway"


def heeding_hangups() -> None:
    """Undo in a child what ``nohup`` did to whoever runs the tests."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def owning_the_terminal() -> None:
    """Make standard input the terminal that a child is killed with."""
    heeding_hangups()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@pytest.fixture
def env() -> dict[str, str]:
    kept = ("PATH", "HOME", "HOMEBODY_HOME")
    return {name: os.environ[name] for name in kept} | {"PYTHONPATH": str(Path.cwd()), "TERM": "xterm"}


@pytest.fixture
def shell(env: dict[str, str]) -> Callable[[str], subprocess.CompletedProcess[str]]:
    def run(line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["bash", "-c", line], env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)

    return run


def test_a_reader_that_has_seen_enough_ends_a_command_quietly(shell: Callable[[str], subprocess.CompletedProcess[str]]) -> None:
    found = shell(f"{HOMEBODY} config schema | head -1; echo ${{PIPESTATUS[0]}} >&2; {HOMEBODY} agent -m /help | head -1")
    assert found.stdout.splitlines()[0] == "{"
    assert "Commands (anything else" in found.stdout
    assert "Traceback" not in found.stderr
    assert "BrokenPipe" not in found.stderr


@parametrize_some(2, "closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_stream_that_was_closed_does_no_harm(shell: Callable[[str], subprocess.CompletedProcess[str]], closed: str) -> None:
    found = shell(f"{HOMEBODY} agent -m 'Remember that the door is green.' {closed}; echo code $?")
    assert found.stdout.splitlines()[-1] == "code 0"
    assert "Traceback" not in found.stderr
    state = Path(os.environ["HOMEBODY_HOME"], "state")
    assert (state / "ledger.sqlite").read_bytes().startswith(b"SQLite format 3\0")


def test_without_an_input_there_is_no_message_and_no_conversation(
    shell: Callable[[str], subprocess.CompletedProcess[str]],
) -> None:
    found = shell(f"{HOMEBODY} agent <&-; echo code $?; {HOMEBODY} chat <&-; echo code $?")
    assert found.stdout.splitlines() == ["code 2", "code 0"]
    assert "the message is empty" in found.stderr
    assert "Traceback" not in found.stderr


def test_a_terminal_that_goes_away_ends_a_conversation_in_order(env: dict[str, str], tmp_path: Path) -> None:
    parent, child = pty.openpty()
    with (tmp_path / "err").open("wb") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "gateway", "chat"],
            env=env,
            stdin=child,
            stdout=child,
            stderr=err,
            start_new_session=True,
            preexec_fn=owning_the_terminal,  # noqa: PLW1509 -- only the child itself can do it
        )
    os.close(child)
    seen = b""
    while "›".encode() not in seen:
        seen += os.read(parent, 65536)
    os.close(parent)
    assert process.wait(PATIENCE) in {0, 1, 128 + signal.SIGHUP}
    assert b"Traceback" not in (tmp_path / "err").read_bytes()
    assert describe(Path(os.environ["HOMEBODY_HOME"], "state", "gateway.lock")) is None


def test_being_asked_to_end_closes_the_house_first(env: dict[str, str]) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "gateway", "chat"],
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=heeding_hangups,  # noqa: PLW1509 -- only the child itself can do it
    )
    lock = Path(os.environ["HOMEBODY_HOME"], "state", "gateway.lock")
    deadline = time.monotonic() + 20
    assert process.stdin is not None
    process.stdin.write(b"/whoami\n")
    process.stdin.flush()
    assert process.stdout is not None
    assert b"You are owner" in process.stdout.readline()
    assert describe(lock) is not None
    process.send_signal(signal.SIGHUP)
    _, err = process.communicate(timeout=max(1, deadline - time.monotonic()))
    assert process.returncode == 128 + signal.SIGHUP
    assert b"Traceback" not in err
    assert describe(lock) is None
