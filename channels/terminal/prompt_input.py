"""What the prompt of the chat takes: its keys, the history of what was typed, and completion of commands."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit.completion import Completer, Completion
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings

if TYPE_CHECKING:
    from prompt_toolkit.completion import CompleteEvent
    from prompt_toolkit.document import Document
    from prompt_toolkit.key_binding import KeyPressEvent


class KeptHistory(FileHistory):
    """A history in a file. What the file does not take (its disk is full) is known until the chat ends."""

    def store_string(self, string: str) -> None:
        """Add a message to the file."""
        with contextlib.suppress(OSError):
            super().store_string(string)


def typed_before(path: Path | None) -> History:
    """Return the history kept in a file of the owner's alone, or in memory where that cannot be."""
    if path is None:
        return InMemoryHistory()
    try:
        path.touch(mode=0o600)
        with path.open("r+b"):
            return KeptHistory(path)
    except OSError:
        return InMemoryHistory()


def key_bindings(interrupted: Callable[[], bool], sends: Callable[[], bool]) -> KeyBindings:
    """Enter sends; Alt-Enter and Ctrl-J begin a line; Ctrl-G opens the editor.

    Ctrl-C clears what was typed, or else asks ``interrupted`` what it means.
    Ctrl-J sends where ``sends`` says so: what is typed while no prompt is there arrives with it for Enter.
    """
    keys = KeyBindings()

    @keys.add("enter")
    def send(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def begin_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("c-j")
    def begin_line_or_send(event: KeyPressEvent) -> None:
        (send if sends() else begin_line)(event)

    @keys.add("c-g")
    def edit(event: KeyPressEvent) -> None:
        event.current_buffer.open_in_editor()

    @keys.add("c-c")
    @keys.add("<sigint>")
    def interrupt(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.reset()
        elif not interrupted():
            event.app.exit(exception=KeyboardInterrupt())

    return keys


class SlashCompleter(Completer):
    """Completes a command at the beginning of a message, and the word behind it where only some are known."""

    def __init__(self, commands: Mapping[str, str], choices: Mapping[str, Sequence[str]]) -> None:
        self._commands = commands
        self._choices = choices

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:  # noqa: ARG002 - the library's
        """Return the commands, or the words, that begin as the message does."""
        command, blank, word = document.text.partition(" ")
        if not command.startswith("/") or any(letter.isspace() for letter in word):
            return
        if blank:
            for choice in self._choices.get(command, ()):
                if choice.startswith(word):
                    yield Completion(choice, start_position=-len(word))
            return
        for name, meaning in self._commands.items():
            if name.startswith(command):
                yield Completion(name, start_position=-len(command), display_meta=meaning)
