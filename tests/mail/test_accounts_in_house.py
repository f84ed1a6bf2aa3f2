"""Several mail accounts in a whole gateway: rules by recipient, each mail from its own account, and accounts that come and go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent.messages import ToolCall, ToolMessage, UserMessage
from tests.approvals.house import OWNER_AND_GUEST, Buttons
from tests.mail.dovecot import PASSWORD
from tests.mail.letters import letter
from tests.mail.smtp_peer import Peer, serving
from tests.queueing.conftest import Town, newest

if TYPE_CHECKING:
    from pathlib import Path

    from agent.models.protocol import Request
    from tests.mail.dovecot import Dovecot

RULE = {"decision": "allow", "tool": "mail", "to": ["anna@example.org"]}


class Office(Town):
    """``send ACCOUNT TO`` and ``list ACCOUNT`` in a message make the model call the tool."""

    def __init__(self, root: Path, accounts: dict[str, Any]) -> None:
        super().__init__(root, {"mail": {"accounts": accounts}, "approvals": {"rules": [RULE]}})
        self.answer = self.work

    def wire(self, name: str = "wire", account: str = "default") -> Buttons:
        self._lives += 1
        return Buttons(name=name, account=account, first=1000 * self._lives)

    def work(self, request: Request) -> Any:
        last = request.messages[-1]
        if isinstance(last, ToolMessage) or (isinstance(last, UserMessage) and last.runtime):
            return f"so: {' '.join(last.text.split())}"
        words = newest(request)[-1].split()
        if words[0] == "send":
            wish = {"action": "send", "account": words[1], "to": words[2], "subject": "Thursday", "text": "It is fine."}
            return [ToolCall(id="c1", name="mail", arguments=wish)]
        return (
            [ToolCall(id="c1", name="mail", arguments={"action": "list", "account": words[1]})] if words[0] == "list" else "re"
        )


def account_of(dovecot: Dovecot, user: str, port: int) -> dict[str, Any]:
    plain = {"host": "127.0.0.1", "security": "none"}
    return {
        "imap": plain | {"port": dovecot.port},
        "smtp": plain | {"port": port},
        "user": user,
        "password": PASSWORD,
        "fromAddress": f"{user}@example.net",
        "saveSent": "always",
    }


async def test_a_rule_by_recipient_sends_at_once_from_the_account_that_is_named(
    tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    peer = Peer()
    with serving(peer) as port:
        office = Office(tmp_path, {"home": account_of(dovecot, user, port), "work": account_of(dovecot, f"{user}w", port)})
        wire = office.wire()
        async with office.house(wire, policy=OWNER_AND_GUEST):
            await wire.say("send work anna@example.org")
            await wire.until(lambda: any("sent to anna@example.org" in text for text in wire.said()))
            await wire.say("send home anna@example.org,bob@example.org")
            await wire.until(lambda: any("wants to send a mail" in one.text for one in wire.sent))
    ((to, content),) = peer.taken
    assert to == ["anna@example.org"]
    assert f"From: {user}w@example.net".encode() in content
    assert len(dovecot.stored(f"{user}w", "Sent Messages")) == 1
    assert dovecot.stored(user, "Sent Messages") == []


async def test_an_account_comes_and_goes_while_the_gateway_runs(tmp_path: Path, dovecot: Dovecot, user: str) -> None:
    peer = Peer()
    dovecot.deliver(f"{user}w", letter(subject="Budget"))
    with serving(peer) as port:
        home, work = account_of(dovecot, user, port), account_of(dovecot, f"{user}w", port)
        office = Office(tmp_path, {"home": home})
        wire = office.wire()
        async with office.house(wire, policy=OWNER_AND_GUEST) as house:

            async def told(text: str) -> str:
                before = len(wire.said())
                await wire.say(text)
                await wire.until(lambda: len(wire.said()) > before)
                return wire.said()[-1]

            def now(accounts: dict[str, Any]) -> None:
                given = office.settings.model_dump(by_alias=True, exclude_unset=True)
                house.settings.replace(type(office.settings).model_validate(given | {"mail": {"accounts": accounts}}))

            assert "there is no mail account 'work'" in await told("list work")
            now({"home": home, "work": work})
            assert "Budget" in await told("list work")
            now({"work": work})
            assert "there is no mail account 'home'" in await told("list home")
            now({})
            assert "this agent has no mail account any more" in await told("list work")
