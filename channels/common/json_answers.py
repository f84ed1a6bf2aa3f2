"""JSON answers of a platform's HTTP API."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import aiohttp


class BadAnswer(Exception):
    """What answered is not the API that was asked, or does not speak as documented: a proxy before it, for instance."""


async def read_json(response: aiohttp.ClientResponse, largest: int) -> Any:
    """Return the answer's JSON, None for one that is none. Raises BadAnswer where it says that it has more than ``largest`` bytes."""
    if (response.content_length or 0) > largest:
        raise BadAnswer(f"an answer of {response.content_length:,} bytes is more than is read")
    raw = await response.read()
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None
