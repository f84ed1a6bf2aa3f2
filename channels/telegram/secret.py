"""Checks the secret of a webhook call."""

from __future__ import annotations

import hmac

from channels.protocol import HookRequest
from channels.telegram.settings import TelegramAccount

HEADER = "x-telegram-bot-api-secret-token"


def is_ours(request: HookRequest, settings: TelegramAccount) -> bool:
    """Return whether a call carries the secret, compared in constant time."""
    expected = settings.webhook_secret
    shown = request.headers.get(HEADER, "").encode("utf-8", "replace")
    return expected is not None and hmac.compare_digest(shown, expected.get_secret_value().encode())
