"""Opening the sockets of the HTTP surface."""

from __future__ import annotations

import errno
import socket
from typing import Literal

from gateway.base.errors import HomebodyError
from gateway.settings.http import GatewaySettings

_ADDRESSES: dict[Literal["loopback", "lan"], tuple[str, str]] = {"loopback": ("127.0.0.1", "::1"), "lan": ("0.0.0.0", "::")}  # noqa: S104 - `lan` is chosen in the settings
_NO_IPV6 = frozenset({errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT})
_BACKLOG = 128


def open_sockets(settings: GatewaySettings) -> list[socket.socket]:
    """Listen as the settings say, on IPv4 and, where the machine has it, on IPv6; both under one port.

    Raises HomebodyError that names the port and the setting when the port is taken or not allowed.
    """
    four, six = _ADDRESSES[settings.bind]
    first = _listen(socket.AF_INET, four, settings.port)
    port: int = first.getsockname()[1]
    try:
        return [first, _listen(socket.AF_INET6, six, port)]
    except OSError as error:
        # A port that was chosen freely may be taken on the other family; then IPv4 serves alone.
        if error.errno in _NO_IPV6 or (settings.port == 0 and error.errno == errno.EADDRINUSE):
            return [first]
        first.close()
        raise _not_opened(error, six, port) from error


def _listen(family: socket.AddressFamily, address: str, port: int) -> socket.socket:
    plug = None
    try:
        plug = socket.socket(family, socket.SOCK_STREAM)
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            plug.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        plug.bind((address, port))
        plug.listen(_BACKLOG)
        plug.setblocking(False)  # noqa: FBT003 - the standard library's signature
    except OSError as error:
        if plug is not None:
            plug.close()
        if family == socket.AF_INET6:
            raise
        raise _not_opened(error, address, port) from error
    return plug


def _not_opened(error: OSError, address: str, port: int) -> HomebodyError:
    where = "gateway.port"
    if error.errno == errno.EADDRINUSE:
        hint = "Stop the program that uses it, or set gateway.port to another one (homebody config set gateway.port 18791)."
        return HomebodyError(f"port {port} on {address} is taken", where=where, hint=hint)
    if error.errno == errno.EACCES:
        hint = "Set gateway.port to a port above 1023 (homebody config set gateway.port 18790)."
        return HomebodyError(f"port {port} on {address} is reserved for the system", where=where, hint=hint)
    hint = "Set gateway.bind to loopback, or mend the network of this machine."
    return HomebodyError(f"port {port} on {address} could not be opened: {error.strerror}", where=where, hint=hint)
