"""What the web tools need from a fetcher."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

SECONDS = 30.0
MAX_REDIRECTS = 3


class FetchRequest(Struct, frozen=True, kw_only=True):
    """One request. It is sent without cookies, and without any credentials but those in ``headers``.

    ``limit_of`` says for a media type such as "text/html" how many bytes of a body, unpacked, are read at most; 0 refuses the type.
    ``seconds`` bounds all of it: names, redirects and body. ``own_hosts`` are hosts (``host:port``) that may be asked although they are not
    public; a page elsewhere cannot redirect to them. With ``same_host`` redirects lead to the same scheme, host and port alone, because
    the request carries credentials; those of requests that only read are followed whatever their method.
    ``step_seconds`` is how long a single read or write may take; None: what is usual.
    """

    url: str
    limit_of: Callable[[str], int]
    accept: str = "*/*"
    seconds: float = SECONDS
    max_redirects: int = MAX_REDIRECTS
    method: str = "GET"
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    own_hosts: frozenset[str] = frozenset()
    same_host: bool = False
    step_seconds: float | None = None


class Fetched(Struct, frozen=True, kw_only=True):
    """An answer. ``url`` is where it came from, after redirects; ``media_type`` and ``charset`` are in small letters, "" if not said.

    ``cut`` says why the body is not whole, or is empty. ``wait`` is what a ``Retry-After`` header says, in seconds; None without one.
    ``etag`` is the ``ETag`` header as it was sent, and ``challenge`` what ``WWW-Authenticate`` headers say about how to log in.
    """

    url: str
    status: int
    media_type: str = ""
    charset: str = ""
    body: bytes = b""
    cut: str = ""
    wait: int | None = None
    etag: str = ""
    challenge: str = ""


class Fetcher(Protocol):
    """Fetches from addresses that a model or a stranger chose, and keeps to public ones."""

    def refuses(self, url: str, own_hosts: frozenset[str] = frozenset()) -> bool:
        """Whether the address alone shows that it will not be fetched. Looks up and sends nothing."""
        ...

    async def fetch(self, request: FetchRequest) -> Fetched:
        """Send a request and follow redirects.

        Raises:
            FetchRefused: an address may not be fetched.
            FetchFailed: there was no complete answer in time, or it is of a type or size that is refused.
        """
        ...
