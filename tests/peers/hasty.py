"""The clock of the published rules, for tests that need its haste alone."""

from __future__ import annotations

from channels.testing import FastClock

__all__ = ["FastClock"]
