"""Text for a terminal of some width: lines that end between words, and Markdown tables as columns."""

from __future__ import annotations

import textwrap
from itertools import groupby


def wrapped(text: str, columns: int) -> str:
    """Return a text whose lines end between words where a terminal is too narrow. Links and commands stay whole, to be copied."""
    return "\n".join(_wrapped(line, columns) for line in text.split("\n"))


def without_markup(text: str, columns: int) -> str:
    """Return a text with each Markdown table as columns, or, where those are too wide, each row as two lines."""
    parts: list[str] = []
    for is_table, found in groupby(text.split("\n"), key=lambda line: line.startswith("|")):
        lines = list(found)
        parts += _table([_cells(line) for line in lines], columns) if is_table else lines
    return "\n".join(parts)


def _wrapped(line: str, columns: int) -> str:
    if len(line) <= columns or "homebody " in line:
        return line
    indent = " " * (len(line) - len(line.lstrip()))
    return textwrap.fill(line, columns, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def _table(rows: list[list[str]], columns: int) -> list[str]:
    head, marks, *body = rows
    figures = [mark.endswith(":") for mark in marks]
    widths = [max(len(row[place]) for row in (head, *body)) for place in range(len(head))]
    if sum(widths) + 2 * len(widths) - 2 <= columns:
        return [
            "  ".join(
                f"{cell:{'>' if figure else '<'}{wide}}" for cell, figure, wide in zip(row, figures, widths, strict=True)
            ).rstrip()
            for row in (head, *body)
        ]
    lines = []
    for row in body:
        lines.append("  ".join(cell for cell, figure in zip(row, figures, strict=True) if not figure))
        pairs = (f"{name} {cell}" for name, cell, figure in zip(head, row, figures, strict=True) if figure)
        lines.append(f"  {', '.join(pairs)}")
    return lines
