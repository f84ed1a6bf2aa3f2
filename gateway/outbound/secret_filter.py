"""Withholds known secrets from replies, captions, blocks, previews, files and tool arguments, and tells the owner."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from gateway.logs.secret_scanner import SecretScanner

SHORTEST: Final = 8
SAFE_AT: Final = 16
"""Values of this length are always redacted; shorter ones only if they do not look like a word."""


class SecretFilter:
    """Withholds known secrets, however they are written (``gateway.logs.secret_scanner``).

    ``tell`` gets one sentence for the owner per conversation in which something was withheld; it never contains the secret.
    """

    def __init__(self, scanner: SecretScanner, tell: Callable[[str], None] = lambda _: None) -> None:
        self._scanner = scanner
        self._tell = tell

    def text(self, text: str, where: str = "", *, before: str = "", quietly: bool = False) -> str:
        """Return the redacted text for ``where``. ``before`` is what was sent there just before, which it may continue."""
        clean = self._scanner.text(text, before)
        if clean != text and not quietly:
            place = where or "a conversation"
            self._tell(
                f"I removed a secret of this machine (a key, token or password) from a reply to {place}. "
                "If it may have been disclosed elsewhere, change it."
            )
        return clean

    def safe_end(self, text: str) -> int:
        """Return up to where a text that is still being written can be sent: what may be the beginning of a secret waits for more."""
        return self._scanner.safe_end(text)

    def file(self, name: str, data: bytes) -> bool:
        """Whether a file may not be sent because it holds a secret. Blocks."""
        if not self._scanner.holds_bytes(data) and not self._scanner.holds(name):
            return False
        self._tell(
            f"I did not send the file {self._scanner.text(name)}: it holds a secret of this machine (a key, token or password)."
        )
        return True

    def call(self, tool: str, arguments: str) -> bool:
        """Whether a tool call that reaches outside may not run because its arguments hold a secret."""
        if not self._scanner.holds(arguments):
            return False
        self._tell(f"I did not run {tool}: its arguments hold a secret of this machine (a key, token or password).")
        return True


def telling_apart(secrets: Iterable[str]) -> list[str]:
    """Return the secrets that cannot be ordinary words: long ones, or with several kinds of characters."""
    return [one for one in secrets if len(one) >= SAFE_AT or (len(one) >= SHORTEST and _kinds(one) > 1)]


def _kinds(text: str) -> int:
    tests = (str.islower, str.isupper, str.isdigit, lambda letter: not letter.isalnum())
    return sum(any(test(letter) for letter in text) for test in tests)
