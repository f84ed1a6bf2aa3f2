"""WhatsApp over Meta's Cloud API. Modules that load aiohttp say so; they are imported off the event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from channels.common.log import Log
from channels.platform import ANYBODY, Platform, Policy, SetupGuide, place_rules
from channels.protocol import Channel, Clock
from channels.whatsapp.settings import GROUP, PERSON, WhatsAppSettings

if TYPE_CHECKING:
    from channels.whatsapp.settings import WhatsAppAccount


def make(settings: WhatsAppSettings, *, account: str, clock: Clock, log: Log) -> Channel:
    """Return the channel of one business phone number."""
    from channels.whatsapp.channel import WhatsAppChannel

    return WhatsAppChannel(settings, account, clock=clock, log=log)


def policy(account: WhatsAppAccount) -> Policy:
    """Return who may write to a number."""
    rules = place_rules(account.groups, policy=account.group_policy, tools_key="channels.whatsapp.groups")
    return Policy(dm_policy=account.dm_policy, allow_from=tuple(account.allow_from), rules={ANYBODY: rules})


GUIDE = SetupGuide(
    title="WhatsApp",
    steps=(
        "Open https://developers.facebook.com/apps, create an app for WhatsApp, and add a phone number of its own to it.",
        "WhatsApp, API Setup: copy the Phone number ID and the WhatsApp Business Account ID.",
        "business.facebook.com, Settings, System users: make a token that never expires (docs/whatsapp.md says which rights).",
        "App settings, Basic: copy the App secret.",
        "Make this gateway reachable under a public https address (docs/whatsapp.md: Tailscale, Caddy or cloudflared).",
        "WhatsApp, Configuration, Webhook: enter the address and the verify token that are printed below, and subscribe to messages.",
    ),
    questions=(
        ("phoneNumberId", "Phone number ID (digits, not the number itself)"),
        ("businessAccountId", "WhatsApp Business Account ID"),
        ("webhookUrl", "Public address of this gateway, such as https://home.example.org"),
    ),
    secrets=(("accessToken", "Access token (EAA...)"), ("appSecret", "App secret (32 letters and digits)")),
    where="in a chat with its number",
    env={
        "phoneNumberId": "WHATSAPP_PHONE_NUMBER_ID",
        "businessAccountId": "WHATSAPP_BUSINESS_ACCOUNT_ID",
        "webhookUrl": "WHATSAPP_WEBHOOK_URL",
    },
)

PLATFORM = Platform(
    name="whatsapp",
    settings=WhatsAppSettings,
    make=make,
    policy=policy,
    env={"access_token": "WHATSAPP_ACCESS_TOKEN", "app_secret": "WHATSAPP_APP_SECRET"},
    identity="phone_number_id",
    chat_ids={"direct": PERSON.pattern, "group": GROUP.pattern},
    guide=GUIDE,
)
