"""Looks at the own number at Meta: whether the token is accepted, the app is told of messages, and where Meta calls. Loads aiohttp."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from channels.whatsapp.error_codes import broken, unknown_number
from channels.whatsapp.graph_api import GraphApi, Refused
from channels.whatsapp.settings import section_of

if TYPE_CHECKING:
    from channels.whatsapp.settings import WhatsAppAccount

_FIELDS = "display_phone_number,verified_name,quality_rating,webhook_configuration"


@dataclass(slots=True)
class OwnNumber:
    """The number as Meta knows it, and what the owner should look at."""

    digits: str
    name: str
    concerns: list[str] = field(default_factory=list)


async def look(api: GraphApi, settings: WhatsAppAccount, account: str, *, mend: bool) -> OwnNumber:
    """Ask for the number. With ``mend`` the webhook is set and the app subscribed where the settings say so and Meta differs.

    Raises:
        ChannelBroken: the token or the number is not accepted.
        One of ``graph_api.TROUBLE``.
    """
    try:
        facts = await api.get(api.number, fields=_FIELDS)
    except Refused as error:
        raise broken(error, account) or unknown_number(error, account) or error from error
    shown = str(facts.get("display_phone_number") or api.number)
    found = OwnNumber(re.sub(r"\D", "", shown), " ".join(filter(None, (shown, str(facts.get("verified_name") or "")))))
    if str(facts.get("quality_rating") or "").upper() == "RED":
        found.concerns.append("Meta rates the number as red: people block it or complain, and it may be restricted")
    found.concerns += [
        one for one in (await _webhook(api, settings, account, facts, mend), await _subscription(api, settings, mend)) if one
    ]
    return found


async def _webhook(api: GraphApi, settings: WhatsAppAccount, account: str, facts: dict[str, Any], mend: bool) -> str:
    """Have Meta call the address of the settings; return what is wrong with that."""
    address = settings.address(account)
    configuration = facts.get("webhook_configuration")
    places = configuration if isinstance(configuration, dict) else {}
    called = next(
        (str(places[key]) for key in ("phone_number", "whatsapp_business_account", "application") if places.get(key)), ""
    )
    if not address or called == address:
        return ""
    if not mend:
        return f"Meta calls {called or 'nobody'} and not {address}; the gateway changes that when it starts"
    content = {"webhook_configuration": {"override_callback_uri": address, "verify_token": settings.expected_token()}}
    try:
        await api.post(api.number, content)
    except Refused as error:
        section = section_of(account)
        return (
            f"Meta could not set its webhook to {address}: {error}. It must be reachable from outside; see {section}.webhookUrl"
        )
    return ""


async def _subscription(api: GraphApi, settings: WhatsAppAccount, mend: bool) -> str:
    """Have the app told of the messages of the account; return what is wrong with that."""
    if settings.business_account_id is None:
        return ""
    where = f"{settings.business_account_id}/subscribed_apps"
    try:
        if (await api.get(where)).get("data"):
            return ""
        if mend:
            await api.post(where, {})
            return ""
    except Refused as error:
        return f"the account {settings.business_account_id} cannot be looked at: {error}"
    return "no app is told of the account's messages; the gateway changes that when it starts"
