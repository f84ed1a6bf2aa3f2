"""What a conversation looks like: replies as Markdown, a preview while they are written, tools as dim lines.

Colours are those of ``channels.terminal.rich_markdown``; NO_COLOR and dumb terminals are honoured by rich.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from channels.live import Activity, Delta, Note, Rejected, Reply
from channels.terminal.rich_markdown import THEME, TROUBLE, Page
from channels.terminal.sanitize import visible

if TYPE_CHECKING:
    from collections.abc import Callable

    from channels.live import LiveEvent

_TAIL = 8000
_ALIKE = 40
_MENU_ROWS = 8
"""Rows for the prompt and its menu, where there is room for them."""
_MARKS = {"started": "·", "finished": "✓", "failed": "✗"}


def make_console() -> Console:
    """Return a console on the standard output, whatever that is at the time of writing."""
    return Console(theme=THEME, highlight=False, emoji=False, markup=False)


class Screen:
    """Prints what stays, and says what the region above the prompt shows meanwhile: the reply so far, or that one is awaited."""

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
        """Whether this is a terminal on which nothing that was written can be taken back."""
        return self._console.is_terminal and self._console.is_dumb_terminal

    def begin(self) -> None:
        """An answer is awaited from now on."""
        if not self._awaited:
            self._since = self._monotonic()
            self._preview = self._doing = ""
        self._awaited = True

    @property
    def prompt_rows(self) -> int:
        """Rows for the prompt and its menu; few on a low screen, so that there is always room for the region above it."""
        return max(1, min(_MENU_ROWS, self._console.height // 3))

    def over(self, *, unanswered: bool = False) -> None:
        """A turn is over: what was drawn of its reply goes, and stays for good where none will come. Others may still be awaited."""
        if unanswered and self._preview.strip():
            self._console.print(Text(visible(self._preview).strip("\n"), style="dim"))
            self.note("⏹ It ends here.")
        self._preview = self._doing = ""

    def end(self) -> None:
        """Nothing is awaited any more."""
        self._awaited = False
        self._preview = self._doing = ""

    def show(self, frame: LiveEvent) -> None:
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
            case Rejected(reason=reason, hint=hint):
                self.trouble(reason, hint)

    def reply(self, text: str) -> None:
        """Print a reply for good."""
        self._console.print(Page(self._rewrite(text)))
        self._console.print()

    def note(self, text: str) -> None:
        """Print a line of the house's own."""
        self._console.print(Text(visible(self._rewrite(text)), style="dim"))

    def trouble(self, text: str, hint: str) -> None:
        """Print what went wrong, and the way out."""
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
