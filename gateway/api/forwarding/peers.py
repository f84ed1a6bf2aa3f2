"""Requests to other gateways of a cluster: signed, one connection each, and given up when the gateway is gone."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, Literal, TypeVar
from urllib.parse import quote

import httpx

from gateway.api.middleware import CLUSTER
from gateway.base import errors
from gateway.base.errors import Conflict, HolderAway, HomebodyError, NoModel, StorageFailed, UsageError
from gateway.cluster.directory import Directory, Peer
from gateway.cluster.peer_proof import PROOF, STREAM, Signer, body_of_answer, digest_of

CALLS: Final = f"{CLUSTER}call/"
PAGE_CALLS: Final = f"{CLUSTER}page/"
EVENTS: Final = f"{CLUSTER}events"
"""Paths at which gateways of a cluster ask each other."""
CONNECT_SECONDS: Final = 3.0
LOOK_SECONDS: Final = 2.0
"""How often it is looked, while an answer is awaited, whether the other gateway is still there."""
LOOKS_TO_PROBE: Final = 5
"""At each fifth look it is tried whether anything answers at its address."""
PROBE_SECONDS: Final = 8.0
FAILED_PROBES: Final = 2
"""After so many tries in a row that had no answer in time, the answer is no longer awaited."""
NOT_HERE: Final = 421
"""The status of an answer: what was asked for is not with this process (any more)."""
UNPROVEN: Final = "x-homebody-unproven"
"""A header of the answer to a request whose proof does not hold."""
HEALTH: Final = "/healthz"
_WHOLE: Final = "homebody_whole"
"""Under this name an answer that is complete has its body."""
_REFUSED: Final = 401
_BUSY: Final = 503
_ERRORS: Final = {
    kind.__name__: kind
    for kind in (UsageError, Conflict, errors.InvalidTransition, StorageFailed, NoModel, HolderAway, errors.AlreadyRunning)
}
Space = Literal["call", "page"]
Answer = TypeVar("Answer")


class Elsewhere(Exception):
    """The gateway that was asked did nothing, and another one may be the right one; the message says why."""


class Peers:
    """Asks the other gateways. ``close`` ends what is open.

    ``look`` and ``probe``: seconds between two looks whether a gateway is there, and those that its address has to answer.
    """

    def __init__(self, directory: Directory, *, look: float = LOOK_SECONDS, probe: float = PROBE_SECONDS) -> None:
        self._directory = directory
        self._look, self._probe = look, probe
        self._signer = Signer(directory.own, directory.secret)
        self._clients: dict[bool, httpx.AsyncClient] = {}

    async def call(self, peer: Peer, space: Space, name: str, arguments: Mapping[str, Any], *, token: str = "") -> Any:
        """Make a call at another gateway, which has to hold ``token`` if one is given; return its result.

        Raises:
            Elsewhere: it did nothing.
            HolderAway: it did not answer, and may have done it.
            HomebodyError: what the call raised over there.
        """
        body = json.dumps(arguments, ensure_ascii=False).encode("utf-8", "replace")
        target = f"{PAGE_CALLS if space == 'page' else CALLS}{quote(name)}"
        asked = json.dumps({"token": token})

        async with self.request(peer, "POST", target, body=body, asked=asked) as answer:
            answered = _answered(b"".join([chunk async for chunk in self.chunks(peer, answer)]))
        if "result" in answered:
            return answered["result"]
        kind = _ERRORS.get(str(answered.get("kind")), HomebodyError)
        raise kind(
            str(answered.get("error", f"{peer.label} gave no answer")),
            where=str(answered.get("where") or ""),
            hint=str(answered.get("mend") or ""),
        )

    @asynccontextmanager
    async def request(
        self,
        peer: Peer,
        method: str,
        target: str,
        *,
        asked: str,
        body: bytes = b"",
        headers: list[tuple[bytes, bytes]] | None = None,
    ) -> AsyncIterator[httpx.Response]:
        """Send a request, and give its answer: one that is complete with its body, checked, and a stream as soon as its head is there.

        Raises:
            Elsewhere: nothing was done.
            HolderAway: the other gateway did not answer, and may have done it.
        """
        proof = await self._signer.headers(peer.name, method, target, body=digest_of(body), asked=asked)
        given = [*(headers or ()), *((name.encode(), value.encode()) for name, value in proof.items())]
        answer = await self._while_there(peer, self._sent(peer, method, target, given, body))
        try:
            digest = await self._check(peer, answer, proof[PROOF])
            if digest != STREAM:
                whole = b"".join([chunk async for chunk in self.chunks(peer, answer)])
                if digest_of(whole) != digest:
                    raise HolderAway(
                        f"what {peer.label} answered was changed on the way from {peer.address}",
                        hint="It may have been done: look before you repeat it. Something between the gateways changes what they say.",
                    )
                answer.extensions[_WHOLE] = whole
            yield answer
        finally:
            await answer.aclose()

    async def chunks(self, peer: Peer, answer: httpx.Response) -> AsyncIterator[bytes]:
        """Yield the body of an answer as it comes.

        Raises:
            HolderAway: it ended before it was whole, or the other gateway is gone.
        """
        if (whole := answer.extensions.get(_WHOLE)) is not None:
            yield whole
            return
        coming = answer.aiter_raw()

        async def following() -> bytes | None:
            return await anext(coming, None)

        try:
            while (chunk := await self._while_there(peer, following())) is not None:
                yield chunk
        except httpx.TransportError as error:
            raise HolderAway(
                f"the gateway {peer.label} broke off in the middle ({_said(error)})", where=peer.address
            ) from error

    async def close(self) -> None:
        """Close all connections."""
        for client in self._clients.values():
            await client.aclose()

    async def _sent(
        self, peer: Peer, method: str, target: str, headers: list[tuple[bytes, bytes]], body: bytes
    ) -> httpx.Response:
        if not peer.address:
            raise Elsewhere(f"{peer.label} has not said where it is reached (cluster.address)")
        client = await self._client(peer)
        try:
            url = peer.address.rstrip("/") + target
            return await client.send(client.build_request(method, url, headers=headers, content=body), stream=True)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
            raise Elsewhere(f"{peer.label} cannot be reached at {peer.address} ({_said(error)})") from error
        except httpx.TransportError as error:
            raise HolderAway(
                f"the gateway {peer.label} broke off before it answered ({_said(error)})",
                where=peer.address,
                hint="It may have been done: look before you repeat it.",
            ) from error

    async def _check(self, peer: Peer, answer: httpx.Response, proof: str) -> str:
        """Return what stands for the answer's body in its proof. Raises Elsewhere."""
        if answer.status_code == _REFUSED and UNPROVEN in answer.headers:
            await self._directory.secret(fresh=True)  # it may have been exchanged; whoever asks tries once more
            raise Elsewhere(f"{peer.label} does not take this gateway for one of its cluster")
        body = await body_of_answer(self._directory.secret, proof, answer.status_code, answer.headers.get(PROOF, ""))
        if body is None:
            busy = answer.status_code == _BUSY
            raise Elsewhere(
                f"{peer.label} has too many connections" if busy else f"what answers at {peer.address} is not {peer.label}"
            )
        if answer.status_code == NOT_HERE:
            raise Elsewhere(f"{peer.label} does not hold it (any more)")
        if UNPROVEN in answer.headers:
            raise Elsewhere(f"what is sent to {peer.label} is changed on the way to {peer.address}")
        return body

    async def _client(self, peer: Peer) -> httpx.AsyncClient:
        encrypted = peer.address.startswith("https:")
        if encrypted not in self._clients:
            context: ssl.SSLContext | bool = await asyncio.to_thread(ssl.create_default_context) if encrypted else False
            timeout = httpx.Timeout(None, connect=CONNECT_SECONDS, write=30.0)
            limits = httpx.Limits(max_connections=100, max_keepalive_connections=0)  # none is stale
            self._clients[encrypted] = httpx.AsyncClient(
                verify=context, timeout=timeout, limits=limits, trust_env=False, headers={"accept-encoding": "identity"}
            )
        return self._clients[encrypted]

    async def _while_there(self, peer: Peer, asking: Coroutine[Any, Any, Answer]) -> Answer:
        """Wait for an answer for as long as the other gateway keeps its leases and its address answers.

        One that stands still never answers, and neither does one whose address leads to nobody.
        """
        task = asyncio.ensure_future(asking)
        watch = asyncio.ensure_future(self._until_gone(peer))
        try:
            await asyncio.wait([task, watch], return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise HolderAway(watch.result(), where=peer.address, hint="It may have been done: look before you repeat it.")
        finally:
            for one in (task, watch):
                one.cancel()
            await asyncio.gather(task, watch, return_exceptions=True)

    async def _until_gone(self, peer: Peer) -> str:
        """Wait until no answer can be expected of another gateway; return why."""
        looks = failed = 0
        while failed < FAILED_PROBES:
            await asyncio.sleep(self._look)
            looks += 1
            if peer.name not in (await self._directory.standing(fresh=True)).peers:
                return f"the gateway {peer.label} stopped before it answered"
            if looks % LOOKS_TO_PROBE == 0:
                failed = 0 if await self._answers(peer) else failed + 1
        return f"the gateway {peer.label} works, but nobody answers at its address"

    async def _answers(self, peer: Peer) -> bool:
        """Return whether anything answers at the address of another gateway, whatever it says."""
        try:
            async with asyncio.timeout(self._probe):
                await (await self._client(peer)).get(peer.address.rstrip("/") + HEALTH)
        except (httpx.TransportError, TimeoutError):
            return False
        return True


def _answered(body: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(body)
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__
