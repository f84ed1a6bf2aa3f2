"""Why Anthropic's prompt cache could not be used, as the provider tells it: the cheapest way to find what breaks a prefix."""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import Any

log = logging.getLogger(__name__)

_SESSIONS = 256


class CacheDiagnosis:
    """Remembers each session's latest answer by its id, asks for a comparison with it, and logs what comes of that."""

    def __init__(self) -> None:
        self._latest: OrderedDict[str, str] = OrderedDict()

    def wish(self, session: str) -> dict[str, Any]:
        """Return the ``diagnostics`` of the next request of a session."""
        return {"previous_message_id": self._latest.get(session)}

    def hear(self, session: str, message: Any) -> None:
        """Take the message that begins an answer."""
        self._latest[session] = message.id
        self._latest.move_to_end(session)
        while len(self._latest) > _SESSIONS:
            self._latest.popitem(last=False)
        reason = getattr(getattr(message, "diagnostics", None), "cache_miss_reason", None)
        if reason is not None:
            told = reason.model_dump(mode="json", exclude_none=True)
            kind = str(told.pop("type", "unknown")).replace("_", " ")
            details = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in told.items())
            log.info("the provider's prompt cache was missed: %s%s", kind, f" ({details})" if details else "")
