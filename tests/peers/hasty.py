"""The clock of the published rules, for tests that need its haste alone."""

from __future__ import annotations

from channels.conformance import HastyClock

__all__ = ["HastyClock"]
