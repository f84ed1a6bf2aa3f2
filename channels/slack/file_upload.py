"""Uploads files in the three steps of Slack's external upload (https://docs.slack.dev/messaging/working-with-files).

The file's id is recorded before the file becomes visible, so that a later attempt can check whether it did. Importing this module loads
the library.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import aiohttp

from channels.errors import NotSent
from channels.slack.block_kit import actions, sections
from channels.slack.mrkdwn import written

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from slack_sdk.web.async_client import AsyncWebClient

    from channels.messages import Outbound, OutboundFile
    from channels.slack.rate_limit import RateLimit

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
        """Give the bytes away. The address is its own permission, so that no token goes with them."""
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
    """Return what goes with the file. With buttons it is blocks, among which Markdown is not taken here."""
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
