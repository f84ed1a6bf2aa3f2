"""The root of the settings, composed of the sections that live beside their users."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any
from zlib import crc32

from pydantic import BaseModel, Field, PrivateAttr

from agent.settings import AgentSettings, GlobalToolsSettings, ModelsSettings, ToolRules
from channels.built_in import PlatformSettings
from channels.common.shared_settings import DmPolicy
from channels.platform import Policy
from gateway.base.errors import UsageError
from gateway.settings.auth import AuthSettings
from gateway.settings.block_streaming import BlockStreaming
from gateway.settings.budgets import BudgetSettings
from gateway.settings.group_chat import CallSettings
from gateway.settings.http import GatewaySettings
from gateway.settings.logging import LoggingSettings
from gateway.settings.messages import MessagesSettings
from gateway.settings.routing import Binding, Broadcast
from gateway.settings.section import Section
from gateway.settings.session import HooksSettings, SessionSettings
from memory.settings import MemorySettings

MAIN = "main"
_PORTS = 999
"""How many ports behind the usual one profiles are spread over, by their names."""
AGENT_ID = r"^[a-z0-9][a-z0-9_-]{0,63}$"


class AgentDefaults(AgentSettings, BlockStreaming):
    """What every agent is like, unless its own entry says otherwise."""

    memory_search: MemorySettings = MemorySettings()
    """Search in the agent's memory."""


class AgentEntry(AgentDefaults):
    """One agent. Whatever is not said here is taken from agents.defaults."""

    id: Annotated[str, Field(pattern=AGENT_ID)]
    """The agent's id: lower-case letters, figures, - and _; it names the agent's folders and never changes."""
    name: str = ""
    """The agent's name for people; the id when empty."""
    default: bool = False
    """Whether this agent answers where nothing else is said; without any, the first of the list does."""
    group_chat: CallSettings = CallSettings()
    """How this agent is called in groups."""


_HOT: dict[str, Any] = {"reload": "hot"}


class AgentsSettings(Section):
    """The agents of the house."""

    defaults: AgentDefaults = AgentDefaults()
    """What every agent is like, unless its own entry says otherwise."""
    list: tuple[AgentEntry, ...] = ()
    """The agents; without any there is one, main."""


class SlotsSettings(Section):
    """Which part fills a place that only one can."""

    memory: str = Field(default="memory-core", min_length=1)
    """Who keeps the memory: memory-core, none for agents without memory tools, or the name under which another package brings one."""


class PluginsSettings(Section):
    """Parts that can be exchanged."""

    slots: SlotsSettings = SlotsSettings()
    """Which part fills a place that only one can."""
    memory: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """What memories of other packages want to know, by their name; their documentation tells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentProfile:
    """One agent as it really is: its entry laid over the defaults. ``workspace`` is absolute.

    ``tools`` are the layers of rules on its tools, of which each can only narrow.
    """

    id: str
    name: str
    workspace: Path
    settings: AgentSettings
    memory: MemorySettings
    blocks: BlockStreaming
    tools: tuple[ToolRules, ...] = ()


class PluginChannel(Section):
    """A channel of another package."""

    enabled: bool = True
    """Whether this channel is used."""
    dm_policy: DmPolicy = "pairing"
    """Who may write in private: those approved after a pairing code, those in `allowFrom` only, everybody if it lists `*`, or nobody."""
    allow_from: tuple[str, ...] = ()
    """Ids of the people who may write without pairing; the first is the owner."""
    groups: tuple[str, ...] = ()
    """Ids of the groups that are read, where those in `allowFrom` may speak to the agent by mentioning it."""
    block_streaming: bool | None = None
    """Whether answers are sent in blocks while they are written; as `agents.defaults.blockStreamingDefault` says when not set."""
    media_max_mb: Annotated[float, Field(ge=0, le=100)] | None = None
    """The largest file that is taken or sent, in MB (1,048,576 bytes); as `messages.attachments.maxBytes` says when not set."""
    history_limit: Annotated[int, Field(ge=0, le=200)] | None = None
    """How many messages of a group that were not for the agent are kept; as `messages.groupChat.historyLimit` says when not set."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """What the package itself wants to know; its documentation tells."""

    def names(self) -> list[str]:
        """Return the names of the enabled accounts: one or none."""
        return ["default"] if self.enabled else []

    def account(self, name: str) -> PluginChannel:  # noqa: ARG002 - the sections of all platforms answer alike
        """Return the settings in force for an account."""
        return self

    def policy(self) -> Policy:
        """Return who may speak on this channel."""
        return Policy(dm_policy=self.dm_policy, allow_from=self.allow_from, groups=frozenset(self.groups))


class ChannelsSettings(PlatformSettings):
    """Chat platforms."""

    plugins: dict[str, PluginChannel] = Field(default_factory=dict)
    """Channels that other installed packages bring, by name."""

    def section(self, channel: str) -> Any:
        """Return the section of a channel, built in or of another package; None where there is none.

        Each section has ``names()``, the enabled accounts, and ``account(name)``, the settings in force for one.
        """
        return getattr(self, channel) if channel in PlatformSettings.model_fields else self.plugins.get(channel)

    def account(self, channel: str, account: str) -> BaseModel | None:
        """Return what is said of an account of a channel, by its entry and by its channel; None where there is no such section."""
        section = self.section(channel)
        if section is None:
            return None
        known: BaseModel = section.account(account if account in getattr(section, "accounts", ()) else "default")
        return known


class Settings(Section):
    """All settings. An empty file means every default."""

    agents: AgentsSettings = Field(default=AgentsSettings(), json_schema_extra=_HOT)
    """The agents of the house."""
    models: ModelsSettings = Field(default=ModelsSettings(), json_schema_extra=_HOT)
    """Providers of language models beyond those known from the environment."""
    auth: AuthSettings = Field(default=AuthSettings(), json_schema_extra=_HOT)
    """Keys of model providers in files of their own."""
    session: SessionSettings = Field(default=SessionSettings(), json_schema_extra=_HOT)
    """Who shares a session, and when it starts afresh."""
    hooks: HooksSettings = Field(default=HooksSettings(), json_schema_extra=_HOT)
    """What is done when something happens."""
    channels: ChannelsSettings = Field(default=ChannelsSettings(), json_schema_extra=_HOT)
    """Chat platforms."""
    bindings: tuple[Binding, ...] = Field(default=(), json_schema_extra=_HOT)
    """Which agent answers where; the nearest rule wins, and without one the default agent answers."""
    broadcast: Broadcast = Field(default_factory=dict, json_schema_extra=_HOT)
    """Conversations that several agents answer, each in a session of its own: ``telegram:-100123: [main, work]``; before ``bindings``."""
    messages: MessagesSettings = Field(default=MessagesSettings(), json_schema_extra=_HOT)
    """How messages are dealt with, whatever the channel."""
    gateway: GatewaySettings = GatewaySettings()
    """Where the house listens, and to whom."""
    tools: GlobalToolsSettings = Field(default=GlobalToolsSettings(), json_schema_extra=_HOT)
    """Which tools there are in the house; what is said of an agent can only narrow it."""
    budgets: BudgetSettings = Field(default=BudgetSettings(), json_schema_extra=_HOT)
    """What the models may cost in a day."""
    plugins: PluginsSettings = Field(default=PluginsSettings(), json_schema_extra=_HOT)
    """Parts that can be exchanged."""
    logging: LoggingSettings = LoggingSettings()
    """What is logged, and where."""

    _profile: str = PrivateAttr(default="")

    @property
    def profile(self) -> str:
        """The name of the house these settings are for; the usual one has none."""
        return self._profile

    def of_profile(self, name: str) -> Settings:
        """Return these settings for the house of that name: its default workspaces and its default port are its own."""
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
        """The id of the agent that answers where nothing else is said."""
        return next((entry.id for entry in self.agents.list if entry.default), self.agent_ids[0])

    def agent(self, agent_id: str) -> AgentProfile:
        """Return one agent: its entry laid over ``agents.defaults``, key by key (lists are replaced as a whole).

        A relative workspace counts from the owner's home folder. Raises UsageError for an agent that is not there.
        """
        if agent_id not in self.agent_ids:
            raise UsageError(f"there is no agent {agent_id!r}", hint=f"There is: {', '.join(self.agent_ids)}.")
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
            tools=self._tool_rules(entry),
        )

    def _tool_rules(self, entry: AgentEntry | None) -> tuple[ToolRules, ...]:
        """The rules of the house, of all agents, and what the agent's own entry says beyond that."""
        own = entry.tools if entry is not None and "tools" in entry.model_fields_set else ToolRules()
        said = own if "deny" in own.model_fields_set else own.model_copy(update={"deny": ()})
        return (self.tools, self.agents.defaults.tools, said)


def laid_over(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Merge two sections; where both say something, ``over`` wins, key by key."""
    merged = dict(under)
    for key, value in over.items():
        below = merged.get(key)
        merged[key] = laid_over(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def _said(section: BaseModel) -> dict[str, Any]:
    return section.model_dump(by_alias=True, exclude_unset=True)
