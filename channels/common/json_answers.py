"""JSON answers of a platform's HTTP API."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import aiohttp


class BadAnswer(Exception):
    """What answered is not the API that was asked, or does not speak as documented: a proxy before it, for instance."""


_OF_SERVERS: Final = frozenset({413, 429})
"""Statuses that the server's own front gives for its API: a body that is too large, too many requests."""


def is_page(status: int) -> bool:
    """Return whether an answer that is not the API's own, with this status, comes from something in between and not from the server."""
    return 300 <= status < 500 and status not in _OF_SERVERS  # noqa: PLR2004


def in_between(whom: str, status: int) -> str:
    """Say who answered, where an answer is not that of the API."""
    return f"something between here and {whom} answered with a page of its own (status {status}): a proxy, a firewall or a sign-in page"


async def read_json(response: aiohttp.ClientResponse, largest: int) -> Any:
    """Return the answer's JSON, None for one that is none. Raises BadAnswer where it says that it has more than ``largest`` bytes."""
    if (response.content_length or 0) > largest:
        raise BadAnswer(f"an answer of {response.content_length:,} bytes is more than is read")
    raw = await response.read()
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None
