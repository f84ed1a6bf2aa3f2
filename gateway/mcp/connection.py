"""The connection to one server: made when it is needed, owned by one task, made again with back-off.

The task that enters the SDK's contexts leaves them too, as anyio demands; calls run in the tasks of those who make them, so that they can
be cancelled one by one.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic import ValidationError

from agent.timing import Clock
from gateway.base.errors import first_of
from gateway.base.installation import how_to_add
from gateway.mcp.errors import CallRefused, CallTimedOut, McpError, ServerFailed
from gateway.mcp.offer import Offer

if TYPE_CHECKING:  # the MCP library takes a second and 60 MB, and is loaded when a server is used
    from gateway.mcp.mcp_session import Address, McpSession
    from gateway.mcp.stdio import Ending, Program

FIRST_WAIT: Final = 2.0
LONGEST_WAIT: Final = 300.0
"""Seconds between attempts to start a server that fails: doubled from the first to the longest."""
STEADY_SECONDS: Final = 60.0
"""A server that ran for so long starts anew with the shortest wait."""
RELIST_SECONDS: Final = 10.0
"""A server's list of tools is asked for again at most so often."""
CLOSING_SECONDS: Final = 3.0
"""How long the end of a connection may take before its task is cancelled."""
_SPARE: Final = 5.0
_MISSING: Final = "MCP servers need the extra homebody[mcp], which is not installed"

Answer = TypeVar("Answer")
log = logging.getLogger(__name__)


MOST_SILENCES: Final = 2
"""Calls in a row that a server may leave without an answer; then it is ended."""


def load_sessions() -> Any:
    """Load the MCP library, which takes a second of CPU the first time: in a thread, and without the garbage collector in between."""
    from agent.models.adapters.warm_up import loading

    with loading():
        return importlib.import_module("gateway.mcp.mcp_session")


class Connection:
    """The connection to one server. ``place`` makes what to connect to, in a thread; ``offered`` is told what it offers, and may raise."""

    def __init__(
        self,
        name: str,
        *,
        place: Callable[[], Program | Address],
        clock: Clock,
        offered: Callable[[Offer, bool], Awaitable[None]],
        start_seconds: float,
        idle_seconds: float,
        legacy: bool = False,
    ) -> None:
        self.name = name
        self.failures = 0
        self.last_error = ""
        self._place = place
        self._clock = clock
        self._offered = offered
        self._start_seconds = start_seconds
        self._idle_seconds = idle_seconds
        self._legacy = legacy
        self._starting = asyncio.Lock()
        self._closing = asyncio.Event()
        self._closed = False
        self._task: asyncio.Task[None] | None = None
        self._live: tuple[McpSession, Ending] | None = None
        self._began = 0.0
        self._not_before = 0.0
        self._at_work = 0
        self._silences = 0
        self._used = 0.0
        self._stale_since: float | None = None
        self._listed = 0.0

    @property
    def running(self) -> bool:
        """Whether there is a session."""
        return self._live is not None

    async def request(self, work: Callable[[McpSession], Awaitable[Answer]], seconds: float) -> Answer:
        """Do ``work`` with the session, which is made if there is none, within a time.

        Raises:
            ServerFailed: the server cannot be started or reached, or broke off.
            CallTimedOut: it did not answer in time.
            CallRefused: it answered with an error.
        """
        self._at_work += 1
        try:
            session, ending = await self._session()
            try:
                answer = await self._within(work, session, ending, seconds)
            except _SessionGoneError:
                await self._leave()
                session, ending = await self._session()
                answer = await self._within(work, session, ending, seconds)
        except CallTimedOut as error:
            await self._unanswered(error)
            raise
        else:
            self._silences = 0
            return answer
        finally:
            self._at_work -= 1
            self._used = self._clock.monotonic()

    async def _unanswered(self, error: CallTimedOut) -> None:
        """End a server that left several calls in a row without an answer, and does nothing else: the next call starts it again."""
        self._silences += 1
        if self._silences >= MOST_SILENCES and self._at_work == 1:
            self._silences, failures = 0, self.failures
            await self._leave()
            self.failures = failures  # that it ended then is no failure of its own
            self._count(f"{error}, {MOST_SILENCES} times in a row")

    async def relist(self) -> None:
        """Connect if need be, and ask for what the server offers now. Raises what ``request`` raises."""
        fresh = not self.running
        session, ending = await self._session()
        if not fresh:
            await self._list(session, ending)

    async def restart(self) -> None:
        """End the session; the next request makes another one at once."""
        await self._leave()
        self.failures, self._not_before = 0, 0.0

    async def close(self) -> None:
        """End the session for good. Never raises, and takes a few seconds at most."""
        self._closed = True
        await self._leave()

    async def _within(
        self, work: Callable[[McpSession], Awaitable[Answer]], session: McpSession, ending: Ending, seconds: float
    ) -> Answer:
        try:
            async with asyncio.timeout(seconds + _SPARE):  # the SDK has the time limit itself; this one is for its defects
                return await work(session)
        except (McpError, asyncio.CancelledError):
            raise
        except Exception as error:  # the SDK, anyio and the HTTP client raise a dozen kinds of errors
            raise self._translated(error, ending, seconds) from error

    async def _session(self) -> tuple[McpSession, Ending]:
        async with self._starting:
            if self._closed:
                raise ServerFailed(f"the MCP server {self.name} was removed or changed")
            if self._live is not None and not self._live[1].died.is_set():
                session, ending = self._live
                if self._stale_since is not None and self._clock.monotonic() - self._listed >= RELIST_SECONDS:
                    await self._list(session, ending)
                return session, ending
            await self._leave()
            return await self._start()

    async def _start(self) -> tuple[McpSession, Ending]:
        wait = self._not_before - self._clock.monotonic()
        if wait > 0:
            raise ServerFailed(
                f"the MCP server {self.name} failed {self.failures} times and is tried again in {wait:.0f} s: {self.last_error}",
                hint=f"homebody mcp test {self.name} tries it at once",
            )
        ready: asyncio.Future[tuple[McpSession, Ending]] = asyncio.get_running_loop().create_future()
        self._closing = asyncio.Event()
        self._task = asyncio.create_task(self._own(ready, self._closing), name=f"mcp {self.name}")
        try:
            live = await asyncio.shield(ready)
        except McpError as error:
            self._count(str(error))
            raise
        return live

    async def _own(self, ready: asyncio.Future[tuple[McpSession, Ending]], closing: asyncio.Event) -> None:
        """Hold the session open until it is to end, or has ended. Nothing is raised: who waits for ``ready`` is told."""
        ending: Ending | None = None
        try:
            try:
                sessions: Any = await asyncio.to_thread(load_sessions)
            except ImportError as error:
                raise ServerFailed(_MISSING, hint=f"Install it: {how_to_add('mcp')}") from error
            place = await asyncio.to_thread(self._place)
            ending = importlib.import_module("gateway.mcp.stdio").Ending()
            changed = self._mark_stale
            async with contextlib.AsyncExitStack() as stack:
                async with asyncio.timeout(self._start_seconds):
                    opened = sessions.opened(place, ending, legacy=self._legacy, changed=changed)
                    session = await stack.enter_async_context(opened)
                    await self._list(session, ending)
                self._live, self._began = (session, ending), self._clock.monotonic()
                self._used = self._began
                if not ready.done():
                    ready.set_result(self._live)
                await self._held(ending, closing)
        except TimeoutError:
            text = f"the MCP server {self.name} did not say what it offers within {self._start_seconds:g} seconds"
            self._failed(ready, ServerFailed(text))
        except asyncio.CancelledError:
            self._failed(ready, ServerFailed(f"the MCP server {self.name} is being stopped"))
            raise
        except Exception as error:  # noqa: BLE001 -- what a server does wrong must stay with its connection
            self._failed(ready, self._translated(error, ending, self._start_seconds))
        finally:
            if self._live is not None and self._live[1] is ending:
                self._live = None
            if ending is not None and ending.died.is_set():
                if self._clock.monotonic() - self._began >= STEADY_SECONDS:
                    self.failures = 0
                if ready.done() and ready.exception() is None:
                    self._count(ending.in_words)

    def _count(self, error: str) -> None:
        """Count a failure. After the first one the server is tried again at once, after further ones later and later."""
        self.failures += 1
        self.last_error = error
        wait = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(self.failures - 2, 20)) if self.failures > 1 else 0.0
        self._not_before = self._clock.monotonic() + wait

    async def _held(self, ending: Ending, closing: asyncio.Event) -> None:
        """Wait until the session is to end, the server died, or nobody used it for long."""
        over = [asyncio.create_task(one.wait()) for one in (ending.died, closing)]
        try:
            while not any(one.done() for one in over):
                left = self._used + self._idle_seconds - self._clock.monotonic() if self._idle_seconds else None
                if left is not None and left <= 0 and not self._at_work:
                    return
                await asyncio.wait(over, timeout=None if left is None else max(left, 1.0), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in over:
                one.cancel()

    async def _list(self, session: McpSession, ending: Ending) -> None:
        self._listed, self._stale_since = self._clock.monotonic(), None
        offer = await self._within(lambda one: one.offer(), session, ending, self._start_seconds)
        self._legacy = session.legacy
        await self._offered(offer, session.legacy)

    def _mark_stale(self) -> None:
        self._stale_since = self._clock.monotonic()

    async def _leave(self) -> None:
        """End the session, if there is one."""
        task, self._task, self._live = self._task, None, None
        self._closing.set()
        if task is None or task.done():
            return
        await asyncio.wait([task], timeout=CLOSING_SECONDS)
        if not task.done():
            task.cancel()
            await asyncio.wait([task], timeout=CLOSING_SECONDS)

    def _failed(self, ready: asyncio.Future[tuple[McpSession, Ending]], error: McpError) -> None:
        if not ready.done():
            ready.set_exception(error)
            ready.exception()  # nobody may wait any more

    def _translated(self, error: BaseException, ending: Ending | None, seconds: float) -> McpError:
        """Return an error of the libraries below as one of ours."""
        found = first_of(error)
        if isinstance(found, McpError):
            return found
        reason = ending.in_words if ending is not None else ""
        if isinstance(found, TimeoutError):
            return CallTimedOut(f"the MCP server {self.name} did not answer within {seconds:g} seconds")
        if isinstance(found, ValidationError):
            where = ".".join(str(part) for part in found.errors(include_url=False, include_input=False)[0]["loc"])[:100]
            return ServerFailed(f"the MCP server {self.name} sent what is no valid MCP (at {where})")
        sessions = importlib.import_module("gateway.mcp.mcp_session")
        if isinstance(found, sessions.MCPError):
            return self._answered(sessions, found, ending, seconds)
        text = reason or " ".join(str(found).split())[:300] or type(found).__name__
        return ServerFailed(f"the MCP server {self.name} failed: {text}")

    def _answered(self, sessions: Any, error: Any, ending: Ending | None, seconds: float) -> McpError:
        """Return an error of the protocol as one of ours."""
        code, text = error.error.code, " ".join(str(error.error.message).split())[:2000]
        if code == sessions.REQUEST_TIMEOUT:
            return CallTimedOut(f"the MCP server {self.name} did not answer within {seconds:g} seconds")
        if text == sessions.GONE:
            return _SessionGoneError(f"the MCP server {self.name} has ended the session")
        closed = code == sessions.CONNECTION_CLOSED and text == sessions.CLOSED  # servers use the code for errors of their own
        if closed and ending is not None:  # the next request connects again
            ending.because("the connection was closed")
        if closed or (ending is not None and ending.died.is_set()):
            return ServerFailed(f"the MCP server {self.name} broke off: {(ending.in_words if ending else '') or text}")
        return CallRefused(text or f"error {code}")


class _SessionGoneError(ServerFailed):
    """The server does not know the session any more, so that the request was not done."""
