"""Reads and writes iCalendar in a process of its own (``ical_worker``): a hostile calendar costs that process and nothing else.

The libraries for it are loaded there alone, so that the gateway is no larger for it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.util import find_spec
from typing import Any, Final
from zoneinfo import ZoneInfo

from agent.errors import CalendarFailed
from agent.tools.child_process import Spawn, answer_of_module
from gateway.base.installation import how_to_add

SECONDS: Final = 90.0
"""How long one order may take by the clock; the process itself ends after less CPU time."""
AT_ONCE: Final = 2
LIBRARIES: Final = ("icalendar", "recurring_ical_events")
_MODULE: Final = "gateway.calendar.ical_worker"


def missing_libraries() -> Sequence[str]:
    """Return which of the libraries are not installed."""
    return [name for name in LIBRARIES if find_spec(name) is None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Instances as ``ical_instances`` tells them, with ``object``, the number of the text that each is from; and what is not among them.

    ``broken`` are events that cannot be read, with ``title`` and ``why``; ``left_out`` instances and ``more_broken`` events are beyond
    the limits.
    """

    instances: Sequence[Mapping[str, Any]]
    broken: Sequence[Mapping[str, str]] = ()
    left_out: int = 0
    more_broken: int = 0


class CalendarProcess:
    """Gives orders to the process. Every method raises CalendarFailed."""

    def __init__(self, *, spawn: Spawn = asyncio.create_subprocess_exec, seconds: float = SECONDS) -> None:
        self._spawn = spawn
        self._seconds = seconds
        self._free = asyncio.Semaphore(AT_ONCE)

    async def instances(
        self, objects: Sequence[str], start: datetime, end: datetime, zone: ZoneInfo, mine: str = ""
    ) -> Listing:
        """Return the instances of the events in ``objects`` that touch a period."""
        if not objects:
            return Listing(instances=())
        period = {"start": start.isoformat(), "end": end.isoformat(), "zone": zone.key}
        return Listing(**await self._answer_to({"do": "instances", "objects": list(objects), "mine": mine, **period}))

    async def create(self, wish: Mapping[str, Any], uid: str, zone: ZoneInfo, now: datetime) -> str:
        """Return the text of a new event."""
        return str((await self._answer_to({"do": "create", "wish": wish, "uid": uid, **_at(zone, now)}))["text"])

    async def change(self, text: str, order: Mapping[str, Any], zone: ZoneInfo, now: datetime) -> Mapping[str, Any]:
        """Return what ``ical_changes.Edit.change`` does; ``order`` has ``instance``, ``scope``, ``wish`` and ``new_uid``."""
        return await self._answer_to({"do": "change", "text": text, **order, **_at(zone, now)})

    async def cancel(self, text: str, instance: Mapping[str, Any], scope: str, zone: ZoneInfo, now: datetime) -> str | None:
        """Return the text without the instances; None where the object is to be deleted."""
        answer = await self._answer_to({"do": "cancel", "text": text, "instance": instance, "scope": scope, **_at(zone, now)})
        return answer["text"] if answer["text"] is None else str(answer["text"])

    async def _answer_to(self, order: Mapping[str, Any]) -> Mapping[str, Any]:
        if missing := missing_libraries():
            raise CalendarFailed(
                f"{' and '.join(missing)} are not installed, which calendars need", hint=f"Run: {how_to_add('calendar')}"
            )
        async with self._free:
            try:
                async with asyncio.timeout(self._seconds):
                    printed, code = await answer_of_module(self._spawn, _MODULE, json.dumps(order).encode())
            except TimeoutError:
                raise CalendarFailed(f"the calendar takes longer than {self._seconds:g} seconds to read") from None
            except OSError as error:
                raise CalendarFailed(f"no process can be started to read the calendar ({error.strerror})") from error
        if code != 0:
            raise CalendarFailed(
                "the calendar is made so that it takes too long or too much memory to read", hint="Ask for less time."
            )
        answer: Mapping[str, Any] = json.loads(printed)
        if "refused" in answer:
            raise CalendarFailed(str(answer["refused"]))
        return answer


def _at(zone: ZoneInfo, now: datetime) -> Mapping[str, str]:
    return {"zone": zone.key, "now": now.isoformat()}
