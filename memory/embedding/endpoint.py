"""Where embeddings are asked for, in whose name."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

OFFICIAL_URLS = {"openai": "https://api.openai.com/v1", "gemini": "https://generativelanguage.googleapis.com/v1beta"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One service. ``key`` is asked before every request, so that a renewed key needs no restart; None: none is needed.

    ``key_from`` tells a person where the key is kept ("memorySearch.remote.apiKey", "the environment (OPENAI_API_KEY)").
    """

    provider: str
    base_url: str
    key: Callable[[], str | None] = field(repr=False)
    key_from: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def official(self) -> bool:
        """Say whether this is the provider's own address."""
        return self.base_url.rstrip("/") == OFFICIAL_URLS.get(self.provider)

    @property
    def host(self) -> str:
        """The host, for messages: never the whole address, which may carry a secret."""
        parts = urlsplit(self.base_url)
        return parts.hostname or self.base_url


def is_local_address(base_url: str) -> bool:
    """Say whether an address is on this machine or network (Ollama and the like), where no key is usual."""
    host = (urlsplit(base_url).hostname or "").casefold()
    if host.endswith((".local", ".lan", ".internal", ".localhost")) or (host and "." not in host and ":" not in host):
        return True
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return False


def merged_headers(*layers: Mapping[str, str]) -> dict[str, str]:
    """Merge header mappings without regard to case; later layers win."""
    merged: dict[str, tuple[str, str]] = {}
    for layer in layers:
        merged.update({name.casefold(): (name, value) for name, value in layer.items()})
    return dict(merged.values())
