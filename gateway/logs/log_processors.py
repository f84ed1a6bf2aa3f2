"""What becomes of an event on its way into the log: its fields in order, secrets redacted, a line of JSON or one for people."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from gateway.base.errors import as_started
from gateway.base.structured_log import structlog
from gateway.logs.redaction import Redactor

if TYPE_CHECKING:
    from structlog.typing import EventDict, Processor, WrappedLogger

CONTEXT = ("agent", "session", "channel", "turn")
BOUND = "house_context"  # the attribute under which a record carries what was bound where it was logged
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def from_record(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Put time, level, logger and context in front of what was logged, in a fixed order. Contract: structlog's processors."""
    record = event["_record"]
    bound: dict[str, Any] = getattr(record, BOUND, {})
    head = {
        "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "level": record.levelname.lower(),
        "logger": record.name,
        **{name: event.get(name, bound.get(name)) for name in CONTEXT},
        "event": event.get("event", ""),
    }
    more = {**bound, **event}
    return head | {name: value for name, value in more.items() if name not in head and name != BOUND}


def held_exception(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Take hold of the exception that is being handled, before the event goes to another thread."""
    if event.get("exc_info") is True:
        event["exc_info"] = sys.exc_info()
    return event


def json_line(_logger: WrappedLogger, _method: str, event: EventDict) -> str:
    """Render JSON on one line."""
    return json.dumps(event, ensure_ascii=False, default=str).encode("utf-8", "backslashreplace").decode()


def readable(*, colours: bool) -> list[Processor]:
    """Return the processors that render a line for people: local time, no empty context, nothing that steers a terminal."""
    pretty = structlog.dev.ConsoleRenderer(
        colors=colours, timestamp_key="at", pad_event_to=0, sort_keys=False, exception_formatter=structlog.dev.plain_traceback
    )
    return [_for_people, pretty]


def chain(redactor: Redactor, program: str, last: Sequence[Processor]) -> list[Processor]:
    """Return all processors of a handler: what happened, the traceback as text, redaction, commands as ``program``, the rendering."""

    def redact(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        cleaned: EventDict = redactor.anywhere(dict(event))
        return cleaned

    def name_program(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        return {key: as_started(value, program) if isinstance(value, str) else value for key, value in event.items()}

    return [
        from_record,
        structlog.processors.format_exc_info,
        structlog.stdlib.ProcessorFormatter.remove_processors_meta,
        redact,
        name_program,
        *last,
    ]


def _for_people(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    at = datetime.fromisoformat(event["at"]).astimezone()
    shown = {name: _harmless(value) for name, value in event.items() if name not in CONTEXT or value is not None}
    return shown | {"at": f"{at:%H:%M:%S}"}


def _harmless(value: Any) -> Any:
    return _CONTROL.sub("�", value) if isinstance(value, str) else value
