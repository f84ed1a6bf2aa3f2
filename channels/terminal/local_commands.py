"""Commands that the terminal runs itself: `/copy`, `/file`, `/image`, `/retry`, `/sessions`. All others go to the gateway."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Final, Protocol

from channels.errors import ChannelError
from channels.terminal.local_files import MOST_FILES, attachment_of, path_in, picture_from_clipboard, split_path

HELP: Final[Mapping[str, str]] = {
    "/copy": "copy my last answer; code: only its last block of code",
    "/file": "send a file with your next message; none: do not",
    "/image": "the same for a picture; without a path, the one in the clipboard",
    "/retry": "send your last message again",
    "/sessions": "list the conversations; with a number, go on in that one",
    "/exit": "leave (also Ctrl-D)",
}
"""The commands of the terminal, each with a line of help."""
CHOICES: Final[Mapping[str, Sequence[str]]] = {"/copy": ("code",), "/file": ("none",)}
KEYS: Final = "Ctrl-G opens your editor. Alt-Enter begins a line. A file that is dropped here goes with your next message."
_COMMAND = re.compile(r"/([A-Za-z][\w-]*)(?:\s+(.*))?", re.DOTALL)
_CODE = re.compile(r"^(`{3,}|~{3,})[^\n]*\n(.*?)^\1[ \t]*$", re.DOTALL | re.MULTILINE)
_CLOSE = 0.6


class Sessions(Protocol):
    """The conversations of the owner."""

    async def listed(self) -> Sequence[str]:
        """Return a line for each, most recent first."""
        ...

    async def chosen(self, number: int) -> tuple[str, str]:
        """Return the key of the conversation with that number in the list, and its last messages as text.

        Raises:
            ChannelError: there is none of that number.
        """
        ...


class Conversation(Protocol):
    """What the commands do in the conversation."""

    async def send(self, text: str, files: Sequence[str] = ()) -> None:
        """Send a message with files."""
        ...

    def note(self, text: str) -> None:
        """Show a line."""
        ...

    def trouble(self, text: str, hint: str) -> None:
        """Show an error and its hint."""
        ...

    def copy(self, text: str) -> None:
        """Put a text into the clipboard of the person's terminal."""
        ...

    def switch(self, session: str) -> None:
        """Send all that follows to another session."""
        ...


class LocalCommands:
    """Runs the terminal's own commands, keeps the files that go with the next message, and the last message and answer.

    ``known`` are the commands that the gateway answers, with their slash; with none, nothing counts as mistyped.
    ``pasted`` is where pictures from the clipboard are saved, under the names that ``new_name`` gives.
    """

    def __init__(
        self,
        conversation: Conversation,
        *,
        known: Collection[str] = (),
        sessions: Sessions | None = None,
        pasted: Path | None = None,
        new_name: Callable[[], str] = lambda: "picture",
    ) -> None:
        self._conversation = conversation
        self._known = frozenset(known)
        self._sessions = sessions
        self._pasted = pasted
        self._new_name = new_name
        self._files: list[str] = []
        self._said: tuple[str, tuple[str, ...]] = ("", ())
        self.answer = ""
        """The last answer, as Markdown."""

    def taken(self, text: str) -> tuple[str, ...]:
        """Take note of a message that is sent, and return the files that go with it."""
        files = tuple(self._files)
        self._files.clear()
        if not text.startswith("/"):
            self._said = (text, files)
        return files

    async def run(self, text: str) -> bool:
        """Run a text if it is a command of the terminal, the path of a file, or a mistyped command; return whether it was."""
        if path := path_in(text):
            self._attach(path)
            return True
        found = _COMMAND.fullmatch(text.strip()) if text.startswith("/") else None
        if found is None:
            return False
        name, argument = f"/{found[1].lower()}", (found[2] or "").strip()
        match name:
            case "/copy":
                self._copy(argument)
            case "/file" | "/image":
                await self._file(argument, clipboard=name == "/image")
            case "/retry":
                await self._retry()
            case "/sessions":
                await self._choose(argument)
            case "/help":
                self._conversation.note(self._help())
                return False
            case _:
                return self._mistyped(name)
        return True

    def _help(self) -> str:
        return "\n".join(["Here in the terminal also:", *(f"  {name}  {text}" for name, text in HELP.items()), KEYS])

    def _mistyped(self, name: str) -> bool:
        if not self._known or name in self._known:
            return False
        near = get_close_matches(name, [*self._known, *HELP], n=1, cutoff=_CLOSE)
        hint = f" Did you mean {near[0]}?" if near else ""
        self._conversation.note(
            f"There is no command {name}.{hint} /help lists them all. To send it as a message, begin with a blank."
        )
        return True

    def _copy(self, argument: str) -> None:
        text = self.answer.strip()
        if argument.casefold() == "code":
            blocks = [found[2].rstrip("\n") for found in _CODE.finditer(text)]
            text = blocks[-1] if blocks else ""
        if not text:
            nothing = "My last answer has no block of code." if self.answer else "There is nothing to copy yet."
            self._conversation.note(nothing)
            return
        self._conversation.copy(text)
        self._conversation.note(
            f"Copied {len(text):,} characters. If nothing arrives, this terminal does not allow it (OSC 52)."
        )

    async def _file(self, argument: str, *, clipboard: bool) -> None:
        if argument.casefold() == "none":
            self._files.clear()
            self._conversation.note("No file goes with your next message.")
            return
        if argument:
            path, words = split_path(argument)
            if not path:
                self._conversation.trouble(f"there is no file {argument}", "name a file of this machine: /file PATH [message]")
                return
        elif clipboard:
            path, words = await self._from_clipboard(), ""
            if not path:
                hint = "name a file: /image PATH. For the clipboard, wl-clipboard, xclip or pngpaste must be installed"
                self._conversation.trouble("there is no picture in the clipboard of this machine", hint)
                return
        else:
            names = ", ".join(Path(one).name for one in self._files)
            self._conversation.note(f"With your next message: {names}." if names else "Name a file: /file PATH [message]")
            return
        if self._attach(path, quietly=bool(words)) and words:
            await self._conversation.send(words, self.taken(words))

    def _attach(self, path: str, *, quietly: bool = False) -> bool:
        try:
            size = attachment_of(path).size or 0
        except ChannelError as error:
            self._conversation.trouble(str(error), error.hint)
            return False
        if path in self._files or len(self._files) >= MOST_FILES:
            self._conversation.note(f"It is there already, or there are {MOST_FILES} files: /file none removes them.")
            return False
        self._files.append(path)
        if not quietly:
            self._conversation.note(
                f"📎 {Path(path).name} ({size:,} bytes) goes with your next message. /file none removes it."
            )
        return True

    async def _from_clipboard(self) -> str:
        if self._pasted is None:
            return ""
        path = await asyncio.to_thread(picture_from_clipboard, self._pasted, f"{self._new_name()}.png")
        return str(path or "")

    async def _retry(self) -> None:
        text, files = self._said
        if not text:
            self._conversation.note("You have not sent a message in this window yet.")
            return
        self._conversation.note(f"› {text}")
        await self._conversation.send(text, files)

    async def _choose(self, argument: str) -> None:
        if self._sessions is None:
            self._conversation.note("The conversations cannot be listed here: homebody sessions list")
            return
        if not argument:
            lines = await self._sessions.listed()
            text = "\n".join([*lines, "", "/sessions NUMBER goes on in that one."])
            self._conversation.note(text if lines else "There are no conversations yet.")
            return
        if not argument.isdecimal():
            self._conversation.note("Send /sessions for the list, and /sessions with one of its numbers.")
            return
        try:
            session, text = await self._sessions.chosen(int(argument))
        except ChannelError as error:
            self._conversation.trouble(str(error), error.hint)
            return
        self._conversation.switch(session)
        self._conversation.note(text)
