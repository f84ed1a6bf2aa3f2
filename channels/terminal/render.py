"""What a conversation looks like: replies as Markdown, a preview while they are written, tools as dim lines.

Colours are the terminal's own, none of which vanish on a light or a dark background; NO_COLOR and dumb terminals are honoured by rich.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.markdown import Markdown
from rich.segment import Segment
from rich.text import Text
from rich.theme import Theme

from channels.terminal.link import Activity, Delta, Note, Rejected, Reply
from channels.terminal.visible import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import ConsoleOptions, RenderableType

    from channels.terminal.link import Frame

CODE_THEME = "ansi_light"
"""The terminal's own colours without a background; the dim ones, which can be read on white as on black."""
_TAIL = 8000
_ALIKE = 40
_PROMPT_ROWS = 8
"""Rows kept free for the state, the prompt and its menu."""
_THEME = Theme(
    {
        "markdown.code": "bold",
        "markdown.code_block": "none",
        "markdown.item.bullet": "bold",
        "markdown.item.number": "bold",
        "markdown.block_quote": "italic",
        "markdown.link": "underline",
        "markdown.link_url": "underline",
        "markdown.hr": "dim",
        "markdown.table.border": "dim",
        "markdown.table.header": "bold",
        "markdown.h1": "bold",
        "markdown.h1.border": "dim",
        "markdown.h2": "bold underline",
    }
)
_MARKS = {"started": "·", "finished": "✓", "failed": "✗"}


def make_console() -> Console:
    """Return a console on the standard output, whatever that is at the time of writing."""
    return Console(theme=_THEME, highlight=False, emoji=False, markup=False)


class Screen:
    """Prints what stays, and says what the region above the prompt shows meanwhile: the reply so far, or that one is awaited."""

    def __init__(self, console: Console, monotonic: Callable[[], float]) -> None:
        self._console = console
        self._monotonic = monotonic
        self._preview = ""
        self._doing = ""
        self._since = 0.0
        self._awaited = False

    @property
    def is_dumb(self) -> bool:
        """Whether this is a terminal on which nothing that was written can be taken back."""
        return self._console.is_terminal and self._console.is_dumb_terminal

    def begin(self) -> None:
        """An answer is awaited from now on."""
        if not self._awaited:
            self._since = self._monotonic()
            self._preview = self._doing = ""
        self._awaited = True

    def over(self) -> None:
        """A turn is over: what was drawn of its reply goes; others may still be awaited."""
        self._preview = self._doing = ""

    def end(self) -> None:
        """Nothing is awaited any more."""
        self._awaited = False
        self._preview = self._doing = ""

    def show(self, frame: Frame) -> None:
        """Take a frame: print it, or make it part of the region."""
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
            case Rejected(reason=reason, mend=mend):
                self.trouble(reason, mend)

    def reply(self, text: str) -> None:
        """Print a reply for good."""
        self._console.print(_Trimmed(Markdown(visible(text), code_theme=CODE_THEME, hyperlinks=False)))
        self._console.print()

    def note(self, text: str) -> None:
        """Print a line of the house's own."""
        self._console.print(Text(visible(text), style="dim"))

    def trouble(self, text: str, mend: str) -> None:
        """Print what went wrong, and the way out."""
        self._console.print(Text(visible(text), style="bold red"))
        if mend:
            self._console.print(Text(f"  {visible(mend)}"))

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
        room = max(1, self._console.height - _PROMPT_ROWS)
        lines = Text(visible(self._preview[-_TAIL:]).rstrip()).wrap(self._console, max(8, self._console.width - 1))
        return "\n".join(str(line).rstrip() for line in list(lines)[-room:]), state


class _Trimmed:
    """Something drawn without blanks at the ends of its lines, so that it can be copied and outlives a narrower window."""

    def __init__(self, drawn: RenderableType) -> None:
        self._drawn = drawn

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for line in Segment.split_lines(console.render(self._drawn, options)):
            while line and not line[-1].text.strip():
                line.pop()
            yield from line[:-1]
            for last in line[-1:]:
                yield Segment(last.text.rstrip(), last.style)
            yield Segment.line()


def _begins_like(text: str, preview: str) -> bool:
    """Say whether a reply is what the preview showed, as far as it came."""
    begun = preview.strip()[:_ALIKE]
    return bool(begun) and (text.strip().startswith(begun) or text.strip()[:_ALIKE] in preview)
