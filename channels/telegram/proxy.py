"""The proxy through which Telegram is reached. Importing this module loads no library."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from channels.errors import ChannelBroken

if TYPE_CHECKING:
    import aiohttp

SOCKS: Final = "socks5://"
KINDS: Final = ("http", "https", "socks5")


def proxy_of(root: str, chosen: str = "") -> str | None:
    """Return the proxy for an address: the chosen one, or what the environment names (``HTTPS_PROXY``, ``ALL_PROXY``, ``NO_PROXY``).

    Raises:
        ChannelBroken: the environment names one of a kind that is not supported, or SOCKS needs the extra that is not installed.
    """
    parts = urlsplit(root)
    known = getproxies()
    found = chosen or known.get(parts.scheme) or known.get("all")
    if not found or (not chosen and proxy_bypass(parts.netloc)):
        return None
    proxy = found if "://" in found else f"http://{found}"
    kind = urlsplit(proxy).scheme.removesuffix("h")
    if kind not in KINDS:
        raise ChannelBroken(
            f"the environment names a proxy of the kind {kind} for {parts.hostname}, and only http, https and socks5 are supported",
            hint=f"set HTTPS_PROXY to one of these, or NO_PROXY={parts.hostname}, and restart the gateway",
        )
    if kind != "socks5":
        return proxy
    if find_spec("aiohttp_socks") is None:
        raise ChannelBroken(
            f"the proxy for {parts.hostname} speaks SOCKS, which needs the extra homebody[socks]",
            hint="`make extras` in a clone, elsewhere pip install 'homebody[socks]'; then restart the gateway",
        )
    return SOCKS + proxy.partition("://")[2]


def socks_connector(proxy: str, options: dict[str, Any]) -> aiohttp.TCPConnector:
    """Return what connects through a SOCKS proxy, which also looks the server's name up."""
    from aiohttp_socks import ProxyConnector

    return ProxyConnector.from_url(proxy, rdns=True, **options)


def socks_failures() -> tuple[type[Exception], ...]:
    """Return the errors of a connector through a SOCKS proxy."""
    from aiohttp_socks import ProxyConnectionError, ProxyError, ProxyTimeoutError

    return (ProxyError, ProxyConnectionError, ProxyTimeoutError)
