"""Addresses in text, in a form in which equal ones compare equal."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit, urlunsplit

_URL: Final = re.compile(r"https?://[^\s<>\"'`\\{}|^\x00-\x20\x7f]+", re.IGNORECASE)
_TAIL: Final = ".,;:!?…*_~”’»"
_PAIRS: Final = {")": "(", "]": "["}
_DEFAULT: Final = {"http": 80, "https": 443}


def urls_in(text: str) -> Iterator[str]:
    """Yield the addresses that a text holds, in normal form, without the punctuation behind them."""
    for found in _URL.findall(text):
        url = found
        while url and (url[-1] in _TAIL or (url[-1] in _PAIRS and url.count(url[-1]) > url.count(_PAIRS[url[-1]]))):
            url = url[:-1]
        if plain := normal_url(url):
            yield plain


def normal_url(url: str) -> str:
    """Return an address with scheme and host in small letters, without fragment and default port; empty for what is none."""
    try:
        parts = urlsplit(url.strip())
        host, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        return ""
    scheme = parts.scheme.lower()
    if scheme not in _DEFAULT or not host:
        return ""
    place = f"[{host}]" if ":" in host else host
    user, at, _ = parts.netloc.rpartition("@")
    netloc = f"{user}{at}{place}" + (f":{port}" if port not in {None, _DEFAULT[scheme]} else "")
    return urlunsplit((scheme, netloc, parts.path or "/", parts.query, ""))


def front_page(url: str) -> str:
    """Return the first page of the server that an address in normal form names."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], "/", "", ""))
