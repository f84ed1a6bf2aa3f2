"""Decides which URLs may be fetched, and takes them apart once: what is judged is what is requested."""

from __future__ import annotations

import re
from ipaddress import IPv4Address
from typing import Final
from urllib.parse import quote, urljoin

from msgspec import Struct
from msgspec.structs import replace

from agent.errors import FetchRefused
from gateway.net.ip_addresses import IPAddress, parsed

MAX_URL: Final = 4000
PORTS: Final = {"http": 80, "https": 443}
_FORBIDDEN: Final = re.compile(r"[\x00-\x20\x7f-\xa0\\\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff\ud800-\udfff]")
"""Characters over which parsers differ: blanks, controls, backslashes, characters of no width."""
_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER: Final = re.compile(r"(?:\d+|0x[0-9a-f]*)")
_LOCAL_NAMES: Final = (
    "localhost",
    "local",
    "internal",
    "intranet",
    "lan",
    "home",
    "corp",
    "private",
    "home.arpa",
    "invalid",
    "onion",
)
"""Names that no public host has (RFC 6761, 6762, 8375, 9476), and those that routers and offices use for their own."""
_PATH_KEPT: Final = "%/:@!$&'()*+,;=~-._?[]"
_OWN_HINT: Final = "only the owner can allow a host of the own network: tools.web.fetch.allowHosts"


class Target(Struct, frozen=True, kw_only=True):
    """A URL that may be asked for, in pieces. ``host`` is a name in ASCII or an address; ``path`` includes the query.

    ``own`` says that the owner allowed this host and port, wherever it is.
    """

    scheme: str
    host: str
    port: int
    path: str
    address: IPAddress | None = None
    own: bool = False

    @property
    def authority(self) -> str:
        """Host and port as a URL and a ``Host`` header have them: without the port that goes without saying."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def place(self) -> str:
        """Host and port, always both."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        """Return the URL in its canonical form, without a fragment."""
        return f"{self.scheme}://{self.authority}{self.path}"


def target_of(url: str, own_hosts: frozenset[str] = frozenset()) -> Target:
    """Judge a URL and take it apart. ``own_hosts`` are those that the owner allowed, as ``host:port``.

    Raises:
        FetchRefused: the message says what is wrong with it.
    """
    target = _parsed(url.strip(" \t\r\n"))
    if target.place in own_hosts:
        return replace(target, own=True)
    _judge(target)
    return target


def place_in(url: str) -> str:
    """Return the ``host:port`` of a URL, wherever that is. Raises FetchRefused for what is no web address."""
    return _parsed(url).place


def _parsed(url: str) -> Target:
    if len(url) > MAX_URL:
        raise FetchRefused(f"the URL is longer than {MAX_URL:,} characters")
    if _FORBIDDEN.search(url):
        raise FetchRefused("the URL holds blanks, control characters or backslashes", hint="write a blank as %20")
    scheme, colon, rest = url.partition(":")
    scheme = scheme.lower()
    if not colon or not rest.startswith("//") or scheme not in PORTS:
        raise FetchRefused(f"{url[:80]!r} is no http or https address", hint="write it in full, with https://")
    rest = rest[2:].partition("#")[0]
    authority = re.split(r"[/?]", rest, maxsplit=1)[0]
    path = rest[len(authority) :]
    if "@" in authority:
        raise FetchRefused("the URL holds a user name or password before the host", hint="leave out what stands before the @")
    host, port = _host_and_port(authority, PORTS[scheme])
    path = quote(path if path.startswith("/") else f"/{path}", safe=_PATH_KEPT)
    return Target(scheme=scheme, host=host, port=port, path=path, address=parsed(host))


def joined(target: Target, location: str) -> str:
    """Return the URL to which an answer redirects, which has yet to be judged."""
    return urljoin(str(target), location.strip(" \t\r\n"))


def place_of(text: str) -> str:
    """Bring ``host:port`` into the form in which targets are compared with it. Raises FetchRefused for anything else."""
    host, port = _host_and_port(text, 0)
    if not port:
        raise FetchRefused(f"{text!r} has no port", hint="write it like nas.lan:8080")
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _host_and_port(authority: str, default: int) -> tuple[str, int]:
    found = re.fullmatch(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::(\d{0,5}))?", authority, flags=re.ASCII)
    if found is None:
        raise FetchRefused(f"{authority[:80]!r} is no host with a port")
    host, port = found[1], int(found[2]) if found[2] else default
    if found[2] and not 0 < port < 1 << 16:
        raise FetchRefused(f"there is no port {port}")
    if host.startswith("["):
        address = parsed(host[1:-1])
        if address is None or isinstance(address, IPv4Address):
            raise FetchRefused(f"{host[:80]} is no IPv6 address")
        return str(address), port
    return _name(host), port


def _name(host: str) -> str:
    """Bring a name into ASCII. An IPv4 address passes in its one usual form only."""
    name = _ascii(host).removesuffix(".")
    if not name:
        raise FetchRefused("the URL has no host")
    labels = name.split(".")
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):  # noqa: PLR2004 (RFC 1035, 3.1)
        raise FetchRefused(f"{host[:80]!r} is no host name")
    if _NUMBER.fullmatch(labels[-1]) and (parsed(name) is None or name != str(parsed(name))):
        raise FetchRefused(f"{host[:80]!r} is an address in an unusual form", hint="write it as four decimal numbers")
    return name


def _ascii(host: str) -> str:
    if host.isascii():
        return host.lower()
    import idna

    try:
        return idna.encode(host[:254], uts46=True).decode("ascii").lower()
    except (idna.IDNAError, UnicodeError) as error:
        raise FetchRefused(f"{host[:80]!r} is no host name: {error}") from error


def _judge(target: Target) -> None:
    if target.port not in PORTS.values():
        raise FetchRefused(f"port {target.port} is not fetched from, only 80 and 443", hint=_OWN_HINT)
    if target.address is not None:
        return  # judged with the answers of DNS, when it is connected to
    if "." not in target.host or any(f".{target.host}".endswith(f".{local}") for local in _LOCAL_NAMES):
        raise FetchRefused(f"{target.host} is a name of a local network", hint=_OWN_HINT)
