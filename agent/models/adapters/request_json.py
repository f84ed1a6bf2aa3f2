"""A request as it is sent: its body as bytes, and its whole address."""

from __future__ import annotations

import json
from typing import Any

import msgspec


def encoded(body: dict[str, Any]) -> bytes:
    """Return a request's body as JSON.

    SDKs copy a body and write it with Python's own encoder, on the event loop: at a thousand messages, half of a turn's CPU time.
    """
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:  # a lone surrogate in what is not cleaned, such as a model's name
        return json.dumps(body, default=msgspec.json.decode).encode()


def whole_url(client: Any, path: str) -> str:
    """Return where an SDK's client posts: an SDK that is given a path takes its base URL apart and puts it together for each request."""
    return str(client.base_url).rstrip("/") + path
