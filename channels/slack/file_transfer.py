"""Downloads files that came with messages, and uploads files (https://docs.slack.dev/messaging/working-with-files).

The app's token is sent to Slack's own hosts only, whatever a URL or a redirect says. An upload takes the three steps of Slack's external
upload; the file's id is recorded before the file becomes visible, so that a later attempt can check whether it did. Importing this
module loads the library.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

import aiohttp
from slack_sdk.errors import SlackApiError

from channels.common.saving import check_size, save
from channels.errors import NotFetched, NotSent
from channels.messages import Attachment
from channels.slack.api_errors import NO_SCOPE, TROUBLE, code_of, waiting
from channels.slack.block_kit import actions, sections, written
from channels.slack.settings import APPS, OFFICIAL, SlackAccount
from channels.slack.web_client import RateLimit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from slack_sdk.web.async_client import AsyncWebClient

    from channels.messages import Outbound, OutboundFile

UPLOAD = "file:"
"""How a note begins that names a file which may be shown already."""
_OK = 200


class Uploads:
    """Sends enclosures."""

    def __init__(self, web: AsyncWebClient, rate_limit: RateLimit) -> None:
        self._web = web
        self._rate_limit = rate_limit

    async def send(self, outbound: Outbound, channel: str, thread: str | None, record: Callable[[str], Awaitable[None]]) -> str:
        """Send a file with its caption and buttons, and return the file's id.

        Raises:
            NotSent: the gateway's own copy cannot be read.
        """
        enclosure = outbound.enclosure
        assert enclosure is not None
        size = _size(enclosure)
        name = enclosure.name or "file"
        place = await self._rate_limit.call(
            "files.getUploadURLExternal", "", lambda: self._web.files_getUploadURLExternal(filename=name, length=size)
        )
        file = str(place["file_id"])
        await self._upload(str(place["upload_url"]), enclosure)
        await record(UPLOAD + file)
        await self._rate_limit.call(
            "files.completeUploadExternal",
            channel,
            lambda: self._web.files_completeUploadExternal(
                files=[{"id": file, "title": name}], channel_id=channel, thread_ts=thread, **_caption(outbound)
            ),
        )
        return file

    async def _upload(self, address: str, enclosure: OutboundFile) -> None:
        """Upload the bytes. The URL itself authorises the upload, so no token is sent."""
        session = self._web.session
        assert session is not None
        pace = aiohttp.ClientTimeout(total=None, sock_connect=self._web.timeout, sock_read=self._web.timeout)
        with _opened(enclosure) as content:
            try:
                async with session.post(address, data=content, allow_redirects=False, timeout=pace) as answer:
                    status = answer.status
            except (aiohttp.ClientError, OSError) as error:
                raise NotSent(f"the file could not be uploaded to Slack: {str(error) or type(error).__name__}") from error
        if status != _OK:
            raise NotSent(f"the file could not be uploaded to Slack: status {status}")


def _caption(outbound: Outbound) -> dict[str, Any]:
    """Return the text that goes with the file. With buttons it is blocks, in which this call accepts no Markdown."""
    if outbound.buttons:
        blocks = sections(outbound.text) if outbound.text.strip() else []
        return {"blocks": json.dumps([*blocks, actions(outbound.buttons)])}
    return {"initial_comment": written(outbound.text)} if outbound.text.strip() else {}


def _size(enclosure: OutboundFile) -> int:
    try:
        size = enclosure.path.stat().st_size
    except OSError as error:
        raise _unreadable(enclosure) from error
    if size == 0:
        raise NotSent(f"Slack does not accept empty files, and {enclosure.name!r} is empty", permanent=True)
    return size


def _opened(enclosure: OutboundFile) -> Any:
    try:
        return enclosure.path.open("rb")
    except OSError as error:
        raise _unreadable(enclosure) from error


def _unreadable(enclosure: OutboundFile) -> NotSent:
    return NotSent(f"the file {enclosure.name!r} to send cannot be read", permanent=True)


_SLACK = (".slack.com", ".slack-files.com", ".slack-gov.com")
_REDIRECTIONS = {301, 302, 303, 307, 308}
_MOST_REDIRECTIONS = 3
_PIECE = 64 * 1024
_SERVER = 500
_TOO_MANY = 429
_SCOPE = f"add the scope files:read ({APPS}, your app, OAuth & Permissions, Bot Token Scopes), and install the app again"
_GONE = {"file_not_found", "file_deleted", "access_denied", "no_permission", "not_visible"}


class Files:
    """Gets files by their ids."""

    def __init__(self, settings: SlackAccount, web: AsyncWebClient, rate_limit: RateLimit) -> None:
        self._settings = settings
        self._web = web
        self._rate_limit = rate_limit

    async def fetch(self, attachment: Attachment, path: Path, limit: int) -> None:
        """Save a file at ``path``; where it fails nothing is left there.

        Raises:
            NotFetched: it is larger than ``limit`` bytes, gone, or could not be had.
        """
        try:
            file = await self._asked(attachment.handle)
            check_size(int(file.get("size") or 0), limit)
            await self._save(file, path, limit)
        except TROUBLE as error:
            raise NotFetched(
                f"the file could not be downloaded: {str(error) or type(error).__name__}", permanent=False
            ) from error

    async def _asked(self, file: str) -> dict[str, Any]:
        """Return what Slack says of a file now."""
        try:
            answer = await self._rate_limit.call("files.info", "", lambda: self._web.files_info(file=file))
        except NotSent as error:
            raise NotFetched(str(error), permanent=False) from error
        except SlackApiError as error:
            code = code_of(error)
            if code == NO_SCOPE:
                raise NotFetched("the app may not read files: its token lacks the scope files:read", hint=_SCOPE) from error
            if code in _GONE:
                raise NotFetched(f"the file is gone, or hidden from the app ({code})") from error
            if waiting(error) is not None:
                raise NotFetched("Slack asks to wait", permanent=False) from error
            raise
        found: dict[str, Any] = answer.get("file") or {}
        if found.get("mode") == "hidden_by_limit":
            raise NotFetched("Slack hides the file, because the workspace exceeds the limits of its plan")
        return found

    async def _save(self, file: dict[str, Any], path: Path, limit: int) -> None:
        address = str(file.get("url_private_download") or file.get("url_private") or "")
        for _ in range(_MOST_REDIRECTIONS + 1):
            headers = {"Authorization": f"Bearer {self._settings.secret('bot_token')}"}
            if not may_see_token(address, self._settings.api_root):
                raise NotFetched(
                    f"the file is stored on another service ({urlsplit(address).hostname or 'no address'}), not in Slack"
                )
            session = self._web.session
            assert session is not None
            pace = aiohttp.ClientTimeout(total=None, sock_connect=self._web.timeout, sock_read=self._web.timeout)
            async with session.get(address, headers=headers, allow_redirects=False, timeout=pace) as answer:
                if answer.status not in _REDIRECTIONS:
                    await self._take(answer, file, path, limit)
                    return
                target = urljoin(address, answer.headers.get("Location", ""))
            if _asks_to_sign_in(target) or not may_see_token(target, self._settings.api_root):
                raise _signed_out()
            address = target
        raise NotFetched("Slack redirects the download in a circle", permanent=False)

    async def _take(self, answer: aiohttp.ClientResponse, file: dict[str, Any], path: Path, limit: int) -> None:
        if answer.status == _TOO_MANY or answer.status >= _SERVER:
            raise NotFetched(f"Slack answered {answer.status}", permanent=False)
        if answer.status != _OK:
            raise NotFetched(f"Slack returned {answer.status} instead of the file", hint=_SCOPE)
        size = int(file.get("size") or 0)
        page = answer.content_type == "text/html" and (
            file.get("mimetype") != "text/html" or answer.content_length not in {None, size}
        )
        if page:
            raise _signed_out()
        check_size(answer.content_length or 0, limit)
        await save(answer.content.iter_chunked(_PIECE), path, limit)


def may_see_token(address: str, api_root: str) -> bool:
    """Return whether the app's token may go to an address: to Slack over TLS, or to the server that ``api_root`` names in its place."""
    parts = urlsplit(address)
    if api_root != OFFICIAL:
        root = urlsplit(api_root)
        return (parts.scheme, parts.netloc) == (root.scheme, root.netloc)
    return parts.scheme == "https" and parts.port in {None, 443} and (parts.hostname or "").endswith(_SLACK)


def _asks_to_sign_in(address: str) -> bool:
    query = urlsplit(address).query
    return "redir=" in query or "/signin" in urlsplit(address).path


def _signed_out() -> NotFetched:
    return NotFetched("Slack returned its sign-in page instead of the file: the app may not read files", hint=_SCOPE)
