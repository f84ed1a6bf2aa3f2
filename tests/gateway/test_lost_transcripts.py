"""A conversation whose transcript is gone goes on, and its owner is told of that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.gateway.test_telegram_house import ANNA, Home
from tests.peers.telegram import TelegramPeer

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("how", ["gone", "empty", "whole"])
async def test_a_transcript_that_is_gone_or_empty_is_told_once(tmp_path: Path, how: str) -> None:
    async with TelegramPeer(local=True) as peer:
        home = Home(tmp_path, peer)
        async with home.lived_in():
            await peer.say(ANNA, "hello")
            assert await home.says(1) == ["re: hello"]
        [transcript] = (tmp_path / "home/agents/main/sessions").glob("*.jsonl")
        if how == "gone":
            transcript.unlink()
        elif how == "empty":
            transcript.write_bytes(b"")
        more = 1 if how == "whole" else 2
        async with home.lived_in():
            await peer.say(ANNA, "and now?")
            said = await home.says(1 + more)
            await peer.say(ANNA, "and then?")
            said = await home.says(2 + more)
        told = [text for text in said if "is empty or gone" in text]
        assert len(told) == more - 1
        assert all("agent:main:main" in text for text in told)
        assert {"re: and now?", "re: and then?"} <= set(said)
