"""The conversation at a terminal."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from typing import TYPE_CHECKING, NoReturn

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import Completer, Completion
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.patch_stdout import patch_stdout

from channels.errors import ChannelError, LinkLost
from channels.terminal.exchange import Exchange
from channels.terminal.link import Done
from channels.terminal.render import Screen, make_console

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from prompt_toolkit.completion import CompleteEvent
    from prompt_toolkit.document import Document
    from prompt_toolkit.input import Input
    from prompt_toolkit.key_binding import KeyPressEvent
    from prompt_toolkit.output import Output
    from rich.console import Console as RichConsole

    from channels.clock import Clock
    from channels.terminal.link import Frame, Link

FAILED = 1
PROMPT = "› "
LEAVING = {"/exit", "/quit"}
"""The only words that are not sent: they are about the terminal itself."""


class Conversation:
    """Asks, sends, and shows what comes back, until the person leaves or the link ends.

    ``commands`` (name with its slash -> one line of help) are offered for completion only; the house answers them.
    ``source``, ``sink`` and ``console`` are the process's own terminal unless something else is handed in.
    """

    def __init__(
        self,
        link: Link,
        *,
        clock: Clock,
        new_key: Callable[[], str],
        history: Path | None = None,
        commands: Mapping[str, str] | None = None,
        greeting: str = "",
        hints: Mapping[str, str] | None = None,
        source: Input | None = None,
        sink: Output | None = None,
        console: RichConsole | None = None,
    ) -> None:
        self._link = link
        self._clock = clock
        self._new_key = new_key
        self._greeting = greeting
        self._hints = hints
        self._screen = Screen(console or make_console(), clock.monotonic)
        self._session: PromptSession[str] = PromptSession(
            PROMPT,
            history=_history(history),
            completer=_Slash(commands or {}),
            complete_while_typing=True,
            multiline=True,
            key_bindings=_keys(),
            prompt_continuation="  ",
            input=source,
            output=sink,
        )
        self._exchange: Exchange | None = None
        self._over = asyncio.Event()

    async def run(self) -> int:
        """Hold the conversation, and return the exit code. The link is left open."""
        if self._greeting:
            self._screen.note(self._greeting)
        listening = asyncio.ensure_future(self._listen())
        try:
            while (text := await self._ask(listening)) is not None:
                await self._turn(text, listening)
        except LinkLost as error:
            self._screen.trouble(str(error), error.mend)
            return FAILED
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
        return 0

    async def _listen(self) -> None:
        """Draw what arrives, asked for or not."""
        async for frame in self._link.frames():
            self._hear(frame)

    def _hear(self, frame: Frame) -> None:
        exchange = self._exchange
        if exchange is None:
            if not isinstance(frame, Done):
                self._screen.show(frame)
            return
        if exchange.hear(frame):
            self._screen.show(frame)
        if exchange.over:
            self._over.set()

    async def _ask(self, listening: asyncio.Task[None]) -> str | None:
        """Return the next message that is not blank, or None when the person leaves.

        Raises:
            LinkLost: the link ended meanwhile.
        """
        while True:
            asking = asyncio.ensure_future(self._prompt())
            try:
                await asyncio.wait([asking, listening], return_when=asyncio.FIRST_COMPLETED)
                if not asking.done():
                    _raise_end(listening)
                text = asking.result()
            finally:
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)
            if text is None or text.strip() in LEAVING:
                return None
            if text.strip():
                return text.strip("\n")

    async def _prompt(self) -> str | None:
        """Return what was typed; None for Ctrl-D, or for Ctrl-C twice on an empty line."""
        interrupted = False
        while True:
            try:
                with patch_stdout(raw=True):
                    return await self._session.prompt_async()
            except EOFError:
                return None
            except KeyboardInterrupt:
                if interrupted:
                    return None
                interrupted = True
                self._screen.note("Ctrl-C again, or Ctrl-D, leaves.")

    async def _turn(self, text: str, listening: asyncio.Task[None]) -> None:
        """Send a message and wait for all of its answer; Ctrl-C stops the turn."""
        exchange = self._exchange = Exchange(self._new_key())
        self._over.clear()
        stopping: set[asyncio.Future[None]] = set()
        waiting = asyncio.ensure_future(self._over.wait())
        try:
            with _interrupts(lambda: stopping.add(asyncio.ensure_future(self._stop()))):
                self._screen.begin()
                await self._link.say(text, key=exchange.key, hints=self._hints)
                while not waiting.done():
                    await asyncio.wait([waiting, listening], timeout=1, return_when=asyncio.FIRST_COMPLETED)
                    self._screen.tick()
                    if listening.done() and not waiting.done():
                        _raise_end(listening)
        except LinkLost:
            raise
        except ChannelError as error:
            self._screen.trouble(str(error), error.mend)
        finally:
            waiting.cancel()
            self._exchange = None
            self._screen.end()
            await asyncio.gather(*stopping, return_exceptions=True)

    async def _stop(self) -> None:
        self._screen.note("stopping …")
        with contextlib.suppress(ChannelError):
            await self._link.stop()


def _raise_end(listening: asyncio.Task[None]) -> NoReturn:
    """Raise what ended the link."""
    listening.result()
    raise LinkLost("the conversation was closed", mend="start `homebody chat` again")


@contextlib.contextmanager
def _interrupts(act: Callable[[], object]) -> Iterator[None]:
    """Let Ctrl-C do something else for a while. In a thread that may not handle signals it stays as it is."""
    loop = asyncio.get_running_loop()
    former = signal.getsignal(signal.SIGINT)
    try:
        loop.add_signal_handler(signal.SIGINT, act)
    except (ValueError, RuntimeError, NotImplementedError):
        yield
        return
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, former)


def _history(path: Path | None) -> History:
    """Return the history kept in a file of the owner's alone, or in memory where that cannot be."""
    if path is None:
        return InMemoryHistory()
    try:
        path.touch(mode=0o600)
        with path.open("r+b"):
            return FileHistory(path)
    except OSError:
        return InMemoryHistory()


def _keys() -> KeyBindings:
    """Enter sends; Alt-Enter and Ctrl-J begin a line; Ctrl-C clears what was typed, and interrupts when there is nothing."""
    keys = KeyBindings()

    @keys.add("enter")
    def send(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @keys.add("escape", "enter")
    @keys.add("c-j")
    def begin_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("c-c")
    def interrupt(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.reset()
        else:
            event.app.exit(exception=KeyboardInterrupt())

    return keys


class _Slash(Completer):
    """Completes a command at the beginning of a message."""

    def __init__(self, commands: Mapping[str, str]) -> None:
        self._commands = commands

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:  # noqa: ARG002 - the library's
        """Return the commands that begin as the message does."""
        typed = document.text
        if typed.startswith("/") and not any(letter.isspace() for letter in typed):
            for name, meaning in self._commands.items():
                if name.startswith(typed):
                    yield Completion(name, start_position=-len(typed), display_meta=meaning)
