"""The client-server API of a homeserver over HTTP. Importing this module loads aiohttp.

Each request is made once: whether and when to repeat it is decided by its caller, which knows whether a repetition is harmless.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

import aiohttp

from channels.common.json_answers import BadAnswer, in_between, is_page, read_json
from channels.waits import seconds_to_wait

V3: Final = "/_matrix/client/v3"
V1_MEDIA: Final = "/_matrix/client/v1/media"
OLD_MEDIA: Final = "/_matrix/media/v3"
LARGEST: Final = 64 * 1_048_576
"""Bytes of a response that is read into memory."""
_FINE, _SERVER_FAILS = 300, 500


@dataclass
class Refused(Exception):
    """The homeserver answered with an error."""

    status: int
    code: str
    text: str
    retry_after: float | None = None
    body: Mapping[str, Any] = field(default_factory=dict)
    page: bool = False
    """Something between here and the homeserver answered: the homeserver itself has said nothing."""

    def __str__(self) -> str:
        """Return the error as the homeserver words it."""
        if self.page:
            return in_between("the homeserver", self.status)
        return f"{self.text or 'no reason given'} ({self.code or self.status})"

    @property
    def passing(self) -> bool:
        """Whether the same request may succeed later: the server fails, or asks to wait, or did not answer itself."""
        return self.page or self.status >= _SERVER_FAILS or self.code == "M_LIMIT_EXCEEDED"


TROUBLE: Final = (aiohttp.ClientError, TimeoutError, OSError, Refused, BadAnswer)
"""What a request raises."""


def path(*parts: str) -> str:
    """Return a path below the API of its parts, each of which may hold any character."""
    return V3 + "".join(f"/{quote(part, safe='')}" for part in parts)


class MatrixHttp:
    """The requests of one account. ``token`` may be set later; it is sent in a header alone, so that no log shows it."""

    def __init__(self, server: str, timeout: float, token: str = "") -> None:
        self._server = server
        self._timeout = timeout
        self.token = token
        self._session: aiohttp.ClientSession | None = None

    async def ask(
        self,
        method: str,
        where: str,
        content: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, str] | None = None,
        seconds: float | None = None,
    ) -> dict[str, Any]:
        """Make a request and return the object that answers it. Raises one of ``TROUBLE``."""
        body = None if content is None else json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()
        async with self.open(method, where, body, query=query, seconds=seconds) as response:
            return await _read(response)

    @asynccontextmanager
    async def open(
        self,
        method: str,
        where: str,
        body: Any = None,
        *,
        media_type: str = "application/json",
        query: Mapping[str, str] | None = None,
        seconds: float | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Open a response. Redirects are not followed: they would carry the token to somewhere else."""
        if self._session is None or self._session.closed:
            self._session = aiohttp.ClientSession()
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        if body is not None:
            headers["Content-Type"] = media_type
        async with self._session.request(
            method,
            self._server + where,
            data=body,
            params=query,
            headers=headers,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=self._timeout if seconds is None else seconds),
        ) as response:
            yield response

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()


async def _read(response: aiohttp.ClientResponse) -> dict[str, Any]:
    found = await read_json(response, LARGEST)
    if response.status >= _FINE:
        raise refusal(response.status, found, response.headers.get("Retry-After"))
    if not isinstance(found, dict):
        raise BadAnswer("the answer is not a JSON object: is channels.matrix.homeserver the address of a homeserver?")
    return found


def event_of(answer: Mapping[str, Any]) -> str:
    """Return the id of the event that a request sent. Raises BadAnswer where the answer has none."""
    found = answer.get("event_id")
    if not isinstance(found, str):
        raise BadAnswer("the homeserver's answer does not say which event was sent")
    return found


def refusal(status: int, found: object, retry_after: str | None = None) -> Refused:
    """Return the error that a response holds."""
    fields = found if isinstance(found, dict) else {}
    wait = seconds_to_wait(fields.get("retry_after_ms"), unit=0.001)
    if wait is None:
        wait = seconds_to_wait(retry_after)
    page = is_page(status) and not isinstance(found, dict)
    return Refused(status, str(fields.get("errcode") or ""), str(fields.get("error") or "")[:300], wait, fields, page)
