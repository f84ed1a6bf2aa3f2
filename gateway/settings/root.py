"""The root of the settings, and the store that holds the current ones and notifies subscribers of changes."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol
from zlib import crc32

from msgspec import Struct, field
from pydantic import BaseModel, BeforeValidator, Field, PrivateAttr

from agent.section import Section
from agent.settings import AgentSettings, ModelsSettings
from agent.tool_settings import ExecSettings, ToolRules
from channels.built_in import PlatformSettings
from channels.common.deferred_section import DEFERRED
from channels.common.shared_settings import DmPolicy, GroupSection
from channels.platform import ANYBODY, Policy, place_rules
from gateway.base.errors import unknown_agent
from gateway.settings.approval_settings import ApprovalsSettings
from gateway.settings.auth_settings import AuthSettings
from gateway.settings.backup_settings import BackupSettings
from gateway.settings.block_streaming import BlockStreaming
from gateway.settings.budget_settings import BudgetSettings
from gateway.settings.calendar_settings import CalendarSettings
from gateway.settings.cluster_settings import ClusterSettings
from gateway.settings.heartbeat_settings import HeartbeatSettings, WithHeartbeat
from gateway.settings.http_settings import GatewaySettings
from gateway.settings.mail_settings import MailSettings
from gateway.settings.mcp_settings import McpSettings
from gateway.settings.message_settings import CallSettings, MessagesSettings
from gateway.settings.quiet_hours import UnaskedSettings
from gateway.settings.routing_settings import Binding, Broadcast
from gateway.settings.session_settings import HooksSettings, SessionSettings
from gateway.settings.skill_settings import SkillsSettings, WithSkills
from gateway.settings.storage_settings import StorageSettings
from gateway.settings.subagent_settings import SubAgentSettings
from gateway.settings.web_settings import AllToolsSettings
from gateway.settings.workspace_store_settings import WorkspaceStoreSettings
from memory.settings import MemorySettings

MAIN = "main"
_PORTS = 999
"""Number of ports after the default one over which profiles are distributed by their name."""
AGENT_ID = r"^[a-z0-9][a-z0-9_-]{0,63}$"

Level = Literal["debug", "info", "warn", "warning", "error", "silent"]


class LoggingSettings(Section):
    """Log levels and the log file."""

    level: Level = Field(default="info", json_schema_extra={"reload": "hot"})
    """Minimum level of lines in the log file: debug, info, warn, error or silent."""
    file: Path | None = Field(default=None, json_schema_extra={"reload": "restart"})
    """Path of the log file. Unset: logs/homebody.jsonl in the home folder (~/.homebody)."""
    console_level: Level = Field(default="info", json_schema_extra={"reload": "hot"})
    """Minimum level of lines in the terminal."""
    console_style: Literal["pretty", "json"] = Field(default="pretty", json_schema_extra={"reload": "restart"})
    """Format of lines in the terminal: ``pretty`` for people, ``json`` for a log collector."""
    max_bytes: Annotated[int, Field(ge=10_000)] = Field(default=10_000_000, json_schema_extra={"reload": "restart"})
    """Size in bytes at which the log file is rotated."""
    keep: Annotated[int, Field(ge=1, le=100)] = Field(default=5, json_schema_extra={"reload": "restart"})
    """Number of rotated log files to keep."""


class AgentDefaults(AgentSettings, BlockStreaming, UnaskedSettings, WithHeartbeat, WithSkills):
    """Defaults for all agents."""

    memory_search: Annotated[MemorySettings, DEFERRED] = MemorySettings.model_construct()
    """Search in the agent's memory."""
    subagents: Annotated[SubAgentSettings, DEFERRED] = SubAgentSettings.model_construct()
    """Limits of the sub-agents that it starts."""
    workspace_store: Annotated[WorkspaceStoreSettings, DEFERRED] = WorkspaceStoreSettings.model_construct()
    """Whether its folder is kept in a git repository, too."""


class AgentEntry(AgentDefaults):
    """One agent. Settings that are not given here are taken from agents.defaults."""

    id: Annotated[str, Field(pattern=AGENT_ID)]
    """The agent's id: lower-case letters, digits, - and _. It is part of folder names and should not be changed."""
    name: str = ""
    """The agent's display name. Default: the id."""
    default: bool = False
    """Whether this is the default agent. If none is, the first of the list is."""
    group_chat: CallSettings = CallSettings.model_construct()
    """How this agent is mentioned in groups."""


_HOT: dict[str, Any] = {"reload": "hot"}


class AgentsSettings(Section):
    """The agents."""

    defaults: Annotated[AgentDefaults, DEFERRED] = AgentDefaults.model_construct()
    """Defaults for all agents."""
    list: tuple[AgentEntry, ...] = ()
    """The agents. Default: one agent with the id ``main``."""


class SlotsSettings(Section):
    """The plugin for each slot."""

    memory: str = Field(default="memory-core", min_length=1)
    """The memory: ``memory-core``, ``none`` (no memory tools), or the name that another package registers."""


class PluginsSettings(Section):
    """Exchangeable parts."""

    slots: SlotsSettings = SlotsSettings.model_construct()
    """The plugin for each slot."""
    memory: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Settings of memories from other packages, by name; see their documentation."""


class AgentProfile(Struct, frozen=True, kw_only=True):
    """The effective settings of one agent: its entry merged over the defaults. ``workspace`` is absolute.

    ``tools``: layers of tool rules; each can only restrict further. ``exec``: how its commands run. ``subagents``: limits of those that
    it starts. ``skills``: names of the skills that it is given; None for all.
    """

    id: str
    name: str
    workspace: Path
    settings: AgentSettings
    memory: MemorySettings
    blocks: BlockStreaming
    unasked: UnaskedSettings
    heartbeat: HeartbeatSettings
    tools: tuple[ToolRules, ...] = ()
    exec: ExecSettings = field(default_factory=ExecSettings)
    subagents: SubAgentSettings = field(default_factory=SubAgentSettings)
    skills: tuple[str, ...] | None = None
    store: WorkspaceStoreSettings = field(default_factory=WorkspaceStoreSettings)


class PluginGroup(GroupSection):
    """One group of a channel from another package."""

    allow: bool = True
    """Whether the agent reads this group."""
    require_mention: bool = True
    """Whether it answers only when it is mentioned or replied to."""
    users: list[str] | None = None
    """Ids of those who may speak to it here, or `*` for everybody; those in `allowFrom` when not set, nobody when empty."""


def _by_id(value: object) -> object:
    """Read a list of ids as groups without settings of their own."""
    return {str(one): {} for one in value} if isinstance(value, list | tuple) else value


class PluginChannel(Section):
    """A channel from another package."""

    enabled: bool = True
    """Whether this channel is used."""
    dm_policy: DmPolicy = "pairing"
    """Who may write private messages: people approved by a pairing code, only those in `allowFrom`, everybody if it has `*`, or nobody."""
    allow_from: tuple[str, ...] = ()
    """Ids of people who may write without pairing. The first one is the owner."""
    groups: Annotated[dict[str, PluginGroup], BeforeValidator(_by_id)] = Field(default_factory=dict)
    """Allowed groups by id, or a list of their ids. In them, people in `allowFrom` reach the agent by mentioning it."""
    block_streaming: bool | None = None
    """Send answers in blocks while they are written. Unset: `agents.defaults.blockStreamingDefault` applies."""
    media_max_mb: Annotated[float, Field(ge=0, le=100)] | None = None
    """Maximum size of a received or sent file, in MB (1,048,576 bytes). Unset: `messages.attachments.maxBytes` applies."""
    history_limit: Annotated[int, Field(ge=0, le=200)] | None = None
    """Number of earlier group messages without a mention that are kept. Unset: `messages.groupChat.historyLimit` applies."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Settings of the package; see its documentation."""

    def names(self) -> list[str]:
        """Return the names of the enabled accounts: one or none."""
        return ["default"] if self.enabled else []

    def account(self, name: str) -> "PluginChannel":  # noqa: ARG002 - the sections of all platforms answer alike
        """Return the effective settings of an account."""
        return self

    def policy(self) -> Policy:
        """Return the access policy of this channel."""
        rules = place_rules(self.groups, policy="allowlist", tools_key="channels.plugins")
        return Policy(dm_policy=self.dm_policy, allow_from=self.allow_from, rules={ANYBODY: rules})


class ChannelsSettings(PlatformSettings):
    """Chat platforms."""

    plugins: dict[str, PluginChannel] = Field(default_factory=dict)
    """Channels from other installed packages, by name."""

    def section(self, channel: str) -> Any:
        """Return the section of a channel, built in or from another package; None if there is none.

        Each section has ``names()``, the enabled accounts, and ``account(name)``, the effective settings of one.
        """
        return getattr(self, channel) if channel in PlatformSettings.model_fields else self.plugins.get(channel)

    def account(self, channel: str, account: str) -> BaseModel | None:
        """Return the effective settings of a channel's account; None if there is no such section."""
        section = self.section(channel)
        if section is None:
            return None
        known: BaseModel = section.account(account if account in getattr(section, "accounts", ()) else "default")
        return known


class Settings(Section):
    """All settings. With an empty file, all defaults apply."""

    agents: Annotated[AgentsSettings, DEFERRED] = Field(default=AgentsSettings.model_construct(), json_schema_extra=_HOT)
    """The agents."""
    models: Annotated[ModelsSettings, DEFERRED] = Field(default=ModelsSettings.model_construct(), json_schema_extra=_HOT)
    """Providers of language models, in addition to those found in the environment."""
    auth: Annotated[AuthSettings, DEFERRED] = Field(default=AuthSettings.model_construct(), json_schema_extra=_HOT)
    """Saved keys of model providers."""
    session: Annotated[SessionSettings, DEFERRED] = Field(default=SessionSettings.model_construct(), json_schema_extra=_HOT)
    """Session scope and reset rules."""
    hooks: Annotated[HooksSettings, DEFERRED] = Field(default=HooksSettings.model_construct(), json_schema_extra=_HOT)
    """Actions on events."""
    channels: Annotated[ChannelsSettings, DEFERRED] = Field(default=ChannelsSettings.model_construct(), json_schema_extra=_HOT)
    """Chat platforms."""
    bindings: tuple[Binding, ...] = Field(default=(), json_schema_extra=_HOT)
    """Routing rules: which agent answers which conversation. The most specific rule applies; without one, the default agent answers."""
    broadcast: Broadcast = Field(default_factory=dict, json_schema_extra=_HOT)
    """Conversations that several agents answer, each in its own session: ``telegram:-100123: [main, work]``. Precedes ``bindings``."""
    messages: Annotated[MessagesSettings, DEFERRED] = Field(default=MessagesSettings.model_construct(), json_schema_extra=_HOT)
    """Handling of messages on all channels."""
    gateway: Annotated[GatewaySettings, DEFERRED] = GatewaySettings.model_construct()
    """The HTTP API."""
    tools: Annotated[AllToolsSettings, DEFERRED] = Field(default=AllToolsSettings.model_construct(), json_schema_extra=_HOT)
    """Tools that agents may use; an agent's own settings can only restrict them further."""
    mail: Annotated[MailSettings, DEFERRED] = Field(default=MailSettings.model_construct(), json_schema_extra=_HOT)
    """Mailboxes that agents read and send from."""
    calendar: Annotated[CalendarSettings, DEFERRED] = Field(default=CalendarSettings.model_construct(), json_schema_extra=_HOT)
    """Calendars and address books that agents read and change."""
    skills: Annotated[SkillsSettings, DEFERRED] = Field(default=SkillsSettings.model_construct(), json_schema_extra=_HOT)
    """Skills: instructions for one kind of work, which agents read when they need them."""
    approvals: Annotated[ApprovalsSettings, DEFERRED] = Field(
        default=ApprovalsSettings.model_construct(), json_schema_extra=_HOT
    )
    """What agents may do without asking."""
    mcp: Annotated[McpSettings, DEFERRED] = Field(default=McpSettings.model_construct(), json_schema_extra=_HOT)
    """Servers of the Model Context Protocol, whose tools agents may use (docs/mcp.md)."""
    budgets: Annotated[BudgetSettings, DEFERRED] = Field(default=BudgetSettings.model_construct(), json_schema_extra=_HOT)
    """Daily limits on model costs."""
    backup: Annotated[BackupSettings, DEFERRED] = Field(default=BackupSettings.model_construct(), json_schema_extra=_HOT)
    """Copies of everything in one file, and when they are made (docs/backup.md)."""
    storage: Annotated[StorageSettings, DEFERRED] = StorageSettings.model_construct()
    """Where messages and conversations are kept: files, or a PostgreSQL database."""
    cluster: Annotated[ClusterSettings, DEFERRED] = ClusterSettings.model_construct()
    """Several gateways that share agents, chat accounts and a database."""
    plugins: Annotated[PluginsSettings, DEFERRED] = Field(default=PluginsSettings.model_construct(), json_schema_extra=_HOT)
    """Exchangeable parts."""
    logging: Annotated[LoggingSettings, DEFERRED] = LoggingSettings.model_construct()
    """Log levels and the log file."""

    _profile: str = PrivateAttr(default="")

    @property
    def profile(self) -> str:
        """The name of the profile; "" for the default one."""
        return self._profile

    def of_profile(self, name: str) -> "Settings":
        """Return these settings for a profile, which has its own default workspaces and default port."""
        if name == self._profile:
            return self
        gateway = self.gateway
        if "port" not in gateway.model_fields_set:
            values = {key: getattr(gateway, key) for key in type(gateway).model_fields}
            port = type(gateway)().port + 1 + crc32(name.encode()) % _PORTS
            gateway = type(gateway).model_construct(_fields_set=set(gateway.model_fields_set), **values | {"port": port})
        settings = self.model_copy()
        settings.__dict__["gateway"] = gateway
        settings._profile = name  # noqa: SLF001 -- a copy of this very object
        return settings

    @property
    def agent_ids(self) -> tuple[str, ...]:
        """The ids of all agents, in the order of the list."""
        return tuple(entry.id for entry in self.agents.list) or (MAIN,)

    @property
    def default_agent(self) -> str:
        """The id of the default agent."""
        return next((entry.id for entry in self.agents.list if entry.default), self.agent_ids[0])

    def agent(self, agent_id: str) -> AgentProfile:
        """Return one agent: its entry merged over ``agents.defaults``, key by key (lists are replaced as a whole).

        A relative workspace is relative to the owner's home folder. Raises UsageError for an unknown agent.
        """
        if agent_id not in self.agent_ids:
            raise unknown_agent(agent_id, self.agent_ids)
        entry = next((entry for entry in self.agents.list if entry.id == agent_id), None)
        resolved = AgentDefaults.model_validate(laid_over(_said(self.agents.defaults), _said(entry) if entry else {}))
        parts = ("homebody", self._profile, "" if agent_id == MAIN else agent_id)
        folder = "-".join(part for part in parts if part)
        workspace = Path.home() / (resolved.workspace or Path(folder)).expanduser()
        return AgentProfile(
            id=agent_id,
            name=entry.name if entry and entry.name else agent_id,
            workspace=workspace,
            settings=resolved,
            memory=resolved.memory_search,
            blocks=resolved,
            unasked=resolved,
            heartbeat=resolved.heartbeat,
            tools=self._tool_rules(entry),
            exec=self._exec(entry),
            subagents=resolved.subagents,
            skills=resolved.skills,
            store=resolved.workspace_store,
        )

    def _exec(self, entry: AgentEntry | None) -> ExecSettings:
        """How an agent's commands run: its entry's settings over those of all agents, and those over the global ones."""
        layers = [self.tools, self.agents.defaults.tools, *([entry.tools] if entry else [])]
        merged: dict[str, Any] = {}
        for layer in layers:
            merged = laid_over(merged, _said(layer.exec))
        return ExecSettings.model_validate(merged)

    def _tool_rules(self, entry: AgentEntry | None) -> tuple[ToolRules, ...]:
        """The global rules, those of all agents, and those of the agent's own entry."""
        own = entry.tools if entry is not None and "tools" in entry.model_fields_set else ToolRules()
        said = own if "deny" in own.model_fields_set else own.model_copy(update={"deny": ()})
        return (self.tools, self.agents.defaults.tools, said)


def laid_over(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Merge two sections key by key; ``over`` takes precedence."""
    merged = dict(under)
    for key, value in over.items():
        below = merged.get(key)
        merged[key] = laid_over(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def _said(section: BaseModel) -> dict[str, Any]:
    return section.model_dump(by_alias=True, exclude_unset=True)


Subscriber = Callable[[Settings, Settings], None]


class SettingsInForce(Protocol):
    """Has the current settings: a ``SettingsStore``."""

    @property
    def current(self) -> Settings:
        """The current settings, to be read at each use."""
        ...


class SettingsStore:
    """Holds the current settings. Read ``current`` at each use; subscribe only to act on a change.

    Not thread-safe: read and replace on the event loop.
    """

    def __init__(self, settings: Settings) -> None:
        self.current = settings
        """The current settings. ``replace`` them; they are not to be assigned."""
        self._subscribers: list[Subscriber] = []

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call ``subscriber(former, current)`` after each replacement, in the order of subscription."""
        self._subscribers.append(subscriber)

    def replace(self, settings: Settings) -> None:
        """Replace the settings and call the subscribers. Their exceptions propagate to the caller."""
        former, self.current = self.current, settings
        for subscriber in self._subscribers:
            subscriber(former, settings)
