"""The section ``channels.discord`` of the configuration."""

import re
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, SecretStr

from channels.common.shared_settings import (
    DirectMessages,
    GroupPolicy,
    GroupSection,
    GroupTools,
    Reactions,
    RoomAccount,
    Section,
    SeveralAccounts,
    empty_list,
    read_token,
)

OFFICIAL = "https://discord.com/api/v10"
HOW_TO_GET_ONE = (
    "make a bot at https://discord.com/developers/applications (Bot, Reset Token), then: "
    "homebody config set channels.discord.token TOKEN"
)
TAKEN_FROM_BOTS = 10.0
"""What Discord takes as a file from a bot, in MB, where nobody boosts the server."""
_ID = re.compile(r"[1-9]\d{4,19}")


def _person(value: object) -> str:
    text = str(value).strip().removeprefix("discord:").removeprefix("user:")
    if _ID.fullmatch(text) or text == "*":
        return text
    raise ValueError(
        f"{text[:80]!r} is not a Discord user id, and names can be taken over: give the number (Discord: Settings, Advanced, "
        "Developer Mode; then right-click the person, Copy User ID)"
    )


def _place(value: object) -> str:
    text = str(value).strip()
    if _ID.fullmatch(text) or text == "*":
        return text
    raise ValueError(f"{text[:80]!r} is not the id of a server or channel: give the number (right-click it, Copy ID), or *")


def _root(value: str) -> str:
    if not re.fullmatch(r"(https?|wss?)://[^\s/?#]+(/[^\s?#]*)?", value):
        raise ValueError(f"{value[:80]!r} is not a base address: give it as {OFFICIAL} or http://127.0.0.1:8081/api/v10")
    return value.rstrip("/")


Person = Annotated[str, BeforeValidator(_person)]
Place = Annotated[str, BeforeValidator(_place)]
Root = Annotated[str, AfterValidator(_root)]


class DiscordDirect(DirectMessages):
    """Private messages."""

    allow_from: list[Person] = Field(default_factory=empty_list)
    """Numeric ids of the people who may write without pairing; the first is the owner."""


class DiscordChannelRule(GroupSection):
    """One channel of a server. Its threads and posts follow it."""

    allow: bool = True
    """Whether the agent reads this channel."""
    require_mention: bool | None = None
    """Whether it answers only when it is mentioned or replied to; as the server says when not set."""
    users: list[Person] | None = None
    """Numeric ids of those who may speak to it here; as the server says when not set, nobody when empty."""
    tools: GroupTools | None = None
    """Which of its tools the agent may use here, of those that the server leaves it."""
    auto_thread: bool | None = None
    """Whether an answer here opens a thread on the message that it answers, which is a conversation of its own; as the server says when
    not set."""


class DiscordGuildRule(GroupSection):
    """One server."""

    require_mention: bool = True
    """Whether the agent answers only when it is mentioned or replied to."""
    users: list[Person] | None = None
    """Numeric ids of those who may speak to the agent here; those in `dm.allowFrom` when not set, nobody when empty."""
    auto_thread: bool = False
    """Whether an answer in a channel opens a thread on the message that it answers, which is a conversation of its own."""
    auto_archive_duration: Literal[60, 1440, 4320, 10080] = 60
    """After how many quiet minutes Discord archives such a thread."""
    channels: dict[Place, DiscordChannelRule] = Field(default_factory=dict)
    """Channels by id; when any is listed, the others are not read."""
    reaction_notifications: Reactions | None = None
    """Which reactions on this server the agent is told of; as the account says when not set."""


class DiscordCommands(Section):
    """The menu of commands that Discord shows after a slash."""

    native: bool = True
    """Whether the agent's commands are offered there; when off, the menu is emptied, and commands are typed as messages."""


class DiscordPresence(Section):
    """How the bot is shown among the members."""

    status: Literal["online", "idle", "dnd", "invisible"] = "online"
    """The coloured dot: online, idle, do not disturb, or as if it were offline."""
    activity: Annotated[str, Field(max_length=128)] = ""
    """The words under its name; none when empty."""
    kind: Literal["custom", "playing", "listening", "watching", "competing"] = "custom"
    """How Discord introduces them: not at all, or as “Playing …” and so on."""


class DiscordAccount(RoomAccount):
    """One bot."""

    usual_block_chars: ClassVar[int] = 1500
    """Letters that a block has at least where the settings do not say: many small messages are a nuisance here."""

    enabled: bool = True
    """Whether this bot is used."""
    token: SecretStr | None = None
    """The bot's token, from Discord's developer portal."""
    token_file: Path | None = None
    """A file that holds the token, in place of `token`."""
    api_root: Root = OFFICIAL
    """The REST address; give that of a proxy or of a compatible server to use it in place of Discord's."""
    gateway_url: Root | None = None
    """The address of the gateway (wss://...), for a proxy or a compatible server; Discord's own when not set."""
    dm: DiscordDirect = DiscordDirect.model_construct()
    """Private messages."""
    group_policy: GroupPolicy = "allowlist"
    """Which servers the agent reads: those in `guilds`, all that it was added to, or none."""
    guilds: dict[Place, DiscordGuildRule] = Field(default_factory=dict)
    """Servers by id, or `*` for all others."""
    text_chunk_limit: int = Field(default=2000, ge=200, le=2000)
    """The longest message that is sent, in letters; longer replies become several messages."""
    max_lines_per_message: int = Field(default=17, ge=16, le=2000)
    """The most lines in one message, so that a list does not fill the screen."""
    allow_bots: bool = False
    """Whether other bots and webhooks are heard, by the same rules as people; the bot never hears itself."""
    media_max_mb: Annotated[float, Field(gt=0, le=500)] | None = None
    """The largest file that is taken or sent, in MB (1,048,576 bytes). When it is not set, files are taken as
    `messages.attachments.maxBytes` says, and sent up to 10 MB, which is what Discord takes from a bot; on a boosted server it is more."""
    presence: DiscordPresence = DiscordPresence.model_construct()
    """How the bot is shown among the members."""
    commands: DiscordCommands = DiscordCommands.model_construct()
    """The menu of commands."""
    timeout_seconds: float = Field(default=30, gt=0, le=600)
    """How long one request to Discord may take."""
    heartbeat_timeout_seconds: float = Field(default=60, gt=0, le=600)
    """After how many silent seconds the connection is opened anew; Discord gives a sign of life every 41."""
    streaming: Literal["off", "edit"] = "edit"
    """Whether an answer that takes longer than three seconds is shown while it is written, by editing its message."""

    @property
    def sent_max_mb(self) -> float:
        """The largest file that is sent, in MB."""
        return TAKEN_FROM_BOTS if self.media_max_mb is None else self.media_max_mb

    def secret(self) -> str:
        """Return the token; reads the file when there is one.

        Raises:
            ChannelBroken: there is none.
        """
        found = read_token(
            self.token,
            self.token_file,
            key="channels.discord.token",
            file_key="channels.discord.tokenFile",
            hint=HOW_TO_GET_ONE,
        )
        return found.removeprefix("Bot ")

    def guild(self, guild: str) -> DiscordGuildRule | None:
        """Return the rule for a server, or None when it is not read."""
        return self.rule_among(self.guilds, guild, DiscordGuildRule)

    def threaded(self, guild: str, channel: str) -> bool:
        """Return whether an answer in a channel opens a thread."""
        rule = self.guild(guild)
        entry = None if rule is None else self._entry(rule, channel)
        own = None if entry is None else entry.auto_thread
        return rule is not None and (rule.auto_thread if own is None else own)

    def needs_mention(self, guild: str, channel: str) -> bool:
        """Return whether the agent answers in a channel only when it is mentioned."""
        rule = self.guild(guild) or DiscordGuildRule()
        entry = self._entry(rule, channel)
        own = None if entry is None else entry.require_mention
        return rule.require_mention if own is None else own

    @staticmethod
    def _entry(rule: DiscordGuildRule, channel: str) -> DiscordChannelRule | None:
        return rule.channels.get(channel) or rule.channels.get("*")

    def reactions_told(self, guild: str) -> Reactions:
        """Return which reactions on a server, or in private (no server), are told."""
        rule = self.guild(guild) if guild else None
        return self.reactions_by(None if rule is None else rule.reaction_notifications)

    def reads(self, guild: str, channel: str) -> bool:
        """Return whether a channel of a server is read."""
        rule = self.guild(guild)
        if rule is None:
            return False
        entry = self._entry(rule, channel)
        return entry.allow if entry is not None else not rule.channels or self.group_policy == "open"


class DiscordSettings(DiscordAccount, SeveralAccounts[DiscordAccount]):
    """The account `default`, and further bots by name."""

    ACCOUNT: ClassVar[type[BaseModel]] = DiscordAccount
    OWN: ClassVar[tuple[str, ...]] = ("token", "token_file")
    SECRETS: ClassVar[tuple[str, ...]] = ("token", "token_file")

    accounts: dict[str, DiscordAccount] = Field(default_factory=dict)
    """Further bots by name; what one does not set it takes from the section itself, but for the token."""
