from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from channels.errors import ChannelError, NotFetched
from channels.terminal.local_commands import LocalCommands
from channels.terminal.local_files import attachment_of, copy, path_in, split_path
from tests.properties import examples

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

NAMES = st.text(
    st.characters(codec="utf-8", exclude_characters="/\0\n\r", exclude_categories=("Cs", "Cc")), min_size=1, max_size=30
)


class Paper:
    """A conversation that writes down what happens in it."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, tuple[str, ...]]] = []
        self.notes: list[str] = []
        self.troubles: list[tuple[str, str]] = []
        self.copied: list[str] = []
        self.session = ""

    async def send(self, text: str, files: Sequence[str] = ()) -> None:
        self.sent.append((text, tuple(files)))

    def note(self, text: str) -> None:
        self.notes.append(text)

    def trouble(self, text: str, hint: str) -> None:
        self.troubles.append((text, hint))

    def copy(self, text: str) -> None:
        self.copied.append(text)

    def switch(self, session: str) -> None:
        self.session = session


class TwoSessions:
    async def listed(self) -> Sequence[str]:
        return ["1. agent:main:main", "2. agent:main:travel"]

    async def chosen(self, number: int) -> tuple[str, str]:
        if number != 2:
            raise ChannelError(f"there is no conversation {number}", hint="/sessions lists them")
        return "agent:main:travel", "› to Rome?"


@pytest.fixture
def paper() -> Paper:
    return Paper()


@pytest.fixture
def commands(paper: Paper) -> LocalCommands:
    return LocalCommands(paper, known=["/help", "/status", "/id"], sessions=TwoSessions())


async def say(commands: LocalCommands, paper: Paper, text: str) -> None:
    """Do what the terminal does with a line."""
    if not await commands.run(text):
        await paper.send(text, commands.taken(text))


async def test_a_file_goes_with_the_next_message_and_not_with_the_one_after(
    commands: LocalCommands, paper: Paper, tmp_path: Path
) -> None:
    picture = tmp_path / "my cat.png"
    picture.write_bytes(b"png")
    await say(commands, paper, f"/image {picture}")
    await say(commands, paper, "who is this?")
    await say(commands, paper, "and now?")
    assert paper.sent == [("who is this?", (str(picture),)), ("and now?", ())]
    assert "my cat.png (3 bytes)" in paper.notes[0]


async def test_a_file_and_words_behind_it_are_sent_at_once(commands: LocalCommands, paper: Paper, tmp_path: Path) -> None:
    note = tmp_path / "a b.txt"
    note.write_text("x")
    await say(commands, paper, f"/file {note} sum it up")
    assert paper.sent == [("sum it up", (str(note),))]


async def test_a_dropped_file_is_attached_and_can_be_taken_back(commands: LocalCommands, paper: Paper, tmp_path: Path) -> None:
    note = tmp_path / "it's.txt"
    note.write_text("x")
    await say(commands, paper, shlex.quote(str(note)))
    await say(commands, paper, "/file none")
    await say(commands, paper, "hello")
    assert paper.sent == [("hello", ())]


async def test_a_file_that_is_not_there_is_named(commands: LocalCommands, paper: Paper, tmp_path: Path) -> None:
    await say(commands, paper, f"/file {tmp_path}/gone.txt what is it?")
    assert not paper.sent
    assert "gone.txt" in paper.troubles[0][0]


async def test_retry_sends_the_last_message_with_its_files_again(commands: LocalCommands, paper: Paper, tmp_path: Path) -> None:
    note = tmp_path / "a.txt"
    note.write_text("x")
    await say(commands, paper, f"/file {note}")
    await say(commands, paper, "what is it?")
    await say(commands, paper, "/status")
    await say(commands, paper, "/retry")
    assert paper.sent[-1] == ("what is it?", (str(note),))


async def test_retry_without_a_message_says_so(commands: LocalCommands, paper: Paper) -> None:
    await say(commands, paper, "/retry")
    assert not paper.sent
    assert paper.notes


async def test_copy_takes_the_answer_or_its_last_block_of_code(commands: LocalCommands, paper: Paper) -> None:
    commands.answer = "Look:\n```python\nprint(1)\n```\nor\n~~~\nls\n~~~\n"
    await say(commands, paper, "/copy")
    await say(commands, paper, "/copy code")
    assert paper.copied == [commands.answer.strip(), "ls"]


async def test_copy_without_an_answer_copies_nothing(commands: LocalCommands, paper: Paper) -> None:
    await say(commands, paper, "/copy")
    await say(commands, paper, "/copy code")
    assert paper.copied == []


async def test_a_conversation_is_chosen_by_its_number(commands: LocalCommands, paper: Paper) -> None:
    await say(commands, paper, "/sessions")
    await say(commands, paper, "/sessions 2")
    assert "2. agent:main:travel" in paper.notes[0]
    assert paper.session == "agent:main:travel"
    await say(commands, paper, "/sessions 7")
    assert paper.troubles == [("there is no conversation 7", "/sessions lists them")]


@pytest.mark.parametrize("text", ["/hlep", "/frobnicate now", "/Statsu"])
async def test_a_mistyped_command_is_not_sent(commands: LocalCommands, paper: Paper, text: str) -> None:
    await say(commands, paper, text)
    assert not paper.sent
    assert text.split(maxsplit=1)[0].lower() in paper.notes[0]


@pytest.mark.parametrize("text", ["/status", "/id", " /frobnicate", "/usr/lib is full", "/", "what is /hlep?"])
async def test_known_commands_and_messages_are_sent(commands: LocalCommands, paper: Paper, text: str) -> None:
    await say(commands, paper, text)
    assert [sent for sent, _ in paper.sent] == [text]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(60))
@given(name=NAMES, words=st.sampled_from(["", "sum it up", "who is  this?"]))
def test_any_file_is_found_however_a_terminal_writes_it(tmp_path: Path, name: str, words: str) -> None:
    path = tmp_path / name
    try:
        path.write_bytes(b"x")
    except OSError:
        return
    if not path.is_file():  # the names . and ..
        return
    try:
        assert path_in(shlex.quote(str(path))) == str(path)
        assert path_in(path.as_uri()) == str(path)
        if name == name.strip() and str(path) == str(path).strip():
            assert split_path(f"{path} {words}".strip()) == (str(path), words)
    finally:
        path.unlink()


def test_folders_devices_and_unreadable_paths_are_refused(tmp_path: Path) -> None:
    for name in (str(tmp_path), "/dev/null", f"{tmp_path}/gone", "\0"):
        with pytest.raises(ChannelError) as refused:
            attachment_of(name)
        assert refused.value.hint


@pytest.mark.parametrize(
    ("name", "kind"), [("a.png", "image"), ("a.ogg", "audio"), ("a.mp4", "video"), ("a.pdf", "document"), ("a", "document")]
)
def test_kinds_follow_from_names(tmp_path: Path, name: str, kind: str) -> None:
    (tmp_path / name).write_bytes(b"12345")
    found = attachment_of(str(tmp_path / name))
    assert (found.kind, found.size, found.recorded) == (kind, 5, False)


def test_a_copy_stops_at_the_limit_and_leaves_nothing(tmp_path: Path) -> None:
    source = tmp_path / "big"
    source.write_bytes(b"x" * 11)
    target = tmp_path / "copy"
    with pytest.raises(NotFetched):
        copy(attachment_of(str(source)), target, 10)
    assert not target.exists()
    copy(attachment_of(str(source)), target, 11)
    assert target.read_bytes() == b"x" * 11


def test_a_file_that_became_a_pipe_or_went_away_is_not_waited_for(tmp_path: Path) -> None:
    source = tmp_path / "file"
    source.write_bytes(b"x")
    found = attachment_of(str(source))
    source.unlink()
    with pytest.raises(NotFetched):
        copy(found, tmp_path / "copy", 10)
    os.mkfifo(source)
    with pytest.raises(NotFetched):
        copy(found, tmp_path / "copy", 10)
    assert not (tmp_path / "copy").exists()
