"""Requests to Meta's Graph API. Importing this module loads aiohttp.

Each request is made once: whether and when to repeat it is decided by its caller. https://developers.facebook.com/docs/graph-api
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import aiohttp

from channels.common.json_answers import BadAnswer, in_between, is_page, read_json
from channels.whatsapp.settings import OFFICIAL

if TYPE_CHECKING:
    from channels.whatsapp.settings import WhatsAppAccount

LARGEST: Final = 4 * 1_048_576
"""Bytes of an answer that is read into memory."""
_FINE: Final = 300
_META: Final = (".fbsbx.com", ".facebook.com", ".fbcdn.net", ".whatsapp.net")


@dataclass
class Refused(Exception):
    """Meta answered with an error. ``code`` is its own number, 0 where the answer holds none.

    ``page``: something between here and Meta answered, and Meta itself has said nothing.
    """

    status: int
    code: int
    text: str
    subcode: int = 0
    page: bool = False

    def __str__(self) -> str:
        """Return the error as Meta words it."""
        if self.page:
            return in_between("Meta", self.status)
        return f"{self.text or 'no reason given'} ({self.code or f'status {self.status}'})"


TROUBLE: Final = (aiohttp.ClientError, TimeoutError, OSError, Refused, BadAnswer)
"""What a request raises."""


class GraphApi:
    """The requests of one account. The token is sent in a header alone, so that no log shows it."""

    def __init__(self, settings: WhatsAppAccount, account: str) -> None:
        self._settings = settings
        self._base = f"{settings.api_root}/{settings.api_version}"
        self._headers = {"Authorization": f"Bearer {settings.secret('access_token', account)}", "User-Agent": "homebody"}
        self._session: aiohttp.ClientSession | None = None

    @property
    def number(self) -> str:
        """Meta's id of the phone number."""
        return self._settings.number

    async def get(self, where: str, **query: str) -> dict[str, Any]:
        """Ask for something, such as ``{number}`` with ``fields``. Raises one of ``TROUBLE``."""
        async with self._asked("GET", f"{self._base}/{where}", params=query) as response:
            return await _read(response)

    async def post(self, where: str, content: Mapping[str, Any]) -> dict[str, Any]:
        """Post an object. Raises one of ``TROUBLE``."""
        body = json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")
        async with self._asked("POST", f"{self._base}/{where}", data=body, kind="application/json") as response:
            return await _read(response)

    async def upload(self, form: aiohttp.FormData, seconds: float) -> str:
        """Upload a file and return its id. Raises one of ``TROUBLE``."""
        async with self._asked("POST", f"{self._base}/{self.number}/media", data=form, seconds=seconds) as response:
            found = await _read(response)
        return str(found["id"])

    @asynccontextmanager
    async def download(self, address: str, seconds: float) -> AsyncIterator[aiohttp.ClientResponse]:
        """Open a file at an address that ``may_see_token``. Redirects are not followed: they would carry the token elsewhere."""
        async with self._asked("GET", address, seconds=seconds) as response:
            yield response

    def may_see_token(self, address: str) -> bool:
        """Return whether the token may go to an address: to Meta over TLS, or to the server that ``apiRoot`` names in its place."""
        try:
            parts, root = urlsplit(address), urlsplit(self._settings.api_root)
            if self._settings.api_root != OFFICIAL:
                return (parts.scheme, parts.netloc) == (root.scheme, root.netloc)
            return parts.scheme == "https" and parts.port in {None, 443} and f".{parts.hostname or ''}".endswith(_META)
        except ValueError:
            return False

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    @asynccontextmanager
    async def _asked(
        self, method: str, address: str, *, kind: str = "", seconds: float | None = None, **more: Any
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        if self._session is None or self._session.closed:
            self._session = aiohttp.ClientSession()
        total = self._settings.timeout_seconds if seconds is None else seconds
        async with self._session.request(
            method,
            address,
            headers={**self._headers, **({"Content-Type": kind} if kind else {})},
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=total, sock_connect=min(total, self._settings.timeout_seconds)),
            **more,
        ) as response:
            yield response


async def _read(response: aiohttp.ClientResponse) -> dict[str, Any]:
    found = await read_json(response, LARGEST)
    if response.status >= _FINE or (isinstance(found, dict) and "error" in found):
        raise refusal(response.status, found)
    if not isinstance(found, dict):
        raise BadAnswer("the answer is no JSON object: is channels.whatsapp.apiRoot the address of Meta's API?")
    return found


def refusal(status: int, found: object) -> Refused:
    """Return the error that an answer holds. The details say more than the title, where there are any."""
    error = found.get("error") if isinstance(found, dict) else None
    fields = error if isinstance(error, dict) else {}
    data = fields.get("error_data")
    details = str(data.get("details") or "") if isinstance(data, dict) else ""
    code, subcode = (one if isinstance(one := fields.get(key), int) else 0 for key in ("code", "error_subcode"))
    page = is_page(status) and not isinstance(found, dict)
    return Refused(status, code, (details or str(fields.get("message") or ""))[:300], subcode, page)
