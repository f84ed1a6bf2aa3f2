"""From a logger anywhere in the process to a line in the file and on the terminal."""

import errno
import io
import json
import logging
import queue
import re
import stat
import threading
from logging.handlers import QueueHandler

import pytest
import structlog

from gateway.base.paths import Paths
from gateway.logs.log_setup import Listener, configure
from gateway.logs.redaction import REDACTED, Redactor
from gateway.logs.rotated_file import RotatedFile
from gateway.settings.root import LoggingSettings

SECRET = "123456:secret/token"


class Unshowable:
    def __str__(self) -> str:
        raise RuntimeError("never")


@pytest.fixture
def logged(tmp_path):
    """Run what is given with the logs on, and return the file's lines and the terminal's text."""

    def run(work, *, secrets=(), **settings) -> tuple[list[dict], str]:
        terminal = io.StringIO()
        with configure(LoggingSettings(**settings), Paths(tmp_path), Redactor(secrets), terminal=terminal):
            work()
        file = tmp_path / "logs" / "homebody.jsonl"
        lines = file.read_text().splitlines() if file.exists() else []
        return [json.loads(line) for line in lines], terminal.getvalue()

    return run


def test_every_line_says_agent_session_channel_and_turn(logged):
    def work() -> None:
        with structlog.contextvars.bound_contextvars(agent="main", session="agent:main:main", channel="telegram", turn="t7"):
            structlog.get_logger("gateway.turns.worker").info("answered", tokens=12)
            logging.getLogger("channels.telegram").warning("slow %s", "poll")
        logging.getLogger("gateway").info("outside")

    lines, terminal = logged(work)
    inside = {"agent": "main", "session": "agent:main:main", "channel": "telegram", "turn": "t7"}
    assert [{name: line[name] for name in inside} for line in lines] == [inside, inside, dict.fromkeys(inside)]
    assert [line["event"] for line in lines] == ["answered", "slow poll", "outside"]
    assert lines[0]["tokens"] == 12
    assert lines[0]["level"] == "info"
    assert lines[0]["logger"] == "gateway.turns.worker"
    assert "agent=main session=agent:main:main channel=telegram turn=t7 tokens=12" in terminal
    assert "None" not in terminal


@pytest.mark.sec(73)
def test_no_secret_reaches_the_file_or_the_terminal(logged):
    def work() -> None:
        log = structlog.get_logger("gateway")
        log.info(SECRET, url="https://x/bot123456%3Asecret%2Ftoken/getMe", deep={"a": [SECRET, {SECRET: 1}]})
        logging.getLogger("httpx").warning("GET %s", SECRET, extra={"headers": {"Authorization": SECRET}})
        try:
            {}[SECRET]
        except KeyError:
            log.exception("failed")
            logging.getLogger("agent").exception("failed too")

    lines, terminal = logged(work, secrets=[SECRET])
    assert len(lines) == 4
    assert "KeyError: '[secret]'" in lines[2]["exception"]
    assert "KeyError: '[secret]'" in lines[3]["exception"]
    for text in (json.dumps(lines), terminal):
        assert REDACTED in text
        assert not any(part in text for part in (SECRET, "123456", "secret/token", "secret%2Ftoken"))


def test_a_command_in_a_line_is_written_as_the_program_was_started(tmp_path):
    terminal = io.StringIO()
    with configure(LoggingSettings(), Paths(tmp_path), Redactor(()), terminal=terminal, program="/srv/x/bin/homebody"):
        logging.getLogger("gateway").warning("`homebody memory status` shows it; homebody was started by %s", "systemd")
        structlog.get_logger("gateway").info("rejected", hint="Run: homebody channels status", tries=2)
    first, second = [json.loads(line) for line in (tmp_path / "logs" / "homebody.jsonl").read_text().splitlines()]
    assert first["event"] == "`/srv/x/bin/homebody memory status` shows it; homebody was started by systemd"
    assert (second["hint"], second["tries"]) == ("Run: /srv/x/bin/homebody channels status", 2)
    assert "Run: /srv/x/bin/homebody channels status" in terminal.getvalue()


def test_libraries_are_heard_from_warning_on(logged):
    def work() -> None:
        logging.getLogger("httpx").info("chatter")
        logging.getLogger("discord.gateway").warning("trouble")
        logging.getLogger("agent.loop.loop").debug("detail")

    assert [line["event"] for line in logged(work, level="debug")[0]] == ["trouble", "detail"]


def test_file_and_terminal_have_levels_of_their_own(logged):
    def work() -> None:
        for level in ("debug", "info", "warning", "error"):
            getattr(logging.getLogger("gateway"), level)(level)

    lines, terminal = logged(work, level="debug", console_level="error")
    assert [line["event"] for line in lines] == ["debug", "info", "warning", "error"]
    assert "warning" not in terminal
    assert "error" in terminal
    assert logged(work, level="silent", console_level="silent")[1] == ""


def test_the_terminal_can_speak_json(logged):
    lines, terminal = logged(lambda: logging.getLogger("gateway").info("hello"), console_style="json")
    assert json.loads(terminal) == lines[0]


def test_text_from_outside_cannot_steer_the_terminal(logged):
    _, terminal = logged(lambda: logging.getLogger("channels").warning("a \x1b]0;owned\x07 b\r c"))
    assert "\x1b" not in terminal
    assert "\r" not in terminal


def test_what_cannot_be_shown_does_not_stop_the_log(logged):
    def work() -> None:
        structlog.get_logger("agent").info("object", it=Unshowable(), half="\ud800")
        logging.getLogger("agent").info("after")

        [sender] = [one for one in logging.getLogger().handlers if isinstance(one, QueueHandler)]
        wrong = {"msg": "args %d", "args": ("text",), "levelno": logging.INFO, "levelname": "INFO"}
        sender.handle(logging.makeLogRecord(wrong))  # to it alone: pytest's own handlers raise over this

    assert [line["event"] for line in logged(work)[0]] == ["object", "after", "args %d ('text',)"]


def test_the_file_is_for_its_owner_alone_and_rotated_by_size(logged, tmp_path):
    lines, _ = logged(lambda: [logging.getLogger("agent").info("x" * 500) for _ in range(100)], max_bytes=10_000, keep=2)
    files = sorted((tmp_path / "logs").iterdir())
    assert [file.name for file in files] == ["homebody.jsonl", "homebody.jsonl.1", "homebody.jsonl.2"]
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 and file.stat().st_size <= 10_000 for file in files)
    assert all(json.loads(line) for file in files for line in file.read_text().splitlines())
    assert lines[-1]["event"] == "x" * 500


def test_a_full_disk_is_told_once_and_the_house_goes_on(logged):
    def work() -> None:
        for number in range(5):
            logging.getLogger("gateway").info("line %d", number)

    _, terminal = logged(work, file="/dev/full")
    assert terminal.count("cannot be written (No space left on device)") == 1
    assert all(f"line {number}" in terminal for number in range(5))


def test_the_gap_is_told_when_the_disk_has_room_again(tmp_path):
    folder = tmp_path / "logs"
    folder.write_text("a file where the folder should be")
    terminal = io.StringIO()
    with configure(LoggingSettings(), Paths(tmp_path), Redactor(), terminal=terminal) as closer:
        logging.getLogger("gateway").info("one")
        logging.getLogger("gateway").info("two")
        closer.flush()
        folder.unlink()
        logging.getLogger("gateway").info("three")
    events = [json.loads(line)["event"] for line in (folder / "homebody.jsonl").read_text().splitlines()]
    assert events == ["2 lines are missing here, because the log file could not be written", "three"]
    assert terminal.getvalue().count("cannot be written") == 1


def test_a_file_that_was_taken_away_is_begun_anew(tmp_path):
    file = RotatedFile(tmp_path / "log", max_bytes=1000, keep=1)
    file.write(b"one\n")
    (tmp_path / "log").rename(tmp_path / "away")
    file.write(b"two\n")
    file.close()
    assert (tmp_path / "log").read_bytes() == b"two\n"


def test_a_link_in_the_files_place_is_not_followed(tmp_path):
    (tmp_path / "log").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        RotatedFile(tmp_path / "log", max_bytes=1000, keep=1).write(b"x\n")
    assert not (tmp_path / "elsewhere").exists()


class Stuck(io.StringIO):
    """A terminal that takes nothing until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.free = threading.Event()

    def write(self, text: str) -> int:
        self.free.wait()
        return super().write(text)


def test_who_logs_never_waits_and_what_was_lost_is_counted(tmp_path):
    terminal = Stuck()
    with configure(LoggingSettings(), Paths(tmp_path), Redactor(), terminal=terminal, waiting=10) as closer:
        for number in range(1000):
            logging.getLogger("gateway").info("line %d", number)
        terminal.free.set()
        closer.flush()
    shown = terminal.getvalue()
    lost = int(re.search(r"(\d+) log lines were dropped", shown)[1])
    assert shown.count("line ") == 1000 - lost
    assert lost >= 985


def test_loggers_are_as_they_were_afterwards(logged):
    before = (list(logging.getLogger().handlers), logging.getLogger("agent").level)
    threads = set(threading.enumerate())
    logged(lambda: logging.getLogger("agent").info("x"))
    assert (list(logging.getLogger().handlers), logging.getLogger("agent").level) == before
    assert set(threading.enumerate()) <= threads


class Refusing(io.StringIO):
    """A terminal that goes to a disk as full as the log's."""

    def write(self, _text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_terminal_that_is_full_as_well_does_not_end_the_log(tmp_path):
    folder = tmp_path / "logs"
    folder.write_text("a file where the folder should be")
    with configure(LoggingSettings(), Paths(tmp_path), Redactor(), terminal=Refusing()) as closer:
        logging.getLogger("gateway").info("one")
        closer.flush()
        folder.unlink()
        logging.getLogger("gateway").info("two")
    events = [json.loads(line)["event"] for line in (folder / "homebody.jsonl").read_text().splitlines()]
    assert events == ["1 lines are missing here, because the log file could not be written", "two"]


LOGGERS = {"stdlib": logging.getLogger, "structlog": structlog.get_logger}


@pytest.mark.parametrize("kind", LOGGERS)
def test_the_gap_is_told_whoever_logged_last(tmp_path, kind):
    folder = tmp_path / "logs"
    folder.write_text("a file where the folder should be")
    terminal, log = io.StringIO(), LOGGERS[kind]("gateway")
    with (
        structlog.contextvars.bound_contextvars(turn="t7"),
        configure(LoggingSettings(), Paths(tmp_path), Redactor(), terminal=terminal) as closer,
    ):
        log.warning("one")
        log.warning("two")
        closer.flush()
        folder.unlink()
        log.warning("three")
        log.warning("four")
    lines = [json.loads(line) for line in (folder / "homebody.jsonl").read_text().splitlines()]
    assert [line["event"] for line in lines] == [
        "2 lines are missing here, because the log file could not be written",
        "three",
        "four",
    ]
    assert all(f"{word}" in terminal.getvalue() for word in ("one", "two", "three", "four"))


class Failing(logging.Handler):
    """A handler with a defect."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    def emit(self, record):
        raise self._error


@pytest.mark.parametrize(
    "error", [AttributeError("no copy"), OSError(errno.EIO, "broken"), RecursionError(), UnicodeError("x")]
)
def test_no_defect_of_a_handler_ends_the_log_or_takes_the_line_from_the_others(error):
    records, terminal = queue.Queue(), io.StringIO()
    listener = Listener(records, Failing(error), logging.StreamHandler(terminal))
    listener.start()
    for word in ("one", "two"):
        records.put(logging.makeLogRecord({"msg": word, "levelno": logging.WARNING}))
    listener.stop()
    assert terminal.getvalue().splitlines() == ["one", "two"]


class Unredactable(Redactor):
    """Meets a word on which it fails."""

    def anywhere(self, value):
        if value == "bad":
            raise AttributeError("never")
        return super().anywhere(value)


def test_a_line_that_cannot_be_written_is_named_in_its_place(tmp_path):
    terminal = io.StringIO()
    with configure(LoggingSettings(), Paths(tmp_path), Unredactable(), terminal=terminal):
        for word in ("one", "bad", "two"):
            structlog.get_logger("gateway").warning(word)
    events = [json.loads(line)["event"] for line in (tmp_path / "logs" / "homebody.jsonl").read_text().splitlines()]
    assert events == ["one", "a log line could not be written (AttributeError)", "two"]
    assert "two" in terminal.getvalue()
