"""The one-time code that makes its sender the owner."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.messages import ChatAddress, Sender
from channels.platform import Policy
from gateway.ledger.pairing_rows import PAIRING_TTL
from gateway.routing.access import CODE_ALPHABET, INVITATION_LENGTH, Pair, invitation_in, new_invitation
from tests.access.test_access import Gate, gate

if TYPE_CHECKING:
    from pathlib import Path

    from gateway.ledger.rows import ApprovedSender


def bytes_in(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir())


async def send(
    g: Gate, sender: str, text: str, *, group: str | None = None, channel: str = "telegram"
) -> ApprovedSender | None:
    place = ChatAddress(channel=channel, kind="group" if group else "direct", id=group or sender)
    return await g.access.accept_invitation(place, Sender(id=sender, name="Ada"), text)


@pytest.mark.sec(30)
async def test_whoever_sends_the_code_first_is_the_owner_and_nobody_after_them(tmp_path: Path) -> None:
    async with gate(tmp_path, telegram=Policy()) as g:
        code = (await g.desk.invite("telegram"))["code"]
        assert (await g.desk.invitation("telegram"))["open"] is True
        assert await send(g, "42", f"/start {code}") is not None
        assert await g.role("42") == "owner"
        assert [text for where, text in await g.said() if where == "42"] == [
            "We are paired: I take you for my owner here. What can I do for you?"
        ]
        assert await send(g, "43", f"/start {code}") is None
        assert isinstance(await g.decide("43"), Pair)
        told = await g.desk.invitation("telegram")
        assert told["open"] is False
        assert (told["owner"]["sender"], told["owner"]["name"]) == ("42", "Ada")


async def test_a_redelivered_code_is_taken_once_and_reaches_no_agent(tmp_path: Path) -> None:
    async with gate(tmp_path, telegram=Policy()) as g:
        code = (await g.desk.invite("telegram"))["code"]
        for _ in range(3):
            assert await send(g, "42", code) is not None
        assert len(await g.said()) == 1


@pytest.mark.sec(30)
@pytest.mark.parametrize("policy", [Policy(dm_policy="allowlist"), Policy(dm_policy="disabled"), Policy(dm_policy="open")])
async def test_where_pairing_is_off_no_code_opens(tmp_path: Path, policy: Policy) -> None:
    async with gate(tmp_path, telegram=policy) as g:
        code = (await g.desk.invite("telegram"))["code"]
        assert await send(g, "42", code) is None


@pytest.mark.sec(30)
async def test_a_code_counts_only_in_private_on_its_channel_for_an_hour_and_until_the_next_one(tmp_path: Path) -> None:
    async with gate(tmp_path, telegram=Policy(), discord=Policy()) as g:
        former = (await g.desk.invite("telegram"))["code"]
        code = (await g.desk.invite("telegram"))["code"]
        assert await send(g, "42", former) is None
        assert await send(g, "42", code, group="-1") is None
        assert await send(g, "42", code, channel="discord") is None
        assert await send(g, "42", new_invitation()) is None
        g.clock.move(PAIRING_TTL.total_seconds())
        assert await send(g, "42", code) is None


async def test_a_guest_who_is_invited_becomes_an_owner_and_an_open_request_is_closed(tmp_path: Path) -> None:
    async with gate(tmp_path, telegram=Policy()) as g:
        assert await g.pair("1", owner=True) == "owner"
        assert await g.pair("42") == "peer"
        await g.ask("43")
        for sender in ("42", "43"):
            code = (await g.desk.invite("telegram"))["code"]
            assert await send(g, sender, code) is not None
            assert await g.role(sender) == "owner"
        assert await g.ledger.pairing.pending() == []


async def test_the_code_itself_is_not_stored(tmp_path: Path) -> None:
    async with gate(tmp_path, telegram=Policy()) as g:
        code = (await g.desk.invite("telegram"))["code"]
        await send(g, "42", code)
    assert code.encode() not in bytes_in(tmp_path)


async def test_a_used_code_does_not_undo_a_revocation(tmp_path: Path) -> None:
    async with gate(tmp_path, telegram=Policy()) as g:
        code = (await g.desk.invite("telegram"))["code"]
        await send(g, "42", code)
        await g.desk.revoke("telegram", "42")
        assert await send(g, "42", code) is None
        assert isinstance(await g.decide("42"), Pair)


codes = st.text(alphabet=CODE_ALPHABET, min_size=INVITATION_LENGTH, max_size=INVITATION_LENGTH)


@given(codes, st.sampled_from(["", "/start ", "/start   ", " ", "\n"]), st.sampled_from(["", " ", "\n"]))
def test_a_code_is_read_however_it_comes(code: str, before: str, after: str) -> None:
    assert invitation_in(f"{before}{code}{after}") == code
    assert invitation_in(f"{before}{code.lower()}{after}") == code


@given(st.text())
def test_nothing_else_is_a_code(text: str) -> None:
    found = invitation_in(text)
    assert found is None or (len(found) == INVITATION_LENGTH and set(found) <= set(CODE_ALPHABET))


@given(codes, codes)
def test_a_message_that_only_contains_a_code_is_a_message(code: str, more: str) -> None:
    assert invitation_in(f"{code} {more}") is None
    assert invitation_in(f"my code is {code}") is None
