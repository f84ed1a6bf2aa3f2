"""Meta's calls: the challenge when the webhook is set up, and the signature of each call after that.

https://developers.facebook.com/documentation/business-messaging/whatsapp/webhooks/create-webhook-endpoint
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

from channels.protocol import HookAnswer

if TYPE_CHECKING:
    from channels.protocol import HookRequest

OK, BAD, FORGED, NOT_ALLOWED, NOT_NOW = 200, 400, 401, 405, 503
OBJECT: Final = "whatsapp_business_account"
_SIGNATURE: Final = re.compile(r"sha256=[0-9a-f]{64}")
_CHALLENGE: Final = re.compile(r"[\w.-]{1,200}")
_HEADER: Final = "x-hub-signature-256"


def refusal(request: HookRequest) -> HookAnswer | None:
    """Return the answer to a request that cannot be Meta's by its head alone; None for any other."""
    if request.method == "GET":
        return None
    if request.method != "POST":
        return HookAnswer(status=NOT_ALLOWED, headers={"allow": "GET, POST"})
    return None if _SIGNATURE.fullmatch(request.headers.get(_HEADER, "")) else HookAnswer(status=FORGED)


def challenged(request: HookRequest, expected: str) -> HookAnswer:
    """Answer Meta's question whether this is the address that was entered: with the word that it sends."""
    asked = {key: values[0] for key, values in parse_qs(request.query[:2000]).items() if len(values) == 1}
    challenge, token = asked.get("hub.challenge", ""), asked.get("hub.verify_token", "")
    right = hmac.compare_digest(token.encode("utf-8", "replace"), expected.encode())
    if asked.get("hub.mode") != "subscribe" or not right or not _CHALLENGE.fullmatch(challenge):
        return HookAnswer(status=FORGED)
    return HookAnswer(status=OK, body=challenge.encode())


def is_genuine(request: HookRequest, app_secret: str) -> bool:
    """Return whether the raw body was signed with the app's secret."""
    given = request.headers.get(_HEADER, "")
    signed = hmac.new(app_secret.encode(), request.body, hashlib.sha256).hexdigest()
    return bool(_SIGNATURE.fullmatch(given)) and hmac.compare_digest(given, f"sha256={signed}")


def payload_of(body: bytes) -> dict[str, Any] | None:
    """Return what a call holds; None if it is about no WhatsApp account, or no object."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):  # what is nested too deeply was made by nobody whom a repeat would help
        return None
    return found if isinstance(found, dict) and found.get("object") == OBJECT else None
