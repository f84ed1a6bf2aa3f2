"""Mail is sent once: against a real dovecot and aiosmtpd, with a kill at every step."""

from __future__ import annotations

import asyncio
import email
import email.policy
import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gateway.mail.account_connections import AccountConnections
from gateway.mail.mail_sending import MailSender
from gateway.mail.send_records import SendRecords
from gateway.settings.mail_settings import MailSettings
from tests import programs
from tests.mail.dovecot import PASSWORD, free_port
from tests.mail.letters import letter
from tests.mail.smtp_peer import Peer, serving
from tests.sampling import parametrize_some

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.mail.conftest import Deliver
    from tests.mail.dovecot import Dovecot

PROGRAM = Path(__file__).with_name("sending_program.py")
SURE = [
    "before-mail_prepared",
    "after-mail_prepared",
    "before-mail_doubt",
    "after-mail_accepted",
    "before-mail_filed",
    "after-mail_filed",
]
DOUBTFUL = ["after-mail_doubt", "after-mail_last_byte", "before-mail_accepted"]


@pytest.fixture
def peer() -> Iterator[tuple[Peer, int]]:
    made = Peer()
    with serving(made) as port:
        yield made, port


class Desk:
    """One owner's account, with the program that sends."""

    def __init__(self, place: Path, dovecot: Dovecot, user: str, port: int) -> None:
        self.place, self.dovecot, self.user, self.port = place, dovecot, user, port

    def account(self, **changed: Any) -> dict[str, Any]:
        plain = {"host": "127.0.0.1", "security": "none"}
        return {
            "imap": plain | {"port": self.dovecot.port},
            "smtp": plain | {"port": self.port},
            "user": self.user,
            "password": PASSWORD,
            "fromAddress": "Ann <ann@example.net>",
        } | changed

    def sender(self, **changed: Any) -> MailSender:
        """Return what a gateway of afterwards sends with."""
        settings = MailSettings.model_validate({"accounts": {"home": self.account(**changed)}})

        async def no_wait(_seconds: float) -> None:
            await asyncio.sleep(0)

        records = SendRecords(self.place / "state" / "outgoing")
        return MailSender(AccountConnections(lambda: settings), records, lambda: datetime.now(UTC), no_wait)

    async def send(self, arguments: dict[str, Any], *, fault: str = "", **changed: Any) -> dict[str, Any] | None:
        """Run the program; None where it was killed."""
        settings, wish = self.place / "mail.json", self.place / "wish.json"
        settings.write_text(json.dumps({"accounts": {"home": self.account(**changed)}}))
        wish.write_text(json.dumps(arguments))
        command = [sys.executable, str(PROGRAM), str(self.place / "state"), str(settings), str(wish)]
        env = {**os.environ, "HOMEBODY_FAULT": fault, "PYTHONPATH": str(PROGRAM.parents[2])}
        done = await asyncio.to_thread(programs.run, command, capture_output=True, env=env, timeout=300)
        if done.returncode == -9:
            return None
        assert done.returncode == 0, done.stderr.decode()
        return dict(json.loads(done.stdout))


@pytest.fixture
def desk(tmp_path: Path, dovecot: Dovecot, user: str, peer: tuple[Peer, int]) -> Desk:
    return Desk(tmp_path, dovecot, user, peer[1])


HELLO = {"action": "send", "to": "Anna <anna@example.org>", "subject": "Thursday", "text": "Thursday is fine."}


async def test_a_mail_is_sent_and_a_copy_is_filed(desk: Desk, peer: tuple[Peer, int]) -> None:
    told = await desk.send(HELLO | {"bcc": "boss@example.org", "text": "Grüße\n.\n..dots"})
    assert told is not None
    assert not told["error"], told
    ((to, content),) = peer[0].taken
    assert to == ["anna@example.org", "boss@example.org"]
    mail = email.message_from_bytes(content, policy=email.policy.default)
    body = mail.get_body()
    assert body is not None
    assert body.get_content().replace("\r\n", "\n") == "Grüße\n.\n..dots\n"
    assert "boss" not in content.decode()
    assert content.isascii()
    (copy,) = desk.dovecot.stored(desk.user, "Sent Messages")
    assert email.message_from_bytes(copy)["Message-ID"] == mail["Message-ID"]
    for shown in ("anna@example.org", "boss@example.org", "Thursday", "Grüße", "ann@example.net", "home"):
        assert shown in told["details"]


@pytest.mark.parametrize("step", SURE)
async def test_a_kill_before_or_after_the_doubtful_moment_leaves_one_mail_and_one_copy(
    desk: Desk, peer: tuple[Peer, int], step: str
) -> None:
    assert await desk.send(HELLO, fault=f"{step}:1") is None
    told = await desk.send(HELLO)
    assert told is not None
    assert not told["error"], told
    assert len(peer[0].taken) == 1
    assert len(desk.dovecot.stored(desk.user, "Sent Messages")) == 1
    assert desk.dovecot.stored(desk.user, "Drafts") == []


@pytest.mark.parametrize("step", DOUBTFUL)
async def test_a_kill_in_the_doubtful_moment_is_told_and_the_mail_kept_as_a_draft(
    desk: Desk, peer: tuple[Peer, int], step: str
) -> None:
    assert await desk.send(HELLO, fault=f"{step}:1") is None
    told = await desk.send(HELLO)
    assert told is not None
    assert told["error"]
    assert "Nobody knows" in told["text"]
    assert len(peer[0].taken) <= 1
    assert len(desk.dovecot.stored(desk.user, "Drafts")) == 1
    again = await desk.send(HELLO)
    assert again is not None
    assert again["error"]
    assert len(peer[0].taken) <= 1
    assert len(desk.dovecot.stored(desk.user, "Drafts")) == 1


@parametrize_some(3, "step", [*SURE, *DOUBTFUL])
async def test_with_a_server_that_keeps_copies_no_kill_loses_or_doubles_a_mail(
    desk: Desk, peer: tuple[Peer, int], step: str
) -> None:
    peer[0].files = lambda mail: desk.dovecot.deliver(desk.user, mail, folder="Sent Messages", seen=True)
    assert await desk.send(HELLO, fault=f"{step}:1", saveSent="never") is None
    told = await desk.send(HELLO, saveSent="never")
    assert told is not None
    assert not told["error"], told
    assert len(peer[0].taken) == 1
    assert len(desk.dovecot.stored(desk.user, "Sent Messages")) == 1


async def test_a_connection_that_ends_after_the_last_byte_is_not_tried_again(desk: Desk, peer: tuple[Peer, int]) -> None:
    peer[0].mood = "drop after"
    told = await desk.send(HELLO)
    assert told is not None
    assert "Nobody knows" in told["text"]
    assert len(peer[0].taken) == 1


async def test_a_server_that_keeps_copies_settles_the_doubt_at_once(desk: Desk, peer: tuple[Peer, int]) -> None:
    peer[0].files = lambda mail: desk.dovecot.deliver(desk.user, mail, folder="Sent Messages", seen=True)
    peer[0].mood = "drop after"
    told = await desk.send(HELLO)
    assert told is not None
    assert not told["error"], told
    assert len(peer[0].taken) == 1
    assert len(desk.dovecot.stored(desk.user, "Sent Messages")) == 1


@pytest.mark.parametrize(("mood", "said"), [("refuse", "554"), ("refuse one", "550 bob@example.org: no such person")])
async def test_what_the_server_refuses_is_told_and_sent_to_nobody(
    desk: Desk, peer: tuple[Peer, int], mood: str, said: str
) -> None:
    peer[0].mood = mood
    told = await desk.send(HELLO | {"cc": "bob@example.org"})
    assert told is not None
    assert told["error"]
    assert said in told["text"]
    assert peer[0].taken == []
    assert desk.dovecot.stored(desk.user, "Sent Messages") == []


async def test_an_answer_goes_to_the_thread_and_marks_the_mail(desk: Desk, peer: tuple[Peer, int], deliver: Deliver) -> None:
    deliver(letter(message_id="<q1@example.org>", References="<q0@example.org>", Cc="Bob <bob@example.org>, ann@example.net"))
    listed = await desk.send({"action": "list"})
    assert listed is not None
    name = listed["text"].split()[0]
    told = await desk.send({"action": "reply_all", "id": name, "text": "Thursday is fine."})
    assert told is not None
    assert not told["error"], told
    ((to, content),) = peer[0].taken
    assert to == ["anna@example.org", "bob@example.org"]
    mail = email.message_from_bytes(content)
    assert mail["In-Reply-To"] == "<q1@example.org>"
    assert mail["References"].split() == ["<q0@example.org>", "<q1@example.org>"]
    assert mail["Subject"] == "Re: Thursday"
    assert any("R" in path.name.rpartition(":2,")[2] for path in desk.dovecot.maildir(desk.user).glob("cur/*"))


async def test_names_of_folders_are_untrusted_since_who_shares_one_chooses_it(desk: Desk) -> None:
    listed = await desk.send({"action": "folders"})
    refused = await desk.send({"action": "list", "folder": "Nowhere"})
    assert listed is not None
    assert refused is not None
    assert "Sent Messages" in listed["text"]
    assert "there is no folder 'Nowhere' (there is" in refused["text"]
    assert listed["sources"] == refused["sources"] == ["mail:folders"]


@pytest.mark.parametrize(
    "arguments",
    [
        {"subject": "x\r\nBcc: eve@example.org"},
        {"subject": "x\u2028Bcc: eve@example.org"},
        {"to": "anna@example.org\nBcc: eve@example.org"},
        {"to": "anna@example.org> <eve@example.org"},
        {"to": "anna@exa mple.org"},
        {"to": "anna"},
        {"to": "@example.org"},
        {"cc": '"a\r\nBcc: eve@example.org" <b@example.org>'},
    ],
)
async def test_headers_cannot_be_broken_out_of(desk: Desk, peer: tuple[Peer, int], arguments: dict[str, str]) -> None:
    told = await desk.send(HELLO | arguments)
    assert told is not None
    assert told["error"]
    assert peer[0].taken == []


async def test_a_draft_is_saved_once_and_nothing_is_sent(desk: Desk, peer: tuple[Peer, int]) -> None:
    for _ in range(2):
        told = await desk.send(HELLO | {"draft": True})
        assert told is not None
        assert not told["error"], told
    assert peer[0].taken == []
    assert len(desk.dovecot.stored(desk.user, "Drafts")) == 1


@pytest.mark.parametrize("keeps_copies", [True, False])
async def test_a_doubt_is_settled_when_the_mailbox_is_back(desk: Desk, peer: tuple[Peer, int], *, keeps_copies: bool) -> None:
    if keeps_copies:
        peer[0].files = lambda mail: desk.dovecot.deliver(desk.user, mail, folder="Sent Messages", seen=True)
    assert await desk.send(HELLO, fault="before-mail_accepted:1") is None
    away = {"host": "127.0.0.1", "security": "none", "port": free_port()}
    told = await desk.send(HELLO, imap=away)
    assert told is not None
    assert "it is not known yet whether this mail was sent" in told["text"]
    assert await desk.sender(imap=away).settle() == []
    sender = desk.sender()
    (line,) = await sender.settle()
    assert ("was sent" if keeps_copies else "Nobody knows whether the mail to") in line
    assert "anna@example.org" in line
    assert len(desk.dovecot.stored(desk.user, "Drafts")) == (0 if keeps_copies else 1)
    assert len(peer[0].taken) == 1
    assert await sender.settle() == [], "it is told once"


async def test_a_draft_that_could_not_be_kept_is_kept_when_the_mailbox_is_back(desk: Desk, peer: tuple[Peer, int]) -> None:
    assert await desk.send(HELLO, fault="after-mail_doubt:1") is None
    away = {"host": "127.0.0.1", "security": "none", "port": free_port()}
    told = await desk.send(HELLO, imap=away, saveSent="always")
    assert told is not None
    assert "Nobody knows" in told["text"]
    assert desk.dovecot.stored(desk.user, "Drafts") == []
    sender = desk.sender(saveSent="always")
    assert await sender.settle() == [], "the owner was told already"
    assert len(desk.dovecot.stored(desk.user, "Drafts")) == 1
    assert await sender.settle() == []
    assert len(desk.dovecot.stored(desk.user, "Drafts")) == 1
    assert len(peer[0].taken) <= 1
