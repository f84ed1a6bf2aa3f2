"""Who may speak, and with what rights."""

from __future__ import annotations

from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from channels.messages import ChatAddress, Sender
from channels.platform import Policy
from gateway.api.handlers.pairing_requests import PairingHandlers
from gateway.base.clock import ManualClock
from gateway.base.errors import UsageError
from gateway.ledger.pairing_rows import PENDING_LIMIT
from gateway.ledger.sqlite import SqliteLedger
from gateway.routing.access import CODE_ALPHABET, Access, Allowed, Ignored, Pair, concerns, new_code

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path

    from gateway.routing.access import Decision

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Gate:
    """An access with a desk, on a ledger of its own."""

    def __init__(
        self, ledger: SqliteLedger, clock: ManualClock, policies: Mapping[str, Policy], links: Mapping[str, Sequence[str]]
    ) -> None:
        self.ledger, self.clock = ledger, clock
        self.access = Access(ledger.pairing, lambda: {(name, "default"): policy for name, policy in policies.items()}, links)
        self.desk = PairingHandlers(ledger, self.access)

    async def decide(
        self, sender: str, channel: str = "telegram", *, group: str | None = None, mentioned: bool = True
    ) -> Decision:
        place = ChatAddress(channel=channel, kind="group" if group else "direct", id=group or sender)
        return await self.access.decide(place, Sender(id=sender), mentioned=mentioned)

    async def role(self, sender: str, channel: str = "telegram", **more: str) -> str:
        decision = await self.decide(sender, channel, **more)  # type: ignore[arg-type]
        assert isinstance(decision, Allowed), decision
        return decision.actor.role

    async def ask(self, sender: str, channel: str = "telegram", name: str = "") -> str | None:
        """Write as a stranger; return the code that was sent, if one was."""
        decision = await self.decide(sender, channel)
        assert isinstance(decision, Pair), decision
        place = ChatAddress(channel=channel, kind="direct", id=sender)
        request = await self.ledger.pairing.request(place, sender, name, decision.code, decision.text)
        return request and request.code

    async def pair(self, sender: str, channel: str = "telegram", *, owner: bool = False) -> str:
        code = await self.ask(sender, channel)
        assert code is not None
        approved = await self.desk.approve(channel, code, owner=owner)
        role: str = approved["approved"]["role"]
        return role

    async def said(self) -> list[tuple[str, str]]:
        return [(row.conversation.id, row.text) for row in await self.ledger.outbox.latest(["ready"])]


@asynccontextmanager
async def gate(folder: Path, links: Mapping[str, Sequence[str]] | None = None, **policies: Policy) -> AsyncIterator[Gate]:
    clock = ManualClock(NOON)
    ledger = await SqliteLedger.open(folder / "ledger.sqlite", clock)
    try:
        yield Gate(ledger, clock, policies, links or {})
    finally:
        await ledger.close()


@pytest.mark.sec(30)
async def test_a_stranger_gets_a_code_and_nothing_else(tmp_path: Path) -> None:
    async with gate(tmp_path) as g:
        code = await g.ask("42", name="Eve")
        ((where, text),) = await g.said()
        assert where == "42"
        assert code is not None
        assert code in text
        assert set(code) <= set(CODE_ALPHABET)
        assert len(code) == 8


async def test_a_stranger_who_writes_again_is_answered_again_only_after_an_hour(tmp_path: Path) -> None:
    async with gate(tmp_path) as g:
        assert await g.ask("42")
        g.clock.move(3599)
        assert await g.ask("42") is None
        assert len(await g.said()) == 1
        g.clock.move(1)
        assert await g.ask("42")
        assert len(await g.said()) == 2


async def test_a_limited_number_of_strangers_waits_on_a_channel(tmp_path: Path) -> None:
    async with gate(tmp_path) as g:
        codes = [await g.ask(str(number)) for number in range(100)]
        assert sum(code is not None for code in codes) == PENDING_LIMIT
        assert len(await g.ledger.pairing.pending()) == PENDING_LIMIT
        assert await g.ask("7", "discord") is not None


async def test_the_first_one_let_in_is_the_owner_and_the_second_a_guest_of_whom_the_owner_is_told(tmp_path: Path) -> None:
    async with gate(tmp_path) as g:
        assert await g.pair("42") == "owner"
        assert await g.pair("43") == "peer"
        assert (await g.role("42"), await g.role("43")) == ("owner", "peer")
        to_owner = [text for where, text in await g.said() if where == "42"]
        assert "as a guest" in to_owner[-1]
        assert "telegram 43" in to_owner[-1]


async def test_the_owner_on_a_second_channel_is_a_guest_until_they_say_who_they_are(tmp_path: Path) -> None:
    async with gate(tmp_path) as g:
        await g.pair("42")
        assert await g.pair("U7", "slack") == "peer"
        assert await g.pair("9", "discord", owner=True) == "owner"
        assert await g.role("U7", "slack") == "peer"
        assert await g.role("9", "discord") == "owner"


async def test_a_linked_identity_makes_the_owner_the_owner_everywhere(tmp_path: Path) -> None:
    async with gate(tmp_path, {"sam": ("telegram:42", "slack:U7")}) as g:
        await g.pair("42")
        assert await g.pair("U7", "slack") == "owner"
        decision = await g.decide("U7", "slack")
        assert isinstance(decision, Allowed)
        assert decision.actor.person == "sam"


async def test_an_owner_in_the_settings_makes_whoever_is_paired_a_guest(tmp_path: Path) -> None:
    async with gate(tmp_path, telegram=Policy(allow_from=("42", "44"))) as g:
        assert await g.pair("43") == "peer"
        assert (await g.role("42"), await g.role("44")) == ("owner", "peer")
        assert await g.pair("1", "discord") == "peer"


@pytest.mark.sec(30)
async def test_an_empty_allowlist_means_nobody(tmp_path: Path) -> None:
    async with gate(tmp_path, telegram=Policy(dm_policy="allowlist")) as g:
        assert isinstance(await g.decide("42"), Ignored)


async def test_open_needs_the_star(tmp_path: Path) -> None:
    async with gate(tmp_path, telegram=Policy(dm_policy="open"), slack=Policy(dm_policy="open", allow_from=("*",))) as g:
        assert isinstance(await g.decide("42"), Ignored)
        assert await g.role("U1", "slack") == "peer"


async def test_the_star_alone_opens_no_other_policy(tmp_path: Path) -> None:
    star = ("*",)
    async with gate(tmp_path, telegram=Policy(allow_from=star), slack=Policy(dm_policy="allowlist", allow_from=star)) as g:
        assert isinstance(await g.decide("42"), Pair)
        assert isinstance(await g.decide("U1", "slack"), Ignored)
        assert isinstance(await g.decide("*", "slack"), Ignored)


async def test_disabled_shuts_out_even_the_listed(tmp_path: Path) -> None:
    async with gate(tmp_path, telegram=Policy(dm_policy="disabled", allow_from=("42",))) as g:
        assert isinstance(await g.decide("42"), Ignored)


@pytest.mark.sec(22)
async def test_being_paired_gives_no_right_in_a_group(tmp_path: Path) -> None:
    async with gate(tmp_path, telegram=Policy(groups=frozenset({"-100"}))) as g:
        await g.pair("42")
        assert isinstance(await g.decide("42", group="-100"), Ignored)
        assert isinstance(await g.decide("42", group="-200"), Ignored)


async def test_a_listed_group_needs_a_listed_sender_and_a_mention(tmp_path: Path) -> None:
    async with gate(tmp_path, telegram=Policy(allow_from=("42",), groups=frozenset({"-100"}))) as g:
        assert await g.role("42", group="-100") == "owner"
        assert isinstance(await g.decide("42", group="-100", mentioned=False), Ignored)
        assert isinstance(await g.decide("43", group="-100"), Ignored)


async def test_a_local_channel_is_the_owner(tmp_path: Path) -> None:
    async with gate(tmp_path, terminal=Policy(local=True)) as g:
        assert await g.role("owner", "terminal") == "owner"


@pytest.mark.sec(21)
async def test_a_copied_name_opens_nothing(tmp_path: Path) -> None:
    async with gate(tmp_path, telegram=Policy(dm_policy="allowlist", allow_from=("42",))) as g:
        place = ChatAddress(channel="telegram", kind="direct", id="66")
        assert isinstance(await g.access.decide(place, Sender(id="66", name="42")), Ignored)


async def test_a_code_works_once_within_the_hour_and_on_its_channel(tmp_path: Path) -> None:
    async with gate(tmp_path) as g:
        code = await g.ask("42")
        assert code is not None
        with pytest.raises(UsageError, match="discord"):
            await g.desk.approve("discord", code)
        await g.desk.approve("Telegram", code.lower())
        with pytest.raises(UsageError):
            await g.desk.approve("telegram", code)
        late = await g.ask("43")
        assert late is not None
        g.clock.move(3600)
        with pytest.raises(UsageError) as caught:
            await g.desk.approve("telegram", late)
        assert caught.value.hint


async def test_whoever_is_revoked_is_a_stranger_again(tmp_path: Path) -> None:
    async with gate(tmp_path) as g:
        await g.pair("42")
        await g.pair("43")
        gone = await g.desk.revoke("telegram", "43")
        assert [one["sender"] for one in gone["revoked"]] == ["43"]
        assert isinstance(await g.decide("43"), Pair)
        assert await g.role("42") == "owner"
        with pytest.raises(UsageError):
            await g.desk.revoke("telegram", "43")


async def test_the_list_shows_both_sides(tmp_path: Path) -> None:
    async with gate(tmp_path) as g:
        await g.pair("42")
        code = await g.ask("43", name="Eve\x1b[2J")
        facts = await g.desk.list()
        assert [(one["sender"], one["role"]) for one in facts["approved"]] == [("42", "owner")]
        assert [(one["sender"], one["code"]) for one in facts["pending"]] == [("43", code)]
        assert (await g.desk.list("discord")) == {"pending": [], "approved": []}


def test_codes_avoid_what_is_misread() -> None:
    codes = "".join(new_code() for _ in range(500))
    assert not set("01OIoi") & set(codes)
    assert set(codes) == set(CODE_ALPHABET)


def test_a_policy_that_hardly_means_what_it_says_is_told() -> None:
    assert concerns("telegram:default", Policy()) == []
    assert concerns("telegram:default", Policy(dm_policy="open", allow_from=("*",))) == []
    (told,) = concerns("telegram:default", Policy(dm_policy="open", allow_from=("1",)))
    assert '"*" in allowFrom' in told
    (told,) = concerns("telegram:default", Policy(allow_from=("1", "2", "*")))
    assert "The first, 1, is the owner" in told
