"""A stream of messages that stands before another one and looks at what it receives."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self


class WrappedStream:
    """Passes on to ``stream`` what the SDK asks of one, but for receiving."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    @property
    def last_context(self) -> Any:
        """The context of what was received last, which transports over HTTP have."""
        return getattr(self._stream, "last_context", None)

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        """Return itself."""
        return self

    async def __aenter__(self) -> Self:
        """Enter the stream."""
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        """Leave the stream."""
        done: bool | None = await self._stream.__aexit__(kind, error, trace)
        return done
