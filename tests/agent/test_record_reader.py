"""Records are read by several threads at once, also when nothing has read one before."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from agent.record_reader import RecordReader
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
AT_ONCE = """
import os, sys, threading
from datetime import UTC, datetime
from agent.messages import Text, UserMessage
from agent.transcript.entries import Entry, Said, decode, encode
from gateway.workspaces.sync_state import SyncState

at = datetime(2026, 1, 1, tzinfo=UTC)
entry = Entry(id="a", parent=None, at=at, body=Said(message=UserMessage(content=(Text(text="x"),), at=at)))
line = encode(entry)
sys.setswitchinterval(1e-6)

def read():
    begin.wait()
    for _ in range(20):
        assert decode(line) == entry

for _ in range(20):
    if not os.fork():
        begin = threading.Barrier(6)
        threads = [threading.Thread(target=read) for _ in range(6)]
        [one.start() for one in threads]
        [one.join() for one in threads]
        os._exit(0)
print(sorted({os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(20)}))
"""


class One(msgspec.Struct):
    number: int


def test_the_first_entries_are_read_by_several_threads_at_once() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", AT_ONCE], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (done.stdout.strip(), done.stderr) == ("[0]", "")


def test_records_are_read_of_text_and_of_values() -> None:
    reader = RecordReader[One](One)
    assert reader.from_json(b'{"number": 1}') == reader.from_values({"number": 1}) == One(1)
    assert RecordReader[One](One, strict=False).from_values({"number": "2"}) == One(2)
    for wrong in (b'{"number": "1"}', b"[", b"{}"):
        with pytest.raises(ValueError, match=r"\w"):
            reader.from_json(wrong)


def test_nothing_else_has_msgspec_collect_what_it_knows_of_records() -> None:
    """``convert``, and ``decode`` or a decoder with a type, are for ``RecordReader``; a decoder of plain types at import is none."""
    found = set()
    for room in ("agent", "channels", "gateway", "memory"):
        for path in (ROOT / room).rglob("*.py"):
            if "msgspec" not in (text := path.read_text("utf-8")):
                continue
            for node in ast.walk(ast.parse(text)):
                if not isinstance(node, ast.Call):
                    continue
                name = ast.unparse(node.func)
                typed = bool(node.args[1:]) or any(keyword.arg == "type" for keyword in node.keywords)
                if (
                    name == "msgspec.convert"
                    or name.endswith("Decoder")
                    or (name.endswith(".decode") and "msgspec" in name and typed)
                ):
                    found.add(f"{path.relative_to(ROOT)}: {name}")
    assert found == {
        "agent/record_reader.py: msgspec.convert",
        "agent/record_reader.py: msgspec.json.Decoder",
        "agent/tools/packed_marks.py: msgspec.msgpack.Decoder",
    }
