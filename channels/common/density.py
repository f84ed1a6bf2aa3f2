"""A limit on the work that one text may make for the Markdown parser, so that its time grows with the length of the text.

The parser looks ahead from each ``[`` for its end, and tries quotes and lists that lie in each other again at every line, so a
text full of such marks costs the square of its length. Both are counted while it is done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline

STEPS: Final = 500
STEPS_A_LETTER: Final = 1.5
"""How often the parser may try to begin a block or look past a mark. Prose needs a tenth of a step a letter, the shortest lists one."""
_LEFT: Final = "steps left"


class TooDense(Exception):
    """A text took more work than its length is worth: it is shown as it was written."""


def metered(parser: MarkdownIt) -> MarkdownIt:
    """Have a parser count its steps; it raises TooDense when those that ``allowance`` gave are used up."""

    def tries_a_block(state: StateBlock, _start: int, _end: int, _silent: bool) -> bool:
        _step(state.env)
        return False

    skip = parser.inline.skipToken

    def looks_past(state: StateInline) -> None:
        _step(state.env)
        skip(state)

    parser.block.ruler.before("table", "meter", tries_a_block, {"alt": ["paragraph", "reference", "blockquote", "list"]})
    parser.inline.skipToken = looks_past  # type: ignore[method-assign]
    return parser


def allowance(text: str) -> dict[str, Any]:
    """Return the environment in which a metered parser parses ``text``."""
    return {_LEFT: STEPS + STEPS_A_LETTER * len(text)}


def _step(env: Any) -> None:
    left = env.get(_LEFT)
    if left is not None:
        if left < 0:
            raise TooDense
        env[_LEFT] = left - 1
