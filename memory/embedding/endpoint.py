"""Endpoints of embedding services: addresses, API keys, and the causes of their HTTP errors.

A key is only sent to the address it was configured for.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from memory.errors import EmbeddingFailed
from memory.settings import RemoteSettings

if TYPE_CHECKING:
    from pydantic import SecretStr

OFFICIAL_URLS = {"openai": "https://api.openai.com/v1", "gemini": "https://generativelanguage.googleapis.com/v1beta"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One service. ``key`` is called before every request, so that a new key needs no restart; None means no key is needed.

    ``key_from`` says where the key is configured ("memorySearch.remote.apiKey", "the environment (OPENAI_API_KEY)").
    """

    provider: str
    base_url: str
    key: Callable[[], str | None] = field(repr=False)
    key_from: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def official(self) -> bool:
        """Whether this is the provider's official address."""
        return self.base_url.rstrip("/") == OFFICIAL_URLS.get(self.provider)

    @property
    def host(self) -> str:
        """The host, for messages: never the whole address, which may carry a secret."""
        parts = urlsplit(self.base_url)
        return parts.hostname or self.base_url


def is_local_address(base_url: str) -> bool:
    """Return whether an address is on this machine or local network (Ollama, for example), where usually no key is needed."""
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


_MODELS_KEY = {"openai": "openai", "gemini": "google"}
"""The name of each embedding provider in models.providers."""
EMBEDDING_PROVIDERS = tuple(_MODELS_KEY.values())
"""The entries of models.providers that embeddings use."""

_ENVIRONMENT = {"openai": ("OPENAI_API_KEY",), "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY")}

_AUTHORISING = frozenset({"authorization", "api-key", "x-api-key", "x-goog-api-key"})


class ProviderAccess(Struct, frozen=True, kw_only=True):
    """The settings in ``models.providers.<name>``, which chat uses too."""

    api_key: SecretStr | None = None
    base_url: str | None = None
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)

    @property
    def secret(self) -> str | None:
        """The key as it is sent; None where there is none."""
        return (self.api_key.get_secret_value().strip() if self.api_key is not None else "") or None


def _no_profile(_provider: str) -> str | None:
    return None


def _no_access(_provider: str) -> ProviderAccess:
    return ProviderAccess()


class KeyRing(Struct, frozen=True, kw_only=True):
    """Looks up keys for embeddings outside of ``memorySearch.remote``.

    ``profile`` takes "openai" or "google" and returns an API key or None; it must return None for sign-ins that only cover
    chat. ``providers`` returns the current entry of ``models.providers``, so that a changed key is used for the next call.
    ``environ`` is the process environment.
    """

    profile: Callable[[str], str | None] = _no_profile
    providers: Callable[[str], ProviderAccess] = _no_access
    environ: Mapping[str, str] = msgspec.field(default_factory=dict)

    def endpoint(self, provider: str, remote: RemoteSettings, *, chosen: bool) -> Endpoint:
        """Return the address and key of ``provider``. ``chosen`` means that the settings name the provider.

        Order of keys: ``remote.apiKey``, auth profile, ``models.providers.*.apiKey``, environment. Only ``remote.apiKey`` is
        sent to ``remote.baseUrl``. The key in ``models.providers.*`` is sent to the ``baseUrl`` beside it only if ``chosen``: a
        chat server need not offer embeddings. Raises ``EmbeddingFailed`` without a key.
        """
        access = self.providers(_MODELS_KEY[provider])
        official = OFFICIAL_URLS[provider]
        base_url = (remote.base_url or access.base_url or official).rstrip("/")
        own = {name: value.get_secret_value() for name, value in remote.headers.items()}
        headers = merged_headers(_fit_for(base_url, access, official), own)
        key, key_from = self._key(provider, remote, access, base_url, chosen=chosen)
        authorised = key_from is not None or bool(_AUTHORISING & {name.casefold() for name in headers})
        if not authorised and not (remote.base_url and is_local_address(base_url)):
            raise _no_key(provider, base_url, official)
        return Endpoint(provider=provider, base_url=base_url, key=key, key_from=key_from or "", headers=headers)

    def _key(
        self, provider: str, remote: RemoteSettings, access: ProviderAccess, base_url: str, *, chosen: bool
    ) -> tuple[Callable[[], str | None], str | None]:
        if remote.api_key is not None and remote.api_key.get_secret_value():
            return remote.api_key.get_secret_value, "memorySearch.remote.apiKey"
        name = _MODELS_KEY[provider]
        own = base_url == OFFICIAL_URLS[provider]
        if own and self.profile(name):
            return lambda: self.profile(name), f"the auth profile for {name}"
        same_address = (access.base_url or OFFICIAL_URLS[provider]).rstrip("/") == base_url
        if access.secret and same_address and (own or chosen):
            return lambda: self.providers(name).secret, f"models.providers.{name}.apiKey"
        variable = next((name for name in _ENVIRONMENT[provider] if self.environ.get(name, "").strip()), None)
        if own and variable is not None:
            return lambda: self.environ.get(variable, "").strip(), f"the environment ({variable})"
        return lambda: None, None


def _fit_for(base_url: str, access: ProviderAccess, official: str) -> dict[str, str]:
    """Return the chat provider's headers; authorisation headers are left out for another address."""
    if (access.base_url or official).rstrip("/") == base_url:
        return dict(access.headers)
    return {name: value for name, value in access.headers.items() if name.casefold() not in _AUTHORISING}


def _no_key(provider: str, base_url: str, official: str) -> EmbeddingFailed:
    if base_url == official:
        places = f"memorySearch.remote.apiKey, models.providers.{_MODELS_KEY[provider]}.apiKey or {_ENVIRONMENT[provider][0]}"
        return EmbeddingFailed(f"There is no {provider} key for embeddings.", hint=f"Set {places}.")
    return EmbeddingFailed(
        f"There is no key for embeddings at {base_url}: keys for chat or for {official} are not sent there.",
        hint="Set memorySearch.remote.apiKey.",
    )


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
