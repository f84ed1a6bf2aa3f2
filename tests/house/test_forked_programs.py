"""A program that the tests fork is what a new Python would be: the same script is run by both."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests import programs

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = """
import atexit, os, signal, sys, time
def tell(*what): print(*what, flush=True)
atexit.register(lambda: print("at exit"))
mask = os.umask(0)
tell(__name__, sys.argv, os.getcwd(), oct(mask), sorted(os.environ.items()), time.tzname)
tell(sys.stdin.read(), sys.stdout.isatty(), sys.stdout.encoding, sys.stderr.errors, sys.path[0])
tell(signal.getsignal(signal.SIGINT) is signal.default_int_handler, signal.getsignal(signal.SIGTERM))
print("to stderr", file=sys.stderr)
match sys.argv[1]:
    case "number": sys.exit(7)
    case "text": sys.exit("it failed")
    case "raise": raise ValueError("a defect")
    case "killed": os.kill(os.getpid(), signal.SIGKILL)
print("unflushed", end="")
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


@pytest.mark.parametrize("how", ["end", "number", "text", "raise", "killed"])
def test_both_say_and_end_alike(script: Path, tmp_path: Path, how: str) -> None:
    given: dict[str, Any] = {
        "env": {"PATH": os.defpath, "TZ": "Asia/Kolkata", "ODD": "a\nb", "LC_CTYPE": "C.UTF-8"},
        "cwd": tmp_path,
        "input": "grüße",
        "capture_output": True,
        "text": True,
    }
    forked = programs.run([sys.executable, script, how, "two words"], **given)
    new = subprocess.run(
        [sys.executable, script, how, "two words"],
        **given,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert (forked.returncode, forked.stdout) == (new.returncode, new.stdout)
    assert forked.stderr.splitlines()[:1] == new.stderr.splitlines()[:1]
    assert forked.stderr.splitlines()[-1:] == new.stderr.splitlines()[-1:], "a traceback has other frames"


def test_a_program_that_runs_is_signalled_and_waited_for(script: Path) -> None:
    script.write_text("import sys\nprint('here', flush=True)\nsys.stdin.read()\n")
    with programs.start([sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "here\n"
        assert program.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            program.wait(0.01)
        program.terminate()
        assert program.wait() == -signal.SIGTERM
        program.kill()  # it is gone, and its number may be another's


def test_what_only_a_new_python_can_heed_is_refused() -> None:
    for command in ([sys.executable, "-X", "dev", "script.py"], ["/bin/true"]):
        with pytest.raises(ValueError, match=r"real process|not this Python"):
            programs.start(command)
