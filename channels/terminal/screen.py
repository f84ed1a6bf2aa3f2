"""Shows a conversation in a terminal: replies as Markdown, a preview while they are written, tools as dim lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from rich.console import Console
from rich.markdown import CodeBlock, Heading, Markdown
from rich.segment import Segment
from rich.style import Style
from rich.syntax import ANSISyntaxTheme, Syntax
from rich.text import Text
from rich.theme import Theme

from channels.common.control_characters import visible
from channels.common.markdown import parsed
from channels.live import Activity, Delta, LiveEvent, Note, Rejected, Reply

if TYPE_CHECKING:
    from markdown_it.token import Token
    from rich.console import ConsoleOptions, RenderableType
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
    """Keep what rich would leave out: line ends, and the URLs of pictures. A link whose label is its URL is shown once."""
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


_TAIL = 8000
_ALIKE = 40
_MENU_ROWS = 8
"""Rows for the prompt and its menu, where there is room for them."""
_MARKS = {"started": "·", "finished": "✓", "failed": "✗"}


def make_console() -> Console:
    """Return a console on the standard output, whatever that is at the time of writing."""
    return Console(theme=THEME, highlight=False, emoji=False, markup=False)


class Screen:
    """Prints finished output, and gives the content of the region above the prompt: the reply so far, or that one is pending."""

    def __init__(self, console: Console, monotonic: Callable[[], float], rewrite: Callable[[str], str] = str) -> None:
        self._console = console
        self._rewrite = rewrite
        self._monotonic = monotonic
        self._preview = ""
        self._doing = ""
        self._since = 0.0
        self._awaited = False

    @property
    def is_dumb(self) -> bool:
        """Whether this terminal cannot erase what was written."""
        return self._console.is_terminal and self._console.is_dumb_terminal

    def begin(self) -> None:
        """Mark an answer as pending."""
        if not self._awaited:
            self._since = self._monotonic()
            self._preview = self._doing = ""
        self._awaited = True

    @property
    def prompt_rows(self) -> int:
        """Rows for the prompt and its menu; few on a low screen, so that there is always room for the region above it."""
        return max(1, min(_MENU_ROWS, self._console.height // 3))

    def over(self, *, unanswered: bool = False) -> None:
        """End a turn: its preview is removed, or printed if no reply will come. Other answers may still be pending."""
        if unanswered and self._preview.strip():
            self._console.print(Text(visible(self._preview).strip("\n"), style="dim"))
            self.note("⏹ It ends here.")
        self._preview = self._doing = ""

    def end(self) -> None:
        """Mark no answer as pending."""
        self._awaited = False
        self._preview = self._doing = ""

    def show(self, frame: LiveEvent) -> None:
        """Show an event: print it, or update the region."""
        match frame:
            case Delta(text=text, fresh=fresh):
                self._preview = text if fresh else self._preview + text
                self._doing = ""
            case Reply(text=text):
                if _begins_like(text, self._preview):
                    self._preview = ""
                self.reply(text)
            case Activity(text=text, state=state):
                self._doing = visible(text) if state == "started" else ""
                if state != "started":
                    self._console.print(Text(f"  {_MARKS[state]} {visible(text)}", style="dim"))
            case Note(text=text):
                self.note(text)
            case Rejected(reason=reason, hint=hint):
                self.trouble(reason, hint)

    def reply(self, text: str) -> None:
        """Print a finished reply."""
        self._console.print(Page(self._rewrite(text)))
        self._console.print()

    def note(self, text: str) -> None:
        """Print a notice."""
        self._console.print(Text(visible(self._rewrite(text)), style="dim"))

    def trouble(self, text: str, hint: str) -> None:
        """Print an error and its hint."""
        self._console.print(Text(visible(self._rewrite(text)), style=TROUBLE))
        if hint:
            self._console.print(Text(f"  {visible(self._rewrite(hint))}"))

    def region(self) -> tuple[str, str]:
        """Return the end of the reply so far, wrapped and as much of it as leaves room for the prompt, and a line of state.

        Both are empty when nothing is awaited, and on a terminal that cannot take back what was drawn.
        """
        if not self._awaited or not self._console.is_terminal or self._console.is_dumb_terminal:
            return "", ""
        seconds = int(self._monotonic() - self._since)
        state = f"… {self._doing}" if self._doing else "…"
        if seconds:
            state += f" · {seconds} s · Ctrl-C stops"
        if not self._preview.strip():
            return "", state
        room = max(1, self._console.height - self.prompt_rows - 2)
        lines = Text(visible(self._preview[-_TAIL:]).rstrip()).wrap(self._console, max(8, self._console.width - 1))
        return "\n".join(str(line).rstrip() for line in list(lines)[-room:]), state


def _begins_like(text: str, preview: str) -> bool:
    """Say whether a reply is what the preview showed, as far as it came."""
    begun = preview.strip()[:_ALIKE]
    return bool(begun) and (text.strip().startswith(begun) or text.strip()[:_ALIKE] in preview)
