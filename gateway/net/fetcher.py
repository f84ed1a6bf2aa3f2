"""The guarded fetcher: the one way in which the program requests a web address that somebody else chose.

Redirects are followed here and judged like the first address. Nothing is kept between requests: no cookies, no connections. Proxies of the
environment are not used, as they would resolve names themselves.
"""

from __future__ import annotations

import asyncio
import importlib
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from agent.errors import FetchFailed, FetchRefused
from agent.tools.web.fetch_protocol import Fetched, FetchRequest
from gateway.net.ip_addresses import refusal
from gateway.net.targets import Target, joined, place_in, target_of

if TYPE_CHECKING:  # the HTTP library takes 15 MB, and is loaded with the first request
    from gateway.net.connection_guard import Judge, Network

AT_ONCE: Final = 8
"""Requests of the whole program that run at the same time."""

READING: Final = frozenset({"GET", "PROPFIND", "REPORT"})
"""Methods that change nothing, so that they can be sent again to where an answer redirects."""


class GuardedFetcher:
    """Fetches from public addresses, and from the owner's own hosts where a request allows them. Implements ``Fetcher``.

    ``network`` and ``tls`` are the system's unless given. ``judge`` replaces the judgement of addresses, in tests only.
    """

    def __init__(
        self,
        network: Callable[[], Network] | None = None,
        *,
        tls: Callable[[], ssl.SSLContext] | None = None,
        judge: Judge | None = None,
    ) -> None:
        self._network_of = network
        self._tls_of = tls
        self._judge = judge
        self._parts: tuple[Network, ssl.SSLContext] | None = None
        self._loading = asyncio.Lock()
        self._free = asyncio.Semaphore(AT_ONCE)

    def refuses(self, url: str, own_hosts: frozenset[str] = frozenset()) -> bool:
        """Whether the address alone shows that it will not be fetched. See ``Fetcher``."""
        try:
            target = target_of(url, own_hosts)
        except FetchRefused:
            return True
        return target.address is not None and not target.own and refusal(target.address) is not None

    async def fetch(self, request: FetchRequest) -> Fetched:
        """Send a request and follow redirects. See ``Fetcher``."""
        target = target_of(request.url, request.own_hosts)
        async with self._free:
            try:
                async with asyncio.timeout(request.seconds):
                    return await self._followed(request, target)
            except TimeoutError:
                raise FetchFailed(f"{target.place} did not answer completely within {request.seconds:g} seconds") from None

    async def _followed(self, request: FetchRequest, target: Target) -> Fetched:
        network, tls = await self._loaded()
        from gateway.net.exchange import exchange

        seen = {str(target)}
        came_from: Target | None = None
        for _ in range(request.max_redirects + 1):
            try:
                answer, location = await exchange(request, target, network=network, tls=tls, judge=self._judge)
            except FetchFailed as error:
                if came_from is None:
                    raise
                text = f"it redirects to {target.place}, and that failed: {error}"
                raise type(error)(text, hint=error.hint, source=came_from.host) from error
            if not location:
                return answer
            came_from, target = target, _next(request, target, location)
            if str(target) in seen:
                raise FetchFailed(f"it redirects in a circle, back to {target}", source=came_from.host)
            seen.add(str(target))
        raise FetchFailed(
            f"it redirects more than {request.max_redirects} times, at last to {target}", source=(came_from or target).host
        )

    async def _loaded(self) -> tuple[Network, ssl.SSLContext]:
        """Load the HTTP library and the certificates in a thread, with the first request."""
        async with self._loading:
            if self._parts is None:
                self._parts = await asyncio.to_thread(self._load)
        return self._parts

    def _load(self) -> tuple[Network, ssl.SSLContext]:
        library, guard = (importlib.import_module(name) for name in ("httpcore2", "gateway.net.connection_guard"))
        importlib.import_module("gateway.net.exchange")
        return (self._network_of or guard.SystemNetwork)(), (self._tls_of or library.default_ssl_context)()


def _next(request: FetchRequest, target: Target, location: str) -> Target:
    """Judge where an answer redirects. A host that the owner allowed is reached from itself only, never from a page elsewhere."""
    followed = request.method in READING if request.same_host else request.method == "GET"
    if not followed or not request.max_redirects:
        raise FetchFailed(f"it redirects to {location[:200]!r}, which is not followed", source=target.host)
    own = frozenset({target.place}) if target.own else frozenset[str]()
    try:
        address = joined(target, location)
        if request.same_host:
            there = target_of(address, frozenset({place_in(address)}))  # only taken apart: it is judged by comparing it
            if (there.scheme, there.place) != (target.scheme, target.place):
                raise FetchFailed(
                    f"it redirects to {there}, which is another host or port, and is not followed", source=target.host
                )
        return target_of(address, own)
    except FetchRefused as error:
        raise type(error)(
            f"it redirects to an address that is refused: {error}", hint=error.hint, source=target.host
        ) from error
    except ValueError as error:
        raise FetchFailed(f"it redirects to {location[:200]!r}, which is no address", source=target.host) from error
