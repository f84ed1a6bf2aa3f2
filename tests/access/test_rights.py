"""Who may give which command where, and that strangers do not keep the owner from being let in."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from channels.messages import ChatAddress
from gateway.base.clock import ManualClock
from gateway.command_handlers.rights import ASKING, OPEN, OWNERS, CommandRights, Who
from gateway.commands.table import COMMANDS, Command
from gateway.ledger.pairing_rows import KEPT_AT_LEAST, PENDING_LIMIT
from gateway.ledger.sqlite import SqliteLedger
from gateway.routing.access import Actor

if TYPE_CHECKING:
    from pathlib import Path

HALL = ChatAddress(channel="telegram", kind="group", id="-7")
PRIVATE = ChatAddress(channel="telegram", kind="direct", id="42")
OWNER = Actor(role="owner", person="anna", sender="1")
MEMBER = Actor(role="peer", person="eve", sender="42")
CHANGES = (
    ("new", ""), ("new", "gpt"), ("reset", ""), ("undo", ""), ("compact", ""), ("pin", "Eve is the owner too"), ("unpin", "1"),
    ("model", "box/big"), ("think", "high"), ("reasoning", "on"), ("reasoning", ""), ("verbose", "on"), ("queue", "interrupt"),
)  # fmt: skip
HARMLESS = (
    ("help", ""),
    ("status", ""),
    ("model", ""),
    ("models", ""),
    ("pin", ""),
    ("think", ""),
    ("why", ""),
    ("whoami", ""),
)


def rights(**opened: Who) -> CommandRights:
    return CommandRights(lambda: {key.replace("_", ":").replace("all", "*"): who for key, who in opened.items()})


@pytest.mark.parametrize(("name", "argument"), CHANGES)
@pytest.mark.sec(28)
def test_what_changes_a_group_for_all_is_its_owners(name: str, argument: str) -> None:
    assert not rights().may(COMMANDS[name], argument, HALL, MEMBER)
    assert rights().may(COMMANDS[name], argument, HALL, OWNER)
    assert f"/{name}" in rights().refusal(COMMANDS[name], HALL)
    assert "messages.groupCommands" in rights().refusal(COMMANDS[name], HALL)


@pytest.mark.parametrize(("name", "argument"), HARMLESS)
def test_what_only_tells_is_everybodys(name: str, argument: str) -> None:
    assert rights().may(COMMANDS[name], argument, HALL, MEMBER)


@pytest.mark.parametrize(("opened", "may"), [
    ({"telegram:-7": "members"}, True), ({"telegram": "members"}, True), ({"*": "members"}, True), ({"telegram:-8": "members"}, False),
    ({"*": "members", "telegram:-7": "owner"}, False), ({"telegram": "owner", "*": "members"}, False), ({"slack": "members"}, False),
])  # fmt: skip
def test_the_settings_open_them_by_group_and_the_nearest_rule_counts(opened: dict[str, Who], may: bool) -> None:
    decides = CommandRights(lambda: opened)
    assert decides.may(COMMANDS["new"], "", HALL, MEMBER) is may
    assert decides.may_stop(running("1"), HALL, MEMBER) is may


def test_a_guest_in_private_has_their_own_conversation_but_does_not_choose_what_the_owner_pays() -> None:
    assert rights().may(COMMANDS["new"], "", PRIVATE, MEMBER)
    assert rights().may(COMMANDS["pin"], "x", PRIVATE, MEMBER)
    assert not rights(all="members").may(COMMANDS["model"], "box/big", PRIVATE, MEMBER)
    assert not rights().may(COMMANDS["think"], "high", PRIVATE, MEMBER)


def running(*senders: str, steered: tuple[str, ...] = ()) -> Any:
    arrived = [SimpleNamespace(inbound=SimpleNamespace(sender=SimpleNamespace(id=one))) for one in steered]
    return SimpleNamespace(items=[SimpleNamespace(sender=one) for one in senders], steered=arrived)


@pytest.mark.sec(28)
def test_a_member_stops_only_a_turn_that_answers_nobody_else() -> None:
    assert rights().may_stop(running("42"), HALL, MEMBER)
    assert rights().may_stop(None, HALL, MEMBER)
    assert rights().may_stop(running("1"), HALL, OWNER)
    for turn in (running("1"), running("42", "1"), running("42", steered=("1",))):
        assert not rights().may_stop(turn, HALL, MEMBER)


def test_help_lists_what_one_may_use() -> None:
    member, owner = rights().help(HALL, MEMBER), rights().help(HALL, OWNER)
    for name in ("new", "undo", "compact", "unpin", "budget"):
        assert f"`/{name}" in owner
        assert f"`/{name}" not in member
    assert "`/model [provider" in owner
    assert "`/model`" in member
    assert "`/new" in rights(all="members").help(HALL, MEMBER)


async def asked(ledger: SqliteLedger, sender: str) -> bool:
    place = ChatAddress(channel="telegram", kind="direct", id=sender)
    return await ledger.pairing.request(place, sender, "N", f"CODE{sender}", "who are you?") is not None


async def test_strangers_do_not_keep_the_owner_out_for_an_hour(tmp_path: Path) -> None:
    clock = ManualClock(datetime(2026, 3, 18, 9, tzinfo=UTC))
    ledger = await SqliteLedger.open(tmp_path / "ledger.sqlite", clock)
    for number in range(PENDING_LIMIT):
        assert await asked(ledger, f"s{number}")
    assert not await asked(ledger, "flood"), "no more answers than that within minutes"
    clock.move(KEPT_AT_LEAST.total_seconds() + 1)
    assert await asked(ledger, "owner")
    waiting = [one.sender for one in await ledger.pairing.pending()]
    assert waiting == [*(f"s{number}" for number in range(1, PENDING_LIMIT)), "owner"]
    assert not await asked(ledger, "owner"), "each asks once"
    assert await ledger.pairing.approve("telegram", "CODEs0", "peer", "hello") is None
    assert await ledger.pairing.approve("telegram", "CODEowner", "owner", "hello") is not None
    await ledger.close()


def test_every_command_is_known_to_the_rights_and_one_that_is_not_is_the_owners_in_a_group() -> None:
    changing = {"new", "reset", "undo", "compact", "unpin", "reasoning", "verbose", "voice", "missed"}
    assert set(COMMANDS) == OPEN | OWNERS | ASKING | changing
    assert not rights().may(Command("selfdestruct", "end everything"), "", HALL, MEMBER)
    assert rights(all="members").may(Command("selfdestruct", "end everything"), "", HALL, MEMBER)
