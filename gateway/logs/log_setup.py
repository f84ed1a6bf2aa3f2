"""Logging: all loggers of the process write through one queue to a rotated file and the terminal."""

from __future__ import annotations

import atexit
import contextlib
import copy
import logging
import os
import queue
import sys
from collections.abc import Iterable
from logging.handlers import QueueHandler, QueueListener
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TextIO

from gateway.base.errors import NAME, program_name
from gateway.base.paths import Paths
from gateway.base.structured_log import structlog
from gateway.logs.log_processors import BOUND, chain, held_exception, json_line, readable
from gateway.logs.redaction import Redactor
from gateway.logs.rotated_file import RotatedFile
from gateway.settings.root import LoggingSettings

if TYPE_CHECKING:
    from structlog.typing import Processor

ROOMS = ("agent", "channels", "gateway", "memory")
LOG_NAME = "homebody.jsonl"
_SILENT = logging.CRITICAL + 10
_LEVELS = {"warn": logging.WARNING, "silent": _SILENT}


class _Sender(QueueHandler):
    """Takes a record where it was logged: notes the context, fixes the text, and hands it over without waiting."""

    def __init__(self, records: queue.Queue[Any]) -> None:
        super().__init__(records)
        self.lost = 0

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        prepared = copy.copy(record)
        for made in ("message", "asctime"):  # by another handler's formatter; they say nothing new
            prepared.__dict__.pop(made, None)
        setattr(prepared, BOUND, structlog.contextvars.get_contextvars())
        if not isinstance(record.msg, dict):
            prepared.msg, prepared.args = _message(record), None
        return prepared

    def enqueue(self, record: logging.LogRecord) -> None:
        try:
            self.queue.put_nowait(record)
        except queue.Full:
            self.lost += 1


class Listener(QueueListener):
    """Writes what is waiting, also when so much is that the word to stop has to wait for its place."""

    def __init__(self, records: queue.Queue[Any], *handlers: logging.Handler) -> None:
        super().__init__(records, *handlers, respect_handler_level=True)
        self._records = records

    def enqueue_sentinel(self) -> None:
        """Tell the thread to stop, behind everything that waits."""
        self._records.put(None)

    def flush(self) -> None:
        """Return when everything that was put into the queue so far is written."""
        self._records.join()

    def handle(self, record: logging.LogRecord) -> None:
        """Hand a record to each handler. An error in one of them does not end this thread, which is the only one that writes."""
        for handler in self.handlers:
            if record.levelno < handler.level:
                continue
            try:
                handler.handle(record)
            except Exception as error:  # noqa: BLE001  (see above)
                with contextlib.suppress(Exception):
                    handler.handle(_plain(record, f"a log line could not be written ({type(error).__name__})"))


class _TerminalHandler(logging.StreamHandler[TextIO]):
    """Writes to the terminal. One that went away is no reason to stop, and the standard complaint would show secrets."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 -- the standard library's name
        del record


class _FileHandler(logging.Handler):
    """Writes to the file. When it cannot, it says so once on the terminal, and again in the file when it can."""

    def __init__(self, file: RotatedFile, terminal: TextIO) -> None:
        super().__init__()
        self._file = file
        self._terminal = terminal
        self._missed = 0

    def emit(self, record: logging.LogRecord) -> None:
        line = self.format(record)
        try:
            if self._missed:
                self._file.write(f"{self._gap(record)}\n".encode())
                self._missed = 0
            self._file.write(f"{line}\n".encode())
        except OSError as error:
            if not self._missed:
                place = self._file.path
                message = (
                    f"homebody: the log file {place} cannot be written ({error.strerror}); the gateway continues without it"
                )
                with contextlib.suppress(OSError):  # the thread that writes would end, and nothing be logged any more
                    print(message, file=self._terminal, flush=True)
            self._missed += 1

    def close(self) -> None:
        self._file.close()
        super().close()

    def _gap(self, record: logging.LogRecord) -> str:
        return self.format(_plain(record, f"{self._missed} lines are missing here, because the log file could not be written"))


class Closer:
    """Ends the logs: everything that was logged is written, and loggers are as they were. A context manager too."""

    def __init__(self, sender: _Sender, listener: Listener, handlers: list[logging.Handler], redactor: Redactor) -> None:
        self._redactor = redactor
        self._sender = sender
        self._listener = listener
        self._handlers = handlers
        self._closed = False
        atexit.register(self.close)

    def learn(self, secrets: Iterable[str]) -> None:
        """Take further secrets out of every line from now on, also out of those that are not written yet."""
        self._redactor.learn(secrets)

    def adopt(self, settings: LoggingSettings) -> None:
        """Go by other levels from now on."""
        for handler, level in zip(self._handlers, (settings.level, settings.console_level), strict=False):
            handler.setLevel(_number(level))
        _listen_from(min(handler.level for handler in self._handlers))

    def flush(self) -> None:
        """Return when everything that was logged so far is written."""
        self._listener.flush()

    def close(self) -> None:
        """Write out what is waiting. Calling it again does nothing."""
        if self._closed:
            return
        self._closed = True
        atexit.unregister(self.close)
        root = logging.getLogger()
        if self._sender.lost:
            logging.getLogger(__name__).warning(
                "%d log lines were dropped, because they came faster than they could be written", self._sender.lost
            )
        root.removeHandler(self._sender)
        root.setLevel(logging.WARNING)
        for room in ROOMS:
            logging.getLogger(room).setLevel(logging.NOTSET)
        logging.captureWarnings(capture=False)
        structlog.reset_defaults()
        self._listener.stop()
        for handler in self._handlers:
            handler.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def configure(
    settings: LoggingSettings,
    paths: Paths,
    redactor: Redactor,
    *,
    console: bool = True,
    terminal: TextIO | None = None,
    waiting: int = 10_000,
    program: str | None = None,
) -> Closer:
    """Begin to log: JSON lines to the file and, with ``console``, readable lines to stderr (``terminal`` in tests).

    Our rooms log from the configured level on, libraries from warning. Nobody who logs waits for a disk: a thread of its own
    writes, and lines beyond ``waiting`` that it has not come to are counted and let go. Call ``close`` on what is returned.

    Commands in lines are written with ``program``, by default as this process was started, with its whole path.
    """
    name = _whole(program_name()) if program is None else program
    stream = terminal or sys.stderr
    file = RotatedFile(settings.file or paths.logs / LOG_NAME, max_bytes=settings.max_bytes, keep=settings.keep)
    handlers: list[logging.Handler] = [_FileHandler(file, stream)]
    _prepare(handlers[0], settings.level, chain(redactor, name, [json_line]))
    if console:
        handlers.append(_TerminalHandler(stream))
        last: list[Processor] = [json_line] if settings.console_style == "json" else readable(colours=_colours(stream))
        _prepare(handlers[1], settings.console_level, chain(redactor, name, last))
    records: queue.Queue[Any] = queue.Queue(waiting)
    sender, listener = _Sender(records), Listener(records, *handlers)
    _route(sender, min(handler.level for handler in handlers))
    listener.start()
    return Closer(sender, listener, handlers, redactor)


def _prepare(handler: logging.Handler, level: str, processors: list[Processor]) -> None:
    handler.setLevel(_number(level))
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(processors=processors, foreign_pre_chain=[structlog.stdlib.ExtraAdder()])
    )


def _route(sender: _Sender, level: int) -> None:
    logging.getLogger().addHandler(sender)
    _listen_from(level)
    logging.captureWarnings(capture=True)
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, held_exception, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )


def _whole(program: str) -> str:
    """Return a program's name with its whole path: the log is read in other folders than this one."""
    return program if program == NAME else str(Path(program).absolute())


def _number(level: str) -> int:
    return _LEVELS.get(level) or logging.getLevelNamesMapping()[level.upper()]


def _listen_from(level: int) -> None:
    logging.getLogger().setLevel(max(logging.WARNING, level))
    for room in ROOMS:
        logging.getLogger(room).setLevel(level)


def _plain(record: logging.LogRecord, text: str) -> logging.LogRecord:
    """Return a warning of our own with the time and context of ``record``, and with nothing else of it."""
    plain = logging.LogRecord(__name__, logging.WARNING, "", 0, text, None, None)
    plain.created = record.created
    setattr(plain, BOUND, getattr(record, BOUND, {}))
    return plain


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError):  # a library's wrong arguments for its own format
        return f"{record.msg} {record.args}"


def _colours(stream: TextIO) -> bool:

    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
