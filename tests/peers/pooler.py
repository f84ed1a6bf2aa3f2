"""A connection pooler in front of PostgreSQL: in transaction mode all its clients share one session of the server, in turn."""

from __future__ import annotations

import socket
import struct
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_READY = b"Z"


class Pooler:
    """Listens at ``place`` for the server at the socket ``server``. A client has a session for a transaction, or while it stays."""

    def __init__(self, place: Path, server: Path, startup: dict[str, str], *, by_transaction: bool) -> None:
        self._server = server
        self._startup = b"".join(f"{name}\0{value}\0".encode() for name, value in startup.items()) + b"\0"
        self._session = self._new_session() if by_transaction else None
        self._free = threading.Lock()  # of the session that all share
        self._clients = 0
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(place))
        self._listening.listen(5)
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listening.close()
        if self._session is not None:
            self._session[0].close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _new_session(self) -> tuple[socket.socket, bytes]:
        """Log in, and return the session and what the server says of itself, but for the number of the session."""
        server = socket.socket(socket.AF_UNIX)
        server.connect(str(self._server))
        server.sendall(struct.pack(">II", len(self._startup) + 8, 196_608) + self._startup)
        said = b""
        while True:
            kind, whole = _message(server)
            said += whole if kind in b"RS" else b""
            if kind == _READY:
                return server, said

    def _serve(self, client: socket.socket) -> None:
        with client:
            while _startup(client) != 196_608:  # it asks for encryption
                client.sendall(b"N")
            server, said = self._session or self._new_session()
            self._clients += 1
            number = struct.pack(">IIII", 12, 1_000_000 + self._clients, 4711, 0)[:12]
            client.sendall(said + b"K" + number + b"Z" + struct.pack(">I", 5) + b"I")
            try:
                free = self._free if self._session else threading.Lock()
                while self._transaction(client, server, free):
                    pass
            except OSError:
                pass
            if self._session is None:
                server.close()

    def _transaction(self, client: socket.socket, server: socket.socket, free: threading.Lock) -> bool:
        """Carry the messages of one transaction; return False when the client leaves."""
        held = False
        try:
            while True:
                kind, whole = _message(client)
                if kind in (b"X", b""):
                    if held:
                        server.sendall(b"Q" + struct.pack(">I", 13) + b"ROLLBACK\0")
                        _until_ready(server)
                    return False
                held = held or free.acquire()
                server.sendall(whole)
                if kind not in b"QS":  # the server answers when it has the rest
                    continue
                said, state = _until_ready(server)
                client.sendall(said)
                if state == b"I":
                    return True
        finally:
            if held:
                free.release()


def _until_ready(server: socket.socket) -> tuple[bytes, bytes]:
    said = b""
    while True:
        kind, whole = _message(server)
        said += whole
        if kind == _READY:
            return said, whole[-1:]


def _startup(client: socket.socket) -> int:
    length, code = struct.unpack(">II", _exactly(client, 8))
    _exactly(client, length - 8)
    return int(code)


def _message(of: socket.socket) -> tuple[bytes, bytes]:
    """Return the kind of a message and all of it; nothing where the other side is gone."""
    head = _exactly(of, 5)
    if len(head) < 5:
        return b"", b""
    return head[:1], head + _exactly(of, struct.unpack(">I", head[1:])[0] - 4)


def _exactly(of: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count and (more := of.recv(count - len(data))):
        data += more
    return data
