"""The ``session`` section: who shares a session, and when it starts afresh."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from agent.settings import Duration
from gateway.settings.section import Section

DmScope = Literal["main", "per-peer", "per-channel-peer"]
ResetMode = Literal["daily", "idle", "daily+idle", "none"]


class ResetSettings(Section):
    """When a session starts afresh."""

    mode: ResetMode = "daily"
    """``daily``: every day at ``atHour``; ``idle``: after ``idleMinutes`` of silence; ``daily+idle``: whichever is first; ``none``."""
    at_hour: Annotated[int, Field(ge=0, le=23)] = 4
    """Hour of the daily reset, in the owner's time zone."""
    idle_minutes: Annotated[int, Field(ge=1)] = 60
    """Minutes without a message from a person after which an idle reset is due."""
    defer_minutes: Annotated[int, Field(ge=0)] = 30
    """A daily reset waits until nobody has written for this many minutes; 0 resets at once."""
    notice: bool = True
    """Tell the owner in one line when a session was started afresh by the clock."""


class ResetByTypeSettings(Section):
    """Other rules for kinds of conversations. What is not said here is taken from ``session.reset``."""

    dm: ResetSettings | None = None
    """Private chats."""
    direct: ResetSettings | None = None
    """The same as ``dm``, which counts where both are there."""
    group: ResetSettings | None = None
    """Groups and channels."""
    thread: ResetSettings | None = None
    """Threads and topics."""


class MaintenanceSettings(Section):
    """What becomes of sessions that nobody speaks in any more."""

    prune_after: Duration = 30 * 86_400.0
    """Silence after which a session that was left is forgotten and its transcripts are archived: ``"30d"``, or seconds."""
    max_entries: Annotated[int, Field(ge=10)] = 5000
    """Most sessions of one agent that are remembered; beyond it those that were left longest ago are archived first."""
    max_disk_bytes: Annotated[int, Field(ge=1_000_000)] = 10_000_000_000
    """Most space for archived transcripts of one agent, in bytes; beyond it the oldest are deleted."""


class SessionMemorySettings(Section):
    """The file that keeps the end of each session for search."""

    enabled: bool = True
    """Write the last messages of a session that ends to ``memory/YYYY-MM-DD-slug.md``."""
    messages: Annotated[int, Field(ge=1, le=500)] = 15
    """How many messages of people and of the agent."""


class HookEntriesSettings(Section):
    """The hooks that come with the house."""

    session_memory: Annotated[SessionMemorySettings, Field(alias="session-memory")] = SessionMemorySettings()
    """The file that keeps the end of each session for search."""


class InternalHooksSettings(Section):
    """Hooks that come with the house."""

    enabled: bool = True
    """Run them at all."""
    entries: HookEntriesSettings = HookEntriesSettings()
    """Each of them."""


class HooksSettings(Section):
    """What is done when something happens."""

    internal: InternalHooksSettings = InternalHooksSettings()
    """Hooks that come with the house."""


class SessionSettings(Section):
    """Sessions."""

    dm_scope: DmScope = "main"
    """``main``: all private chats with the owner are one session; ``per-peer``: one per person; ``per-channel-peer``: one per person and channel."""  # noqa: E501
    identity_links: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Names of people, each with their ids as ``channel:id``, who share a session across channels where ``dmScope`` is not ``main``."""
    reset: ResetSettings = ResetSettings()
    """When sessions start afresh."""
    reset_by_type: ResetByTypeSettings = ResetByTypeSettings()
    """Other rules for kinds of conversations."""
    reset_by_channel: dict[str, ResetSettings] = Field(default_factory=dict)
    """Other rules by channel (``telegram``), which count before those by kind; what is not said is taken from ``reset``."""
    idle_minutes: Annotated[int, Field(ge=1)] | None = None
    """Older way to write ``reset: {mode: idle, idleMinutes: ...}``; counts only where ``reset`` is not there."""
    reset_triggers: tuple[str, ...] = ("/new", "/reset")
    """Messages that start a fresh session; what follows a trigger names a model, as with ``/new``."""
    maintenance: MaintenanceSettings = MaintenanceSettings()
    """What becomes of sessions that nobody speaks in any more."""

    def rule(self, key: str, address: str = "") -> ResetSettings:
        """Return the rule of a session: by channel, else by kind, else the general one.

        ``key`` tells kind and channel; a private session that several channels share goes by the one it last spoke with
        (``address``).
        """
        base = self.reset
        if self.idle_minutes is not None and "reset" not in self.model_fields_set:
            base = ResetSettings(mode="idle", idle_minutes=self.idle_minutes)
        special = self.reset_by_channel.get(_channel(key, address)) or self._by_kind(key)
        if special is None:
            return base
        return base.model_copy(update={name: getattr(special, name) for name in special.model_fields_set})

    def _by_kind(self, key: str) -> ResetSettings | None:
        kinds, rules = set(key.split(":")[2:]), self.reset_by_type
        if kinds & {"thread", "topic"}:
            return rules.thread
        return rules.group if kinds & {"group", "channel"} else rules.dm or rules.direct


def _channel(key: str, address: str) -> str:
    match key.split(":"):
        case ["agent", _, channel, "group" | "channel" | "dm", *_]:
            return channel
    return address.partition(":")[0]
