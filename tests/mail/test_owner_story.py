""" "Answer Anna that Thursday is fine": one question, one mail, whatever dies when, in a whole house with real mail servers."""

from __future__ import annotations

import asyncio
import email
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests import programs
from tests.mail.dovecot import PASSWORD
from tests.mail.letters import letter
from tests.mail.smtp_peer import Peer, serving
from tests.sampling import parametrize_some

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.mail.conftest import Deliver
    from tests.mail.dovecot import Dovecot

PROGRAM = Path(__file__).with_name("owner_program.py")
STEPS = [
    "after-mail_prepared:1",
    "before-end_call:2",
    "after-begin_call:2",
    "before-mail_doubt:1",
    "after-mail_accepted:1",
    "after-mail_filed:1",
    "before-end_call:3",
    "after-end_call:3",
]


class House:
    def __init__(self, place: Path, settings: dict[str, Any]) -> None:
        self.place, self.settings = place, settings

    async def live(self, fault: str = "") -> list[str] | None:
        """Let it live; None where it was killed."""
        settings = self.place / "settings.json"
        settings.write_text(json.dumps(self.settings))
        env = {**os.environ, "HOMEBODY_FAULT": fault, "PYTHONPATH": str(PROGRAM.parents[2])}
        command = [sys.executable, str(PROGRAM), str(self.place / "root"), str(settings)]
        done = await asyncio.to_thread(programs.run, command, capture_output=True, env=env, timeout=400)
        if done.returncode == -9:
            return None
        assert done.returncode == 0, done.stderr.decode()[-3000:]
        return list(json.loads(done.stdout))


@pytest.fixture
def peer() -> Iterator[tuple[Peer, int]]:
    made = Peer()
    with serving(made) as port:
        yield made, port


@pytest.fixture
def house(tmp_path: Path, dovecot: Dovecot, user: str, peer: tuple[Peer, int], deliver: Deliver) -> House:
    plain = {"host": "127.0.0.1", "security": "none"}
    account = {
        "imap": plain | {"port": dovecot.port},
        "smtp": plain | {"port": peer[1]},
        "user": user,
        "password": PASSWORD,
        "fromAddress": "Ann <ann@example.net>",
        "saveSent": "always",
    }
    deliver(letter("Does Thursday suit you?", message_id="<q1@example.org>"))
    return House(tmp_path, {"mail": {"accounts": {"home": account}}})


async def test_one_question_and_one_mail(house: House, peer: tuple[Peer, int], dovecot: Dovecot, user: str) -> None:
    said = await house.live()
    assert said is not None
    (question,) = [text for text in said if "wants to send a mail" in text]
    for shown in ("To: anna@example.org", "Subject: Re: Thursday", "Thursday is fine.", "From: ann@example.net"):
        assert shown in question
    (told,) = [text for text in said if text.startswith("so: ")]
    assert told.index("<untrusted") < told.index("sent to anna@example.org"), "the address is in the mail that it answers"
    assert "Re: Thursday" not in told, "the subject is not the agent's own"
    ((to, content),) = peer[0].taken
    assert to == ["anna@example.org"]
    assert email.message_from_bytes(content)["In-Reply-To"] == "<q1@example.org>"
    assert len(dovecot.stored(user, "Sent Messages")) == 1


@parametrize_some(3, "step", STEPS)
async def test_a_kill_at_any_step_loses_and_doubles_nothing(
    house: House, peer: tuple[Peer, int], dovecot: Dovecot, user: str, step: str
) -> None:
    assert await house.live(step) is None, "the step was not reached"
    said = await house.live()
    assert said is not None
    assert len(peer[0].taken) == 1
    assert len(dovecot.stored(user, "Sent Messages")) == 1
    assert await house.live() is not None
    assert len(peer[0].taken) == 1
    assert len([text for text in said if "wants to send a mail" in text]) <= 1


@pytest.mark.parametrize("step", ["after-mail_doubt:1", "after-mail_last_byte:1", "before-mail_accepted:1"])
async def test_a_kill_while_the_server_takes_it_is_told_and_the_mail_is_kept(
    house: House, peer: tuple[Peer, int], dovecot: Dovecot, user: str, step: str
) -> None:
    assert await house.live(step) is None, "the step was not reached"
    said = await house.live()
    assert said is not None
    assert any("Nobody knows whether the mail" in text for text in said), said
    assert len(peer[0].taken) <= 1
    assert len(dovecot.stored(user, "Drafts")) == 1
    assert await house.live() is not None
    assert len(peer[0].taken) <= 1
