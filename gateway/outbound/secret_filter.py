"""Secrets of the house in what goes out: they are taken out of every reply, caption, block and preview, and the owner is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gateway.logs.redaction import Redactor

SHORTEST: Final = 8
SAFE_AT: Final = 16
"""From this length on, a value counts as a secret whatever its characters: it is no word of anybody's."""


class SecretFilter:
    """Checks outgoing text against the secrets that the house knows, in every form in which the logs know them.

    ``tell`` gets one sentence for the owner for each place where something was held back; it never holds the secret.
    """

    def __init__(self, redactor: Redactor, tell: Callable[[str], None] = lambda _: None) -> None:
        self._redactor = redactor
        self._tell = tell

    def text(self, text: str, where: str = "", *, quietly: bool = False) -> str:
        """Return the text as it may go out to ``where``."""
        clean = self._redactor.text(text)
        if clean != text and not quietly:
            self._tell(
                f"I held back a secret of this machine (a key, token or password) that an answer to {where or 'a conversation'} "
                "contained. If it was ever said elsewhere, change it."
            )
        return clean


def telling_apart(secrets: Iterable[str]) -> list[str]:
    """Return those secrets that cannot be ordinary words of a reply: long, or of several kinds of characters."""
    return [one for one in secrets if len(one) >= SAFE_AT or (len(one) >= SHORTEST and _kinds(one) > 1)]


def _kinds(text: str) -> int:
    tests = (str.islower, str.isupper, str.isdigit, lambda letter: not letter.isalnum())
    return sum(any(test(letter) for letter in text) for test in tests)
