"""Stands between a client and a server on unix sockets, and cuts the line before or after a message of the client."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class CutLine:
    """A line to the socket ``server``. It breaks at message number ``cut`` of all connections; ``heard``: that reaches the server."""

    def __init__(self, place: Path, server: Path) -> None:
        self.server = server
        self.messages = 0
        self.cut = 0
        self.heard = False
        self.broken = 0
        self.broke = threading.Event()
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(place))
        self._listening.listen(5)
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(str(self.server))
            except OSError:  # nobody is there
                client.close()
                server.close()
                continue
            threading.Thread(target=self._carry, args=(client, server), daemon=True).start()

    def _carry(self, client: socket.socket, server: socket.socket) -> None:
        with client, server:
            back = threading.Thread(target=self._to_client, args=(client, server), daemon=True)
            back.start()
            self._to_server(client, server)
            back.join()

    def _to_server(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(65_536):
                self.messages += 1
                cuts = self.messages == self.cut
                if cuts:
                    self.broken += 1
                    _end(client)  # what the server answers is lost
                    self.broke.set()
                if self.heard or not cuts:
                    server.sendall(data)
                if cuts:
                    break
        _end(client)
        _end(server)

    def _to_client(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(65_536):
                client.sendall(data)
        _end(client)
        _end(server)


def _end(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
