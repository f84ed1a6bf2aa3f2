"""A clock whose sleepers wake at once; it keeps what they asked for."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta


class HastyClock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def now(self) -> datetime:
        return datetime(2026, 5, 1, 9, tzinfo=UTC) + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return sum(self.slept)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)
