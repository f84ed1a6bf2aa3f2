"""Maps HTTP errors of embedding services to ``EmbeddingFailed``: cause, whether to retry, and a hint."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

from memory.embedding.endpoint import Endpoint
from memory.errors import EmbeddingFailed

LONGEST_REST = 3600.0
"""Upper limit for the wait that a provider asks for, in seconds."""

_PASSING = frozenset({408, 409, 421, 425, 429})
_ABOUT_TEXT = frozenset({400, 413, 422})
_SERVER_ERROR = 500
_DELAY = re.compile(r"([\d.]+)s")


def failure_from_status(
    status: int, *, detail: str, code: str, headers: Mapping[str, str], now: datetime, endpoint: Endpoint, model: str
) -> EmbeddingFailed:
    """Return the failure for an HTTP error status. ``detail`` and ``code`` are taken from the provider's response."""
    said = f"{endpoint.provider} at {endpoint.host} answered {status}: {detail.strip() or 'no reason given'}"[:500]
    if status in {401, 403} or _bad_key(code, detail):
        where = endpoint.key_from or "no key was sent"
        return EmbeddingFailed(
            f"The key for embeddings was rejected ({where}). {said}",
            hint="Set a valid key in memorySearch.remote.apiKey, then run `homebody memory status --deep`.",
        )
    if status == 402 or code == "insufficient_quota":  # noqa: PLR2004 - Payment Required
        return EmbeddingFailed(f"The account for embeddings has no credit left. {said}", hint="Add credit at the provider.")
    if status == 404:  # noqa: PLR2004 - Not Found
        return EmbeddingFailed(
            f"The embedding model {model!r} was not found. {said}",
            hint="Check memorySearch.model and memorySearch.remote.baseUrl.",
        )
    if status in _PASSING or status >= _SERVER_ERROR:
        return EmbeddingFailed(said, passing=True, retry_after=retry_after(headers, now))
    return EmbeddingFailed(said, about_text=status in _ABOUT_TEXT)


def _bad_key(code: str, detail: str) -> bool:
    """Return whether the key was rejected; Gemini answers 400 to a wrong key."""
    return code in {"invalid_api_key", "API_KEY_INVALID"} or "API key not valid" in detail or "API key expired" in detail


def retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Read how long to wait from ``retry-after-ms`` or ``Retry-After`` (seconds or a date), in seconds; None if absent."""
    lower = {name.casefold(): value for name, value in headers.items()}
    seconds: float | None = None
    try:
        if "retry-after-ms" in lower:
            seconds = float(lower["retry-after-ms"]) / 1000
        elif "retry-after" in lower:
            seconds = float(lower["retry-after"])
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(lower["retry-after"]) - now).total_seconds()
        except (ValueError, TypeError, KeyError):
            return None
    return None if seconds is None or seconds != seconds else min(max(seconds, 0.0), LONGEST_REST)  # noqa: PLR0124 - NaN


def google_retry_delay(error: Mapping[str, Any]) -> dict[str, str]:
    """Read the wait that Google puts into an error's details (``RetryInfo``), as a header."""
    for detail in error.get("details") or []:
        delay = _DELAY.fullmatch(str(detail.get("retryDelay", ""))) if isinstance(detail, dict) else None
        if delay:
            return {"retry-after": delay.group(1)}
    return {}


def connection_failure(error: BaseException, endpoint: Endpoint) -> EmbeddingFailed:
    """Return the transient failure for a connection error."""
    return EmbeddingFailed(
        f"{endpoint.provider} at {endpoint.host} could not be reached ({type(error).__name__}).",
        hint="Check the network and memorySearch.remote.baseUrl.",
        passing=True,
    )
