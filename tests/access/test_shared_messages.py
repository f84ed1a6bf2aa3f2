"""Which stored messages a gateway of a cluster handles, and that what it dropped begins anew when it has the agent again."""

from __future__ import annotations

from datetime import UTC, datetime

from channels.messages import ChatAddress, Inbound, Sender
from gateway.inbound.shared_messages import SharedMessages
from gateway.ledger.rows import InboxRow
from gateway.routing.access import Actor
from gateway.routing.routed_message import ReceivedMessage

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
CHAT = ChatAddress(channel="telegram", kind="direct", id="7")


def row(number: int, agent: str) -> InboxRow:
    return InboxRow(
        id=number,
        session=f"agent:{agent}:main",
        received_at=NOON,
        account="telegram:default",
        alias=f"m{number}",
        conversation=CHAT.address,
        sender="7",
        payload="{}",
    )


def test_what_waits_for_an_agent_that_was_given_up_begins_anew_when_it_is_taken_again() -> None:
    here = {"anna", "bob"}
    shared = SharedMessages(here.__contains__, lambda: ["anna", "bob"])
    anna = Sender(id="7", name="Anna")
    inbound = Inbound(key="1", alias="m1", message_id="1", conversation=CHAT, sender=anna, text="hello", at=NOON)
    message = ReceivedMessage(inbound=inbound, actor=Actor(role="owner", person="anna", sender="7"), route=None)
    first, other = row(1, "anna"), row(2, "bob")
    assert [shared.begins(one, message, taken=False) for one in (first, other, first)] == [True, True, False]
    here.discard("anna")
    shared.left(["anna"])
    assert not shared.begins(first, message, taken=False), "another gateway has it"
    assert shared.begins(first, message, taken=True), "it came back, and this message was begun by nobody"
    assert not shared.begins(first, message, taken=True)
    assert not shared.begins(other, message, taken=False)
