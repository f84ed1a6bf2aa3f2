"""Progress bars for long-running commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TextIO

_BAR = 30
_MEGABYTE = 1_000_000


class Bar:
    """A progress bar on a terminal; silent elsewhere."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._shown = 0

    def show(self, what: str, done: int, total: int) -> None:
        """Redraw it."""
        if total:
            self._draw(what, done / total, f"{done}/{total}")

    def download(self, name: str, done: int, total: int | None) -> None:
        """Redraw it for a download; ``total`` is 0 if unknown."""
        size = f"{done / _MEGABYTE:.0f} MB" + (f" of {total / _MEGABYTE:.0f}" if total else "")
        self._draw(f"downloading {name}", done / total if total else 0.0, size)

    def end(self) -> None:
        """End the line."""
        if self._shown:
            self._stream.write("\n")
        self._shown = 0

    def _draw(self, what: str, share: float, figures: str) -> None:
        if not self._stream.isatty():
            return
        filled = min(_BAR, int(_BAR * share))
        line = f"{what:8} [{'#' * filled}{'.' * (_BAR - filled)}] {figures}"
        self._stream.write(f"\r{line:{self._shown}}")
        self._stream.flush()
        self._shown = len(line)
