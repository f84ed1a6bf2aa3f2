"""``homebody sessions``: finding, showing and exporting conversations."""

from __future__ import annotations

import gzip
import json
import os
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from agent.messages import AssistantMessage, Failure, Text, ToolCall, ToolMessage, UserMessage
from agent.transcript.entries import Compacted, Entry, FlushReceipt, Opened, Said, WrittenNote
from gateway.cli import main
from gateway.sessions.past_sessions import RESULT_CHARS, page

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.transcript.entries import Body

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")


def entry(body: Body, at: datetime = NOON) -> Entry:
    return Entry(id="t:0", parent=None, at=at, body=body)


def said(message: UserMessage | AssistantMessage | ToolMessage, at: datetime = NOON) -> Entry:
    return entry(Said(message=message), at)


def test_a_page_tells_who_said_what_when_and_what_was_done() -> None:
    call = ToolCall(id="c", name="read", arguments={"path": "a.md"})
    late = datetime(2026, 3, 1, 23, 30, tzinfo=UTC)
    failure = Failure(kind="auth", message="The key was refused.")
    blocks = list(
        page(
            [
                entry(Opened(agent="main", session="s1", key="agent:main:main")),
                said(UserMessage(content=(Text(text="What is in a.md?"),), at=NOON, sender="Anna")),
                said(AssistantMessage(content=(Text(text="I look."), call), model="x/y", stop="tool_use")),
                said(ToolMessage(call_id="c", name="read", text="z" * (RESULT_CHARS + 7))),
                None,
                said(AssistantMessage(content=(), model="x/y", stop="error", failure=failure), late),
                entry(
                    Compacted(summary="one\ntwo", first_kept="x", tokens_before=9, tokens_after=1, model="m", reason="r"), late
                ),
                entry(
                    FlushReceipt(
                        cycle=None,
                        outcome="written",
                        written=(
                            WrittenNote(path="memory/a.md", bytes_before=0, bytes_after=9, sha256_before=None, sha256_after=""),
                        ),
                    ),
                    late,
                ),
            ],
            BERLIN,
        )
    )
    assert blocks[0].startswith("# agent:main:main")
    assert blocks[1] == "## 2026-03-01"
    assert blocks[2] == "**Anna** · 13:00\n\nWhat is in a.md?"
    assert blocks[3] == '**Agent** · 13:00 · x/y\n\nI look.\n\n> 🔧 `read` {"path": "a.md"}'
    assert f"[cut: {RESULT_CHARS + 7:,} characters in all]" in blocks[4]
    assert blocks[5] == "*(unreadable line)*"
    assert blocks[6] == "## 2026-03-02", "the owner's day, not that of the clock in London"
    assert "(no answer: The key was refused.)" in blocks[7]
    assert blocks[8].endswith("> one\n> two")
    assert blocks[9] == "*00:30: noted in memory/a.md*"


def test_an_answer_that_broke_off_is_marked_as_such() -> None:
    [_, block] = page([said(AssistantMessage(content=(Text(text="Half of"),), model="m", stop="cut"))], BERLIN)
    assert block.endswith("Half of\n\n*(interrupted)*")


@given(st.text(alphabet="`~ab\n# ", max_size=40))
def test_nothing_in_a_result_ends_its_fence(text: str) -> None:
    [_, block] = page([said(ToolMessage(call_id="c", name="read", text=text))], BERLIN)
    tokens = MarkdownIt().parse(block)
    assert [token.type for token in tokens if token.level == 0] == ["blockquote_open", "blockquote_close", "fence"]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(arguments)
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def spoken(run: Callable[..., tuple[int, str, str]]) -> str:
    """Something was said, and the conversation was left and begun afresh; the id of the one that was left."""
    run("agent", "-m", "Remember that the shed is green.")
    session = json.loads(run("sessions", "list", "--json")[1])[0]["sessionId"]
    run("agent", "-m", "/new")
    run("agent", "-m", "What colour is the shed?")
    return str(session)


def test_a_conversation_is_exported_and_no_file_is_overwritten(
    run: Callable[..., tuple[int, str, str]], spoken: str, tmp_path: Path
) -> None:
    code, out, _ = run("sessions", "export")
    assert (code, "What colour is the shed?" in out, f"session {spoken}," in out) == (0, True, False)
    target = tmp_path / "talk.md"
    assert run("sessions", "export", spoken, "--output", str(target))[0] == 0
    assert "Remember that the shed is green." in target.read_text()
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    before = target.read_bytes()
    code, _, err = run("sessions", "export", "-o", str(target))
    assert (code, "already exists" in err, target.read_bytes()) == (2, True, before)
    (tmp_path / "folder").mkdir()
    assert run("sessions", "export", spoken, "--format", "jsonl", "-o", str(tmp_path / "folder"))[0] == 0
    lines = (tmp_path / "folder" / f"{spoken}.jsonl").read_text().splitlines()
    assert json.loads(lines[0])["body"]["key"] == "agent:main:main"
    code, _, err = run("sessions", "export", "-o", str(tmp_path / "none" / "x.md"))
    assert code != 0
    assert "write the export" in err


def test_one_that_was_left_is_listed_and_found_also_in_the_archive(
    run: Callable[..., tuple[int, str, str]], spoken: str
) -> None:
    assert spoken not in run("sessions", "list")[1]
    assert f"agent:main:main  left  ({spoken})" in run("sessions", "list", "--all")[1]
    path = Path(os.environ["HOMEBODY_HOME"], "agents", "main", "sessions", f"{spoken}.jsonl")
    (path.parent / "archive").mkdir()
    (path.parent / "archive" / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    assert "the shed is green" in run("sessions", "show", spoken)[1]
    (path.parent / "archive" / f"{path.name}.gz").write_bytes(b"\x1f\x8bbroken")
    code, _, err = run("sessions", "show", spoken)
    assert (code != 0, "read the transcript" in err) == (True, True)
    assert f"?  left  ({spoken})" in run("sessions", "list", "--all")[1]
    code, _, err = run("sessions", "show", "nosuch")
    assert (code, "`homebody sessions list --all`" in err) == (2, True)


def test_a_session_is_found_by_the_end_of_its_key_and_told_by_its_owners_clock(
    run: Callable[..., tuple[int, str, str]],
) -> None:
    run("config", "set", "agents.defaults.userTimezone", "Asia/Kathmandu")
    run("agent", "-m", "Remember that the shed is green.", "--session", "shed")
    started = datetime.fromisoformat(json.loads(run("sessions", "list", "--json")[1])[0]["startedAt"])
    there = started.astimezone(ZoneInfo("Asia/Kathmandu"))
    assert f"agent:main:shed  1 turn, last {there:%a %d %b %H:}" in run("sessions", "list")[1]
    code, out, _ = run("sessions", "show", "shed")
    assert (code, f"{there:%Y-%m-%d %H:}" in out, "turn ended" in out) == (0, True, True)


def test_what_is_shown_cannot_drive_the_terminal(run: Callable[..., tuple[int, str, str]]) -> None:
    run("agent", "-m", "a\x1b]0;title\x07b")
    assert "\x1b" not in run("sessions", "show")[1]
