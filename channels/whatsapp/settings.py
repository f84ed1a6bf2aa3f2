"""The section ``channels.whatsapp`` of the configuration."""

import hashlib
import hmac
import re
from typing import Annotated, ClassVar, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, SecretStr

from channels.common.shared_settings import (
    DEFAULT,
    AccountSection,
    DmPolicy,
    GroupPolicy,
    GroupSection,
    Reactions,
    ReplyToMode,
    Section,
    SeveralAccounts,
    empty_list,
)
from channels.errors import ChannelBroken

OFFICIAL: Final = "https://graph.facebook.com"
APPS: Final = "https://developers.facebook.com/apps"
LIMIT: Final = 4096
PERSON: Final = re.compile(r"[1-9]\d{5,14}|[A-Z]{2}\.(?:ENT\.)?[A-Za-z0-9]{1,128}")
"""A phone number in digits with its country code, or an id of Meta's for somebody who shows no number (BSUID)."""
GROUP: Final = re.compile(r"[A-Za-z0-9+/=_-]{8,200}")
_SECRET: Final = re.compile(r"[0-9a-f]{32}")
_TOKENS: Final = {
    "access_token": ("accessToken", f"{APPS}, your app, WhatsApp, API Setup; one of a system user does not expire"),
    "app_secret": ("appSecret", f"{APPS}, your app, App settings, Basic, App secret"),
}
_NUMBER: Final = re.compile(r"\+?[\d\s()./-]+")


def person_of(value: object) -> str:
    """Return a phone number as WhatsApp writes it, in digits alone, or an id of Meta's as it is. Raises ValueError for what is neither."""
    text = str(value).strip().removeprefix("whatsapp:").strip()
    if text == "*":
        return text
    digits = re.sub(r"\D", "", text) if _NUMBER.fullmatch(text) else text
    if text.startswith("00"):
        digits = digits.removeprefix("00")
    if PERSON.fullmatch(digits):
        return digits
    raise ValueError(
        f"{text[:80]!r} is no phone number with its country code, such as +49 151 23456789 (nor an id of Meta's, such as DE.1349120865)"
    )


def _place(value: object) -> str:
    text = str(value).strip()
    if text == "*" or GROUP.fullmatch(text):
        return text
    raise ValueError(f"{text[:80]!r} is no id of a WhatsApp group; the log shows it once somebody writes there")


def _root(value: str) -> str:
    if not re.fullmatch(r"https?://[^\s/?#]+(/[^\s?#]*)?", value):
        raise ValueError(f"{value[:80]!r} is not a base address: give it as {OFFICIAL} or http://127.0.0.1:8081")
    return value.rstrip("/")


def _public(value: str) -> str:
    parts = urlsplit(value.strip())
    if parts.scheme != "https" or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(f"{value[:80]!r} is not a public address: Meta calls https alone, such as https://home.example.org")
    return value.strip().rstrip("/")


Person = Annotated[str, BeforeValidator(person_of)]
Place = Annotated[str, BeforeValidator(_place)]
Digits = Annotated[str, Field(pattern=r"^\d{5,25}$")]


class WhatsAppTemplate(Section):
    """A template, approved by Meta, that asks somebody to write after 24 hours of silence."""

    name: str = Field(pattern=r"^[a-z0-9_]{1,512}$")
    """Its name in WhatsApp Manager."""
    language: str = Field(default="en", pattern=r"^[a-z]{2,3}(_[A-Za-z]{2,4})?$")
    """The language in which it is approved, as WhatsApp Manager writes it, such as `en_US` or `de`."""
    parameters: tuple[Annotated[str, Field(min_length=1, max_length=1024)], ...] = ()
    """The values of its variables {{1}}, {{2}} ... in the order of the text."""


class WhatsAppGroup(GroupSection):
    """One group."""

    allow: bool = True
    """Whether the agent reads this group."""
    require_mention: bool = True
    """Whether it answers only when it is mentioned or replied to."""
    users: list[Person] | None = None
    """Phone numbers of those who may speak to it here; those in `allowFrom` when not set, nobody when empty."""


class WhatsAppAccount(AccountSection):
    """One business phone number."""

    enabled: bool = True
    """Whether this number is used."""
    access_token: SecretStr | None = None
    """The token with which the agent speaks, best one of a system user: those of the dashboard last 24 hours."""
    app_secret: SecretStr | None = None
    """The secret of the Meta app, by which Meta's calls are known."""
    verify_token: SecretStr | None = None
    """The word that Meta repeats when the webhook is set up; derived from `appSecret` when not set; setup prints it."""
    phone_number_id: Digits | None = None
    """Meta's id of the phone number (not the number itself)."""
    business_account_id: Digits | None = None
    """Id of the WhatsApp Business Account; with it the channel looks whether the app is told of its messages, and subscribes it."""
    webhook_url: Annotated[str, AfterValidator(_public)] | None = None
    """The public https address of this gateway. With it the channel sets the webhook of the number itself, and sets it again if it was changed."""  # noqa: E501
    api_root: Annotated[str, AfterValidator(_root)] = OFFICIAL
    """The API's address; give that of a proxy or of a compatible server to use it in place of Meta's."""
    api_version: str = Field(default="v25.0", pattern=r"^v\d{1,3}\.\d{1,2}$")
    """The version of Meta's Graph API."""
    dm_policy: DmPolicy = "pairing"
    """Who may write in private: those approved after a pairing code, those in `allowFrom` only, everybody if it lists `*`, or nobody."""
    allow_from: list[Person] = Field(default_factory=empty_list)
    """Phone numbers, with country code, of the people who may write without pairing; the first is the owner."""
    group_policy: GroupPolicy = "allowlist"
    """Which groups the agent reads: those in `groups`, all that it is in, or none."""
    groups: dict[Place, WhatsAppGroup] = Field(default_factory=dict)
    """Groups by id, or `*` for all others. Meta lets official business accounts alone make groups (docs/whatsapp.md)."""
    reply_to_mode: ReplyToMode = "off"
    """Which pieces of an answer in a group quote the message that they answer: none, the first, or all."""
    reaction_notifications: Reactions = "own"
    """Which emoji of people the agent hears of: none, or those under its own messages; WhatsApp tells of no others."""
    read_marks: bool = True
    """Whether messages are marked as read (the blue ticks) when the agent begins to answer, which also shows that it is typing."""
    template: WhatsAppTemplate | None = None
    """What is sent to somebody who has not written for 24 hours, so that they write and get what waits for them. Meta charges for each."""
    confirm_seconds: Annotated[float, Field(ge=0, le=120)] = 15
    """How long a message in doubt waits for Meta's report that it was sent, before it is sent again with a mark."""
    text_chunk_limit: int = Field(default=LIMIT, ge=200, le=LIMIT)
    """The longest message that is sent, in letters; longer replies become several messages."""
    media_max_mb: Annotated[float, Field(ge=0, le=100)] | None = None
    """The largest file that is taken or sent, in MB (1,048,576 bytes); as `messages.attachments.maxBytes` says when not set."""
    timeout_seconds: float = Field(default=30, gt=0, le=600)
    """How long one request to Meta may take."""

    def check(self, account: str) -> None:
        """Look at what the channel needs, before anybody is asked.

        Raises:
            ChannelBroken: something is not set, or is of another kind.
        """
        section = section_of(account)
        if not self.number:
            raise ChannelBroken(
                f"{section}.phoneNumberId is not set",
                hint=f"copy it ({APPS}, your app, WhatsApp, API Setup), then: homebody config set {section}.phoneNumberId DIGITS",
            )
        self.secret("access_token", account)
        if not _SECRET.fullmatch(secret := self.secret("app_secret", account)):
            raise ChannelBroken(
                f"{section}.appSecret is no app secret: that is 32 letters and digits, and this is {len(secret)} characters",
                hint=f"copy it ({_TOKENS['app_secret'][1]}), then: homebody config set {section}.appSecret SECRET",
            )

    def secret(self, which: str, account: str = DEFAULT) -> str:
        """Return the access token or the app secret.

        Raises:
            ChannelBroken: it is not set.
        """
        key, where = _TOKENS[which]
        if said := _said(getattr(self, which)):
            return said
        section = section_of(account)
        raise ChannelBroken(
            f"{section}.{key} is not set", hint=f"get it ({where}), then: homebody config set {section}.{key} VALUE"
        )

    @property
    def number(self) -> str:
        """Meta's id of the phone number, "" if it is not set."""
        return self.phone_number_id or ""

    def expected_token(self) -> str:
        """Return what Meta must repeat when the webhook is set up: the same after every start, and known to nobody else."""
        if said := _said(self.verify_token):
            return said
        return hmac.new(_said(self.app_secret).encode(), b"homebody verify token", hashlib.sha256).hexdigest()[:32]

    def address(self, account: str) -> str:
        """Return the address that Meta is to call, "" where the public one is not known."""
        if self.webhook_url is None:
            return ""
        return self.webhook_url if urlsplit(self.webhook_url).path else f"{self.webhook_url}/hooks/whatsapp/{account}"

    def reads(self, group: str) -> bool:
        """Return whether a group is read."""
        if self.group_policy == "disabled":
            return False
        rule = self.groups.get(group) or self.groups.get("*")
        return rule.allow if rule is not None else self.group_policy == "open"


def _said(secret: SecretStr | None) -> str:
    return "" if secret is None else secret.get_secret_value().strip()


class WhatsAppSettings(WhatsAppAccount, SeveralAccounts[WhatsAppAccount]):
    """The number `default`, and further numbers by name."""

    ACCOUNT: ClassVar[type[BaseModel]] = WhatsAppAccount
    OWN: ClassVar[tuple[str, ...]] = ("phone_number_id",)
    SECRETS: ClassVar[tuple[str, ...]] = ("access_token", "app_secret")

    accounts: dict[str, WhatsAppAccount] = Field(default_factory=dict)
    """Further numbers by name; what one does not set it takes from the section itself, but for `phoneNumberId`."""


def section_of(account: str) -> str:
    """Return where an account is set up."""
    return "channels.whatsapp" if account == DEFAULT else f"channels.whatsapp.accounts.{account}"
