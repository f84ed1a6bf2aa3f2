"""New mail in a whole house: a notice without a model, or a turn of the agent; with quiet hours, and once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from agent.taint import source
from tests.mail.dovecot import PASSWORD
from tests.mail.letters import letter
from tests.queueing.conftest import Town

if TYPE_CHECKING:
    from pathlib import Path

    from agent.models.protocol import Request
    from gateway.app.gateway import Gateway
    from tests.mail.dovecot import Dovecot


class Home(Town):
    """A house whose mail is watched. ``given`` is what the model was asked."""

    def __init__(self, root: Path, dovecot: Dovecot, user: str, watch: str, **more: Any) -> None:
        account = {
            "imap": {"host": "127.0.0.1", "port": dovecot.port, "security": "none"},
            "user": user,
            "password": PASSWORD,
            "fromAddress": "ann@example.net",
            "watch": watch,
            "watchEverySeconds": 10,
        }
        super().__init__(root, {"mail": {"accounts": {"home": account}}} | more)
        self.given: list[Request] = []
        self.answer = self.note

    def note(self, request: Request) -> str:
        self.given.append(request)
        return "Anna asks about Thursday."


async def watched(house: Gateway) -> None:
    """Watch, and wait until there is a cursor."""
    house.mail_watch.begin()
    while house.mail_watch.facts()["home"]["state"] != "watching":  # noqa: ASYNC110
        await asyncio.sleep(0.02)


async def test_the_owner_is_told_of_new_mail_without_a_model(tmp_path: Path, dovecot: Dovecot, user: str) -> None:
    home = Home(tmp_path, dovecot, user, "notify")
    wire = home.wire()
    async with home.house(wire) as house:
        await wire.say("hello")
        await wire.until(lambda: bool(wire.said()))
        asked = len(home.given)
        await watched(house)
        dovecot.deliver(user, letter(subject="Thursday"))
        await wire.until(lambda: "📬 1 new mail in home" in wire.said()[-1])
        assert "anna@example.org" in wire.said()[-1]
        assert len(home.given) == asked
        await wire.say("what does she want?")
        await wire.until(lambda: wire.said()[-1].startswith("Anna asks"))
        text = str(home.given[-1].messages)
        assert "<untrusted" in text
        assert "INBOX#" in text
    again = home.wire()
    async with home.house(again) as house:
        await watched(house)
        await house.delivery.settled()
        assert not any("📬" in text for text in again.said())


async def test_the_agent_is_given_new_mail_as_untrusted_text(tmp_path: Path, dovecot: Dovecot, user: str) -> None:
    home = Home(tmp_path, dovecot, user, "agent")
    wire = home.wire()
    async with home.house(wire) as house:
        await wire.say("hello")
        await wire.until(lambda: bool(wire.said()))
        before = len(wire.said())
        await watched(house)
        dovecot.deliver(user, letter("Does Thursday suit you?", subject="Thursday"))
        await wire.until(lambda: len(wire.said()) > before)
        assert wire.said()[-1].endswith("Anna asks about Thursday.")
        text = str(home.given[-1].messages)
        assert "Does Thursday suit you?" in text
        assert source("mail", "anna@example.org") in text


async def test_notices_wait_for_the_end_of_quiet_hours(tmp_path: Path, dovecot: Dovecot, user: str) -> None:
    quiet = {"agents": {"defaults": {"quietHours": {"start": "09:00", "end": "11:00"}}}}
    home = Home(tmp_path, dovecot, user, "notify", **quiet)
    wire = home.wire()
    async with home.house(wire) as house:
        await wire.say("hello")
        await wire.until(lambda: bool(wire.said()))
        await watched(house)
        dovecot.deliver(user, letter(subject="Thursday"))
        while not (await house.ledger.tally()).held:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        assert not any("📬" in text for text in wire.said())
        home.clock.move(2 * 3600)
        await house.schedule.tick()
        await wire.until(lambda: any("📬" in text for text in wire.said()))
