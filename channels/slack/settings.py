"""The section ``channels.slack`` of the configuration."""

import re
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, SecretStr

from channels.common.shared_settings import (
    DirectMessages,
    GroupPolicy,
    GroupSection,
    Reactions,
    ReplyToMode,
    RoomAccount,
    Section,
    SeveralAccounts,
    empty_list,
)
from channels.errors import ChannelBroken

OFFICIAL = "https://slack.com/api"
APPS = "https://api.slack.com/apps"
TOKENS = {
    "bot_token": ("botToken", "xoxb-", f"{APPS}, your app, OAuth & Permissions, Bot User OAuth Token"),
    "app_token": ("appToken", "xapp-", f"{APPS}, your app, Basic Information, App-Level Tokens, scope connections:write"),
    "signing_secret": ("signingSecret", "", f"{APPS}, your app, Basic Information, App Credentials, Signing Secret"),
}
"""What each secret is called in the settings, how it begins, and where Slack shows it."""
KINDS = {"xoxb-": "a bot token", "xapp-": "an app-level token", "xoxp-": "a user token", "xoxe": "a token that rotates"}
"""What Slack's tokens are by their beginnings."""
SHORTEST_SECRET = 16
ASK_EVERY = 6
"""Pings of a connection in whose time Slack is asked, without a connection, whether the app is still welcome."""
Which = Literal["bot_token", "app_token", "signing_secret"]


def _person(value: object) -> str:
    text = str(value).strip().removeprefix("slack:").removeprefix("user:")
    if re.fullmatch(r"[UWB][A-Z0-9]{2,20}", text) or text == "*":
        return text
    raise ValueError(
        f"{text[:80]!r} is not a Slack member id, and names change: give the id, such as U012AB3CD (in Slack: the person's "
        "profile, the three dots, Copy member ID)"
    )


def _place(value: object) -> str:
    text = str(value).strip()
    if re.fullmatch(r"[CG][A-Z0-9]{2,20}", text) or text == "*":
        return text
    raise ValueError(
        f"{text[:80]!r} is not a Slack channel id: give it as C012AB3CD (in Slack: the channel's details, at the very end), or *"
    )


def _root(value: str) -> str:
    if not re.fullmatch(r"https?://[^\s/?#]+(/[^\s?#]*)?", value):
        raise ValueError(f"{value[:80]!r} is not a base address: give it as {OFFICIAL} or http://127.0.0.1:8081/api")
    return value.rstrip("/")


Person = Annotated[str, BeforeValidator(_person)]
Place = Annotated[str, BeforeValidator(_place)]
Root = Annotated[str, AfterValidator(_root)]


class SlackDirect(DirectMessages):
    """Private messages."""

    allow_from: list[Person] = Field(default_factory=empty_list)
    """Member ids of the people who may write without pairing; the first is the owner."""


class SlackChannelRule(GroupSection):
    """One channel. Its threads follow it."""

    allow: bool = True
    """Whether the agent reads this channel."""
    require_mention: bool = True
    """Whether it answers only when it is mentioned."""
    allow_bots: bool | None = None
    """Whether messages of other apps are read here; as `allowBots` of the account when not set."""
    users: list[Person] | None = None
    """Member ids of those who may speak to it here; those in `dm.allowFrom` when not set, nobody when empty."""


class SlackCommand(Section):
    """The slash command that the app has, if its manifest names one."""

    enabled: bool = True
    """Whether what people write behind the command is taken."""
    name: str = Field(default="homebody", pattern=r"^[a-z0-9_-]{1,31}$")
    """The command's name without its slash, as the app's manifest has it."""
    ephemeral: bool = True
    """Whether only the person who gave a command sees that it was taken; otherwise the channel sees the command."""


class SlackPrompt(Section):
    """A suggestion in an empty assistant thread."""

    title: Annotated[str, Field(min_length=1, max_length=75)]
    """What stands on it."""
    message: Annotated[str, Field(min_length=1, max_length=1000)]
    """What is said to the agent when it is chosen."""


class SlackAssistant(Section):
    """The app as an assistant in Slack's side panel, where its manifest has `assistant_view`."""

    status: Annotated[str, Field(max_length=100)] = "is typing…"
    """What stands under a thread while an answer is written; nothing when empty."""
    prompts: Annotated[list[SlackPrompt], Field(max_length=4)] = Field(default_factory=empty_list)
    """Suggestions in a new thread, four at most."""
    prompts_title: Annotated[str, Field(max_length=100)] = ""
    """What stands above the suggestions."""
    titles: bool = True
    """Whether a thread is named after the first words that are written in it."""


class SlackAccount(RoomAccount):
    """One app in one workspace."""

    usual_block_chars: ClassVar[int] = 1500
    """Letters that a block has at least where the settings do not say: many small messages are a nuisance here."""

    enabled: bool = True
    """Whether this app is used."""
    bot_token: SecretStr | None = None
    """The bot token of the app (xoxb-...), with which it speaks."""
    app_token: SecretStr | None = None
    """The app-level token (xapp-..., scope connections:write), with which it listens in mode `socket`."""
    signing_secret: SecretStr | None = None
    """The signing secret of the app, by which Slack's requests are known in mode `http`."""
    user_token: SecretStr | None = None
    """Your own token (xoxp-..., scope search:read): with it the agent can search what you can read, in private with its owner alone."""
    api_root: Root = OFFICIAL
    """The Web API's address; give that of a proxy or of a compatible server to use it in place of Slack's."""
    mode: Literal["socket", "http"] = "socket"
    """How events come in: over a connection that this gateway opens, so that no address of it is public, or as requests of Slack."""
    dm: SlackDirect = SlackDirect.model_construct()
    """Private messages."""
    group_policy: GroupPolicy = "allowlist"
    """Which channels the agent reads: those in `channels`, all that it was added to, or none."""
    channels: dict[Place, SlackChannelRule] = Field(default_factory=dict)
    """Channels by id, or `*` for all others."""
    allow_bots: bool = False
    """Whether messages of other apps are read; the app's own never are."""
    reply_to_mode: ReplyToMode = "off"
    """What becomes a thread in channels: nothing but threads, the first piece of an answer, or every message with its answers."""
    reaction_notifications: Reactions = "own"
    """Which emoji of people the agent hears of: none, those under its own messages, or all that Slack tells of."""
    slash_command: SlackCommand = SlackCommand.model_construct()
    """The slash command."""
    assistant: SlackAssistant = SlackAssistant.model_construct()
    """The app as an assistant in Slack's side panel."""
    markup: Literal["markdown", "mrkdwn"] = "markdown"
    """What text is sent as: Markdown, which Slack shows with tables and headings, or Slack's own older notation."""
    text_chunk_limit: int = Field(default=4000, ge=200, le=4000)
    """The longest message that is sent, in letters as Slack stores them; longer replies become several messages."""
    media_max_mb: Annotated[float, Field(ge=0, le=100)] | None = None
    """The largest file that is taken or sent, in MB (1,048,576 bytes); as `messages.attachments.maxBytes` says when not set."""
    timeout_seconds: float = Field(default=30, gt=0, le=600)
    """How long one request to Slack may take."""
    ping_seconds: float = Field(default=10, gt=0, le=120)
    """How often the connection is tried; after four times as long without an answer it is opened anew."""
    streaming: Literal["off", "edit", "auto"] = "auto"
    """How an answer that takes longer than three seconds is shown meanwhile: not, by editing its message, or in threads as a stream."""

    def check(self) -> None:
        """Look at the secrets that the mode takes, before anybody is asked.

        Raises:
            ChannelBroken: one is not set, or is of another kind.
        """
        beginnings = [self._said(which).partition("-")[0] for which in ("bot_token", "app_token")]
        if beginnings == ["xapp", "xoxb"]:
            raise ChannelBroken(
                "channels.slack.botToken and channels.slack.appToken are swapped: xoxb-... is the bot's, xapp-... the app's",
                hint="give each the other's value: homebody config set channels.slack.botToken TOKEN, and appToken likewise",
            )
        self.secret("bot_token")
        self.secret("signing_secret" if self.mode == "http" else "app_token")

    def secret(self, which: Which) -> str:
        """Return a token or the signing secret.

        Raises:
            ChannelBroken: it is not set, or is of another kind.
        """
        key, beginning, where = TOKENS[which]
        token = self._said(which)
        kind = next((name for start, name in KINDS.items() if token.startswith(start)), "")
        if token and token.startswith(beginning) and (beginning or not (kind or len(token) < SHORTEST_SECRET)):
            return token
        must = f"it begins with {beginning}" if beginning else "it is 32 letters and digits"
        wrong = f"is not set: {must}" if not token else f"is another kind of token ({kind or 'none that is known'}): {must}"
        raise ChannelBroken(
            f"channels.slack.{key} {wrong}", hint=f"get it ({where}), then: homebody config set channels.slack.{key} TOKEN"
        )

    def _said(self, which: str) -> str:
        value: SecretStr | None = getattr(self, which)
        return value.get_secret_value().strip() if value is not None else ""

    def reads(self, channel: str) -> bool:
        """Return whether a channel is read."""
        rule = self.rule_among(self.channels, channel, SlackChannelRule)
        return rule is not None and rule.allow

    def rule(self, channel: str) -> SlackChannelRule | None:
        """Return the rule for a channel: its own, or the one for all others."""
        return self.channels.get(channel) or self.channels.get("*")

    def hears_bots(self, channel: str) -> bool:
        """Return whether messages of other apps are read in a channel."""
        rule = self.rule(channel)
        return self.allow_bots if rule is None or rule.allow_bots is None else rule.allow_bots

    def listed(self, channel: str, person: str) -> bool:
        """Return whether a person is named among those who may speak in a channel."""
        rule = self.rule(channel)
        named = self.dm.allow_from if rule is None or rule.users is None else rule.users
        return person in named or "*" in named


class SlackSettings(SlackAccount, SeveralAccounts[SlackAccount]):
    """The account `default`, and further apps by name."""

    ACCOUNT: ClassVar[type[BaseModel]] = SlackAccount
    OWN: ClassVar[tuple[str, ...]] = (*TOKENS, "user_token")
    SECRETS: ClassVar[tuple[str, ...]] = tuple(TOKENS)

    accounts: dict[str, SlackAccount] = Field(default_factory=dict)
    """Further apps by name; what one does not set it takes from the section itself, but for the tokens."""
