"""The section ``agents.defaults.heartbeat``: checks at regular intervals by the list in HEARTBEAT.md."""

from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from agent.section import Section
from agent.settings import Level, known_zone, seconds_of
from channels.messages import ChatAddress
from gateway.settings.quiet_hours import DailyHours

LEAST_SECONDS = 60.0
PROMPT = """\
This is a check at a regular time; nobody has written. Below is HEARTBEAT.md, the list of what to look after. Do now what is due of it at \
the time at the end, with your tools, and note what has to be remembered. Write to your owner only what is new and worth an interruption, \
in a few words. If there is nothing, reply with exactly HEARTBEAT_OK."""


def _interval(seconds: float) -> float:
    if 0 < seconds < LEAST_SECONDS:
        raise ValueError('the shortest interval is one minute ("1m"); 0 switches heartbeats off')
    return seconds


def _zone(name: str) -> str:
    return name if name in {"user", "local"} else known_zone(name)


def _place(target: str) -> str:
    if target in {"last", "none"}:
        return target
    try:
        ChatAddress.parse(target)
    except ValueError as error:
        raise ValueError(f'{target!r} is neither "last" nor "none" nor the address of a chat ({error})') from error
    return target


class ActiveHours(DailyHours):
    """Hours of each day in which heartbeats run."""

    timezone: Annotated[str, AfterValidator(_zone)] = "user"
    """Time zone of the hours: ``user`` (`userTimezone`), ``local`` (the machine's), or a name such as Europe/Berlin."""

    def zone(self, owner: ZoneInfo, machine: ZoneInfo) -> ZoneInfo:
        """Return the time zone of the hours."""
        return {"user": owner, "local": machine}.get(self.timezone) or ZoneInfo(self.timezone)


class HeartbeatSettings(Section):
    """Checks at regular intervals. No model is called while HEARTBEAT.md has nothing to do."""

    every: Annotated[float, BeforeValidator(seconds_of), Field(ge=0), AfterValidator(_interval)] = 1800.0
    """Interval, such as `"30m"` or `"2h"`; at least one minute, and `0` switches heartbeats off."""
    model: str | None = None
    """Model as ``provider/model`` or an alias. Unset: that of the owner's main session, whose cached prompt is used then."""
    thinking: Level = "off"
    """How deep the model thinks in a heartbeat: off, minimal, low, medium, high, xhigh or adaptive."""
    target: Annotated[str, AfterValidator(_place)] = "last"
    """Where the reply goes: ``last`` (the private chat in which the owner last wrote to this agent), ``none``, or the address of a chat."""
    prompt: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=4000)] = PROMPT
    """What the model is told; HEARTBEAT.md and the time stand below it."""
    ack_max_chars: Annotated[int, Field(ge=0, le=4000)] = 300
    """A reply with HEARTBEAT_OK at its beginning or end is not shown if it has at most this many other characters."""
    active_hours: ActiveHours | None = None
    """Hours in which heartbeats run. Unset: always, except in `quietHours`."""
    daily_usd: Annotated[float, Field(ge=0)] | None = 1.0
    """Most that the heartbeats of an agent may cost in a day, in USD; then they pause until the next day. null: no limit of their own."""


class WithHeartbeat(Section):
    """Settings of agents that have heartbeats."""

    heartbeat: HeartbeatSettings = Field(default=HeartbeatSettings.model_construct(), json_schema_extra={"reload": "hot"})
    """Checks at regular intervals by the list in HEARTBEAT.md."""
