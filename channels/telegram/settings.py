"""The section ``channels.telegram`` of the configuration."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr
from pydantic.alias_generators import to_camel

from channels.errors import ChannelBroken

OFFICIAL = "https://api.telegram.org"
HOW_TO_GET_ONE = "get the token from @BotFather, then: homebody config set channels.telegram.botToken TOKEN"


def _person(value: object) -> str:
    text = str(value).strip().removeprefix("telegram:").removeprefix("tg:")
    if re.fullmatch(r"[1-9]\d{0,18}", text):
        return text
    if text.startswith("@"):
        raise ValueError(
            f"{text} is a name, and names change hands: give the numeric id, which the pairing request shows "
            "(homebody pairing list telegram)"
        )
    raise ValueError(f"{text[:80]!r} is no Telegram user id: give the number, such as 123456789")


def _root(value: str) -> str:
    if not re.fullmatch(r"https?://[^\s/?#]+(/[^\s?#]*)?", value):
        raise ValueError(f"{value[:80]!r} is no base address: give it as {OFFICIAL} or http://127.0.0.1:8081")
    return value.rstrip("/")


Person = Annotated[str, BeforeValidator(_person)]
Root = Annotated[str, AfterValidator(_root)]


class TelegramAccount(BaseModel):
    """One bot."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore", use_attribute_docstrings=True
    )

    enabled: bool = True
    """Whether this bot is used."""
    bot_token: SecretStr | None = None
    """The bot's token, as @BotFather gave it."""
    token_file: Path | None = None
    """A file that holds the token, in place of `botToken`."""
    api_root: Root = OFFICIAL
    """The Bot API server; give the address of your own server, or of a proxy, to use it in place of Telegram's."""
    dm_policy: Literal["pairing", "allowlist", "open", "disabled"] = "pairing"
    """Who may write in private: those approved after a pairing code, those in `allowFrom` only, everybody, or nobody."""
    allow_from: list[Person] = Field(default_factory=list)
    """Numeric ids of the people who may write in private without pairing."""
    text_chunk_limit: int = Field(default=4000, ge=200, le=4000)
    """The longest message that is sent, in Telegram's unit (UTF-16 code units); longer replies become several messages."""
    timeout_seconds: float = Field(default=30, gt=0, le=600)
    """How long one request to Telegram may take."""
    poll_timeout_seconds: int = Field(default=30, ge=0, le=50)
    """How long Telegram may hold a request for new messages open before it answers that there are none."""
    conflict_seconds: float = Field(default=120, ge=0)
    """How long another program that polls the same bot is put up with before this channel gives up."""
    delivery: Literal["direct", "edit"] = "direct"
    """``direct`` sends a reply at once and marks a repeat after a crash; ``edit`` puts it in the place of an ellipsis, so never twice."""
    link_preview: bool = False
    """Whether Telegram shows a preview of links in replies (it fetches them, which tells their servers)."""

    def token(self) -> str:
        """Return the token; reads the file when there is one.

        Raises:
            ChannelBroken: there is none.
        """
        if self.bot_token is not None and self.bot_token.get_secret_value().strip():
            return self.bot_token.get_secret_value().strip()
        if self.token_file is None:
            raise ChannelBroken("channels.telegram.botToken is not set", mend=HOW_TO_GET_ONE)
        try:
            token = self.token_file.expanduser().read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ChannelBroken(
                f"cannot read channels.telegram.tokenFile {self.token_file}: {error}", mend=HOW_TO_GET_ONE
            ) from error
        if not token:
            raise ChannelBroken(f"channels.telegram.tokenFile {self.token_file} is empty", mend=HOW_TO_GET_ONE)
        return token


class TelegramSettings(TelegramAccount):
    """The account `default`, and further bots by name."""

    accounts: dict[str, TelegramAccount] = Field(default_factory=dict)
    """Further bots by name; what one does not set it takes from the section itself, but for the token."""

    def names(self) -> list[str]:
        """Return the names of the enabled accounts that have a token; empty when Telegram is off."""
        own = self.bot_token is not None or self.token_file is not None
        named = [name for name, account in self.accounts.items() if account.enabled]
        return (["default"] if own and "default" not in self.accounts else []) + named if self.enabled else []

    def account(self, name: str) -> TelegramAccount:
        """Return the settings in force for an account.

        Raises:
            KeyError: there is no such account.
        """
        shared = {key: getattr(self, key) for key in TelegramAccount.model_fields}
        if name == "default" and name not in self.accounts:
            return TelegramAccount.model_construct(**shared)
        account = self.accounts[name]
        own = {key: getattr(account, key) for key in account.model_fields_set}
        tokens = (
            {"bot_token": None, "token_file": None} if name != "default" or own.keys() & {"bot_token", "token_file"} else {}
        )
        return TelegramAccount.model_construct(**{**shared, **tokens, **own})
