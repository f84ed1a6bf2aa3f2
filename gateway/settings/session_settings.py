"""The sections ``session`` and ``hooks``: session scope, reset rules and retention."""

from typing import Annotated, Literal

from pydantic import Field

from agent.section import Section
from agent.settings import Duration

DmScope = Literal["main", "per-peer", "per-channel-peer"]
ResetMode = Literal["daily", "idle", "daily+idle", "none"]


class ResetSettings(Section):
    """When a session is reset, which starts a new conversation."""

    mode: ResetMode = "daily"
    """``daily``: every day at ``atHour``. ``idle``: after ``idleMinutes`` of silence. ``daily+idle``: whichever is first. ``none``."""
    at_hour: Annotated[int, Field(ge=0, le=23)] = 4
    """Hour of the daily reset, in the owner's time zone."""
    idle_minutes: Annotated[int, Field(ge=1)] = 60
    """Minutes without a message from a person after which an idle reset is due."""
    defer_minutes: Annotated[int, Field(ge=0)] = 30
    """A daily reset waits until nobody has written for this many minutes. 0: no waiting."""
    notice: bool = True
    """Tell the owner in one line when a session was reset by the schedule."""


class ResetByTypeSettings(Section):
    """Rules for kinds of conversations. Settings that are not given here are taken from ``session.reset``."""

    dm: ResetSettings | None = None
    """Private chats."""
    direct: ResetSettings | None = None
    """Same as ``dm``, which takes precedence."""
    group: ResetSettings | None = None
    """Groups and channels."""
    thread: ResetSettings | None = None
    """Threads and topics."""


class MaintenanceSettings(Section):
    """Archiving of ended sessions."""

    prune_after: Duration = 30 * 86_400.0
    """Time after its last message when an ended session is removed and its transcripts are archived: ``"30d"``, or seconds."""
    max_entries: Annotated[int, Field(ge=10)] = 5000
    """Maximum number of sessions of an agent; beyond it the oldest ended ones are archived first."""
    max_disk_bytes: Annotated[int, Field(ge=1_000_000)] = 10_000_000_000
    """Maximum total size of an agent's archived transcripts in bytes; beyond it the oldest are deleted."""


class SessionMemorySettings(Section):
    """The note with the last messages of each session, for memory search."""

    enabled: bool = True
    """Write the last messages of an ending session to ``memory/YYYY-MM-DD-slug.md``."""
    messages: Annotated[int, Field(ge=1, le=500)] = 15
    """Number of messages, of people and the agent."""


class HookEntriesSettings(Section):
    """The built-in hooks."""

    session_memory: Annotated[SessionMemorySettings, Field(alias="session-memory")] = SessionMemorySettings.model_construct()
    """The note with the last messages of each session, for memory search."""


class InternalHooksSettings(Section):
    """The built-in hooks."""

    enabled: bool = True
    """Run the built-in hooks."""
    entries: HookEntriesSettings = HookEntriesSettings.model_construct()
    """The settings of each hook."""


class HooksSettings(Section):
    """Actions on events."""

    internal: InternalHooksSettings = InternalHooksSettings.model_construct()
    """The built-in hooks."""


class SessionSettings(Section):
    """Sessions."""

    dm_scope: DmScope = "main"
    """``main``: all private chats with the owner are one session. ``per-peer``: one session per person. ``per-channel-peer``: one per person and channel."""  # noqa: E501
    identity_links: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """People by name, each with their ids as ``channel:id``. With a ``dmScope`` other than ``main``, their channels share a session."""
    reset: ResetSettings = ResetSettings.model_construct()
    """When sessions are reset."""
    reset_by_type: ResetByTypeSettings = ResetByTypeSettings.model_construct()
    """Reset rules by kind of conversation."""
    reset_by_channel: dict[str, ResetSettings] = Field(default_factory=dict)
    """Reset rules by channel (``telegram``); they take precedence over those by kind. Settings not given are taken from ``reset``."""
    idle_minutes: Annotated[int, Field(ge=1)] | None = None
    """Older form of ``reset: {mode: idle, idleMinutes: ...}``; ignored if ``reset`` is given."""
    reset_triggers: tuple[str, ...] = ("/new", "/reset")
    """Messages that start a new conversation; a model may follow, as with ``/new``."""
    maintenance: MaintenanceSettings = MaintenanceSettings.model_construct()
    """Archiving of ended sessions."""

    def rule(self, key: str, address: str = "") -> ResetSettings:
        """Return the reset rule of a session: by channel, else by kind, else the general one.

        ``key`` contains kind and channel. For a private session shared by several channels, the channel of its last message
        (``address``) counts.
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
        case ["agent", _, channel, "group" | "channel" | "dm" | "thread", *_]:
            return channel
    return address.partition(":")[0]
