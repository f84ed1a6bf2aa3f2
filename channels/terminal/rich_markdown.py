"""Markdown as a terminal shows it, in colours that can be read on a light and on a dark background.

Nothing of a reply is left out: raw HTML is text like any other, line ends stay where they are, and a picture or a link shows
its address. Colours come from the part of the 256 that no theme of a terminal changes, and lie in the middle between black and
white; a terminal that has only its own sixteen, whose yellow is lost on white and whose blue is on black, gets none in code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from rich.markdown import CodeBlock, Heading, Markdown
from rich.segment import Segment
from rich.style import Style
from rich.syntax import ANSISyntaxTheme, Syntax
from rich.theme import Theme

from channels.common.markdown import parsed
from channels.terminal.sanitize import visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from markdown_it.token import Token
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.markdown import MarkdownElement

BLUE, GREEN, ORANGE, PURPLE, TEAL, RED = "color(32)", "color(28)", "color(130)", "color(133)", "color(30)", "color(196)"
TROUBLE = f"bold {RED}"
THEME = Theme(
    {
        "markdown.code": "bold",
        "markdown.code_block": "none",
        "markdown.item.bullet": "bold",
        "markdown.item.number": "bold",
        "markdown.list": "none",
        "markdown.block_quote": "italic",
        "markdown.link": "underline",
        "markdown.link_url": "underline",
        "markdown.hr": "dim",
        "markdown.table.border": "dim",
        "markdown.table.header": "bold",
        "markdown.h1": "bold underline",
        "markdown.h1.border": "dim",
        "markdown.h2": "bold underline",
        "markdown.h3": "bold",
        "markdown.h4": "bold italic",
        "markdown.h5": "italic",
        "markdown.h6": "italic",
        "markdown.kbd": "bold",
    }
)
_CODE: dict[str, str] = {
    "Comment": "dim italic",
    "Comment.Preproc": TEAL,
    "Keyword": BLUE,
    "Keyword.Type": TEAL,
    "Operator.Word": BLUE,
    "Name.Builtin": TEAL,
    "Name.Class": f"bold {PURPLE}",
    "Name.Function": PURPLE,
    "Name.Decorator": PURPLE,
    "Name.Exception": TEAL,
    "Name.Variable": ORANGE,
    "Name.Constant": ORANGE,
    "Name.Attribute": TEAL,
    "Name.Tag": BLUE,
    "Literal.String": GREEN,
    "Literal.Number": ORANGE,
    "Generic.Deleted": RED,
    "Generic.Inserted": GREEN,
    "Generic.Heading": "bold",
    "Generic.Subheading": f"bold {PURPLE}",
    "Generic.Prompt": "bold",
    "Generic.Error": RED,
}
_PLAIN: dict[str, str] = {
    "Comment": "dim italic",
    "Keyword": "bold",
    "Name.Class": "underline",
    "Name.Function": "underline",
    "Generic.Deleted": "dim",
    "Generic.Inserted": "bold",
    "Generic.Heading": "bold",
}


def code_theme(system: str | None) -> ANSISyntaxTheme:
    """Return how code looks where these colours are to be had: rich's name for them, None for none."""
    styles = _CODE if system in {"256", "truecolor"} else _PLAIN
    return ANSISyntaxTheme({tuple(kind.split(".")): Style.parse(style) for kind, style in styles.items()})


class Code(CodeBlock):
    """A block of code, without blank lines of its own."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        theme = code_theme(console.color_system)
        yield Syntax(str(self.text).rstrip(), self.lexer_name, theme=theme, word_wrap=True, padding=(0, 1))


class LeftHeading(Heading):
    """A heading that begins where everything else does."""

    LEVEL_ALIGN: ClassVar[dict[str, Any]] = {}


class Page(Markdown):
    """A reply. It is drawn without blanks at the ends of its lines, so that it can be copied and outlives a narrower window."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "fence": Code,
        "code_block": Code,
        "heading_open": LeftHeading,
    }

    def __init__(self, text: str) -> None:
        super().__init__("", hyperlinks=False)
        self.markup = visible(text)
        tokens = parsed(self.markup)
        self.parsed = _as_text(self.markup) if tokens is None else tokens
        for token in self.parsed:
            if token.children:
                token.children = list(_told_in_full(token.children))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        """Draw it."""
        drawn = (part for part in super().__rich_console__(console, options) if isinstance(part, Segment))
        for line in Segment.split_lines(drawn):
            while line and not line[-1].text.strip():
                line.pop()
            yield from line[:-1]
            for last in line[-1:]:
                yield Segment(last.text.rstrip(), last.style)
            yield Segment.line()


def _as_text(text: str) -> list[Token]:
    """Return the tokens of a text that is shown as it was written."""
    from markdown_it.token import Token

    lines = [Token("text", "", 0, content=line) for line in text.split("\n")]
    children = [token for line in lines for token in (line, Token("softbreak", "br", 0))][:-1]
    inline = Token("inline", "", 0, content=text, children=children)
    return [Token("paragraph_open", "p", 1), inline, Token("paragraph_close", "p", -1)]


def _told_in_full(inline: list[Token]) -> Iterable[Token]:
    """Keep what rich would leave out: line ends, and the addresses of pictures. A link that is its own label stands once."""
    bare = [_is_own_label(inline, at) for at in range(len(inline))]
    for at, token in enumerate(inline):
        if token.type == "softbreak":
            token.type = "hardbreak"
        elif token.type == "image":
            token.type, token.tag = "text", ""
            token.content = f"{token.content or 'picture'} ({token.attrs.get('src', '')})"
            token.children = None
        if not (bare[at] or (at > 1 and bare[at - 2])):
            yield token


def _is_own_label(inline: list[Token], at: int) -> bool:
    around = [token.type for token in inline[at : at + 3]]
    return around == ["link_open", "text", "link_close"] and str(inline[at].attrs.get("href")) in {
        inline[at + 1].content,
        f"mailto:{inline[at + 1].content}",
    }
