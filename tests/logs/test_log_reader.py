"""``homebody logs``: files of any number are read in order, followed over rotation without a line lost or shown twice, and filtered."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gateway
from gateway.base.errors import UsageError
from gateway.cli.log_lines import line_text, since_when
from gateway.logs import log_reader
from gateway.logs.log_reader import LogFilter, LogLine, LogTail, log_files, read_log
from gateway.logs.rotated_file import RotatedFile
from tests import programs
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(gateway.__file__).resolve().parents[1]
ALL = LogFilter()
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def line(number: int, **more: Any) -> bytes:
    facts = {"at": "2026-03-01T12:00:00.000Z", "level": "info", "logger": "gateway", "event": f"number {number}"} | more
    return json.dumps(facts).encode() + b"\n"


def numbers(lines: list[LogLine]) -> list[int]:
    return [int(str(one.facts["event"]).removeprefix("number ")) for one in lines]


def test_rotated_files_are_read_oldest_first(tmp_path: Path) -> None:
    file = RotatedFile(tmp_path / "homebody.jsonl", max_bytes=300, keep=5)
    for number in range(9):
        file.write(line(number))
    file.close()
    (tmp_path / "homebody.jsonl.old").write_bytes(line(99))
    assert len(log_files(tmp_path / "homebody.jsonl")) > 2
    assert numbers(list(read_log(tmp_path / "homebody.jsonl", ALL))) == list(range(9))


@given(st.lists(st.integers(0, 12), max_size=12), st.integers(120, 700))
def test_what_is_read_and_then_followed_is_everything_once(
    tmp_path_factory: pytest.TempPathFactory, bursts: list[int], size: int
) -> None:
    """However many lines and rotations come between two looks, as long as no file is deleted."""
    path = tmp_path_factory.mktemp("log") / "homebody.jsonl"
    file = RotatedFile(path, max_bytes=size, keep=100)
    written = 0

    def write(count: int) -> None:
        nonlocal written
        for _ in range(count):
            file.write(line(written))
            written += 1

    write(bursts[0] if bursts else 0)
    with closing(LogTail(path)) as tail:
        write(2)
        seen = list(read_log(path, ALL, tail))
        for burst in bursts[1:]:
            seen += tail.lines()
            write(burst)
        seen += tail.lines()
        seen += tail.lines()
    file.close()
    assert numbers(seen) == list(range(written))


@pytest.mark.parametrize("rotations", [1, 2, 5])
def test_no_line_is_lost_where_files_are_rotated_while_the_next_one_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rotations: int
) -> None:
    path = tmp_path / "homebody.jsonl"
    file = RotatedFile(path, max_bytes=200, keep=50)
    written, left = 0, rotations

    def write(count: int) -> None:
        nonlocal written
        for _ in range(count):
            file.write(line(written))
            written += 1

    def listed_and_rotated(of: Path) -> list[Path]:
        nonlocal left
        found = log_files(of)
        if left:
            left -= 1
            write(5)
        return found

    write(1)
    with closing(LogTail(path)) as tail:
        seen = list(read_log(path, ALL, tail))
        write(9)
        monkeypatch.setattr(log_reader, "log_files", listed_and_rotated)
        for _ in range(3):
            seen += tail.lines()
    file.close()
    assert left == 0
    assert numbers(seen) == list(range(written))


def test_what_was_there_is_read_whole_where_files_are_rotated_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "homebody.jsonl"
    file = RotatedFile(path, max_bytes=200, keep=50)
    for number in range(8):
        file.write(line(number))
    left = [*range(8, 20)]

    def listed_and_rotated(of: Path) -> list[Path]:
        found = log_files(of)
        if len(left) > 6:
            for _ in range(3):
                file.write(line(left.pop(0)))
        return found

    monkeypatch.setattr(log_reader, "log_files", listed_and_rotated)
    past = read_log(path, ALL)
    seen = [next(past)]
    for number in left:
        file.write(line(number))
    seen += past
    file.close()
    assert numbers(seen) == list(range(14)), "each once, up to where it began"


def test_a_line_that_is_written_in_pieces_is_shown_whole(tmp_path: Path) -> None:
    path = tmp_path / "homebody.jsonl"
    path.write_bytes(line(0) + line(1)[:20])
    with closing(LogTail(path)) as tail, path.open("ab") as file:
        assert list(tail.lines()) == []
        file.write(line(1)[20:])
        file.flush()
        assert numbers(list(tail.lines())) == [1]


def test_a_line_that_is_taken_back_is_not_shown_and_the_next_is(tmp_path: Path) -> None:
    """A full disk takes half a line, and the writer cuts it off again."""
    path = tmp_path / "homebody.jsonl"
    path.write_bytes(line(0))
    with closing(LogTail(path)) as tail:
        with path.open("ab") as file:
            file.write(line(1)[:30])
        assert list(tail.lines()) == []
        os.truncate(path, len(line(0)))
        assert list(tail.lines()) == []
        with path.open("ab") as file:
            file.write(line(2))
        assert numbers(list(tail.lines())) == [2]


def test_a_log_that_is_emptied_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "homebody.jsonl"
    path.write_bytes(line(0) * 5)
    with closing(LogTail(path)) as tail:
        path.write_bytes(line(7))
        assert numbers(list(tail.lines())) == [7]


def test_a_log_that_does_not_exist_yet_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "homebody.jsonl"
    with closing(LogTail(path)) as tail:
        assert list(tail.lines()) == []
        path.write_bytes(line(3))
        assert numbers(list(tail.lines())) == [3]


WANTED: list[tuple[LogFilter, list[int]]] = [
    (LogFilter(), [0, 1, 2, 3]),
    (LogFilter(level="warning"), [1, 3]),
    (LogFilter(level="error"), [3]),
    (LogFilter(session="agent:main:main"), [2]),
    (LogFilter(session="main"), [2]),
    (LogFilter(session="mai"), []),
    (LogFilter(since=NOON), [2, 3]),
    (LogFilter(pattern=re.compile("NUMBER 1", re.IGNORECASE)), [1]),
    (LogFilter(level="warning", since=NOON), [3]),
]


@pytest.mark.parametrize(("wanted", "left"), WANTED)
def test_lines_are_filtered(tmp_path: Path, wanted: LogFilter, left: list[int]) -> None:
    path = tmp_path / "homebody.jsonl"
    path.write_bytes(
        line(0, at="2026-03-01T10:00:00.000Z")
        + line(1, at="2026-03-01T11:00:00.000Z", level="warning")
        + line(2, session="agent:main:main")
        + line(3, level="error")
    )
    os.utime(path, (NOON.timestamp() + 60, NOON.timestamp() + 60))
    assert numbers(list(read_log(path, wanted))) == left


def test_lines_that_are_none_are_shown_unless_something_is_asked_of_them(tmp_path: Path) -> None:
    path = tmp_path / "homebody.jsonl"
    path.write_bytes(b'{"at": "2026-03-0\n[1]\n\xff\xfe\n\n' + line(0))
    assert len(list(read_log(path, ALL))) == 4
    assert len(list(read_log(path, LogFilter(level="info")))) == 1


@given(st.binary(max_size=200))
def test_any_bytes_are_read(raw: bytes) -> None:
    found = LogLine.parse(raw.replace(b"\n", b""))
    assert isinstance(line_text(found, UTC), str)
    assert found.rank in {0, 10, 20, 30, 40, 50}
    assert LogFilter(since=NOON).takes(found) in {True, False}


BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("text", "when"),
    [
        ("30m", NOON - timedelta(minutes=30)),
        ("2h", NOON - timedelta(hours=2)),
        ("7d", NOON - timedelta(days=7)),
        ("1 week", NOON - timedelta(days=7)),
        ("today", datetime(2026, 3, 1, tzinfo=BERLIN)),
        ("yesterday", datetime(2026, 2, 28, tzinfo=BERLIN)),
        ("2026-02-03", datetime(2026, 2, 3, tzinfo=BERLIN)),
        ("2026-02-03 18:30", datetime(2026, 2, 3, 18, 30, tzinfo=BERLIN)),
        ("2026-02-03T18:30Z", datetime(2026, 2, 3, 18, 30, tzinfo=UTC)),
    ],
)
def test_times_are_read_in_the_owners_zone(text: str, when: datetime) -> None:
    assert since_when(text, NOON, BERLIN) == when


@pytest.mark.parametrize("text", ["", "soon", "5x", "2026-13-01", "-1h"])
def test_what_is_no_time_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        since_when(text, NOON, BERLIN)
    assert "2026-01-31" in refused.value.hint


def test_a_line_for_people_has_local_time_context_and_traceback() -> None:
    facts = {
        "at": "2026-07-01T10:00:00.000Z",
        "level": "error",
        "logger": "gateway.turns.worker",
        "event": "a turn failed",
        "agent": "main",
        "session": "agent:main:main",
        "attempt": 2,
        "exception": "Traceback\n  ValueError",
    }
    assert line_text(LogLine(json.dumps(facts), facts), BERLIN) == (
        "2026-07-01 12:00:00 error   a turn failed attempt=2  [agent:main:main]  (gateway.turns.worker)\n    Traceback\n      ValueError"
    )


@pytest.fixture
def home(home_of_the_test: Path) -> Path:
    home = home_of_the_test / ".homebody"
    (home / "logs").mkdir(parents=True)
    return home


def environment(home: Path, **more: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(home.parent), "PYTHONPATH": str(ROOT), **more}


@pytest.fixture
def logs(home: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    def run(*options: str, **env: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-W", "ignore", "-m", "gateway", "logs", *options]
        return programs.run(
            command, env=environment(home, **env), cwd=home, capture_output=True, text=True, check=False, timeout=PATIENCE
        )

    return run


def test_the_command_shows_the_last_lines_and_nothing_that_steers_a_terminal(
    home: Path, logs: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    assert "There is no log yet" in logs().stderr
    path = home / "logs" / "homebody.jsonl"
    path.write_bytes(b"".join(line(number, event=f"number {number} \x1b[2J\u202e") for number in range(500)))
    (home / "homebody.yaml").write_text("agents: {defaults: {userTimezone: Asia/Kolkata}}\n")
    shown = logs().stdout
    assert (shown.count("\n"), "\x1b" in shown, "\u202e" in shown, "2026-03-01 17:30:00" in shown) == (200, False, False, True)
    assert logs("-n", "3", "--json").stdout == b"".join(path.read_bytes().splitlines(keepends=True)[-3:]).decode()
    assert logs("-n", "0").stdout.count("\n") == 500
    assert logs("--since", "2026-02-28").stdout.count("\n") == 500
    assert "matches" in logs("--grep", "nothing of this").stderr
    assert (logs("--grep", "(").returncode, logs("--since", "soon").returncode) == (2, 2)


def test_the_log_is_shown_while_the_settings_are_wrong(
    home: Path, logs: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    (home / "homebody.yaml").write_text("agents: [")
    (home / "logs" / "homebody.jsonl").write_bytes(line(1))
    assert "number 1" in logs().stdout


def test_secrets_that_are_known_by_now_are_not_shown(home: Path, logs: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    (home / "logs" / "homebody.jsonl").write_bytes(line(1, event="sent sk-proj-kd83jsdKd9sDkf to the server"))
    for options in ((), ("--json",)):
        shown = logs(*options, OPENAI_API_KEY="sk-proj-kd83jsdKd9sDkf").stdout
        assert ("sk-proj" in shown, "sent [secret] to the server" in shown) == (False, True)
    assert "sk-proj" in logs().stdout


def test_following_goes_on_over_rotation_and_ends_quietly(home: Path) -> None:
    path = home / "logs" / "homebody.jsonl"
    file = RotatedFile(path, max_bytes=2_000, keep=20)
    file.write(line(0))
    command = [sys.executable, "-W", "ignore", "-m", "gateway", "logs", "-f", "--json"]
    process = programs.start(command, env=environment(home), cwd=home, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    seen = [process.stdout.readline()]
    pause = random.Random(3)
    for number in range(1, 80):
        file.write(line(number))
        if pause.random() < 0.1:
            time.sleep(0.05)
    file.close()
    while len(seen) < 80:
        seen.append(process.stdout.readline())
    process.send_signal(2)
    _, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (130, b"\n")
    assert numbers([LogLine.parse(one.rstrip()) for one in seen]) == list(range(80))
