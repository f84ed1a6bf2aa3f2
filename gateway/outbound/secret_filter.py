"""Redacts known secrets in replies, captions, blocks and previews, and tells the owner."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from gateway.logs.redaction import Redactor

SHORTEST: Final = 8
SAFE_AT: Final = 16
"""Values of this length are always redacted; shorter ones only if they do not look like a word."""


class SecretFilter:
    """Redacts known secrets in outgoing text, in all forms that the logs redact.

    ``tell`` gets one sentence for the owner per conversation in which something was redacted; it never contains the secret.
    """

    def __init__(self, redactor: Redactor, tell: Callable[[str], None] = lambda _: None) -> None:
        self._redactor = redactor
        self._tell = tell

    def text(self, text: str, where: str = "", *, quietly: bool = False) -> str:
        """Return the redacted text for ``where``."""
        clean = self._redactor.text(text)
        if clean != text and not quietly:
            place = where or "a conversation"
            self._tell(
                f"I removed a secret of this machine (a key, token or password) from a reply to {place}. "
                "If it may have been disclosed elsewhere, change it."
            )
        return clean


def telling_apart(secrets: Iterable[str]) -> list[str]:
    """Return the secrets that cannot be ordinary words: long ones, or with several kinds of characters."""
    return [one for one in secrets if len(one) >= SAFE_AT or (len(one) >= SHORTEST and _kinds(one) > 1)]


def _kinds(text: str) -> int:
    tests = (str.islower, str.isupper, str.isdigit, lambda letter: not letter.isalnum())
    return sum(any(test(letter) for letter in text) for test in tests)
