"""Pieces of Markdown that fit a platform's message once they are written in the platform's own notation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from channels.common.chunking import SMALLEST, cut
from channels.common.markdown import styled
from channels.common.styled_text import plain

if TYPE_CHECKING:
    from collections.abc import Callable


def fitted(
    markdown: str, limit: int, written: Callable[[str], str], *, lines: int | None = None, apart: bool = False
) -> list[str]:
    """Cut a reply so that no piece is longer than ``limit`` once ``written``, nor shows more than ``lines`` lines.

    Marks and escapes make a text longer, and short lines make it taller, so a piece that is over is cut again with less room
    until it fits. ``apart`` is that of ``cut``. The smallest room, 16 letters, may hold as many lines, so fewer cannot be promised.
    """
    return [piece for part in cut(markdown, limit, len, apart=apart) for piece in _fitting(part, limit, limit, written, lines)]


def _fitting(piece: str, room: int, limit: int, written: Callable[[str], str], lines: int | None) -> list[str]:
    tall = lines_of(piece)
    too_tall = lines is not None and tall > lines
    if room <= SMALLEST or (not too_tall and len(written(piece)) <= limit):
        return [piece]
    room = room * 3 // 4
    if lines is not None and too_tall:
        room = min(room, len(plain(styled(piece))) * lines // tall)
    room = max(SMALLEST, room)
    return [small for part in cut(piece, room, len) for small in _fitting(part, room, limit, written, lines)]


def lines_of(piece: str) -> int:
    """Return how many lines a reader sees, those that only mark a code block left out."""
    return plain(styled(piece)).count("\n") + 1
