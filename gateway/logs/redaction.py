"""Redaction of known secrets by exact value, not by patterns, which could damage other text.

What is left out of the log alone, by whatever rule, is a step of ``gateway.logs.log_processors``.
"""

from __future__ import annotations

import base64
import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

from gateway.config.secrets import passwords_in

REDACTED = "[secret]"
SHORTEST = 6  # a shorter one would black out ordinary words, and is no secret for long
_SECRET_NAME = re.compile(
    r"(?:^|_)(?:API_?KEY|KEY|ACCESS_?KEY_?ID|TOKEN|SECRET|PASSWORD|PASSWD|PASS|PW|PASSPHRASE|CREDENTIAL|JWT|AUTH|BEARER|REFRESH|PIN"
    r"|COOKIE|DSN|DATABASE_URL|CONNECTION_STRING|PRIVATE)S?(?:_\d+)?$",
    re.IGNORECASE,
)

_LISTED = re.compile(r"[,;\s]+")  # several keys in one variable


class Redactor:
    """Redacts known secrets in texts, also in their URL-quoted and base64-encoded forms.

    It may be taught at any time and from any thread. It satisfies what other rooms ask of it: ``text(str) -> str``.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._forms: frozenset[str] = frozenset()
        self.pattern = re.compile(r"(?!)")
        """Finds every form of every secret; nothing while none is known."""
        self._sorted: list[str] = []
        self._longest = 1
        self.learn(secrets)

    def learn(self, secrets: Iterable[str]) -> None:
        """Take further secrets in. Those of fewer than SHORTEST characters are passed over."""
        forms = self._forms | {form for secret in secrets if len(secret) >= SHORTEST for form in _forms(secret)}
        if forms != self._forms:
            longest_first = sorted(forms, key=len, reverse=True)
            self.pattern = re.compile("|".join(map(re.escape, longest_first)))
            self._forms = forms
            self._sorted = sorted(forms)
            self._longest = len(longest_first[0])

    def text(self, text: str) -> str:
        """Return the text with every secret replaced by ``[secret]``."""
        return self.pattern.sub(REDACTED, text)

    def unfinished(self, text: str) -> int:
        """Return how many characters at the end of a text may be the beginning of a secret whose rest is still to come."""
        for length in range(min(len(text), self._longest - 1), 0, -1):
            start = text[-length:]
            place = bisect_left(self._sorted, start)
            if place < len(self._sorted) and self._sorted[place].startswith(start):
                return length
        return 0

    def after_cut(self, text: str) -> str:
        """Redact a text whose beginning was cut off: what may be the rest of a secret there is left out."""
        if not self._forms or not text:
            return text
        at = min(len(text), self._longest - 1)
        for found in self.pattern.finditer(text):
            if found.start() < at < found.end():
                at = found.end()
        return self.text(text[at:])

    def anywhere(self, value: Any) -> Any:
        """Return a copy in which every string, keys too, went through ``text``; what is no JSON value becomes text first."""
        if isinstance(value, str):
            return self.text(value)
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, dict):
            return {self.text(str(key)): self.anywhere(child) for key, child in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self.anywhere(child) for child in value]
        if isinstance(value, bytes | bytearray):
            return self.text(bytes(value).decode("utf-8", "backslashreplace"))
        return self.text(_shown(value))


def secrets_in(env: Mapping[str, str]) -> Iterator[str]:
    """Yield the values of those environment variables whose names say that they are secret, and each of several in one.

    The password of an address, such as ``postgres://ann:PASSWORD@host``, is one whatever the name.
    """
    for name, value in env.items():
        yield from passwords_in(value)
        if _SECRET_NAME.search(name):
            yield value
            yield from (part for part in _LISTED.split(value) if part and part != value)


def _shown(value: Any) -> str:
    try:
        return str(value)
    except Exception as error:  # noqa: BLE001 -- any class may have a __str__ that fails, and a log line must not
        return f"<{type(value).__name__} that cannot be shown: {type(error).__name__}>"


def _forms(secret: str) -> Iterator[str]:
    """Yield the secret and what it looks like in URLs, in quoted text, and within base64 (which depends on where it begins)."""
    yield from {secret, quote(secret, safe=""), quote(secret), quote_plus(secret)}
    yield from {json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], repr(secret)[1:-1]}
    raw = secret.encode("utf-8", "surrogatepass")
    for offset in range(3):
        cut = (offset * 8 + 5) // 6  # the first characters also depend on what stands before
        whole = (offset + len(raw)) * 8 // 6  # and the last on what follows
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            core = encode(b"\0" * offset + raw).decode()[cut:whole]
            if len(core) >= SHORTEST:
                yield core
