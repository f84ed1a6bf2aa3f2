from __future__ import annotations

import asyncio
import fcntl
import io
import itertools
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.data_structures import Size
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from prompt_toolkit.output.vt100 import Vt100_Output
from rich.cells import cell_len
from rich.console import Console

from channels.errors import ChannelError
from channels.live import Activity, Delta, Note, Reply
from channels.terminal.console import ChatConsole, status_line
from channels.terminal.prompt_input import SlashCompleter
from channels.terminal.screen import Screen
from gateway.base.clock import SystemClock
from tests.full_disk import no_file_may_grow
from tests.patience import PATIENCE
from tests.peers.parrot import Parrot

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from prompt_toolkit.application.current import AppSession
    from prompt_toolkit.input import PipeInput
    from prompt_toolkit.output import Output

ENTER = "\r"
CTRL_C = "\x03"
CTRL_D = "\x04"
DUMB: Any = {"force_terminal": True, "_environ": {"TERM": "dumb"}}
DRAWING: Any = {"force_terminal": True, "_environ": {"TERM": "xterm"}}
PASTE = "\x1b[200~{}\x1b[201~"


class Seat:
    """A person at a conversation whose keys and sight are at hand."""

    def __init__(
        self,
        keys: PipeInput,
        terminal: AppSession,
        history: Path | None = None,
        *,
        dumb: bool = False,
        sink: Output | None = None,
    ) -> None:
        self.house = Parrot(SystemClock())
        self.link = self.house.channel.attachment("local")
        self.terminal = terminal
        self.keys = keys
        self.sight = io.StringIO()
        numbers = map(str, itertools.count())
        self.conversation = ChatConsole(
            self.link,
            clock=SystemClock(),
            new_key=lambda: next(numbers),
            history=history,
            commands={"/help": "what there is", "/status": "how it stands"},
            greeting="Hello.",
            source=keys,
            sink=sink or DummyOutput(),
            console=Console(file=self.sight, width=80, **(DUMB if dumb else DRAWING if sink else {})),
        )

    @property
    def prompts(self) -> bool:
        """Whether the prompt is there."""
        return self.terminal.app is not None and self.terminal.app.is_running

    @property
    def typed(self) -> str:
        """What stands at the prompt."""
        return "" if self.terminal.app is None else self.terminal.app.current_buffer.text

    @property
    def offered(self) -> list[str]:
        """The completions that are shown."""
        state = None if self.terminal.app is None else self.terminal.app.current_buffer.complete_state
        return [] if state is None else [one.text for one in state.completions]

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():  # noqa: ASYNC110 - the screen tells nobody when it changes
                await asyncio.sleep(0.005)


@asynccontextmanager
async def seated(
    history: Path | None = None, *, dumb: bool = False, sink: Output | None = None
) -> AsyncIterator[tuple[Seat, asyncio.Task[int]]]:
    with create_pipe_input() as keys, create_app_session() as terminal:
        seat = Seat(keys, terminal, history, dumb=dumb, sink=sink)
        serving = asyncio.ensure_future(seat.house.channel.run(seat.house))
        talking = asyncio.ensure_future(seat.conversation.run())
        try:
            yield seat, talking
        finally:
            talking.cancel()
            serving.cancel()
            await asyncio.gather(talking, serving, return_exceptions=True)
            await seat.house.channel.close()


async def test_a_message_is_answered_and_control_d_leaves() -> None:
    async with seated() as (seat, talking):
        seat.keys.send_text("hello" + ENTER)
        await seat.until(lambda: "echo: hello" in seat.sight.getvalue())
        seat.keys.send_text(CTRL_D)
        assert await talking == 0
    assert seat.house.heard == ["hello"]
    assert seat.sight.getvalue().startswith("Hello.\n")


async def test_a_paste_of_several_lines_is_one_message() -> None:
    async with seated() as (seat, talking):
        seat.keys.send_text(PASTE.format("one\ntwo\r\nthree") + ENTER)
        await seat.until(lambda: bool(seat.house.heard))
        seat.keys.send_text(CTRL_D)
        await talking
    assert seat.house.heard == ["one\ntwo\nthree"]


async def test_control_c_clears_a_line_and_twice_on_an_empty_one_leaves() -> None:
    async with seated() as (seat, talking):
        seat.keys.send_text("never mind" + CTRL_C + "hello" + ENTER)
        await seat.until(lambda: "echo: hello" in seat.sight.getvalue() and not seat.conversation.awaited)
        seat.keys.send_text(CTRL_C)
        await seat.until(lambda: "Ctrl-C again" in seat.sight.getvalue())
        assert not talking.done()
        seat.keys.send_text(CTRL_C)
        assert await talking == 0
    assert seat.house.heard == ["hello"]


async def test_control_c_during_a_turn_stops_the_turn_and_not_the_program() -> None:
    async with seated() as (seat, talking):
        seat.keys.send_text("slow work" + ENTER)
        await seat.until(lambda: bool(seat.house.heard))
        os.kill(os.getpid(), signal.SIGINT)
        await seat.until(lambda: "stopped" in seat.sight.getvalue())
        seat.keys.send_text("hello" + ENTER)
        await seat.until(lambda: "echo: hello" in seat.sight.getvalue())
        seat.keys.send_text(CTRL_D)
        assert await talking == 0


async def test_slash_commands_are_sent_like_any_message_but_for_leaving() -> None:
    async with seated() as (seat, talking):
        seat.keys.send_text("/help" + ENTER)
        await seat.until(lambda: "echo: /help" in seat.sight.getvalue())
        seat.keys.send_text("/exit" + ENTER)
        assert await talking == 0
    assert seat.house.heard == ["/help"]


async def test_tab_completes_a_command() -> None:
    async with seated() as (seat, talking):
        seat.keys.send_text("/st")
        await seat.until(lambda: bool(seat.offered))
        seat.keys.send_text("\t")
        await seat.until(lambda: seat.typed == "/status")
        seat.keys.send_text(ENTER)
        await seat.until(lambda: bool(seat.house.heard))
        seat.keys.send_text(CTRL_D)
        await talking
    assert seat.house.heard == ["/status"]


async def test_what_arrives_unasked_is_shown_while_the_prompt_waits() -> None:
    async with seated() as (seat, talking):
        seat.keys.send_text("hello" + ENTER)
        await seat.until(lambda: "echo: hello" in seat.sight.getvalue())
        seat.house.channel.show(seat.link.conversation, Note("a reminder"))
        await seat.until(lambda: "a reminder" in seat.sight.getvalue())
        assert not talking.done()


async def test_a_line_that_breaks_ends_the_conversation_with_a_word() -> None:
    async with seated() as (seat, talking):
        seat.keys.send_text("crash" + ENTER)
        assert await talking == 1
    assert "the conversation was closed" in seat.sight.getvalue()


async def test_a_house_that_closes_while_the_prompt_waits_ends_it_too() -> None:
    async with seated() as (seat, talking):
        await seat.until(lambda: seat.prompts)
        await seat.house.channel.close()
        assert await talking == 1


async def test_activity_and_rejections_are_told() -> None:
    async with seated() as (seat, _):
        seat.keys.send_text("work" + ENTER)
        await seat.until(lambda: "echo: work" in seat.sight.getvalue())
        assert "✓ reads notes.md" in seat.sight.getvalue()
        seat.keys.send_text("reject" + ENTER)
        await seat.until(lambda: "homebody agents" in seat.sight.getvalue())


async def test_the_history_is_kept_in_a_file_of_the_owners_alone(tmp_path: Path) -> None:
    async with seated(tmp_path / "history") as (seat, talking):
        seat.keys.send_text("remember me" + ENTER)
        await seat.until(lambda: "echo: remember me" in seat.sight.getvalue())
        seat.keys.send_text(CTRL_D)
        await talking
    assert (tmp_path / "history").stat().st_mode & 0o777 == 0o600
    async with seated(tmp_path / "history") as (seat, _):
        await seat.until(lambda: seat.prompts)
        seat.keys.send_text("\x1b[A")
        await seat.until(lambda: seat.typed == "remember me")


async def test_a_history_that_cannot_be_kept_does_not_matter(tmp_path: Path) -> None:
    async with seated(tmp_path) as (seat, talking):
        seat.keys.send_text("hello" + ENTER)
        await seat.until(lambda: "echo: hello" in seat.sight.getvalue())
        seat.keys.send_text(CTRL_D)
        assert await talking == 0


async def test_a_history_that_a_full_disk_does_not_take_is_known_until_the_end(tmp_path: Path) -> None:
    broken = list[dict[str, Any]]()
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: broken.append(context))
    async with seated(tmp_path / "history") as (seat, _):
        await seat.until(lambda: seat.prompts)
        with no_file_may_grow():
            seat.keys.send_text("hello" + ENTER)
            await seat.until(lambda: "echo: hello" in seat.sight.getvalue())
        await seat.until(lambda: seat.prompts)
        seat.keys.send_text("\x1b[A")
        await seat.until(lambda: seat.typed == "hello")
        assert not broken


async def test_nothing_is_awaited_after_a_message_that_was_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: object, **__: object) -> None:
        raise ChannelError("the disk is full", hint="free some space")

    drawn = io.StringIO()
    async with seated(sink=Vt100_Output(drawn, lambda: Size(24, 80), term="xterm")) as (seat, _):
        monkeypatch.setattr(seat.link, "say", refuse)
        await seat.until(lambda: seat.prompts)
        seat.keys.send_text("hello" + ENTER)
        await seat.until(lambda: "free some space" in seat.sight.getvalue() and seat.prompts)
        seat.keys.send_text("next")
        await seat.until(lambda: "next" in drawn.getvalue())
    assert "hello" in drawn.getvalue()
    assert "…" not in drawn.getvalue()


def screen_on(sight: io.StringIO, *, height: int = 24, **environ: str) -> Screen:
    console = Console(
        file=sight, width=80, height=height, force_terminal=True, legacy_windows=False, _environ={"TERM": "xterm"} | environ
    )
    return Screen(console, iter(range(99)).__next__)


def test_a_preview_is_shown_above_the_prompt_and_goes_when_the_reply_is_there() -> None:
    sight = io.StringIO()
    screen = screen_on(sight)
    assert screen.region() == ("", "")
    screen.begin()
    screen.show(Activity("reads a.md", "started"))
    assert screen.region() == ("", "… reads a.md · 1 s · Ctrl-C stops")
    screen.show(Delta("the ans"))
    screen.show(Delta("wer **is** 4"))
    assert screen.region()[0] == "the answer **is** 4"
    screen.show(Delta("another one", fresh=True))
    assert screen.region()[0] == "another one"
    assert sight.getvalue() == ""
    screen.show(Reply("another one, and more", "k"))
    assert screen.region()[0] == ""
    screen.end()
    assert screen.region() == ("", "")
    assert sight.getvalue() == "another one, and more\n\n", "no blanks at the end of a line"


def test_a_reply_to_something_else_leaves_the_preview_alone() -> None:
    screen = screen_on(io.StringIO())
    screen.begin()
    screen.show(Delta("a long story begins"))
    screen.show(Reply("**main** · session `agent:main:main`", "status"))
    assert screen.region()[0] == "a long story begins"
    screen.over()
    assert screen.region()[0] == ""


@given(st.text(max_size=3000), st.integers(4, 60))
def test_a_preview_always_leaves_room_for_the_prompt(text: str, height: int) -> None:
    screen = screen_on(io.StringIO(), height=height)
    screen.begin()
    screen.show(Delta(text))
    lines = screen.region()[0].split("\n")
    assert len(lines) + 1 + screen.prompt_rows <= height, "the preview, the state, and the prompt with its menu"
    assert all(cell_len(line) < 80 for line in lines)
    assert "\x1b" not in screen.region()[0]


def test_what_was_written_of_an_answer_that_was_stopped_stays_on_the_screen() -> None:
    sight = io.StringIO()
    screen = screen_on(sight)
    screen.begin()
    screen.show(Delta("half of a **st"))
    screen.over(unanswered=True)
    assert "half of a **st" in sight.getvalue()
    assert "It ends here" in sight.getvalue()
    assert screen.region()[0] == ""


def test_a_dumb_terminal_gets_the_reply_without_a_preview() -> None:
    sight = io.StringIO()
    screen = Screen(Console(file=sight, width=80, force_terminal=True, _environ={"TERM": "dumb"}), iter(range(99)).__next__)
    screen.begin()
    screen.show(Delta("the answer"))
    assert screen.region() == ("", "")
    screen.show(Reply("the answer", "k"))
    assert sight.getvalue() == "the answer\n\n"


@pytest.mark.parametrize("no_color", [True, False])
def test_no_color_is_honoured(no_color: bool) -> None:
    sight = io.StringIO()
    environ = {"TERM": "xterm-256color"} | ({"NO_COLOR": "1"} if no_color else {})
    screen = Screen(Console(file=sight, width=80, force_terminal=True, _environ=environ), iter(range(99)).__next__)
    screen.trouble("wrong", "mend")
    screen.reply("```python\nreturn 1\n```")
    coloured = re.search(r"\x1b\[(?:\d+;)*(?:3[0-8]|4[0-8]|9\d)(?:;\d+)*m", sight.getvalue())
    assert bool(coloured) is not no_color, "and it can be told from a terminal where colours are wanted"


def test_a_reply_cannot_command_the_terminal() -> None:
    sight = io.StringIO()
    Screen(Console(file=sight, width=80), iter(range(99)).__next__).reply("a\x1b]52;c;ZXZpbA==\x07b\x9b2J")
    assert "\x1b" not in sight.getvalue()
    assert "\x9b" not in sight.getvalue()


async def test_messages_and_commands_are_sent_while_a_turn_runs() -> None:
    async with seated() as (seat, talking):
        seat.keys.send_text("slow work" + ENTER)
        await seat.until(lambda: seat.house.heard == ["slow work"])
        seat.keys.send_text("/status" + ENTER + "and this" + ENTER)
        await seat.until(lambda: "echo: and this" in seat.sight.getvalue())
        assert seat.house.heard == ["slow work", "/status", "and this"]
        assert "stopped" not in seat.sight.getvalue()
        seat.keys.send_text(CTRL_C)
        await seat.until(lambda: "stopped" in seat.sight.getvalue())
        assert not talking.done()


async def test_on_a_dumb_terminal_the_prompt_comes_after_the_answer() -> None:
    async with seated(dumb=True) as (seat, talking):
        seat.keys.send_text("late hello" + ENTER)
        await seat.until(lambda: not seat.conversation.awaited and bool(seat.house.heard))
        seat.keys.send_text("slow work" + ENTER)
        await seat.until(lambda: len(seat.house.heard) == 2)
        assert "echo: late hello" in seat.sight.getvalue()
        os.kill(os.getpid(), signal.SIGINT)
        await seat.until(lambda: "stopped" in seat.sight.getvalue())
        seat.keys.send_text(CTRL_D)
        assert await talking == 0


async def test_lines_typed_on_a_dumb_terminal_while_an_answer_is_awaited_are_messages_of_their_own() -> None:
    async with seated(dumb=True) as (seat, _):
        seat.keys.send_text("one\ntwo\n")  # as the terminal hands them over, which turned Enter into line ends
        await seat.until(lambda: len(seat.house.heard) == 2)
        assert seat.house.heard == ["one", "two"]


async def test_lines_typed_before_the_prompt_is_there_are_messages_and_control_j_begins_a_line_afterwards() -> None:
    with create_pipe_input() as keys, create_app_session() as terminal:
        seat = Seat(keys, terminal)
        keys.send_text("here\nthere\n")  # as the terminal hands over what was typed while the program was starting
        serving = asyncio.ensure_future(seat.house.channel.run(seat.house))
        talking = asyncio.ensure_future(seat.conversation.run())
        await seat.until(lambda: len(seat.house.heard) == 2)
        await seat.until(lambda: "echo: there" in seat.sight.getvalue())
        keys.send_text("a")
        await seat.until(lambda: seat.typed == "a")
        keys.send_text("\nb" + ENTER)
        await seat.until(lambda: len(seat.house.heard) == 3)
        assert seat.house.heard == ["here", "there", "a\nb"]
        talking.cancel()
        serving.cancel()
        await asyncio.gather(talking, serving, return_exceptions=True)


async def test_leaving_while_a_turn_runs_says_what_becomes_of_it() -> None:
    async with seated() as (seat, talking):
        seat.keys.send_text("slow work" + ENTER)
        await seat.until(lambda: bool(seat.house.heard))
        seat.keys.send_text(CTRL_D)
        assert await talking == 0
        assert "the answer waits for you" in seat.sight.getvalue()


async def test_a_reply_that_is_delivered_twice_is_shown_once() -> None:
    async with seated() as (seat, _):
        seat.keys.send_text("hello" + ENTER)
        await seat.until(lambda: "echo: hello" in seat.sight.getvalue())
        seat.link.push(Reply("echo: **hello**", "t1-0"))
        seat.link.push(Reply("news", "t9-0"))
        await seat.until(lambda: "news" in seat.sight.getvalue())
        assert seat.sight.getvalue().count("echo: hello") == 1


async def test_tab_completes_the_words_that_a_command_takes() -> None:
    completer = SlashCompleter({"/context": "show what fills my context window"}, {"/context": ("list", "detail")})
    for typed, offered in (("/context d", ["detail"]), ("/context ", ["list", "detail"]), ("/context x", []), ("x", [])):
        found = completer.get_completions(Document(typed), CompleteEvent())
        assert [one.text for one in found] == offered


PROGRAM = """
import asyncio, fcntl, itertools, termios
from channels.terminal.console import ChatConsole
from gateway.base.clock import SystemClock
from tests.peers.parrot import Parrot

async def main():
    house = Parrot(SystemClock())
    serving = asyncio.ensure_future(house.channel.run(house))
    numbers = map(str, itertools.count())
    code = await ChatConsole(house.channel.attach(), clock=SystemClock(), new_key=lambda: next(numbers)).run()
    serving.cancel()
    return code

fcntl.ioctl(0, termios.TIOCSCTTY, 0)
raise SystemExit(asyncio.run(main()))
"""


@pytest.fixture
def terminal() -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=child,
        stdout=child,
        stderr=child,
        start_new_session=True,
        env={**os.environ, "TERM": "xterm", "PYTHONPATH": "."},
    )
    os.close(child)
    yield parent, process
    process.kill()
    process.wait()
    os.close(parent)


def test_in_a_real_terminal_control_c_stops_the_turn_and_control_d_leaves(
    terminal: tuple[int, subprocess.Popen[bytes]],
) -> None:
    screen, process = terminal
    seen = b""

    def read_until(word: bytes) -> None:
        nonlocal seen
        while word not in seen:
            seen += os.read(screen, 65536)
        seen = seen.partition(word)[2]

    read_until("›".encode())
    os.write(screen, b"stream hello\r")
    read_until(b"echo: ")
    read_until("›".encode())
    os.write(screen, b"slow\r")
    read_until("…".encode())
    os.write(screen, b"\x03")
    read_until(b"stopped")
    read_until("›".encode())
    os.write(screen, b"\x04")
    assert process.wait(PATIENCE) == 0


@pytest.mark.parametrize("word", ["exit", "quit", "EXIT", ":q"])
async def test_a_word_that_leaves_other_programs_leaves_this_one_while_nothing_runs(word: str) -> None:
    async with seated() as (seat, talking):
        seat.keys.send_text(word + ENTER)
        assert await asyncio.wait_for(talking, PATIENCE) == 0
        assert "echo" not in seat.sight.getvalue()


async def test_exit_during_a_turn_is_sent_as_a_wish_to_stop() -> None:
    async with seated() as (seat, talking):
        seat.keys.send_text("slow" + ENTER)
        await seat.until(lambda: bool(seat.conversation.awaited))
        seat.keys.send_text("exit" + ENTER)
        await seat.until(lambda: seat.conversation.awaited + seat.sight.getvalue().count("echo") >= 2)
        assert not talking.done()


def test_the_line_below_the_prompt_names_the_model_its_window_and_the_cost() -> None:
    facts = {"model": "box/qwen3", "context": {"tokens": 2700, "window": 27000}}
    assert status_line(facts) == "box/qwen3 · 10 % of its window"
    assert status_line(facts | {"costToday": 0.125}) == "box/qwen3 · 10 % of its window · $0.12 today"
    assert status_line({"model": None}) == ""
