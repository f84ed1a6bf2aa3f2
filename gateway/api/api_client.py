"""The command line's side of the API: requests to the gateway that runs, and a terminal's connection to it, over its unix socket."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

import httpx

from channels.errors import AgentAway, ChannelError, LinkLost, NotStored
from channels.live import STORAGE_FAILED, LiveEvent, Reply, from_json
from gateway.api import unix_socket
from gateway.base.errors import (
    AlreadyRunning,
    GatewayNotResponding,
    HomebodyError,
    NoModel,
    OtherVersion,
    StorageFailed,
    UsageError,
)
from gateway.base.state_lock import describe

MESSAGE_BYTES = 8 * 1024 * 1024
"""The largest message, as JSON; the gateway takes no larger body."""
EVENT_BYTES = 64 * 1024 * 1024
"""The longest event that is taken: replies are not cut for a terminal."""
CLOSING_SECONDS = 5.0
"""Given to confirmations of replies that are still under way when the conversation ends."""
HOLDER_AWAY, NO_HOLDER = "holder-away", "no-holder"
"""Why a gateway of a cluster does not pass a request on: the one that holds the agent is not reached, or no gateway holds it."""
_START = "homebody start"
_TAKEN = f"start it again ({_START}): it answers what it had taken, which homebody inbox list names; say the rest again"
_OK, _NOT_FOUND, _GONE, _NOT_NOW = 200, 404, 410, 503
_DATA = b"data: "

OTHER_VERSION = "the gateway that runs is of another version than this command, and does not understand it"
TELLS_LESS = "the gateway that runs is of another version than this command, and its answer lacks what is shown here"
BROKE = "the gateway could not answer this, for a reason of its own"
LOG_TELLS = "Its log tells why: homebody logs --level error --since 10m"
RESTART = "Start it again: homebody restart"
KINDS: Final = {kind.exit_code: kind for kind in (UsageError, NoModel, AlreadyRunning, StorageFailed)}


class _Answer(dict[str, Any]):
    """An object of an answer. A key that is not in it is one that the gateway, of another version, does not tell."""

    def __missing__(self, key: str) -> NoReturn:
        raise OtherVersion(TELLS_LESS, hint=RESTART)


async def ask(state: Path, call: str, /, **arguments: Any) -> Any:
    """Make a call to the gateway that holds ``state`` and return its result. There is no time limit.

    Raises:
        GatewayNotResponding: nobody listens there.
        OtherVersion: the gateway does not know the call, or what is asked with it.
        HomebodyError: the call failed; with the exit code that it had over there.
    """
    async with connection(state / unix_socket.SOCKET) as client:
        try:
            answer = await client.post(f"/admin/{call}", content=json.dumps(arguments).encode())
        except httpx.ConnectError as error:
            told, hint = "the gateway does not answer", "Start it again: homebody start"
            if (holder := describe(state / "gateway.lock")) is None:
                told, hint = "no gateway is running", "Start it: homebody start"
            elif holder.waits:
                told, hint = f"the gateway waits for its database: {holder.waits}", holder.mend
            raise GatewayNotResponding(told, where=str(state), hint=hint) from error
        except httpx.TransportError as error:
            if await is_other_version(state / unix_socket.SOCKET):
                raise OtherVersion(OTHER_VERSION, where=str(state), hint=RESTART) from error
            message = "the gateway closed the connection without an answer"
            raise HomebodyError(message, where=str(state), hint="Its log tells more.") from error
        if answer.status_code == _NOT_FOUND:  # whatever it says: words of an earlier version name what is inside
            raise OtherVersion(await _versions(client), where=str(state), hint=RESTART)
    said = answered(answer)
    if "result" in said:
        return said["result"]
    if "error" not in said and answer.is_server_error:
        raise HomebodyError(BROKE, where=str(state), hint=LOG_TELLS)
    kind = KINDS.get(said.get("exitCode", 0), HomebodyError)
    raise kind(str(said.get("error", OTHER_VERSION)), where=str(said.get("where", "")), hint=str(said.get("mend", RESTART)))


async def _versions(client: httpx.AsyncClient) -> str:
    """Return that the gateway is of another version, with the two versions where it tells its own and they differ."""
    from importlib.metadata import version  # only for this: it loads zipfile and more

    running: Any = None
    with contextlib.suppress(httpx.TransportError):
        status = answered(await client.post("/admin/status", content=b"{}")).get("result")
        running = status.get("version") if isinstance(status, dict) else None
    own = version("homebody")
    if not running or running == own:
        return OTHER_VERSION
    return f"the gateway that runs is of version {running}, this command is of {own}, and the gateway does not understand it"


async def post(url: str, headers: Mapping[str, str], body: str) -> tuple[int, dict[str, Any]]:
    """Send JSON to an address of this machine's gateway on TCP; return the status and the answer, {} for one that is no JSON.

    Raises:
        HomebodyError: nobody answers there.
    """
    given = {"Content-Type": "application/json", **headers}
    async with httpx.AsyncClient(timeout=30.0, trust_env=False) as client:
        try:
            answer = await client.post(url, content=body.encode("utf-8", "replace"), headers=given)
        except httpx.TransportError as error:
            hint = "homebody status tells whether the gateway listens."
            raise HomebodyError(f"nobody answered: {error}", where=url, hint=hint) from error
    return answer.status_code, answered(answer)


def connection(path: Path) -> httpx.AsyncClient:
    """Return a client of the unix socket wanted at ``path``. Each request has a connection of its own, so that none is stale."""
    real = str(unix_socket.locate(path))
    limits = httpx.Limits(max_keepalive_connections=0)
    transport = httpx.AsyncHTTPTransport(uds=real, verify=False, limits=limits)  # a unix socket has no certificates
    return httpx.AsyncClient(transport=transport, base_url="http://homebody", timeout=None, trust_env=False)  # noqa: S113 - a call takes what it takes


async def is_other_version(path: Path) -> bool:
    """Tell whether a gateway from before this API answers, which speaks JSON lines and not HTTP. To be asked after a failure."""
    try:
        reader, writer = await asyncio.open_unix_connection(unix_socket.locate(path))
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: homebody\r\nConnection: close\r\n\r\n")
        first = await reader.read(1)
        writer.close()
    except OSError:
        return False
    return first == b"{"


def answered(answer: httpx.Response) -> dict[str, Any]:
    """Return the JSON object of an answer; an empty one when it is something else."""
    try:
        told = json.loads(answer.content, object_hook=_Answer)
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


class ChatConnection:
    """A ``Link`` to a gateway in another process. Made by ``open``."""

    def __init__(self, path: Path, client: httpx.AsyncClient, name: str, stream: httpx.Response) -> None:
        self._path = path
        self._client = client
        self._name = name
        self._stream = stream
        self._events: asyncio.Queue[LiveEvent | None] = asyncio.Queue()
        self._acks: set[asyncio.Task[None]] = set()
        self._lost = LinkLost("the gateway stopped", hint=_TAKEN)
        self._closed = False
        self._reading = asyncio.ensure_future(self._read_all())

    @classmethod
    async def open(cls, path: Path, conversation: str = "local", agent: str = "") -> ChatConnection:
        """Attach to the gateway that serves ``path``, to talk to ``agent`` if one is named.

        Raises:
            LinkLost: nobody serves it; ``AgentAway`` if the agent is not there.
            ChannelError: the gateway refused, or is of another version.
        """
        client, name = connection(path), secrets.token_hex(16)
        try:
            params = {"conversation": conversation, "connection": name, **({"agent": agent} if agent else {})}
            asked = client.build_request("GET", "/chat/events", params=params)
            try:
                stream = await client.send(asked, stream=True)
                if stream.status_code != _OK:
                    await stream.aread()
                    _not_attached(stream)
            except httpx.TransportError as error:
                if await is_other_version(path):
                    raise ChannelError(OTHER_VERSION, hint=RESTART) from error
                raise LinkLost(f"no gateway answers at {path}: {error}", hint=_START) from error
        except BaseException:  # also when cancelled: nobody else knows of this client yet
            await client.aclose()
            raise
        return cls(path, client, name, stream)

    async def say(self, text: str, *, key: str, hints: Mapping[str, str] | None = None, files: Sequence[str] = ()) -> None:
        """Send a message; see ``Link.say``."""
        message = {"text": text, "key": key, "hints": dict(hints or {}), **({"files": list(files)} if files else {})}
        body = json.dumps(message, ensure_ascii=False).encode("utf-8", "replace")
        if len(body) > MESSAGE_BYTES:
            raise ChannelError(
                f"the message is {len(body) / 2**20:.1f} MiB, and {MESSAGE_BYTES >> 20} MiB is the limit",
                hint="put the text into a file in the workspace, and name the file",
            )
        await self._post("messages", body)

    async def stop(self) -> None:
        """Stop the running turn."""
        await self._post("stop")

    async def frames(self) -> AsyncIterator[LiveEvent]:
        """Yield what arrives; see ``Link.frames``."""
        while (event := await self._events.get()) is not None:
            if isinstance(event, Reply):
                acknowledging = asyncio.ensure_future(self._acknowledge(event.key))
                self._acks.add(acknowledging)
                acknowledging.add_done_callback(self._acks.discard)
            yield event
        self._events.put_nowait(None)
        if not self._closed:
            raise self._lost

    async def close(self) -> None:
        """Detach; see ``Link.close``."""
        self._closed = True
        if self._acks:
            await asyncio.wait(self._acks, timeout=CLOSING_SECONDS)
        ending = [*self._acks, self._reading]
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        await self._stream.aclose()
        await self._client.aclose()

    async def _acknowledge(self, key: str) -> None:
        with contextlib.suppress(ChannelError, RuntimeError):  # then the gateway asks whether it was taken, or sends it again
            await self._post("acks", key=key)

    async def _post(self, what: str, body: bytes = b"", **params: str) -> None:
        if self._reading.done():
            raise self._lost
        try:
            answer = await self._client.post(f"/chat/{self._name}/{what}", content=body, params=params)
        except httpx.TransportError:
            raise self._lost from None
        if answer.status_code == _GONE:
            raise self._lost
        if answer.is_error:
            _refused(answer)

    async def _read_all(self) -> None:
        """Read events until the stream ends; a line is one event."""
        read = bytearray()
        searched = 0
        try:
            async for chunk in self._stream.aiter_raw():
                read += chunk
                while (end := read.find(b"\n", searched)) >= 0:
                    line = bytes(read[:end])
                    del read[: end + 1]
                    searched = 0
                    if line.startswith(_DATA):
                        self._take_event(json.loads(line[len(_DATA) :]))
                searched = len(read)
                if searched > EVENT_BYTES:
                    self._broken("an event is too long")
                    return
        except httpx.TransportError:
            pass  # it stopped
        except (ValueError, RecursionError, ChannelError) as error:
            self._broken(str(error))
        finally:
            self._events.put_nowait(None)

    def _broken(self, why: str) -> None:
        self._lost = LinkLost(f"the connection to the gateway was lost: {why}", hint=self._lost.hint)

    def _take_event(self, event: dict[str, Any]) -> None:
        if "frame" in event:
            self._events.put_nowait(from_json(event))
        elif "closing" in event:
            self._lost = LinkLost(f"the gateway closed the connection: {event['closing']}", hint=self._lost.hint)


def _not_attached(answer: httpx.Response) -> NoReturn:
    if answer.status_code != _NOT_NOW:
        _refused(answer)
    told = answered(answer)
    if told.get("reason") in (HOLDER_AWAY, NO_HOLDER):
        raise AgentAway(str(told.get("error")), held=told["reason"] == HOLDER_AWAY, hint=str(told.get("mend", "")))
    raise LinkLost("the gateway is stopping", hint=_START)


def _refused(answer: httpx.Response) -> NoReturn:
    told = answered(answer)
    if "error" not in told and answer.is_server_error:
        raise ChannelError(BROKE, hint=LOG_TELLS)
    if told.get("reason") == STORAGE_FAILED:
        raise NotStored(str(told.get("error")), hint=str(told.get("mend", "")))
    if "error" not in told or answer.status_code == _NOT_FOUND:
        raise ChannelError(OTHER_VERSION, hint=RESTART)
    raise ChannelError(str(told["error"]), hint=str(told.get("mend", "")))
