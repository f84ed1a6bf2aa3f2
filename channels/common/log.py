"""A log as this room needs it; the gateway hands a structlog logger in."""

from __future__ import annotations

from typing import Any, Protocol


class Log(Protocol):
    """An event and its facts."""

    def info(self, event: str, **facts: Any) -> Any:
        """Note what went as it should."""
        ...

    def warning(self, event: str, **facts: Any) -> Any:
        """Note what the owner may want to look at."""
        ...


class NoLog:
    """Keeps nothing."""

    def info(self, event: str, **facts: Any) -> None:
        """Forget it."""

    def warning(self, event: str, **facts: Any) -> None:
        """Forget it."""
