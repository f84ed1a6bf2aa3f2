"""Holds the current settings and notifies subscribers of changes."""

from __future__ import annotations

from collections.abc import Callable

from gateway.settings.root import Settings

Subscriber = Callable[[Settings, Settings], None]


class SettingsStore:
    """Holds the current settings. Read ``current`` at each use; subscribe only to act on a change.

    Not thread-safe: read and replace on the event loop.
    """

    def __init__(self, settings: Settings) -> None:
        self._current = settings
        self._subscribers: list[Subscriber] = []

    @property
    def current(self) -> Settings:
        """The current settings."""
        return self._current

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call ``subscriber(former, current)`` after each replacement, in the order of subscription."""
        self._subscribers.append(subscriber)

    def replace(self, settings: Settings) -> None:
        """Replace the settings and call the subscribers. Their exceptions propagate to the caller."""
        former, self._current = self._current, settings
        for subscriber in self._subscribers:
            subscriber(former, settings)
