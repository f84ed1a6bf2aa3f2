"""The settings in force, and who wants to know when they change."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.settings.root import Settings

    Subscriber = Callable[[Settings, Settings], None]


class SettingsStore:
    """Holds the settings in force. Read ``current`` at each use; subscribe only where a change has to be acted upon.

    Not thread-safe: read and replace on the event loop.
    """

    def __init__(self, settings: Settings) -> None:
        self._current = settings
        self._subscribers: list[Subscriber] = []

    @property
    def current(self) -> Settings:
        """The settings in force."""
        return self._current

    def subscribe(self, subscriber: Subscriber) -> None:
        """Have ``subscriber(former, current)`` called after each replacement, in the order of subscription."""
        self._subscribers.append(subscriber)

    def replace(self, settings: Settings) -> None:
        """Put other settings in force and tell the subscribers. What one of them raises reaches the caller."""
        former, self._current = self._current, settings
        for subscriber in self._subscribers:
            subscriber(former, settings)
