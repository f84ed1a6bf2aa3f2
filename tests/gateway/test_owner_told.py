"""What the owner must know reaches their chat, whatever session they speak in and whatever became of the ledger."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from gateway.supervision.crash_loop import OFTEN_CRASHED
from tests.gateway.test_telegram_house import ANNA, BEN, Home
from tests.peers.telegram import TelegramPeer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

SCOPES = ("main", "per-peer", "per-channel-peer")


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    async with TelegramPeer() as peer:
        yield Home(tmp_path, peer)


def state(home: Home) -> Path:
    return next(home.root.glob("home/**/ledger.sqlite")).parent


async def talked(home: Home, **given: Any) -> None:
    """A life in which the owner and then a guest said something."""
    async with home.lived_in(**given):
        await home.peer.say(ANNA, "hello")
        await home.says(1)
        await home.peer.say(BEN, "hello", name="Ben")
        await home.says(1, BEN)
        await home.peer.until(lambda: home.peer.unconfirmed == 0)


@pytest.mark.parametrize("scope", SCOPES)
async def test_a_ledger_that_was_set_aside_is_told_in_the_owners_chat_alone(home: Home, scope: str) -> None:
    given: dict[str, Any] = {"session": {"dmScope": scope}, "allowFrom": [ANNA, BEN]}
    await talked(home, **given)
    (state(home) / "ledger.sqlite").write_bytes(b"rubbish" * 4000)
    async with home.lived_in(**given):
        assert (await home.says(2))[1].startswith("⚠️ The ledger of messages could not be used")
        assert len(home.peer.chats.said(BEN)) == 1


async def test_a_ledger_that_is_gone_is_told_where_sessions_remain(home: Home) -> None:
    given: dict[str, Any] = {"session": {"dmScope": "per-channel-peer"}, "allowFrom": [ANNA, BEN]}
    await talked(home, **given)
    for path in state(home).glob("ledger.sqlite*"):
        path.unlink()
    async with home.lived_in(**given) as house:
        told = (await home.says(2))[1]
        assert told.startswith("⚠️ There are sessions, but the ledger of messages is gone")
        assert told.removeprefix("⚠️ ") in house.notices.told
        assert len(home.peer.chats.said(BEN)) == 1
        await home.peer.say(ANNA, "hello again")
        await home.says(3)
    async with home.lived_in(**given) as house:
        assert not any("is gone" in notice for notice in house.notices.told), (
            "it is told until the new ledger has taken a message"
        )


@pytest.mark.parametrize("scope", SCOPES)
async def test_a_pause_after_crashes_is_told_in_the_owners_chat(home: Home, scope: str) -> None:
    given: dict[str, Any] = {"session": {"dmScope": scope}, "allowFrom": [ANNA, BEN]}
    await talked(home, **given)
    (state(home) / "starts.json").write_text(json.dumps([(time.time(), False)] * 3))
    async with home.lived_in(**given):
        assert (await home.says(2))[1] == f"⚠️ {OFTEN_CRASHED}"
        assert len(home.peer.chats.said(BEN)) == 1


async def test_an_owner_by_another_name_is_found_in_the_session_of_that_name(home: Home) -> None:
    given: dict[str, Any] = {
        "session": {"dmScope": "per-channel-peer", "identityLinks": {"anna": [f"telegram:{ANNA}"]}},
        "allowFrom": [ANNA, BEN],
    }
    await talked(home, **given)
    async with home.lived_in(**given) as house:
        house.owner.say("💾 Little space is left.")
        assert (await home.says(2))[1] == "💾 Little space is left."


async def test_what_could_be_said_nowhere_is_said_when_the_owner_first_writes(home: Home) -> None:
    async with home.lived_in(allowFrom=[ANNA, BEN], session={"dmScope": "per-channel-peer"}) as house:
        house.owner.say("what passes by")
        house.owner.say("💾 Little space is left.", waits=True)
        await home.peer.say(BEN, "hello", name="Ben")
        await home.says(1, BEN)
        assert home.peer.chats.said(BEN) == ["re: hello"]
        await home.peer.say(ANNA, "hello")
        assert sorted(await home.says(2)) == ["re: hello", "💾 Little space is left."]
