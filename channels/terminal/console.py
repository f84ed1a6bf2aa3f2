"""The interactive chat in a terminal."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import signal
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from prompt_toolkit import PromptSession
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.patch_stdout import patch_stdout
from prompt_toolkit.styles import Style

from channels.errors import ChannelError, LinkLost
from channels.live import Done, LiveEvent, Note, Rejected, Reply
from channels.protocol import Clock
from channels.terminal import local_commands
from channels.terminal.link import Exchange, Link
from channels.terminal.local_commands import LocalCommands, Sessions
from channels.terminal.prompt_input import SlashCompleter, key_bindings, typed_before
from channels.terminal.screen import Screen, make_console

if TYPE_CHECKING:
    from prompt_toolkit.input import Input
    from prompt_toolkit.output import Output
    from rich.console import Console as RichConsole

FAILED = 1
PROMPT = "› "
REDRAW_SECONDS = 0.08
REMEMBERED = 1000
"""Replies that are known again when they are delivered twice."""
LEAVING = {"/exit", "/quit"}
"""Commands about the terminal itself: they are not sent."""
LEAVING_WHEN_IDLE = {"exit", "quit", "exit()", "quit()", ":q"}
"""Leave as well while no answer is awaited. During a turn they are sent, and mean ``/stop``."""


class ChatConsole:
    """Reads messages, sends them and shows the answers, until the person quits or the connection ends.

    Messages typed while an answer is pending are sent too; the gateway decides what happens to them. ``commands`` (name with its slash ->
    one line of help) and ``choices`` (name -> words that may follow) are offered for completion; the gateway answers them, and
    ``aliases`` too. ``sessions`` are the conversations to choose from; ``pasted`` is where pictures from the clipboard are saved.
    ``rewrite`` is applied to whatever is printed, so that the commands in it work as typed.
    ``source``, ``sink`` and ``console`` default to the process's own terminal.
    """

    def __init__(
        self,
        link: Link,
        *,
        clock: Clock,
        new_key: Callable[[], str],
        history: Path | None = None,
        commands: Mapping[str, str] | None = None,
        choices: Mapping[str, Sequence[str]] | None = None,
        greeting: str = "",
        rewrite: Callable[[str], str] = str,
        hints: Mapping[str, str] | None = None,
        aliases: Collection[str] = (),
        sessions: Sessions | None = None,
        pasted: Path | None = None,
        source: Input | None = None,
        sink: Output | None = None,
        console: RichConsole | None = None,
    ) -> None:
        self._link = link
        self._clock = clock
        self._new_key = new_key
        self._greeting = greeting
        self._hints = dict(hints or {})
        self._local = LocalCommands(
            self, known=[*(commands or {}), *aliases], sessions=sessions, pasted=pasted, new_name=new_key
        )
        self._screen = Screen(console or make_console(), clock.monotonic, rewrite)
        self._session: PromptSession[str] = PromptSession(
            self._message,
            history=typed_before(history),
            completer=SlashCompleter(
                {**(commands or {}), **local_commands.HELP}, {**(choices or {}), **local_commands.CHOICES}
            ),
            complete_while_typing=True,
            multiline=True,
            key_bindings=key_bindings(self._interrupted, lambda: self._screen.is_dumb or self._typed_ahead),
            prompt_continuation="  ",
            bottom_toolbar=self._footer,
            tempfile_suffix=".md",
            style=Style.from_dict({"bottom-toolbar": "noreverse dim"}),
            input=source,
            output=sink,
        )
        self._session.app.min_redraw_interval = REDRAW_SECONDS
        self._session.app.key_processor.before_key_press += self._pressed
        self._typed_ahead = True
        """Whether keys may have been pressed before the prompt was there."""
        self._awaited: set[str] = set()
        """Keys of the messages whose answers are awaited."""
        self._last = Exchange("")
        self._shown: OrderedDict[str, None] = OrderedDict()
        self._heard = asyncio.Event()
        self._interrupts = 0
        self._status = ""
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def awaited(self) -> int:
        """How many messages have no answer yet."""
        return len(self._awaited)

    async def run(self) -> int:
        """Run the chat, and return the exit code. The connection stays open."""
        if self._greeting:
            self._screen.note(self._greeting)
        with contextlib.nullcontext() if self._screen.is_dumb else patch_stdout(raw=True):
            return await self._run()

    async def _run(self) -> int:
        listening = asyncio.ensure_future(self._listen())
        ticking = asyncio.ensure_future(self._tick())
        try:
            while (text := await self._ask(listening)) is not None:
                if await self._local.run(text):
                    continue
                await self.send(text, self._local.taken(text))
                if self._screen.is_dumb:  # what is printed there cannot be put above a prompt
                    await self._answered(listening)
            if self._awaited:
                self._screen.note("I finish what I am doing; the answer waits for you here.")
        except LinkLost as error:
            self._screen.trouble(str(error), error.hint)
            return FAILED
        finally:
            ending = [listening, ticking, *self._tasks]
            for task in ending:
                task.cancel()
            await asyncio.gather(*ending, return_exceptions=True)
        return 0

    async def _listen(self) -> None:
        """Show events as they arrive."""
        async for frame in self._link.frames():
            self._hear(frame)
            self._session.app.invalidate()

    def _hear(self, frame: LiveEvent) -> None:
        self._last.hear(frame)
        others = isinstance(frame, Note) and frame.key and frame.key not in self._awaited
        if not others and not (isinstance(frame, Reply) and self._seen(frame.key)):
            self._screen.show(frame)
            if isinstance(frame, Reply):
                self._local.answer = frame.text
        if isinstance(frame, Done):
            self._status = status_line(frame.facts) or self._status
        if isinstance(frame, Done) and frame.turn:
            self._screen.over(unanswered=not frame.facts.get("chunks"))
        if isinstance(frame, Done | Rejected):
            self._awaited.discard(frame.key)
        if not self._awaited:
            self._screen.end()
        self._heard.set()

    def _seen(self, key: str) -> bool:
        """Say whether a reply was shown before, and take note that it is now."""
        known = key in self._shown
        self._shown[key] = None
        if len(self._shown) > REMEMBERED:
            self._shown.popitem(last=False)
        return known

    async def _tick(self) -> None:
        """Show in the region how long an answer has been pending."""
        while True:
            await asyncio.sleep(1)
            if self._awaited:
                self._session.app.invalidate()

    def _message(self) -> FormattedText:
        """The text before the cursor: the region while an answer is pending, and the prompt; after sending, the prompt alone stays."""
        self._session.reserve_space_for_menu = self._screen.prompt_rows
        preview, state = ("", "") if self._session.app.is_done else self._screen.region()
        parts = [("", f"{preview}\n")] if preview else []
        parts += [("dim", f"{state}\n")] if state else []
        return FormattedText([*parts, ("bold", PROMPT)])

    def _footer(self) -> str | None:
        """The line below the prompt: which model answered last, how full its window is, and what the day cost so far."""
        return self._status or None

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
            if text is None or self._leaves(text.strip().casefold()):
                return None
            if text.strip():
                return text.strip("\n")

    def _leaves(self, text: str) -> bool:
        return text in LEAVING or (text in LEAVING_WHEN_IDLE and not self._awaited)

    async def _answered(self, listening: asyncio.Task[None]) -> None:
        """Wait until the answer to the last message is there; Ctrl-C stops what runs."""
        with _interrupts(self._interrupted):
            while self._awaited or not self._last.over:
                self._heard.clear()
                hearing = asyncio.ensure_future(self._heard.wait())
                await asyncio.wait([hearing, listening], return_when=asyncio.FIRST_COMPLETED)
                hearing.cancel()
                if listening.done():
                    _raise_end(listening)

    async def _prompt(self) -> str | None:
        """Return what was typed; None for Ctrl-D, or for Ctrl-C twice on an empty line."""
        self._interrupts = 0
        while True:
            self._typed_ahead = True
            try:
                return await self._session.prompt_async()
            except EOFError:
                return None
            except KeyboardInterrupt:
                if self._interrupts > 1:
                    return None
                self._screen.note("Ctrl-C again, or Ctrl-D, leaves.")

    def _pressed(self, _: object) -> None:
        """Handle a key. Keys that were typed ahead arrive all at once; later ones do not."""
        asyncio.get_running_loop().call_soon(setattr, self, "_typed_ahead", False)  # noqa: FBT003 - it is passed on

    def _interrupted(self) -> bool:
        """Ctrl-C was pressed on an empty line: stop what runs, and say whether that was all it meant."""
        if self._awaited:
            task = asyncio.ensure_future(self._stop())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return True
        self._interrupts += 1
        return False

    def note(self, text: str) -> None:
        """Show a line."""
        self._screen.note(text)

    def trouble(self, text: str, hint: str) -> None:
        """Show an error and its hint."""
        self._screen.trouble(text, hint)

    def copy(self, text: str) -> None:
        """Put a text into the clipboard of the person's terminal, also over SSH."""
        output = self._session.app.output
        output.write_raw(f"\x1b]52;c;{base64.b64encode(text.encode('utf-8', 'replace')).decode()}\x07")
        output.flush()

    def switch(self, session: str) -> None:
        """Send all that follows to another session."""
        self._hints["session"] = session
        self._status = ""

    async def send(self, text: str, files: Sequence[str] = ()) -> None:
        """Send a message; its answer is drawn when it comes."""
        key = self._new_key()
        self._awaited.add(key)
        self._last = Exchange(key)
        self._screen.begin()
        try:
            await self._link.say(text, key=key, hints=self._hints, files=files)
        except LinkLost:
            raise
        except ChannelError as error:
            self._awaited.discard(key)
            self._last.hear(Rejected(key, str(error)))
            if not self._awaited:
                self._screen.end()
            self._screen.trouble(str(error), error.hint)

    async def _stop(self) -> None:
        self._screen.note("stopping …")
        with contextlib.suppress(ChannelError):
            await self._link.stop()


def status_line(facts: Mapping[str, Any]) -> str:
    """Return the result of a turn as one line: model, how full its window is, what the day cost; "" if it had no model call."""
    if not facts.get("model"):
        return ""
    parts = [str(facts["model"])]
    context = facts.get("context") or {}
    if context.get("tokens") is not None and context.get("window"):
        parts.append(f"{100 * context['tokens'] / context['window']:.0f} % of its window")
    today = float(facts.get("costToday") or 0)
    return " · ".join([*parts, *([f"${today:.2f} today"] if today else [])])


def _raise_end(listening: asyncio.Task[None]) -> NoReturn:
    """Raise the error that ended the connection."""
    listening.result()
    raise LinkLost("the conversation was closed", hint="start `homebody chat` again")


@contextlib.contextmanager
def _interrupts(act: Callable[[], object]) -> Iterator[None]:
    """Replace the handler of Ctrl-C for a while. In a thread that may not handle signals nothing is changed."""
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
