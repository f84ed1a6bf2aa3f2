"""The page in the browser: its files, the exchange of a code for a cookie, calls, live events, and files both ways.

GET  /  /enter                 the page itself, the same for everybody
GET  /static/VERSION/NAME      its files
POST /enter                    {"code"}: sets the cookie
GET  /page/me                  who asks, and what the page needs to begin
POST /page/call/NAME           arguments as a JSON object; {"result": ...} or an error
GET  /page/events              server-sent events
GET  /page/file/ID             a file of a conversation
POST /page/upload              a piece of a file: ?name&type&size begins one, ?id&offset goes on

Each POST needs what ``/page/me`` tells, in ``X-Homebody-Csrf`` (``/enter`` is told nothing yet and needs the code).
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from inspect import signature
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from starlette.requests import ClientDisconnect
from starlette.responses import FileResponse, Response

from channels.errors import ChannelError
from gateway.api.answers import HEADERS, Refusal, json_answer
from gateway.api.event_stream import EventStream
from gateway.api.middleware import is_encrypted
from gateway.base.errors import (
    NAME,
    Conflict,
    HolderAway,
    HomebodyError,
    UsageError,
    as_homebody_error,
    with_commands_as_started,
)
from gateway.page.browsers import COOKIE_LIFETIME, Browser, Browsers, csrf_of
from gateway.page.calls import AS_VIEWER, allowed, changes
from gateway.page.page_events import EventHub, Stream, TooManyStreams

if TYPE_CHECKING:
    import structlog
    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from channels.web.stored_files import StoredFiles
    from gateway.api.routes.admin import Call
    from gateway.page.asset_files import AssetFiles
    from gateway.page.translation import Phrases

CSRF_HEADER: Final = "x-homebody-csrf"
LANGUAGE_HEADER: Final = "x-homebody-language"
"""The language of the page, in which the gateway says what it says in answers of calls."""
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src 'self' blob:; "
    "connect-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
PAGE_HEADERS: Final = {
    **HEADERS,
    "content-security-policy": POLICY,
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "microphone=(self), camera=(), geolocation=(), payment=(), usb=()",
    "x-frame-options": "DENY",
}
IMMUTABLE: Final = "public, max-age=31536000, immutable"
_SHOWN: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Pictures that are shown in the page. Everything else that is no sound or film is offered for saving, and never opened as a page."""
_PLAYED: Final = ("audio/", "video/")
_NOT_YOURS: Final = "This browser may look and not change anything. Let it in as owner: homebody open"
_ENTER: Final = "Open the page anew: run `homebody open` on the machine on which Homebody runs."


class PageRoutes:
    """Answers all requests of the page. ``calls`` are the gateway's, ``told`` returns what the page is told at its beginning.

    ``changed`` is given the topic of each call that changed something, such as ``approvals``, so that other open pages look again.
    ``cookie`` names the cookie of connections without TLS where gateways of several ports let in the same browsers.
    """

    def __init__(
        self,
        *,
        assets: AssetFiles,
        browsers: Browsers,
        hub: EventHub,
        files: StoredFiles,
        calls: Mapping[str, Call],
        told: Callable[[], dict[str, Any]],
        changed: Callable[[str], None],
        log: structlog.typing.FilteringBoundLogger,
        cookie: str = "",
    ) -> None:
        self._assets = assets
        self._cookie = cookie
        self._browsers = browsers
        self._hub = hub
        self._files = files
        self._calls = calls
        self._told = told
        self._changed = changed
        self._log = log

    async def answer(self, request: Request) -> Response:
        """Answer one request."""
        path, method = request.url.path, request.method
        if method in {"GET", "HEAD"}:
            if path in {"/", "/enter"}:
                return self._asset(request, "index.html", "no-cache")
            if path.startswith("/static/"):
                return self._static(request, path.removeprefix("/static/"))
            return await self._read(request, path)
        if method != "POST":
            raise Refusal(405, "not-allowed", f"{method} is not used here", "Use GET or POST.", {"allow": "GET, POST"})
        try:
            return await (self._enter(request) if path == "/enter" else self._change(request, path))
        except ClientDisconnect:  # a page that was left or reloaded in the midst of its request
            return Response(status_code=499)
        except Refusal as refusal:
            if said := await _in_language(request):
                refusal.detail, refusal.hint = said.sentence(refusal.detail), said.sentence(refusal.hint)
            raise

    async def _read(self, request: Request, path: str) -> Response:
        browser, cookie = await self._browser(request)
        if path == "/page/me":
            facts = {**self._told(), "role": browser.role, "browser": browser.id, "csrf": csrf_of(cookie)}
            return json_answer(facts, headers=PAGE_HEADERS)
        if path == "/page/events":
            return self._events(request, browser)
        if path.startswith("/page/file/"):
            return await self._file(path.removeprefix("/page/file/"))
        raise _not_there(path)

    async def _change(self, request: Request, path: str) -> Response:
        browser, cookie = await self._browser(request)
        if not secrets.compare_digest(request.headers.get(CSRF_HEADER, "").encode(), csrf_of(cookie).encode()):
            raise Refusal(403, "no-csrf", "the request does not come from the page", "Reload the page.")
        if path.startswith("/page/call/"):
            return await self._call(request, browser, path.removeprefix("/page/call/"))
        if path == "/page/upload":
            if browser.role != "owner":
                raise Refusal(403, "viewer", "only an owner may send files", _NOT_YOURS)
            return await self._upload(request)
        raise _not_there(path)

    async def _browser(self, request: Request) -> tuple[Browser, str]:
        """Return who asks. Raises Refusal for nobody who was let in."""
        cookie = request.cookies.get(cookie_name(request, self._cookie), "")
        found = await asyncio.to_thread(self._browsers.seen, cookie) if cookie else None
        if found is None:
            raise Refusal(401, "not-let-in", "this browser was not let in, or not any more", _ENTER)
        return found, cookie

    async def _enter(self, request: Request) -> Response:
        given = await _json(request)
        code = given.get("code")
        if not isinstance(code, str):
            raise Refusal(400, "no-code", "there is no code in the request", _ENTER)
        agent = request.headers.get("user-agent", "")
        try:
            browser, cookie = await asyncio.to_thread(self._browsers.enter, code, agent)
        except HomebodyError as error:
            self._log.warning("a code was refused", error=str(error))
            return _failed(error, 403 if isinstance(error, UsageError) else 500, said=await _in_language(request))
        self._log.info("a browser was let in", browser=browser.id, name=browser.name, role=browser.role)
        answer = json_answer({"role": browser.role}, headers=PAGE_HEADERS)
        answer.set_cookie(
            cookie_name(request, self._cookie),
            cookie,
            max_age=int(COOKIE_LIFETIME.total_seconds()),
            path="/",
            secure=is_encrypted(request.scope),
            httponly=True,
            samesite="strict",
        )
        return answer

    def _static(self, request: Request, rest: str) -> Response:
        version, _, name = rest.partition("/")
        return self._asset(request, name, IMMUTABLE if version == self._assets.version else "no-cache")

    def _asset(self, request: Request, name: str, caching: str) -> Response:
        found = self._assets.get(name)
        if found is None:
            raise _not_there(request.url.path)
        headers = {**PAGE_HEADERS, "cache-control": caching, "vary": "accept-encoding"}
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(found.packed, 200, {**headers, "content-encoding": "gzip"}, found.media_type)
        import gzip

        return Response(gzip.decompress(found.packed), 200, headers, found.media_type)

    async def _call(self, request: Request, browser: Browser, name: str) -> Response:
        given, log = await _json(request), self._log
        may = allowed(name, browser.role, given)
        if may is None:
            raise Refusal(404, "no-such-call", f"the page has no call {name[:80]!r}", "Reload the page.")
        if not may:
            raise Refusal(403, "viewer", "only an owner may do this", _NOT_YOURS)
        try:
            call = self._calls[name]
            given = {**given, **(AS_VIEWER.get(name, {}) if browser.role == "viewer" else {})}
            signature(call).bind(**given)
        except (KeyError, TypeError) as error:
            raise Refusal(400, "bad-call", f"{name} cannot be called so: {error}", "Reload the page.") from None
        try:
            result = await call(**given)
        except Exception as error:  # a defect must reach the one who asked, and the log, and no further
            known = as_homebody_error(error)
            if known is None:
                log.exception("a call of the page failed", call=name)
            failed = known or HomebodyError("the gateway failed over this", hint="Its log tells more: homebody logs")
            return _failed(failed, said=await _in_language(request))
        if changes(name):
            self._changed(name.partition(".")[0])
        if said := await _in_language(request):
            result = said.answer(name, result)
        result = with_commands_as_started(result, name=NAME)
        return json_answer({"result": result}, headers=PAGE_HEADERS)

    def _events(self, request: Request, browser: Browser) -> Response:
        last = request.headers.get("last-event-id") or request.query_params.get("after")
        try:
            stream = self._hub.open(browser.id, last, request.query_params.get("reader", ""))
        except TooManyStreams:
            hint = "Close the page in other tabs, or on other devices."
            raise Refusal(429, "too-many", "the page is open too often", hint, {"retry-after": "10"}) from None
        return _LiveStream(self._hub, stream)

    async def _file(self, wanted: str) -> Response:
        found = await asyncio.to_thread(self._files.get, wanted)
        if found is None:
            raise Refusal(404, "no-file", "this file is not kept any more", "Files of a conversation are kept for 30 days.")
        shown = found.type in _SHOWN or found.type.startswith(_PLAYED)
        media_type = found.type if shown else "application/octet-stream"
        headers = {
            **PAGE_HEADERS,
            "content-security-policy": "default-src 'none'; sandbox; frame-ancestors 'none'",
            "cache-control": "private, max-age=86400",
            "content-disposition": f"{'inline' if shown else 'attachment'}; filename*=UTF-8''{quote(found.name, safe='')}",
        }
        return FileResponse(self._files.path(wanted), headers=headers, media_type=media_type)

    async def _upload(self, request: Request) -> Response:
        asked, data = request.query_params, await request.body()
        try:
            offset, size = int(asked.get("offset", "0")), int(asked.get("size", "0"))
        except ValueError:
            offset = size = -1
        if offset < 0 or size < 0:
            raise Refusal(400, "bad-offset", "offset and size are numbers of bytes", "Send the file again.")
        try:
            wanted = asked.get("id", "")
            if not wanted:
                wanted = await asyncio.to_thread(self._files.begin_upload, asked.get("name", ""), asked.get("type", ""), size)
            stored = await asyncio.to_thread(self._files.append, wanted, offset, data)
        except ChannelError as error:
            return _failed(HomebodyError(str(error), hint=error.hint), 400, said=await _in_language(request))
        except OSError as error:
            known = as_homebody_error(error) or HomebodyError(f"the file could not be stored: {error.strerror}")
            return _failed(known)
        return json_answer({"result": stored.facts}, headers=PAGE_HEADERS)


class _LiveStream(EventStream):
    """A browser's stream, which is in the hub until it ends, whichever side ends it, and also when it never began."""

    def __init__(self, hub: EventHub, stream: Stream) -> None:
        headers = {**PAGE_HEADERS, "x-accel-buffering": "no"}
        super().__init__(self._events(), headers=headers, media_type="text/event-stream")
        self._hub = hub
        self._stream = stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._hub.close(self._stream)

    async def _events(self) -> AsyncIterator[bytes]:
        yield b"retry: 1000\n\n"
        while True:
            try:
                event = await self._stream.take(self._hub.beat_seconds)
            except TimeoutError:
                yield b"event: beat\ndata: still here\n\n"
                continue
            if event is None:
                return
            yield self._hub.written(event)


def cookie_name(request: Request, without_tls: str = "") -> str:
    """Return the cookie's name. Cookies know no ports, so that of a connection without TLS has the port in it, or is ``without_tls``."""
    if is_encrypted(request.scope):
        return "__Host-homebody"
    if without_tls:
        return without_tls
    server = request.scope.get("server") or ("", 0)
    return f"homebody-{server[1]}"


async def _json(request: Request) -> dict[str, Any]:
    try:
        given = json.loads(await request.body() or b"{}")
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        raise Refusal(400, "no-json", "the body is no JSON object", "Reload the page.")
    return given


async def _in_language(request: Request) -> Phrases | None:
    """Return what says the gateway's sentences in the language of the page that asks; None for English, and for one that is not known."""
    from gateway.page.translation import LANGUAGES, phrases

    language = request.headers.get(LANGUAGE_HEADER, "")
    return await asyncio.to_thread(phrases, language) if language in LANGUAGES else None


def _failed(error: HomebodyError, status: int = 0, *, said: Phrases | None = None) -> Response:
    """Answer an error. Its message stands under ``error``, in an object with the hint, as the page shows it."""
    facts = error.as_json()
    if said is not None:
        facts |= {"error": said.sentence(facts["error"]), "mend": said.sentence(facts["mend"])}
    facts = with_commands_as_started(facts, name=NAME)
    body = {"message": facts.pop("error"), "hint": facts.pop("mend"), **facts}
    if isinstance(error, HolderAway):
        return json_answer({"error": body}, 503, {**PAGE_HEADERS, "retry-after": "10"})
    kind = 400 if isinstance(error, UsageError) else 409 if isinstance(error, Conflict) else 500
    return json_answer({"error": body}, status or kind, PAGE_HEADERS)


def _not_there(path: str) -> Refusal:
    return Refusal(404, "not-found", f"there is nothing at {path[:80]!r}", "The page is at /.")
