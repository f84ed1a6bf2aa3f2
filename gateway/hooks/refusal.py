"""Why a call of a hook is not taken."""

from __future__ import annotations


class HookRefused(Exception):
    """An answer to a call that was not taken. ``status`` is HTTP's, ``reason`` a fixed word for programs, ``hint`` a step for people.

    ``retry_after`` is in seconds, None where a repeat would not help.
    """

    def __init__(self, status: int, reason: str, error: str, hint: str, *, retry_after: int | None = None) -> None:
        super().__init__(error)
        self.status = status
        self.reason = reason
        self.hint = hint
        self.retry_after = retry_after
