"""Calls about the health of the installation: the log, and what `homebody doctor` finds and mends."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from gateway.app.dependencies import Dependencies, known_secrets
from gateway.app.own_command import OwnCommand
from gateway.base.errors import HomebodyError, StorageFailed, UsageError
from gateway.logs.log_reader import RANKS, LogFilter, LogLine
from gateway.logs.log_window import latest, since
from gateway.logs.redaction import Redactor
from gateway.settings.root import SettingsStore

MOST_LINES: Final = 500
LONGEST: Final = 120.0
"""Seconds that the doctor may take."""
_ID: Final = re.compile(r"[a-z][a-z-]*-[0-9a-f]{8}")


class HealthHandlers:
    """Reads the log and runs the doctor, in a process of its own. All answers are JSON values."""

    def __init__(self, deps: Dependencies, settings: SettingsStore) -> None:
        self._deps = deps
        self._settings = settings
        self._command = OwnCommand(deps.paths, deps.env)
        self._examining = asyncio.Lock()

    def calls(self) -> dict[str, Callable[..., Awaitable[dict[str, Any]]]]:
        """The calls by name, for ``POST /admin/CALL``."""
        return {"logs.read": self.logs, "doctor.findings": self.findings, "doctor.mend": self.mend}

    async def logs(
        self, place: str = "", level: str = "info", session: str = "", search: str = "", lines: int = 200
    ) -> dict[str, Any]:
        """Return the latest lines of the log, or those behind a ``place`` that an answer before named. Known secrets are not shown.

        ``search``: text that a line must hold; capitals do not matter.

        Raises:
            UsageError: there is no such level.
            StorageFailed: the log cannot be read.
        """
        if level not in RANKS:
            raise UsageError(f"there is no level {level!r}", hint=f"There are: {', '.join(RANKS)}.")
        pattern = re.compile(re.escape(search), re.IGNORECASE) if search else None
        wanted = LogFilter(level=level, session=session, pattern=pattern)
        settings = self._settings.current
        path = settings.logging.file or self._deps.paths.logs / "homebody.jsonl"
        most = max(1, min(lines, MOST_LINES))

        def read() -> dict[str, Any]:
            found = since(path, place, wanted, most) if place else latest(path, wanted, most)
            redactor = Redactor(known_secrets(settings, self._deps.paths, self._deps.env))
            lines = [_line(line, redactor) for line in found.lines]
            return {"lines": lines, "place": found.place, "gap": found.gap, "file": str(path)}

        try:
            return await asyncio.to_thread(read)
        except OSError as error:
            raise StorageFailed.from_os(error, "read the log", Path(path)) from error

    async def findings(self, *, offline: bool = True) -> dict[str, Any]:
        """Return what `homebody doctor` finds. With ``offline`` no other machine is asked. Raises HomebodyError: it cannot be run."""
        return await self._doctor(*(["--offline"] if offline else []))

    async def mend(self, finding: str) -> dict[str, Any]:
        """Mend one finding, as `homebody doctor --mend ID` does; return what was done, and what is found of that check now.

        Raises:
            UsageError: there is no such finding any more, or nothing can be done about it by itself.
            HomebodyError: the doctor cannot be run.
        """
        if not _ID.fullmatch(finding):
            raise UsageError(f"{finding!r} is no id of a finding", hint="`homebody doctor --json` shows the ids.")
        found = await self._doctor("--offline", "--mend", finding)
        if not found["mended"]:
            raise UsageError(
                "this was not found again, or cannot be mended by itself", hint="Let the doctor look again: homebody doctor"
            )
        return found

    async def _doctor(self, *arguments: str) -> dict[str, Any]:
        async with self._examining:
            try:
                printed = await self._command.run("doctor", "--json", *arguments, longest=LONGEST)
                found: dict[str, Any] = json.loads(printed.out)
            except (OSError, TimeoutError, ValueError) as error:
                raise HomebodyError(
                    f"the doctor could not be run: {str(error) or 'it took too long'}", hint="Run it by hand: homebody doctor"
                ) from error
        return found


def _line(line: LogLine, redactor: Redactor) -> dict[str, Any]:
    """Return a line with its known fields apart. One that is no JSON object has its text alone."""
    facts = {name: redactor.text(str(line.facts[name])) for name in _FIELDS if line.facts.get(name)}
    if not line.facts:
        return {"text": redactor.text(line.text)}
    more = {name: redactor.text(value if isinstance(value, str) else json.dumps(value)) for name, value in line.more().items()}
    return {**facts, "more": more}


_FIELDS: Final = ("at", "level", "logger", "event", "agent", "session", "channel", "turn", "exception")
