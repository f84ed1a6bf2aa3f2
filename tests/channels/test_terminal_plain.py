from __future__ import annotations

import asyncio
import io
import itertools
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from channels.live import Done, Reply
from channels.terminal.link import Exchange
from channels.terminal.plain import converse
from gateway.base.clock import SystemClock
from tests.peers.parrot import Parrot

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def parrot() -> AsyncIterator[Parrot]:
    house = Parrot(SystemClock())
    running = asyncio.ensure_future(house.channel.run(house))
    try:
        yield house
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await house.channel.close()


async def talk(lines: bytes) -> tuple[int, str, str]:
    out, err = io.BytesIO(), io.BytesIO()
    keys = map(str, itertools.count())
    async with parrot() as house:
        code = await converse(house.channel.attach(), source=io.BytesIO(lines), out=out, err=err, new_key=lambda: next(keys))
    return code, out.getvalue().decode(), err.getvalue().decode()


async def test_each_line_is_answered_in_turn_and_only_replies_are_printed() -> None:
    code, out, err = await talk(b"one\n\n  \ntwo pieces\nwork hard\nlast without an end")
    assert code == 0
    assert out == "echo: **one**\nfirst\nsecond\necho: **work hard**\necho: **last without an end**\n"
    assert err == "a note\n"


async def test_replies_that_come_after_the_turns_end_are_waited_for() -> None:
    assert await talk(b"late\nnext\n") == (0, "echo: **late**\necho: **next**\n", "")


async def test_a_turn_without_a_reply_is_waited_for() -> None:
    assert await talk(b"silent\nnext\n") == (0, "echo: **next**\n", "")


async def test_a_failed_turn_gives_its_exit_code_and_the_rest_is_still_said() -> None:
    code, out, _ = await talk(b"fail\nnext\n")
    assert (code, out) == (3, "echo: **fail**\necho: **next**\n")


async def test_a_rejected_message_is_told_with_the_mend() -> None:
    assert await talk(b"reject me\n") == (1, "", "no agent of that name\n  homebody agents\n")


async def test_broken_bytes_are_replaced_and_told() -> None:
    code, out, err = await talk(b"fine\na\xffb\xc3\n")
    assert (code, out) == (0, "echo: **fine**\necho: **a\ufffdb\ufffd**\n")
    assert "line 2 is not valid UTF-8" in err


async def test_a_house_that_goes_away_is_told() -> None:
    code, out, err = await talk(b"crash\nnext\n")
    assert (code, out) == (1, "")
    assert "closed" in err


async def test_nothing_said_is_a_success() -> None:
    assert await talk(b"") == (0, "", "")


async def test_control_characters_do_not_reach_the_output() -> None:
    _, out, _ = await talk(b"a\x1b]0;title\x07b\x00\n")
    assert out == "echo: **a]0;titleb**\n"


async def test_a_reader_that_went_away_ends_it_quietly() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    err = io.BytesIO()
    async with parrot() as house:
        with os.fdopen(writing, "wb") as out:
            code = await converse(
                house.channel.attach(), source=io.BytesIO(b"one\ntwo\n"), out=out, err=err, new_key=iter("abc").__next__
            )
            assert house.heard == ["one"]
    assert (code, err.getvalue()) == (0, b"")


async def test_ending_early_does_not_wait_for_the_input() -> None:
    reading, writing = os.pipe()
    async with parrot() as house:
        with os.fdopen(reading, "rb") as source, os.fdopen(writing, "wb", buffering=0) as typed:
            out = io.BytesIO()
            talking = asyncio.ensure_future(
                converse(house.channel.attach(), source=source, out=out, err=io.BytesIO(), new_key=iter("abc").__next__)
            )
            typed.write(b"hello\n")
            while not out.getvalue():  # noqa: ASYNC110 - a buffer tells nobody when it changes
                await asyncio.sleep(0.005)
            talking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await talking
            typed.write(b"\n")


def test_named_replies_are_waited_for_rather_than_counted() -> None:
    exchange = Exchange("m1")
    assert exchange.hear(Reply("left over from before", "old"))
    exchange.hear(Done("t", "m1", {"chunks": 1, "replyKeys": ["new"]}))
    assert not exchange.over
    assert exchange.hear(Reply("the answer", "new"))
    assert exchange.over
    assert not exchange.hear(Reply("the answer", "new"))
