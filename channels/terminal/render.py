"""What a conversation looks like: replies as Markdown, a preview while they are written, tools as dim lines.

Colours are the terminal's own, none of which vanish on a light or a dark background; NO_COLOR and dumb terminals are honoured by rich.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.markdown import Markdown
from rich.text import Text
from rich.theme import Theme

from channels.terminal.link import Activity, Delta, Note, Rejected, Reply
from channels.terminal.visible import visible

if TYPE_CHECKING:
    from collections.abc import Callable

    from channels.terminal.link import Frame

REFRESH_SECONDS = 0.08
CODE_THEME = "ansi_light"
"""The terminal's own colours without a background; the dim ones, which can be read on white as on black."""
_TAIL = 8000
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
    """Draws frames. A preview is drawn in a region of its own, which is wiped when the reply itself arrives."""

    def __init__(self, console: Console, monotonic: Callable[[], float]) -> None:
        self._console = console
        self._monotonic = monotonic
        self._live: Live | None = None
        self._preview = ""
        self._drawn = 0.0
        self._since = 0.0

    def begin(self) -> None:
        """Show that an answer is awaited."""
        self._since = self._monotonic()
        self._preview = ""
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            self._live = Live(
                console=self._console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
            )
            self._live.start()
            self.tick()

    def end(self) -> None:
        """Take the region away."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def tick(self) -> None:
        """Show that time passes; called about once a second while an answer is awaited."""
        if self._live is not None:
            self._drawn = self._monotonic()
            self._live.update(self._region(), refresh=True)

    def show(self, frame: Frame) -> None:
        """Draw a frame."""
        match frame:
            case Delta(text=text, fresh=fresh):
                self._preview = text if fresh else self._preview + text
                if self._monotonic() - self._drawn >= REFRESH_SECONDS:
                    self.tick()
            case Reply(text=text):
                self._preview = ""
                self.tick()
                self.reply(text)
            case Activity(text=text, state=state):
                if state != "started":
                    self._console.print(Text(f"  {_MARKS[state]} {visible(text)}", style="dim"))
            case Note(text=text):
                self.note(text)
            case Rejected(reason=reason, mend=mend):
                self.trouble(reason, mend)

    def reply(self, text: str) -> None:
        """Print a reply for good."""
        self._console.print(Markdown(visible(text), code_theme=CODE_THEME, hyperlinks=False))
        self._console.print()

    def note(self, text: str) -> None:
        """Print a line of the house's own."""
        self._console.print(Text(visible(text), style="dim"))

    def trouble(self, text: str, mend: str) -> None:
        """Print what went wrong, and the way out."""
        self._console.print(Text(visible(text), style="bold red"))
        if mend:
            self._console.print(Text(f"  {visible(mend)}"))

    def _region(self) -> Text:
        if self._preview:
            room = max(1, self._console.height - 4)
            lines = Text(visible(self._preview[-_TAIL:])).wrap(self._console, self._console.width)
            return Text("\n").join(list(lines)[-room:])
        seconds = int(self._monotonic() - self._since)
        return Text(f"… {seconds} s · Ctrl-C stops" if seconds else "…", style="dim")
