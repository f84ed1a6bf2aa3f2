"""An IMAP server that does what dovecot never does: it hangs, dies, floods, lies about sizes, or lacks what most servers have."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

HEADER = b"From: Anna <anna@example.org>\r\nSubject: hello\r\n\r\n"


class MoodyImap:
    """One mailbox with ``count`` mails. ``mood``: see ``_moody``. ``capabilities`` are what it offers."""

    def __init__(self, mood: str = "", *, capabilities: str = "IMAP4rev1 AUTH=PLAIN", count: int = 3) -> None:
        self.mood, self.capabilities, self.count = mood, capabilities, count
        self.validity = 7
        self.connections = 0
        self.commands: list[str] = []
        self._stopping = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._threads: list[threading.Thread] = []

    @contextlib.contextmanager
    def serving(self) -> Iterator[MoodyImap]:
        accepting = threading.Thread(target=self._accept, daemon=True)
        accepting.start()
        try:
            yield self
        finally:
            self._stopping.set()
            self._listener.close()

    def _accept(self) -> None:
        while not self._stopping.is_set():
            try:
                one, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._talk, args=[one], daemon=True).start()

    def _talk(self, one: socket.socket) -> None:
        with contextlib.suppress(OSError), one, one.makefile("rb") as lines:
            if self.mood == "silent":
                self._stopping.wait()
            one.sendall(b"* OK ready\r\n")
            for line in lines:
                tag, _, rest = line.decode("utf-8", "replace").strip().partition(" ")
                self.commands.append(rest)
                if not self._answer(one, tag, rest):
                    return

    def _answer(self, one: socket.socket, tag: str, rest: str) -> bool:
        word = rest.upper().removeprefix("UID ").split(" ")[0]
        if self._moody(one, tag, word):
            return self.mood not in {"dies in fetch", "hangs up"}
        told = {
            "CAPABILITY": f"* CAPABILITY {self.capabilities}\r\n",
            "LIST": '* LIST (\\HasNoChildren) "/" "INBOX"\r\n',
            "STATUS": f"* STATUS INBOX (MESSAGES {self.count} UNSEEN {self.count})\r\n",
            "SEARCH": "* SEARCH " + " ".join(map(str, range(1, self.count + 1))) + "\r\n",
        }.get(word, "")
        if word in {"SELECT", "EXAMINE"}:
            told = f"* {self.count} EXISTS\r\n* OK [UIDVALIDITY {self.validity}] x\r\n* OK [UIDNEXT {self.count + 1}] x\r\n"
        if word == "FETCH":
            for number in range(1, self.count + 1):
                items = (
                    f"* {number} FETCH (UID {number} FLAGS () RFC822.SIZE 99 BODY[HEADER.FIELDS (FROM)] {{{len(HEADER)}}}\r\n"
                )
                one.sendall(items.encode() + HEADER + b")\r\n")
        one.sendall(told.encode() + f"{tag} OK done\r\n".encode())
        return True

    def _moody(self, one: socket.socket, tag: str, word: str) -> bool:
        """Misbehave if it is time to, and return whether that was the answer."""
        at, what = {
            "refuses login": ("LOGIN", b"%s NO [AUTHENTICATIONFAILED] no\r\n"),
            "dies in fetch": ("FETCH", b"* 1 FETCH (UID 1 BODY[HEADER] {500}\r\nFrom: a"),
            "hangs up": ("SELECT EXAMINE", b""),
            "huge literal": ("FETCH", b"* 1 FETCH (UID 1 BODY[HEADER] {99999999999}\r\nx"),
            "endless line": ("SEARCH", b"* SEARCH "),
            "floods": ("SELECT EXAMINE", b""),
            "nonsense": ("FETCH", b'* 1 FETCH (UID 1 ((((("\r\n%s OK x\r\n'),
            "garbage": ("SELECT EXAMINE", b"HTTP/1.1 400 Bad Request\r\n\r\n"),
            "hangs": ("SELECT EXAMINE", b""),
        }.get(self.mood, ("", b""))
        if word not in at.split():
            return False
        one.sendall(what.replace(b"%s", tag.encode()))
        while self.mood == "endless line" and not self._stopping.is_set():
            one.sendall(b"1 " * 50_000)
        while self.mood == "floods" and not self._stopping.is_set():
            one.sendall(b"* 1 EXISTS\r\n" * 10_000)
        return True
