"""The section ``channels.slack`` of the configuration."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr
from pydantic.alias_generators import to_camel

from channels.accounts import DEFAULT, laid_over
from channels.errors import ChannelBroken

OFFICIAL = "https://slack.com/api"
APPS = "https://api.slack.com/apps"
TOKENS = {
    "bot_token": ("botToken", "xoxb-", f"{APPS}, your app, OAuth & Permissions, Bot User OAuth Token"),
    "app_token": ("appToken", "xapp-", f"{APPS}, your app, Basic Information, App-Level Tokens, scope connections:write"),
}
"""What each token is called in the settings, how it begins, and where Slack shows it."""


def _person(value: object) -> str:
    text = str(value).strip().removeprefix("slack:").removeprefix("user:")
    if re.fullmatch(r"[UW][A-Z0-9]{2,20}", text) or text == "*":
        return text
    raise ValueError(
        f"{text[:80]!r} is no Slack member id, and names change: give the id, such as U012AB3CD (in Slack: the person's "
        "profile, the three dots, Copy member ID)"
    )


def _place(value: object) -> str:
    text = str(value).strip()
    if re.fullmatch(r"[CG][A-Z0-9]{2,20}", text) or text == "*":
        return text
    raise ValueError(
        f"{text[:80]!r} is no id of a Slack channel: give it as C012AB3CD (in Slack: the channel's details, at the very end), or *"
    )


def _root(value: str) -> str:
    if not re.fullmatch(r"https?://[^\s/?#]+(/[^\s?#]*)?", value):
        raise ValueError(f"{value[:80]!r} is no base address: give it as {OFFICIAL} or http://127.0.0.1:8081/api")
    return value.rstrip("/")


Person = Annotated[str, BeforeValidator(_person)]
Place = Annotated[str, BeforeValidator(_place)]
Root = Annotated[str, AfterValidator(_root)]


class _Section(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore", use_attribute_docstrings=True
    )


class SlackDirect(_Section):
    """Private messages."""

    enabled: bool = True
    """Whether private messages are read."""
    policy: Literal["pairing", "allowlist", "open", "disabled"] = "pairing"
    """Who may write in private: those approved after a pairing code, those in `allowFrom` only, everybody, or nobody."""
    allow_from: list[Person] = Field(default_factory=list)
    """Member ids of the people who may write without pairing; the first is the owner."""


class SlackChannelRule(_Section):
    """One channel. Its threads follow it."""

    allow: bool = True
    """Whether the agent reads this channel."""
    require_mention: bool = True
    """Whether it answers only when it is mentioned."""
    users: list[Person] | None = None
    """Member ids of those who may speak to it here; those in `dm.allowFrom` when not set, nobody when empty."""


class SlackAccount(_Section):
    """One app in one workspace."""

    enabled: bool = True
    """Whether this app is used."""
    bot_token: SecretStr | None = None
    """The bot token of the app (xoxb-...), with which it speaks."""
    app_token: SecretStr | None = None
    """The app-level token (xapp-..., scope connections:write), with which it listens."""
    api_root: Root = OFFICIAL
    """The Web API's address; give that of a proxy or of a compatible server to use it in place of Slack's."""
    mode: Literal["socket"] = "socket"
    """How events come in: over a connection that this house opens, so that no address of it is public."""
    dm: SlackDirect = SlackDirect()
    """Private messages."""
    group_policy: Literal["allowlist", "open", "disabled"] = "allowlist"
    """Which channels the agent reads: those in `channels`, all that it was added to, or none."""
    channels: dict[Place, SlackChannelRule] = Field(default_factory=dict)
    """Channels by id, or `*` for all others."""
    text_chunk_limit: int = Field(default=4000, ge=200, le=4000)
    """The longest message that is sent, in letters as Slack stores them; longer replies become several messages."""
    timeout_seconds: float = Field(default=30, gt=0, le=600)
    """How long one request to Slack may take."""
    ping_seconds: float = Field(default=10, gt=0, le=120)
    """How often the connection is tried; after four times as long without an answer it is opened anew."""
    streaming: Literal["off", "edit"] = "edit"
    """Whether an answer that takes longer than three seconds is shown while it is written, by editing its message."""

    def secret(self, which: Literal["bot_token", "app_token"]) -> str:
        """Return a token.

        Raises:
            ChannelBroken: it is not set, or is the other one.
        """
        key, beginning, where = TOKENS[which]
        value: SecretStr | None = getattr(self, which)
        token = value.get_secret_value().strip() if value is not None else ""
        if token.startswith(beginning):
            return token
        wrong = (
            f"is not set: it begins with {beginning}"
            if not token
            else f"is another kind of token: it must begin with {beginning}"
        )
        raise ChannelBroken(
            f"channels.slack.{key} {wrong}", mend=f"get it ({where}), then: homebody config set channels.slack.{key} TOKEN"
        )

    def reads(self, channel: str) -> bool:
        """Tell whether a channel is read."""
        if self.group_policy == "disabled":
            return False
        rule = self.channels.get(channel) or self.channels.get("*")
        return rule.allow if rule is not None else self.group_policy == "open"


class SlackSettings(SlackAccount):
    """The account `default`, and further apps by name."""

    accounts: dict[str, SlackAccount] = Field(default_factory=dict)
    """Further apps by name; what one does not set it takes from the section itself, but for the tokens."""

    def names(self) -> list[str]:
        """Return the names of the enabled accounts that have a token; empty when Slack is off."""
        own = self.bot_token is not None or self.app_token is not None
        named = [name for name, account in self.accounts.items() if account.enabled]
        return ([DEFAULT] if own and DEFAULT not in self.accounts else []) + named if self.enabled else []

    def account(self, name: str) -> SlackAccount:
        """Return the settings in force for an account. Raises KeyError when there is no such account."""
        return laid_over(self, SlackAccount, self.accounts, name, own=("bot_token", "app_token"))
