"""The logger interface of channels; the gateway passes a structlog logger."""

from __future__ import annotations

from typing import Any, Protocol


class Log(Protocol):
    """Logs an event with its values."""

    def info(self, event: str, **facts: Any) -> Any:
        """Log normal operation."""
        ...

    def warning(self, event: str, **facts: Any) -> Any:
        """Log what the owner may want to look at."""
        ...


class NoLog:
    """Logs nothing."""

    def info(self, event: str, **facts: Any) -> None:
        """Do nothing."""

    def warning(self, event: str, **facts: Any) -> None:
        """Do nothing."""
