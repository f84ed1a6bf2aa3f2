"""The section ``channels.telegram`` of the configuration."""

import re
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, SecretStr

from channels.common.shared_settings import (
    AccountSection,
    DmPolicy,
    GroupPolicy,
    GroupSection,
    GroupTools,
    Reactions,
    ReplyToMode,
    Section,
    SeveralAccounts,
    empty_list,
    read_token,
)
from channels.errors import ChannelBroken

OFFICIAL = "https://api.telegram.org"
ANYBODY = "*"
LOOK_SECONDS = 120.0
"""How often the webhook is looked after."""
LONGEST_PAUSE = 10.0
"""Seconds between attempts to reach Telegram, at most: whoever writes is heard that soon after the line is back."""
TOKEN = re.compile(r"[0-9]+:[A-Za-z0-9_-]+")
WRONG_FORM = "is not a bot token: @BotFather gives one, a number, a colon and some 35 letters and digits; paste all of it"
HOW_TO_GET_ONE = "get the token from @BotFather, then: homebody config set channels.telegram.botToken TOKEN"


def _person(value: object) -> str:
    text = str(value).strip().removeprefix("telegram:").removeprefix("tg:")
    if re.fullmatch(r"[1-9]\d{0,18}", text) or text == ANYBODY:
        return text
    if text.startswith("@"):
        raise ValueError(
            f"{text} is a name, and names can be taken over: give the numeric id, which the pairing request shows "
            "(homebody pairing list telegram)"
        )
    raise ValueError(f"{text[:80]!r} is not a Telegram user id: give the number, such as 123456789")


def _group(value: object) -> str:
    text = str(value).strip().removeprefix("telegram:").removeprefix("tg:")
    if re.fullmatch(r"-[1-9]\d{0,18}", text) or text == ANYBODY:
        return text
    raise ValueError(
        f"{text[:80]!r} is not a Telegram group id: give the number with its minus sign, such as -1001234567890 (the log tells it "
        "when the bot is added to a group), or * for all groups"
    )


def _topic(value: object) -> str:
    text = str(value).strip()
    if re.fullmatch(r"[1-9]\d{0,9}", text):
        return text
    raise ValueError(f"{text[:80]!r} is not a topic: give its number, with which a link to the topic ends (1 is General)")


def _command(value: object) -> str:
    text = str(value).strip().removeprefix("/").lower()
    if re.fullmatch(r"[a-z0-9_]{1,32}", text):
        return text
    raise ValueError(
        f"{text[:80]!r} is not a command that Telegram takes: give up to 32 small letters, digits and _, such as backup"
    )


def _hook(value: str) -> str:
    if not re.fullmatch(r"https?://[^\s/?#@]+(/[^\s?#]*)?", value):
        raise ValueError(f"{value[:80]!r} is not an address that Telegram can call: give it as https://home.example.org")
    return value.rstrip("/")


def _hook_secret(value: SecretStr) -> SecretStr:
    if not re.fullmatch(r"[A-Za-z0-9_-]{24,256}", value.get_secret_value()):
        raise ValueError("must be 24 to 256 letters, digits, _ and -: make one with `openssl rand -hex 24`")
    return value


def _root(value: str) -> str:
    if not re.fullmatch(r"https?://[^\s/?#]+(/[^\s?#]*)?", value):
        raise ValueError(f"{value[:80]!r} is not a base address: give it as {OFFICIAL} or http://127.0.0.1:8081")
    return value.rstrip("/")


def _proxy(value: SecretStr) -> SecretStr:
    address = value.get_secret_value().strip()
    if address and not re.fullmatch(r"(https?|socks5h?)://([^\s/@]+@)?[^\s/?#@]+/?", address):
        raise ValueError("is not the address of a proxy: give it as http://host:3128 or socks5://name:password@host:1080")
    return value


def _token(value: SecretStr) -> SecretStr:
    token = value.get_secret_value().strip()
    if token and not TOKEN.fullmatch(token):
        raise ValueError(WRONG_FORM)
    return value


Person = Annotated[str, BeforeValidator(_person)]
Root = Annotated[str, AfterValidator(_root)]
Proxy = Annotated[SecretStr, AfterValidator(_proxy)]
Token = Annotated[SecretStr, AfterValidator(_token)]
Group = Annotated[str, BeforeValidator(_group)]
Topic = Annotated[str, BeforeValidator(_topic)]
HookAddress = Annotated[str, AfterValidator(_hook)]
HookSecret = Annotated[SecretStr, AfterValidator(_hook_secret)]


class TelegramCommand(Section):
    """A command of the owner's own in the bot's menu."""

    command: Annotated[str, BeforeValidator(_command)]
    """What is typed behind the slash: small letters, digits and _."""
    description: Annotated[str, Field(min_length=1, max_length=256)]
    """What the menu says of it; also what the agent is told when it is chosen, where `text` and `skill` do not say otherwise."""
    text: str = ""
    """What the agent is told when it is chosen; what the person writes behind the command follows it."""
    skill: str = ""
    """The skill that the agent is to use for it, by name."""

    def message(self, rest: str) -> str:
        """Return what the agent is told, with what was written behind the command."""
        said = self.text.strip()
        if self.skill:
            said = f"Use the skill {self.skill}. {said}".strip()
        return "\n".join(part for part in (said or self.description.strip(), rest.strip()) if part)


class TelegramTopicRule(GroupSection):
    """One topic of a forum group; what is not set is as the group says."""

    enabled: bool | None = None
    """Whether the agent reads this topic."""
    require_mention: bool | None = None
    """Whether it answers here only when it is mentioned or replied to."""
    allow_from: list[Person] | None = None
    """Numeric ids of those who may speak to it here, or `*` for everybody; nobody when empty."""
    tools: GroupTools | None = None
    """Which of its tools the agent may use here; as the group says when not set."""


class TelegramGroupRule(GroupSection):
    """One group."""

    enabled: bool = True
    """Whether the agent reads this group."""
    require_mention: bool = True
    """Whether it answers only when it is mentioned or replied to."""
    allow_from: list[Person] | None = None
    """Numeric ids of those who may speak to it here, or `*` for everybody; as `groupAllowFrom` says when not set, nobody when empty."""
    topics: dict[Topic, TelegramTopicRule] = Field(default_factory=dict)
    """Topics by number that differ from the group."""

    def at(self, topic: str | None) -> "TelegramGroupRule":
        """Return the rule for one topic."""
        own = self.topics.get(topic or "")
        said = {} if own is None else {key: value for key, value in own if value is not None}
        return self.model_copy(update=said) if said else self


class TelegramAccount(AccountSection):
    """One bot."""

    enabled: bool = True
    """Whether this bot is used."""
    bot_token: Token | None = None
    """The bot's token, as @BotFather gave it."""
    token_file: Path | None = None
    """A file that holds the token, in place of `botToken`."""
    api_root: Root = OFFICIAL
    """The Bot API server; give the address of your own server, or of a proxy, to use it in place of Telegram's."""
    dm_policy: DmPolicy = "pairing"
    """Who may write in private: those approved after a pairing code, those in `allowFrom` only, everybody if it lists `*`, or nobody."""
    allow_from: list[Person] = Field(default_factory=empty_list)
    """Numeric ids of the people who may write in private without pairing; the first is the owner."""
    group_policy: GroupPolicy = "allowlist"
    """Which groups the agent reads: those in `groups`, all that it was added to, or none."""
    group_allow_from: list[Person] | None = None
    """Numeric ids of those who may speak to it in groups, or `*` for everybody; those in `allowFrom` when not set."""
    groups: dict[Group, TelegramGroupRule] = Field(default_factory=dict)
    """Groups by id, or `*` for all others."""
    allow_bots: bool = False
    """Whether messages that other bots write are read."""
    reply_to_mode: ReplyToMode = "first"
    """Which messages of an answer in a group are shown as a reply to the question: none, the first, or all."""
    reaction_notifications: Reactions = "own"
    """Which reactions the agent hears of: none, those under its own messages (in private: all), or those under any message."""
    text_chunk_limit: int = Field(default=4000, ge=200, le=4000)
    """The longest message that is sent, in Telegram's unit (UTF-16 code units); longer replies become several messages."""
    media_max_mb: Annotated[float, Field(ge=0, le=100)] | None = None
    """The largest file that is taken or sent, in MB (1,048,576 bytes); as `messages.attachments.maxBytes` says when not set."""
    timeout_seconds: float = Field(default=30, gt=0, le=600)
    """How long one request to Telegram may take."""
    poll_timeout_seconds: int = Field(default=30, ge=0, le=50)
    """How long Telegram may hold a request for new messages open before it answers that there are none."""
    conflict_seconds: float = Field(default=120, ge=0)
    """How long another program that polls the same bot is put up with before this channel gives up."""
    delivery: Literal["direct", "edit"] = "direct"
    """``direct`` sends a reply at once and marks a repeat after a crash; ``edit`` puts it in the place of an ellipsis, so never twice."""
    streaming: Literal["auto", "draft", "edit", "off"] = "auto"
    """How an answer that takes longer than three seconds is shown while it is written: as a draft in private chats and by editing its
    message in groups (`auto`), one of the two everywhere it can be, or not at all."""
    pacing: bool = True
    """Whether sending keeps to Telegram's limits (one message a second in a chat, 20 a minute in a group, 30 a second in all)."""
    webhook_url: HookAddress | None = None
    """The public https address at which Telegram calls this gateway; messages are polled for when it is not set. Without a path it
    gets `/hooks/telegram/ACCOUNT`, which is where the gateway listens."""
    webhook_secret: HookSecret | None = None
    """What Telegram must show with each call, 24 letters or more; a webhook does not start without it."""
    proxy: Proxy | None = None
    """The proxy for all calls to Telegram, as http://host:3128 or socks5://name:password@host:1080 (needs the extra `homebody[socks]`);
    as `HTTPS_PROXY` says when not set."""
    custom_commands: list[TelegramCommand] = Field(default_factory=empty_list)
    """Commands of your own in the bot's menu, behind Homebody's; one that has the name of one of those is left out."""
    link_preview: bool = False
    """Whether Telegram shows a preview of links in replies (it fetches them, which tells their servers)."""

    @property
    def proxy_address(self) -> str:
        """The proxy that the settings name, or an empty string."""
        return "" if self.proxy is None else self.proxy.get_secret_value().strip()

    def token(self) -> str:
        """Return the token; reads the file when there is one.

        Raises:
            ChannelBroken: there is none.
        """
        token = read_token(
            self.bot_token,
            self.token_file,
            key="channels.telegram.botToken",
            file_key="channels.telegram.tokenFile",
            hint=HOW_TO_GET_ONE,
        )
        given = self.bot_token is not None and self.bot_token.get_secret_value().strip()
        if not given and not TOKEN.fullmatch(token):
            raise ChannelBroken(f"what channels.telegram.tokenFile {self.token_file} holds {WRONG_FORM}", hint=HOW_TO_GET_ONE)
        return token

    def group(self, chat: str) -> TelegramGroupRule | None:
        """Return the rule for a group, or None when it is not read."""
        if self.group_policy == "disabled":
            return None
        rule = self.groups.get(chat) or self.groups.get(ANYBODY)
        return TelegramGroupRule() if rule is None and self.group_policy == "open" else rule

    def speakers(self, rule: TelegramGroupRule) -> list[str]:
        """Return who may speak in a group with this rule."""
        shared = self.allow_from if self.group_allow_from is None else self.group_allow_from
        return shared if rule.allow_from is None else rule.allow_from

    def may_speak(self, chat: str, topic: str | None, person: str) -> bool:
        """Return whether a person may speak to the agent in a group."""
        rule = self.group(chat)
        if rule is None or not (here := rule.at(topic)).enabled:
            return False
        return bool({person, ANYBODY} & set(self.speakers(here)))


class TelegramSettings(TelegramAccount, SeveralAccounts[TelegramAccount]):
    """The account `default`, and further bots by name."""

    ACCOUNT: ClassVar[type[BaseModel]] = TelegramAccount
    OWN: ClassVar[tuple[str, ...]] = ("bot_token", "token_file", "webhook_url")
    SECRETS: ClassVar[tuple[str, ...]] = ("bot_token", "token_file")

    accounts: dict[str, TelegramAccount] = Field(default_factory=dict)
    """Further bots by name; what one does not set it takes from the section itself, but for the token and `webhookUrl`."""
