"""How setup asks: in a terminal with a list to choose from, or not at all."""

from __future__ import annotations

import sys
import termios
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from gateway.base.errors import UsageError


class Questions(Protocol):
    """Asks a person. Each method returns the answer; Ctrl-C raises KeyboardInterrupt."""

    def choose(self, question: str, options: Sequence[tuple[str, str]], default: str) -> str:
        """Return the value of the option (value, text) that was chosen."""
        ...

    def text(self, question: str, default: str = "") -> str:
        """Return a line of text; ``default``, which is shown until something is typed, for an empty one."""
        ...

    def secret(self, question: str) -> str:
        """Return a line that is not shown."""
        ...

    def confirm(self, question: str, *, default: bool = True) -> bool:
        """Return yes or no."""
        ...


@contextmanager
def nothing_typed() -> Iterator[None]:
    """Show nothing that is typed meanwhile, and drop it: a key that is pasted twice is no answer to the next question."""
    if not sys.stdin.isatty():
        yield
        return
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    silent = [*before]
    silent[3] &= ~termios.ECHO
    termios.tcsetattr(terminal, termios.TCSANOW, silent)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSAFLUSH, before)


class TerminalQuestions:
    """Questions in a terminal: arrow keys and Enter."""

    def __init__(self) -> None:
        import questionary

        self._ask = questionary
        self._style = questionary.Style(
            [
                ("qmark", ""),
                ("answer", "bold"),
                ("pointer", "bold"),
                ("highlighted", "bold"),
                ("placeholder", "ansibrightblack"),
            ]
        )

    def choose(self, question: str, options: Sequence[tuple[str, str]], default: str) -> str:
        """See ``Questions.choose``."""
        choices = [self._ask.Choice(title=text, value=value) for value, text in options]
        marked = next((choice for choice in choices if choice.value == default), None)
        asked = self._ask.select(
            question, choices=choices, default=marked, qmark="?", instruction="(arrow keys, Enter)", style=self._style
        )
        return str(asked.unsafe_ask())

    def text(self, question: str, default: str = "") -> str:
        """See ``Questions.text``."""
        shown = [("class:placeholder", default)] if default else None
        asked = self._ask.text(question, qmark="?", style=self._style, placeholder=shown)
        return str(asked.unsafe_ask()).strip() or default

    def secret(self, question: str) -> str:
        """See ``Questions.secret``."""
        return str(self._ask.password(question, qmark="?", style=self._style).unsafe_ask())

    def confirm(self, question: str, *, default: bool = True) -> bool:
        """See ``Questions.confirm``."""
        answer: Any = self._ask.confirm(question, default=default, qmark="?", style=self._style).unsafe_ask()
        return bool(answer)


class DefaultAnswers:
    """Takes every default, for ``--yes``."""

    def choose(self, question: str, options: Sequence[tuple[str, str]], default: str) -> str:  # noqa: ARG002 - nobody reads it
        """Return the default."""
        return default

    def text(self, question: str, default: str = "") -> str:  # noqa: ARG002 - nobody reads it
        """Return the default."""
        return default

    def secret(self, question: str) -> str:
        """Raise UsageError: a secret has no default."""
        raise UsageError(
            f"{question.rstrip(':')}: this has to be typed in", hint="Run it in a terminal, without --yes: homebody setup"
        )

    def confirm(self, question: str, *, default: bool = True) -> bool:  # noqa: ARG002 - nobody reads it
        """Return the default."""
        return default
