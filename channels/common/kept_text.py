"""Two rules of CommonMark that lose what a model wrote, bent: cells beyond a table's head, and asterisks between figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline


def keep_text(parser: MarkdownIt) -> MarkdownIt:
    """Make a parser with tables keep all cells of a row, and show ``3*4*5`` as it is written."""
    from markdown_it.rules_block import table as table_rule

    def table(state: StateBlock, start: int, end: int, silent: bool) -> bool:
        first = len(state.tokens)
        found = table_rule(state, start, end, silent)
        if found and not silent:
            _fill_last_cells(state, first)
        return found

    parser.block.ruler.at("table", table, {"alt": ["paragraph", "reference"]})
    parser.inline.ruler.before("emphasis", "times", _times)
    return parser


def _times(state: StateInline, silent: bool) -> bool:
    """Take asterisks between two figures as they are: that is a product or a power."""
    start = end = state.pos
    while end < state.posMax and state.src[end] == "*":
        end += 1
    if start == 0 or end in (start, state.posMax) or not (state.src[start - 1].isdigit() and state.src[end].isdigit()):
        return False
    if not silent:
        state.pending += state.src[start:end]
    state.pos = end
    return True


def _fill_last_cells(state: StateBlock, first: int) -> None:
    """Put what stands beyond the head's cells into the last cell of each row of a table, which begins with the token ``first``."""
    from markdown_it.rules_block.table import escapedSplit  # as the rule itself splits a row

    tokens = state.tokens[first:]
    starts = [n for n, token in enumerate(tokens) if token.type == "tr_open"]
    for begin, stop in zip(starts, [*starts[1:], len(tokens)], strict=True):
        cells = [token for token in tokens[begin:stop] if token.type == "inline"]
        line = (tokens[begin].map or [0])[0]
        row = escapedSplit(state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]].strip())
        row = row[1:] if row and not row[0] else row
        row = row[:-1] if row and not row[-1] else row
        if len(row) > len(cells):
            for cell, text in zip(cells, _joined(row, len(cells)), strict=True):
                cell.content = text.strip()


def _joined(row: Sequence[str], most: int) -> list[str]:
    """Return the cells of a row as ``most`` cells: those that a pipe in code cut are put together first, then the last ones."""
    surplus, cells = len(row) - most, list[str]()
    for cell in row:
        if surplus and cells and cells[-1].count("`") % 2:
            cells[-1] += f"|{cell}"
            surplus -= 1
        else:
            cells.append(cell)
    return [*cells[: most - 1], " | ".join(cell.strip() for cell in cells[most - 1 :])]
